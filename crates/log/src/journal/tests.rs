//! The journal on plain memory: logged bytes come back, in order, for any length and place.

use super::*;
use crate::Error;
use everbyte_media::{Media, Options};
use proptest::prelude::*;

const LANE: Range<u64> = 4096..8192;
const HOME: u64 = 16384;

fn media() -> Media {
    Media::anonymous(1 << 20, &Options::default()).expect("memory")
}

fn fresh(media: &Media) -> Journal {
    Journal::format(media, LANE, 7).expect("a good range");
    reopen(media).finish()
}

fn reopen(media: &Media) -> Recovery {
    Journal::recover(media, LANE, 0..media.len()).expect("a whole lane")
}

#[test]
fn a_fresh_lane_is_idle_and_each_opening_retires_it() {
    let media = media();
    let journal = fresh(&media);
    assert_eq!((journal.generation, journal.entries), (2, 0));
    assert_eq!(reopen(&media).outcome(), Outcome::Idle);
    assert_eq!(reopen(&media).finish().generation, 3);
}

/// Every length around the edges of an entry, a bulk header and a line, at odd offsets.
#[test]
fn ranges_of_every_length_are_restored() {
    let media = media();
    let mut journal = fresh(&media);
    journal.extend(64 << 10..128 << 10).unwrap();
    for len in (0..200).chain([1000, 1024, 1025, 4000, 5000, 40_000]) {
        for at in [HOME, HOME + 3] {
            let old: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            media.write(at, &old);
            journal.log(at, len).unwrap();
            journal.fence();
            media.write(at, &vec![0xee; len as usize]);
            assert_eq!(reopen(&media).outcome(), if len == 0 { Outcome::Idle } else { Outcome::Undo });
            reopen(&media).undo();
            assert_eq!(media.read_vec(at, len as usize), old, "{len} bytes at {at:#x}");
            media.write(at, &vec![0xdd; len as usize]);
            journal.rollback().unwrap();
            assert_eq!(media.read_vec(at, len as usize), old, "{len} bytes at {at:#x}, rolled back");
        }
    }
}

/// The oldest bytes win where ranges overlap.
#[test]
fn overlapping_ranges_are_undone_newest_first() {
    let media = media();
    let mut journal = fresh(&media);
    for value in 1..=5 {
        journal.log(HOME, 8).unwrap();
        journal.log_words(&[HOME, HOME + 8]).unwrap();
        journal.fence();
        media.store(HOME, value);
        media.store(HOME + 8, value);
    }
    let undo: Vec<Undo> = reopen(&media).undo_entries().collect();
    assert_eq!(undo.len(), 15);
    assert_eq!(undo[0], Undo { at: HOME + 8, len: 8 });
    journal.rollback().unwrap();
    assert_eq!((media.load(HOME), media.load(HOME + 8)), (0, 0));
    assert_eq!(reopen(&media).outcome(), Outcome::Idle);
}

#[test]
fn operations_count_from_the_commit_word_to_the_retirement() {
    let media = media();
    let mut journal = fresh(&media);
    let ops: Vec<u64> = (100..120).collect();
    journal.log(HOME, 8).unwrap();
    journal.log_ops(&ops).unwrap();
    let ordered = journal.fence_ops();
    assert_eq!((reopen(&media).outcome(), reopen(&media).ops().len()), (Outcome::Undo, 0));
    journal.commit(&ordered);
    journal.fence();
    let found = reopen(&media);
    assert_eq!((found.outcome(), found.ops()), (Outcome::Redo, &ops[..]));
    assert_eq!(found.undo_entries().count(), 0);
    journal.retire();
    assert_eq!(reopen(&media).outcome(), Outcome::Idle);
}

#[test]
#[should_panic(expected = "UNDO-3")]
fn committing_unfenced_operations_is_refused() {
    let media = media();
    let mut journal = fresh(&media);
    let ordered = journal.fence_ops();
    journal.log_ops(&[1]).unwrap();
    journal.commit(&ordered);
}

/// A lane too small for its transaction returns an error, takes a segment, and gives it back at the
/// end.
#[test]
fn a_full_lane_goes_on_in_further_segments() {
    let media = media();
    let mut journal = fresh(&media);
    for round in 0..3 {
        let mut extra = 0;
        for i in 0..300 {
            media.store(HOME + i * 8, i);
            while let Err(error) = journal.log(HOME + i * 8, 8) {
                assert!(matches!(error, Error::Full { needed, .. } if needed >= 64), "{error}");
                let at = (100 << 10) + extra * 4096;
                journal.extend(at..at + 4096).unwrap();
                extra += 1;
            }
            journal.fence();
            media.store(HOME + i * 8, 0xbad);
        }
        assert_eq!(journal.extra_count(), 4);
        assert_eq!(reopen(&media).undo_entries().count(), 300);
        journal.rollback().unwrap();
        assert!((0..300).all(|i| media.load(HOME + i * 8) == i), "round {round}");
        if round < 2 {
            assert_eq!(journal.take_extra().len(), 4);
        }
    }
    journal.log_ops(&(0..1000).collect::<Vec<_>>()).unwrap();
    let ordered = journal.fence_ops();
    journal.commit(&ordered);
    assert_eq!(reopen(&media).ops(), (0..1000).collect::<Vec<_>>());
}

