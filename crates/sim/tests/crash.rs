//! Canaries: one right program that must pass and one wrong program that must fail, under every
//! profile; and each class of bug that the explorer finds, as the smallest program with it.

use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Oracle, Order, Profile, Report, Seen, Threads};
use std::time::Duration;

type Outcome = Result<Report, Box<Failure>>;

fn found(outcome: Outcome) -> Box<Failure> {
    match outcome {
        Err(failure) => failure,
        Ok(report) => panic!("not found: {report}"),
    }
}

fn persist(media: &Media, at: u64, value: u64) {
    media.store(at, value);
    media.flush(at, 8);
}

/// Two words on different lines; the second says that the first is there.
fn publish(media: &Media, oracle: &Oracle, between: impl Fn(&Media), at_end: impl Fn(&Media)) {
    for round in 1..4 {
        let op = oracle.begin(format!("round {round}"));
        persist(media, 0, round * 10);
        between(media);
        persist(media, 64, round);
        at_end(media);
        oracle.acked(op);
    }
}

fn published(media: Media, seen: &Seen) -> Result<(), String> {
    let (data, tail) = (media.load(0), media.load(64));
    if data < tail * 10 {
        return Err(format!("tail {tail} over data {data}"));
    }
    if (tail as usize) < seen.acked_count() {
        return Err(format!("round {} was acknowledged and is lost, tail {tail}", seen.acked_count()));
    }
    Ok(())
}

const ALL: [Profile; 5] = [Profile::PMEM, Profile::FILE, Profile::PMEM_LINES, Profile::FILE_LINES, Profile::EADR];

fn explore(profile: Profile, between: impl Fn(&Media), at_end: impl Fn(&Media)) -> Outcome {
    Explorer::new("publish").profiles(&[profile]).explore(
        &Image::zeroed(4096),
        |media, oracle| publish(&media, oracle, &between, &at_end),
        published,
    )
}

#[test]
fn the_right_program_passes_under_every_profile() {
    for profile in ALL {
        let report = explore(profile, |media| media.fence(), |media| media.barrier().unwrap()).unwrap();
        assert_eq!(report.profiles[0].share(), 1.0, "{report}");
        assert!(report.images() >= 7, "{report}");
    }
}

/// Acknowledged before anything was stored: wrong under every profile, eADR too.
#[test]
fn the_wrong_program_fails_under_every_profile() {
    for profile in ALL {
        let outcome = Explorer::new("too-early").profiles(&[profile]).explore(
            &Image::zeroed(4096),
            |media, oracle| {
                let op = oracle.begin("round 1");
                oracle.acked(op);
                persist(&media, 0, 10);
                media.fence();
                persist(&media, 64, 1);
                media.barrier().unwrap();
            },
            published,
        );
        assert!(found(outcome).message.contains("acknowledged"));
    }
}

#[test]
fn a_missing_fence_is_found_on_media_that_tears() {
    for profile in [Profile::PMEM, Profile::FILE, Profile::PMEM_LINES, Profile::FILE_LINES] {
        let failure = found(explore(profile, |_| {}, |media| media.barrier().unwrap()));
        assert!(failure.message.contains("over data"), "{failure}");
        assert!(failure.story.contains("flushed, not fenced"), "{failure}");
    }
    // stores stay in order there
    explore(Profile::EADR, |_| {}, |media| media.barrier().unwrap()).unwrap();
}

/// The bug for which the explorer was made: on `pmem` the program is right, on `file` it tells its
/// caller too early.
#[test]
fn a_fence_taken_for_a_barrier_is_found_on_file_and_only_there() {
    explore(Profile::PMEM, |media| media.fence(), |media| media.fence()).unwrap();
    let failure = found(explore(Profile::FILE, |media| media.fence(), |media| media.fence()));
    assert!(failure.message.contains("was acknowledged and is lost"), "{failure}");
    assert_eq!(failure.profile, "file");
}

