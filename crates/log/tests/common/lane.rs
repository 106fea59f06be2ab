//! The program of a lane: eight transactions of every kind over one home range; each leaves the
//! home in the state of its number.

use everbyte_log::{Journal, Outcome};
use everbyte_media::Media;
use everbyte_sim::{Image, Oracle, Seen};
use std::ops::Range;

/// A short lane: three entries, then it is chained.
pub(crate) const LANE: Range<u64> = 4096..4096 + 384;
pub(crate) const EXTRA: [Range<u64>; 2] = [8192..8192 + 320, 12288..12288 + 1024];
pub(crate) const HOME: u64 = 16384;
/// Words that operations set: an operation is `cell << 32 | value`.
pub(crate) const CELLS: u64 = HOME + 2048;
const LEN: u64 = 20480;
const SALT: u64 = 0xabcd;

/// The changes of transactions: a word, a long range at an odd place, three words of three lines, a
/// short odd range.
const PLACES: [Range<u64>; 6] = [
    HOME..HOME + 8,
    HOME + 65..HOME + 65 + 70,
    HOME + 256..HOME + 264,
    HOME + 320..HOME + 328,
    HOME + 384..HOME + 392,
    HOME + 515..HOME + 528,
];

pub(crate) fn image() -> Image {
    Image::build(LEN, |media| {
        Journal::format(&media, LANE, SALT).unwrap();
    })
}

pub(crate) fn recover(media: &Media) -> Result<everbyte_log::Recovery, String> {
    Journal::recover(media, LANE, 0..media.len()).map_err(|error| error.to_string())
}

fn change(media: &Media, places: &[Range<u64>], value: u64) {
    let _section = media.section();
    for place in places {
        media.write(place.start, &vec![value as u8; (place.end - place.start) as usize]);
        media.flush(place.start, place.end - place.start);
    }
}

fn log(journal: &mut Journal, places: &[Range<u64>]) {
    for place in places {
        while journal.log(place.start, place.end - place.start).is_err() {
            journal.extend(EXTRA[journal.extra_count()].clone()).unwrap();
        }
    }
}

fn apply(media: &Media, ops: &[u64]) {
    for op in ops {
        let at = CELLS + (op >> 32) * 8;
        media.store(at, op & 0xffff_ffff);
        media.flush(at, 8);
    }
}

/// The state of the home that a test reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    places: [u64; 6],
    cells: [u64; 3],
}

impl State {
    fn of(media: &Media) -> Result<State, String> {
        let mut places = [0; 6];
        for (value, place) in places.iter_mut().zip(PLACES) {
            let bytes = media.read_vec(place.start, (place.end - place.start) as usize);
            *value = u64::from(bytes[0]);
            if bytes.iter().any(|&byte| byte != bytes[0]) {
                return Err(format!("{place:x?} is half old, half new: {bytes:?}"));
            }
        }
        Ok(State { places, cells: [0, 1, 2].map(|cell| media.load(CELLS + 8 * cell)) })
    }

    /// The state after the first `done` operations of [`program`].
    fn after(done: usize) -> State {
        let mut state = State { places: [0; 6], cells: [0; 3] };
        for number in 1..=done as u64 {
            let changed: &[usize] = match number {
                1 | 8 => &[0],
                5 => &[0, 5],
                2 => &[0, 1, 2, 3, 4],
                4 => &[0, 1, 2, 3, 4, 5],
                6 => &[2, 3, 4],
                _ => &[],
            };
            changed.iter().for_each(|&place| state.places[place] = number);
            match number {
                2 => state.cells = [2, 2, 0],
                7 => state.cells = [7, 2, 7],
                _ => {}
            }
        }
        state
    }
}

/// The transactions. Each is one operation for the oracle, acknowledged after a barrier.
pub(crate) fn program(media: Media, oracle: &Oracle) {
    let mut journal = recover(&media).unwrap().finish();
    let end = |journal: &mut Journal| {
        media.fence(); // the changes in place
        journal.retire();
        media.barrier().unwrap();
        journal.fenced();
    };
    oracle.step("1: one word", || {
        log(&mut journal, &PLACES[..1]);
        journal.fence();
        change(&media, &PLACES[..1], 1);
        end(&mut journal);
    });
    oracle.step("2: ranges named in advance, and operations", || {
        log(&mut journal, &PLACES[..5]);
        journal.fence();
        change(&media, &PLACES[..5], 2);
        let ops = [2, 1 << 32 | 2];
        journal.log_ops(&ops).unwrap();
        let ordered = journal.fence_ops();
        journal.commit(&ordered);
        media.barrier().unwrap();
        apply(&media, &ops);
        end(&mut journal);
    });
    oracle.step("3: rolled back", || {
        for places in [&PLACES[..1], &PLACES[..2], &PLACES[5..]] {
            log(&mut journal, places);
            journal.fence();
            change(&media, places, 3);
        }
        journal.rollback().unwrap();
        media.barrier().unwrap();
    });
    oracle.step("4: the same word many times, then everything", || {
        for value in 40..44 {
            log(&mut journal, &PLACES[..1]);
            journal.fence();
            change(&media, &PLACES[..1], value);
        }
        log(&mut journal, &PLACES);
        journal.fence();
        change(&media, &PLACES, 4);
        end(&mut journal);
    });
    let five = oracle.begin("5: ordered only");
    let two = [PLACES[0].clone(), PLACES[5].clone()];
    log(&mut journal, &two);
    journal.fence();
    change(&media, &two, 5);
    media.fence();
    journal.retire(); // and no fence: the next append must fence
    let six = oracle.begin("6: words");
    journal.log_words(&[PLACES[2].start, PLACES[3].start]).unwrap();
    journal.log_words(&[PLACES[4].start]).unwrap();
    journal.fence();
    change(&media, &PLACES[2..5], 6);
    end(&mut journal);
    oracle.acked(five);
    oracle.acked(six);
    oracle.step("7: operations alone", || {
        let ops = [7, 2 << 32 | 7];
        journal.log_ops(&ops).unwrap();
        let ordered = journal.fence_ops();
        journal.commit(&ordered);
        media.barrier().unwrap();
        apply(&media, &ops);
        end(&mut journal);
    });
    oracle.step("8: one word", || {
        log(&mut journal, &PLACES[..1]);
        journal.fence();
        change(&media, &PLACES[..1], 8);
        end(&mut journal);
    });
}

/// Recovers and compares with every state that the promises allow; then the lane must work, without
/// stale entries.
pub(crate) fn check(media: Media, seen: &Seen) -> Result<(), String> {
    let recovery = recover(&media)?;
    match recovery.outcome() {
        Outcome::Idle => {}
        Outcome::Undo => recovery.undo(),
        Outcome::Redo => apply(&media, recovery.ops()),
    }
    let mut journal = recovery.finish();
    media.barrier().map_err(|error| error.to_string())?;
    seen.recovered();
    let state = State::of(&media)?;
    let allowed = seen.acked_count()..=seen.begun_count();
    if !allowed.clone().any(|done| state == State::after(done)) {
        return Err(format!("{state:?} is no state after {allowed:?} operations; {seen:?}"));
    }
    for more in 1..=5 {
        log(&mut journal, &PLACES[..1]);
        journal.fence();
        let found = recover(&media)?.undo_entries().count();
        if found != more {
            return Err(format!("{found} entries after {more} appends: stale ones came to life"));
        }
    }
    Ok(())
}