/// Segments that another lane used with the same generation prove nothing here.
#[test]
fn entries_of_another_lane_are_nothing() {
    let media = media();
    Journal::format(&media, LANE, 7).unwrap();
    Journal::format(&media, 8192..12288, 8).unwrap();
    let mut one = reopen(&media).finish();
    let mut two = Journal::recover(&media, 8192..12288, 0..media.len()).unwrap().finish();
    for journal in [&mut one, &mut two] {
        journal.extend(64 << 10..(64 << 10) + 8192).unwrap();
    }
    for i in 0..100 {
        one.log(HOME + i * 8, 8).unwrap();
    }
    for i in 0..62 {
        // 61 fill the lane; in the shared segment the first lane's entries 2..39 lie behind the
        // 62nd.
        two.log(HOME + i * 8, 8).unwrap();
    }
    let found = Journal::recover(&media, 8192..12288, 0..media.len()).unwrap();
    assert_eq!(found.undo_entries().count(), 62);
}

#[test]
fn an_update_of_eight_bytes_costs_one_line_and_one_fence() {
    let media = media();
    let mut journal = fresh(&media);
    let before = media.counts();
    journal.log(HOME, 8).unwrap();
    journal.fence();
    let cost = media.counts() - before;
    assert_eq!((cost.lines, cost.fences, cost.barriers), (1, 1, 0));
    journal.retire();
    let cost = media.counts() - before;
    assert_eq!((cost.lines, cost.fences), (2, 1));
}

/// Without a fence between retirement and append, the append fences itself (UNDO-2).
#[test]
fn an_append_right_after_retirement_fences_itself() {
    let media = media();
    let mut journal = fresh(&media);
    journal.log(HOME, 8).unwrap();
    journal.fence();
    journal.retire();
    let before = media.counts();
    journal.log(HOME, 8).unwrap();
    assert_eq!((media.counts() - before).fences, 1);
    journal.log(HOME, 8).unwrap();
    assert_eq!((media.counts() - before).fences, 1);
}

#[test]
fn odd_ranges_and_foreign_bytes_are_told() {
    let media = media();
    for bad in [4096..4096 + 192, 4097..8192, 0..2 << 20, Range { start: 8192, end: 4096 }] {
        assert!(matches!(Journal::format(&media, bad, 1), Err(Error::BadRange { .. })));
    }
    assert!(matches!(Journal::recover(&media, LANE, 0..1 << 20), Err(Error::NotALog { .. })));
    let mut journal = fresh(&media);
    assert!(journal.extend(0..64).is_err() && journal.extend(3..4096).is_err());
    assert!(matches!(journal.log(1 << 20, 8), Err(Error::Media(_))));
    assert!(matches!(Journal::recover(&media, 4096..4096 + 2048, 0..1 << 20), Err(Error::Damaged { .. })));
    journal.log(HOME, 8).unwrap();
    assert!(matches!(Journal::recover(&media, LANE, 0..HOME), Err(Error::Damaged { .. })));
    media.store(LANE.start + 32, 1); // covered by the header's checksum alone
    assert!(matches!(Journal::recover(&media, LANE, 0..1 << 20), Err(Error::Damaged { .. })));
    media.store(LANE.start + 32, 0);
    media.store(LANE.start + 64, 12345);
    assert!(matches!(Journal::recover(&media, LANE, 0..1 << 20), Err(Error::Damaged { .. })));
}

/// An entry that does not read back stops a rollback before it puts anything back.
#[test]
fn a_rollback_without_its_entries_is_refused() {
    let media = media();
    let mut journal = fresh(&media);
    for at in [HOME, HOME + 64] {
        media.store(at, 1);
        journal.log(at, 8).unwrap();
    }
    journal.fence();
    [HOME, HOME + 64].iter().for_each(|&at| media.store(at, 2));
    let second = LANE.start + layout::ENTRIES_AT + LINE + 16;
    media.store(second, media.load(second) ^ 1);
    assert!(matches!(journal.rollback(), Err(Error::Damaged { .. })));
    assert_eq!([HOME, HOME + 64].map(|at| media.load(at)), [2, 2], "left to recovery");
}

/// A lane with a commit word is not handed over: its operations would be forgotten.
#[test]
fn a_lane_that_is_not_at_rest_is_not_taken_over() {
    let media = media();
    let mut journal = fresh(&media);
    let mut other = Journal::join(&media, LANE).unwrap();
    other.refresh().unwrap();
    journal.log_ops(&[1, 2, 3]).unwrap();
    let ordered = journal.fence_ops();
    journal.commit(&ordered);
    assert!(matches!(other.refresh(), Err(Error::Damaged { .. })));
    journal.fence();
    journal.retire();
    other.refresh().unwrap();
    assert_eq!(other.generation, journal.generation);
}