#[test]
fn a_dropped_flush_is_found() {
    let outcome = Explorer::new("dropped-flush").explore(
        &Image::zeroed(4096),
        |media, oracle| {
            oracle.step("put", || {
                media.store(0, 10);
                media.fence();
                persist(&media, 64, 1);
                media.barrier().unwrap();
            });
        },
        published,
    );
    let failure = found(outcome);
    assert!(failure.story.contains("never flushed"), "{failure}");
}

/// Corundum's flush helper left a line of the range unflushed: here the second line of a record.
#[test]
fn a_flush_range_one_line_short_is_found() {
    let outcome = Explorer::new("short-flush").explore(
        &Image::zeroed(4096),
        |media, _| {
            media.write(0x30, &[7; 32]);
            media.flush(0x30, 16);
            media.fence();
            persist(&media, 0x100, 1);
            media.barrier().unwrap();
        },
        |media, _| match media.load(0x100) == 0 || media.read_vec(0x30, 32) == [7; 32] {
            true => Ok(()),
            false => Err("published over a torn record".into()),
        },
    );
    let story = found(outcome).story;
    assert!(story.contains("0x40") || story.contains("0x48"), "either word of that line may be the one lost: {story}");
}

/// The final values are right at every fence; a value that was there for a moment is not.
#[test]
fn a_value_overwritten_between_fences_is_found() {
    let outcome = Explorer::new("overwritten").explore(
        &Image::zeroed(4096),
        |media, _| {
            media.store(0, 99); // a draft
            media.store(0, 1);
            media.flush(0, 8);
            media.barrier().unwrap();
        },
        |media, _| if media.load(0) == 99 { Err("the draft survived".into()) } else { Ok(()) },
    );
    assert!(found(outcome).story.contains("1 of 2 stores survived"));
}

#[test]
fn a_swapped_publish_is_found() {
    let outcome = Explorer::new("swapped").explore(
        &Image::zeroed(4096),
        |media, _| {
            persist(&media, 64, 1);
            media.fence();
            persist(&media, 0, 10);
            media.barrier().unwrap();
        },
        published,
    );
    let failure = found(outcome);
    assert!(failure.message.contains("tail 1 over data 0"), "{failure}");
}

/// Of the 4096 images of twelve undecided words one is wrong.
#[test]
fn each_image_of_twelve_undecided_words_is_tried() {
    const WRONG: u64 = 0b1010_0110_1001;
    let explored = Explorer::new("twelve").profiles(&[Profile::PMEM]).explore(
        &Image::zeroed(4096),
        |media, oracle| {
            let op = oracle.begin("store".to_string());
            (0..12).for_each(|word| persist(&media, word * 64, 1));
            media.fence();
            oracle.acked(op);
        },
        |media, _| {
            let words: u64 = (0..12).map(|word| media.load(word * 64) << word).sum();
            if words == WRONG { Err("this one".into()) } else { Ok(()) }
        },
    );
    assert!(found(explored).to_string().contains("this one"));
}

/// A record whose length and bytes share a fence: the length may survive alone.
#[test]
fn a_torn_length_is_found_unless_lines_stay_in_order() {
    let program = |media: Media, _: &Oracle| {
        media.write(8, &[5; 24]);
        media.store(0, 24);
        media.flush(0, 32);
        media.barrier().unwrap();
    };
    let check = |media: Media, _: &Seen| {
        let len = media.load(0) as usize;
        if media.read_vec(8, len) == vec![5; len] { Ok(()) } else { Err(format!("{len} bytes, torn")) }
    };
    let explorer = |profile| Explorer::new("torn-length").profiles(&[profile]);
    found(explorer(Profile::PMEM).explore(&Image::zeroed(4096), program, check));
    explorer(Profile::PMEM_LINES).explore(&Image::zeroed(4096), program, check).unwrap();
}

/// Right as long as stores to one line stay in order, and wrong as soon as the record crosses into
/// the next line.
#[test]
fn an_order_assumed_across_lines_is_found_where_lines_stay_in_order() {
    let outcome = |at: u64| {
        Explorer::new("cross-line").profiles(&[Profile::PMEM_LINES, Profile::FILE_LINES]).explore(
            &Image::zeroed(4096),
            move |media, _| {
                media.store(at, 7);
                media.store(at + 8, 1);
                media.flush(at, 16);
                media.barrier().unwrap();
            },
            move |media, _| match media.load(at + 8) == 1 && media.load(at) != 7 {
                true => Err("valid, and torn".into()),
                false => Ok(()),
            },
        )
    };
    outcome(0).unwrap();
    found(outcome(56));
}

/// Replaying "add 5" twice adds 10: a crash between the replay and the end of the log shows it.
#[test]
fn a_replay_that_is_not_idempotent_is_found_by_crashing_recovery() {
    let format = |media: Media| {
        media.store(0, 5); // the log: one entry, not yet applied
    };
    let recover = |media: &Media, idempotent: bool| {
        let entry = media.load(0);
        if entry != 0 {
            let total = if idempotent { entry } else { media.load(64) + entry };
            persist(media, 64, total);
            media.fence();
            persist(media, 0, 0);
            media.barrier().unwrap();
        }
    };
    let outcome = |idempotent: bool| {
        Explorer::new("replay-twice").explore(
            &Image::build(4096, format),
            |_, _| {},
            move |media, _| {
                recover(&media, idempotent);
                let total = media.load(64);
                if total == 5 { Ok(()) } else { Err(format!("the total is {total}")) }
            },
        )
    };
    let report = outcome(true).unwrap();
    assert!(report.profiles.iter().all(|profile| profile.recovery_images >= 3), "{report}");
    let failure = found(outcome(false));
    assert!(failure.message.contains("inside recovery") && failure.image.contains('+'), "{failure}");
}

/// A process dies between a store and its flush, and memory survives it. The next process sees the
/// store, builds on it, and never flushes it; power fails after that.
#[test]
fn a_recovery_that_trusts_what_it_never_flushed_is_found() {
    let outcome = |flushes: bool, explorer: Explorer| {
        explorer.profiles(&[Profile::PMEM]).explore(
            &Image::zeroed(4096),
            |media, _| media.store(0, 10),
            move |media, seen| {
                let data = media.load(0);
                if data == 10 && media.load(64) == 0 {
                    if flushes {
                        media.flush(0, 8);
                        media.fence();
                    }
                    persist(&media, 64, 1);
                    media.barrier().unwrap();
                }
                published(media, seen)
            },
        )
    };
    let dying = || Explorer::new("trusting");
    outcome(true, dying()).unwrap();
    // after a power failure what recovery sees is what media holds
    outcome(false, dying().without_process_death()).unwrap();
    let failure = found(outcome(false, dying()));
    assert!(failure.story.contains("the process died") && failure.message.contains("tail 1 over data 0"), "{failure}");
    let again = found(outcome(false, dying().replay(&failure.image)));
    assert_eq!((&again.image, &again.message), (&failure.image, &failure.message));
}

/// Stores of the check after `recovered` are not part of recovery: the crash inside it is not
/// explored.
#[test]
fn use_after_recovery_is_not_crashed() {
    let check = |over: bool| {
        move |media: Media, seen: &Seen| {
            if over {
                seen.recovered();
            }
            let total = media.load(0);
            persist(&media, 0, total + 1);
            media.barrier().unwrap();
            if total == 0 { Ok(()) } else { Err("used before".into()) }
        }
    };
    let explore = |over| Explorer::new("use").explore(&Image::zeroed(4096), |_, _| {}, check(over));
    explore(true).unwrap();
    found(explore(false));
}

/// A thread's fence says nothing about what another thread flushed.
#[test]
fn a_fence_orders_only_its_own_threads_flushes() {
    let outcome = |fence_in_thread: bool| {
        Explorer::new("two-threads").explore(
            &Image::zeroed(4096),
            move |media, _| {
                std::thread::scope(|scope| {
                    let writer = scope.spawn(|| {
                        persist(&media, 0, 10);
                        if fence_in_thread {
                            media.fence();
                        }
                    });
                    writer.join().unwrap();
                });
                media.fence();
                persist(&media, 64, 1);
                media.barrier().unwrap();
            },
            published,
        )
    };
    outcome(true).unwrap();
    found(outcome(false));
}