/// Operations without room for all of them leave none behind.
#[test]
fn operations_are_appended_whole_or_not_at_all() {
    let media = media();
    let mut journal = fresh(&media);
    let lines = (LANE.end - LANE.start - layout::ENTRIES_AT) / LINE - 1; // the last is the link's
    for i in 0..lines - 2 {
        journal.log(HOME + i * 8, 8).unwrap();
    }
    assert!(matches!(journal.log_ops(&(0..13).collect::<Vec<_>>()), Err(Error::Full { .. })), "three lines");
    let ops: Vec<u64> = (20..32).collect();
    journal.log_ops(&ops).unwrap(); // two
    let ordered = journal.fence_ops();
    journal.commit(&ordered);
    assert_eq!(reopen(&media).ops(), ops);
}

#[derive(Clone, Debug)]
enum Op {
    Change(u64, u64),
    Words(u64),
    Ops(u64),
    Commit,
    Rollback,
    Reopen,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0u64..2000, 0u64..300).prop_map(|(at, len)| Op::Change(at, len)),
        3 => (0u64..200).prop_map(Op::Words),
        3 => (1u64..20).prop_map(Op::Ops),
        2 => Just(Op::Commit),
        1 => Just(Op::Rollback),
        1 => Just(Op::Reopen),
    ];
    proptest::collection::vec(op, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A journal does what a copy of the bytes does: going back restores them all, committing keeps
    /// them.
    #[test]
    fn a_journal_is_a_copy(ops in ops()) {
        let media = media();
        let mut journal = fresh(&media);
        let home = |media: &Media| media.read_vec(HOME, 4096);
        let (mut copy, mut noted, mut value) = (home(&media), Vec::new(), 0u8);
        for op in ops {
            value = value.wrapping_add(1);
            while journal.extra_count() < 8 {
                let at = (64 << 10) + 1024 * journal.extra_count() as u64;
                journal.extend(at..at + 1024).unwrap();
            }
            match op {
                Op::Change(at, len) => {
                    if journal.log(HOME + at, len).is_ok() {
                        journal.fence();
                        media.write(HOME + at, &vec![value; len as usize]);
                    }
                }
                Op::Words(at) => {
                    let places: Vec<u64> = (0..at % 7).map(|i| HOME + (at + i * 3) * 8).collect();
                    if journal.log_words(&places).is_ok() {
                        journal.fence();
                        places.iter().for_each(|&place| media.store(place, u64::from(value)));
                    }
                }
                Op::Ops(count) => {
                    let new: Vec<u64> = (0..count).map(|i| i * 1000 + u64::from(value)).collect();
                    if journal.log_ops(&new).is_ok() {
                        noted.extend(new);
                    }
                }
                Op::Commit => {
                    let ordered = journal.fence_ops();
                    journal.commit(&ordered);
                    let found = reopen(&media);
                    prop_assert_eq!((found.outcome(), found.ops()), (Outcome::Redo, &noted[..]));
                    journal.fence();
                    journal.retire();
                    journal.fence();
                    (copy, noted) = (home(&media), Vec::new());
                }
                Op::Rollback => {
                    journal.rollback().unwrap();
                    prop_assert_eq!(&home(&media), &copy);
                    noted.clear();
                }
                Op::Reopen => {
                    let found = reopen(&media);
                    found.undo();
                    prop_assert_eq!(&home(&media), &copy);
                    noted.clear();
                    journal = found.finish();
                }
            }
        }
    }

    /// Recovery of any bytes ends, and never panics: random lines, and whole entries of the right
    /// lane with false contents.
    #[test]
    fn recovery_survives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 4096), places in proptest::collection::vec((1u8..7, any::<u64>(), 0u64..60, any::<u64>()), 0..40), from in 0usize..64) {
        let media = media();
        let mut journal = fresh(&media);
        journal.log(HOME, 40).unwrap();
        let (seed, generation) = (journal.seed, journal.generation);
        for (line, (kind, target, used, first)) in places.into_iter().enumerate() {
            let at = LANE.start + ENTRIES_AT + LINE * (1 + line as u64);
            let mut entry = layout::JournalEntry::new_zeroed();
            entry.place = (target & ((1 << 48) - 1)) >> (first % 48) | used << 48 | u64::from(kind) << 56;
            entry.data[..8].copy_from_slice(&(first >> (target % 64)).to_le_bytes());
            entry.proof = entry.proof(seed, generation, at);
            media.put(at, &entry);
        }
        if let Ok(found) = Journal::recover(&media, LANE, 0..media.len()) {
            found.undo();
            found.finish();
        }
        let from = 64 * from;
        media.write(LANE.start + from as u64, &bytes[from..]);
        if let Ok(found) = Journal::recover(&media, LANE, 0..media.len()) {
            found.undo();
            found.finish();
        }
    }
}