/// The last flush of each step is left to the first fence of the next: right as long as one thread
/// runs all steps.
#[test]
fn a_step_that_relies_on_the_next_steps_fence_is_found_where_steps_change_threads() {
    let outcome = |fences_itself: bool, threads: Threads| {
        Explorer::new("late-fence").threads(threads).explore(
            &Image::zeroed(4096),
            move |media, oracle| {
                for round in 1..4 {
                    oracle.step(format!("round {round}"), || {
                        media.fence();
                        // the data of the round before is ordered by now
                        persist(&media, 64, round - 1);
                        media.barrier().unwrap();
                        persist(&media, 0, round * 10);
                        if fences_itself {
                            media.fence();
                        }
                    });
                }
            },
            |media, _| match media.load(0) < media.load(64) * 10 {
                true => Err(format!("tail {} over data {}", media.load(64), media.load(0))),
                false => Ok(()),
            },
        )
    };
    for threads in [Threads::One, Threads::PerStep] {
        outcome(true, threads).unwrap();
    }
    outcome(false, Threads::One).unwrap();
    let failure = found(outcome(false, Threads::PerStep));
    assert!(failure.message.contains("tail 1 over data 0"), "{failure}");
    assert!(failure.image.starts_with("steps:"), "{failure}");
}

/// Two words change together by a list of their old values, which recovery puts back. Emptying it
/// stops at the first zero: a crash that leaves the list without its first word leaves the second
/// for ever, and a crash of a later run meets it.
#[test]
fn a_leftover_that_only_a_second_run_trips_over_is_found() {
    const LIST: [u64; 2] = [64, 128];
    const DATA: [u64; 2] = [256, 320];
    let empty = |media: &Media, thorough: bool| {
        let stale = |at: &&u64| media.load(**at) != 0;
        let list: Vec<u64> = match thorough {
            true => LIST.iter().filter(stale).copied().collect(),
            false => LIST.iter().take_while(stale).copied().collect(),
        };
        for at in list {
            persist(media, at, 0);
            media.fence(); // the first word says whether there is a list
        }
    };
    let recover = move |media: &Media, thorough: bool| {
        let old = LIST.map(|at| media.load(at));
        for (word, old) in old.into_iter().enumerate().take_while(|(_, old)| *old != 0) {
            persist(media, DATA[word], old - 1);
        }
        media.fence();
        empty(media, thorough);
        media.barrier().unwrap();
    };
    let outcome = |thorough: bool, explorer: Explorer| {
        explorer.explore_twin(
            &Image::zeroed(4096),
            &[0, 0],
            Order::InOrder,
            |media, twin| {
                recover(&media, thorough);
                let now = twin.model()[0] + 1;
                for (value, words) in [(now, 1), (now + 1, 2)] {
                    let change = move |model: &mut [u64; 2]| model[..words].fill(value);
                    twin.step(format!("set {words} to {value}"), change, || {
                        (0..words).for_each(|word| persist(&media, LIST[word], media.load(DATA[word]) + 1));
                        media.fence();
                        (0..words).for_each(|word| persist(&media, DATA[word], value));
                        media.fence();
                        empty(&media, thorough);
                        media.barrier().unwrap();
                    });
                }
            },
            |media, _| {
                recover(&media, thorough);
                Ok(DATA.map(|at| media.load(at)))
            },
        )
    };
    let first = || Explorer::new("leftover").without_process_death(); // recovery adopts nothing
    let again = || first().again(u64::MAX, 200);
    outcome(true, again()).unwrap();
    outcome(false, first()).unwrap();
    let failure = found(outcome(false, again()));
    assert!(failure.message.contains("second run") && failure.image.contains("+g"), "{failure}");
    let replayed = found(outcome(false, first().replay(&failure.image)));
    assert_eq!(replayed.image, failure.image, "{replayed}");
}

/// A log whose next place is the first empty one. A process that died has filled a place and not
/// flushed it; the next one goes on behind it. Recovery stores nothing, so crashes inside recovery
/// show nothing.
#[test]
fn a_second_run_that_builds_on_what_a_dead_process_never_flushed_is_found() {
    let outcome = |adopts: bool| {
        Explorer::new("next-place").again(u64::MAX, 200).profiles(&[Profile::PMEM]).explore_twin(
            &Image::zeroed(4096),
            &Vec::<u64>::new(),
            Order::InOrder,
            |media, twin| {
                if adopts {
                    media.reflush(0, 4096);
                    media.fence();
                }
                for _ in 0..3 {
                    let value = twin.model().len() as u64 + 1;
                    let append = move |log: &mut Vec<u64>| log.push(value);
                    twin.step(format!("append {value}"), append, || {
                        let place = (0..64).map(|line| line * 64).find(|at| media.load(*at) == 0).expect("room");
                        persist(&media, place, value);
                        media.barrier().unwrap();
                    });
                }
            },
            |media, _| Ok((0..64).map(|line| media.load(line * 64)).take_while(|value| *value != 0).collect()),
        )
    };
    outcome(true).unwrap();
    let failure = found(outcome(false));
    assert!(failure.image.contains("d+g") && failure.message.contains("no state of the model"), "{failure}");
}

/// The death comes between two stores that share a fence: only the search that is for deaths alone
/// goes there.
#[test]
fn a_death_between_two_stores_of_one_fence_is_found() {
    let explored = |explorer: Explorer, adopts: bool| {
        explorer.profiles(&[Profile::PMEM]).explore_twin(
            &Image::zeroed(4096),
            &[0_u64; 2],
            Order::InOrder,
            |media, twin| {
                let is_half = media.load(0) == 1 && media.load(64) == 0;
                if !twin.is_second() {
                    let pair = |model: &mut [u64; 2]| model[0] = 1;
                    twin.step("a pair", pair, || {
                        [0, 64].iter().for_each(|at| persist(&media, *at, 1));
                        media.barrier().unwrap();
                    });
                } else if is_half {
                    if adopts {
                        media.reflush(0, 8);
                        media.fence();
                    }
                    let note = |model: &mut [u64; 2]| model[1] = 1;
                    twin.step("a note of the half", note, || {
                        persist(&media, 128, 1);
                        media.barrier().unwrap();
                    });
                }
            },
            |media, _| match [0, 64, 128].map(|at| media.load(at)) {
                [0, _, 1] => Err("a note without the half".into()),
                [half, other, note] => Ok([half & other, note]),
            },
        )
    };
    explored(Explorer::new("halves").again(u64::MAX, 200), false).unwrap();
    explored(Explorer::new("halves").after_deaths(u64::MAX, 200), true).unwrap();
    let failure = found(explored(Explorer::new("halves").after_deaths(u64::MAX, 200), false));
    assert!(failure.message.contains("a note without the half"), "{failure}");
}

/// Recovery flushes what a dead process may have left in the caches, notes that it has, and derives
/// a word from it. A process that dies between the note and the fence leaves the note for the next
/// one, which trusts it: one death shows nothing.
#[test]
fn a_note_of_adoption_that_a_second_dead_process_leaves_behind_is_found() {
    let outcome = |late: bool, deaths: u64| {
        let recover = move |media: &Media| {
            if media.load(0) == 1 && media.load(64) == 0 {
                if !late {
                    media.store(64, 1);
                }
                media.reflush(0, 8);
                media.fence();
                persist(media, 64, 1);
                media.fence();
            }
            if media.load(0) == 1 {
                persist(media, 128, 1);
                media.fence();
            }
        };
        Explorer::new("note").further_deaths(deaths).profiles(&[Profile::PMEM]).explore(
            &Image::zeroed(4096),
            |media, _| persist(&media, 0, 1),
            move |media, _| {
                if media.load(128) > media.load(0) {
                    return Err("derived from a word that is lost".into());
                }
                recover(&media);
                Ok(())
            },
        )
    };
    outcome(true, u64::MAX).unwrap();
    outcome(false, 0).unwrap();
    let failure = found(outcome(false, u64::MAX));
    assert!(failure.message.contains("derived") && failure.image.matches("d+").count() == 2, "{failure}");
}

/// The same with programs: a run that finds entries beyond the count of those that are known to be
/// flushed flushes them. The third run trusts the count of the second one.
#[test]
fn a_third_run_that_trusts_what_a_second_dead_process_counted_is_found() {
    const COUNT: u64 = 2048;
    let entries = |media: &Media| (0..32).map(|line| line * 64).take_while(|at| media.load(*at) != 0).count() as u64;
    let outcome = |late: bool, explorer: Explorer| {
        explorer.profiles(&[Profile::PMEM]).explore_twin(
            &Image::zeroed(4096),
            &0_u64,
            Order::InOrder,
            |media, twin| {
                let found = entries(&media);
                if found > media.load(COUNT) {
                    if !late {
                        media.store(COUNT, found);
                    }
                    media.reflush(0, found * 64);
                    media.fence();
                    persist(&media, COUNT, found);
                    media.fence();
                }
                let next = twin.model() * 64;
                twin.step(
                    "append",
                    |model| *model += 1,
                    || {
                        persist(&media, next, 1);
                        media.barrier().unwrap();
                    },
                );
            },
            |media, _| Ok(entries(&media)),
        )
    };
    let after_deaths = || Explorer::new("counted").after_deaths(u64::MAX, 200);
    outcome(true, after_deaths().further_deaths(u64::MAX)).unwrap();
    outcome(false, after_deaths().further_deaths(0)).unwrap();
    let failure = found(outcome(false, after_deaths().further_deaths(u64::MAX)));
    let replayed = found(outcome(false, after_deaths().replay(&failure.image)));
    assert_eq!(failure.image.matches("d+g").count(), 2, "{failure}");
    assert_eq!(replayed.image, failure.image, "{replayed}");
}

/// Group commit: the mark of one thread, settled by another, settles the first one's stores and no
/// later ones.
#[test]
fn a_mark_settles_what_was_fenced_before_it() {
    let outcome = |late: bool| {
        Explorer::new("marks").explore(
            &Image::zeroed(4096),
            move |media, oracle| {
                let early = media.mark();
                let op = oracle.begin("round 1");
                persist(&media, 0, 10);
                media.fence();
                persist(&media, 64, 1);
                media.fence();
                media.settle(if late { media.mark() } else { early }).unwrap();
                oracle.acked(op);
            },
            published,
        )
    };
    outcome(true).unwrap();
    assert_eq!(found(outcome(false)).profile, "file");
}

/// A hole punched before its free is settled shows zeros under a structure that still points there.
#[test]
fn a_hole_punched_too_early_is_found() {
    let image = Image::build(3 * 4096, |media| {
        media.store(0, 8192);
        media.store(8192, 77);
    });
    let outcome = |settle: bool| {
        Explorer::new("early-hole").explore(
            &image,
            move |media, _| {
                persist(&media, 0, 0);
                media.fence();
                if settle {
                    media.barrier().unwrap();
                }
                media.punch(8192, 4096);
                media.barrier().unwrap();
            },
            |media, _| match media.load(0) {
                0 => Ok(()),
                at if media.load(at) == 77 => Ok(()),
                at => Err(format!("{at:#x} is named and holds {}", media.load(at))),
            },
        )
    };
    outcome(true).unwrap();
    let failure = found(outcome(false));
    assert_eq!(failure.profile, "file");
    assert!(failure.story.contains("holes punched later"), "{failure}");
}

/// A check that aborts the process or never returns fails its image with what is known about it.
#[test]
fn a_recovery_that_dies_or_hangs_is_a_failure() {
    let explore_for = |timeout: Duration, check: fn(Media, &Seen) -> Result<(), String>| {
        let explorer = Explorer::new("dies").timeout(timeout);
        let image = Image::zeroed(4096);
        found(explorer.explore(&image, |media, _| media.store(0, 1), check)).message
    };
    // longer than any answer takes
    let explore = |check| explore_for(Duration::from_secs(600), check);
    let panics = explore(|media, _| {
        assert_eq!(media.load(0), 0, "LOG-1");
        Ok(())
    });
    assert!(panics.contains("LOG-1"), "{panics}");
    let aborts = explore(|media, _| if media.load(0) == 1 { std::process::abort() } else { Ok(()) });
    assert!(aborts.contains("signal 6"), "{aborts}");
    let hangs = explore_for(Duration::from_millis(300), |media, _| {
        while media.load(0) == 1 {
            std::thread::yield_now();
        }
        Ok(())
    });
    assert!(hangs.contains("silent"), "{hangs}");
}

/// Found by comparing memory, the bug is the same; the report says what it cannot see.
#[test]
fn page_scan_finds_untold_stores() {
    let outcome = |fence: bool| {
        Explorer::new("scan").page_scan().explore(
            &Image::zeroed(4096),
            move |media, oracle| {
                publish(
                    &media,
                    oracle,
                    |media| {
                        if fence {
                            media.fence()
                        }
                    },
                    |media| media.barrier().unwrap(),
                );
            },
            published,
        )
    };
    let report = outcome(true).unwrap();
    assert!(report.to_string().contains("page scan"));
    found(outcome(false));
}

/// The image id a failure prints brings the same failure back, and the right program passes the
/// same image.
#[test]
fn a_failure_replays_by_its_image_id() {
    let explore = |image: Option<&str>| {
        let explorer = Explorer::new("publish").command("everbyte crash publish --seed {seed} --image {image}");
        let explorer = image.map_or(explorer.clone(), |id| explorer.replay(id));
        let program = |media: Media, oracle: &Oracle| publish(&media, oracle, |_| {}, |media| media.barrier().unwrap());
        explorer.explore(&Image::zeroed(4096), program, published)
    };
    let first = found(explore(None));
    assert_eq!(first.command, format!("everbyte crash publish --seed 1 --image {}", first.image));
    let again = found(explore(Some(&first.image)));
    assert_eq!((&again.image, &again.message), (&first.image, &first.message));
    assert!(found(explore(Some("pmem@1.s-99:1"))).message.contains("another path"));
    assert!(found(explore(Some("rubbish"))).message.contains("not an image id"));
}

/// Ten words between two fences, at twelve points that share 600 images: a bug that needs three of
/// the words is found where each point is tried whole.
#[test]
fn a_total_leaves_points_of_few_words_whole_where_that_is_asked_for() {
    let program = |media: Media, _: &Oracle| {
        for round in 1..=12 {
            (0..10).for_each(|word| persist(&media, word * 8, round));
            media.fence();
        }
    };
    let wrong = |media: Media, _: &Seen| {
        let is_there = |word: u64| media.load(word * 8) == 12;
        let is_mixed = (0..10).all(|word| is_there(word) == matches!(word, 1 | 4 | 8));
        if is_mixed { Err("three words alone".into()) } else { Ok(()) }
    };
    let explorer = Explorer::new("whole").profiles(&[Profile::PMEM]).depth(1).without_process_death().total(600);
    let explore = |explorer: &Explorer, is_wrong: bool| {
        let check = |media: Media, seen: &Seen| if is_wrong { wrong(media, seen) } else { Ok(()) };
        explorer.explore(&Image::zeroed(4096), program, check)
    };
    let whole_points = |explorer: &Explorer| explore(explorer, false).unwrap().profiles[0].whole_points;
    let whole = explorer.clone().whole();
    assert_eq!((whole_points(&explorer), whole_points(&whole)), (1, 13));
    explore(&explorer, true).unwrap();
    assert!(found(explore(&whole, true)).message.contains("three words alone"));
    let fewer = whole.exhaustive_words(9);
    assert_eq!(whole_points(&fewer), 1, "a point of ten words has more images than that");
}
