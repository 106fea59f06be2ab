//! Objects far apart get chunks in a small file. After any cut, each acknowledged chunk is found,
//! and belongs to one range.

use crate::program::{open, options};
use crate::traps::{finds, settle};
use everbyte_media::{Durability, Error, Geometry, Media, OpenOptions};
use everbyte_sim::{DiskCall, PowerCut, PowerFailure, PowerReport, RecordedDisk};
use std::sync::Arc;

const LEN: u64 = 64 << 10;
const MAX: u64 = 1 << 40;
/// Ranges far apart, adjacent, before and behind each other.
const PLACES: [u64; 6] = [1 << 39, 1 << 30, (1 << 39) + (64 << 10), LEN, 3 << 30, (1 << 39) + (128 << 10)];
/// Offset of the growth after recovery.
const LATER: u64 = 5 << 30;

fn created() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let geometry = Geometry { max: MAX, len: LEN, log_at: 16 << 10, log_len: 16 << 10 };
    drop(OpenOptions::new(&path).create(geometry, &options(Durability::Always)).unwrap());
    std::fs::read(&path).unwrap()
}

fn put(media: &Media, number: u64) {
    let at = PLACES[number as usize];
    media.extend(at, 4096).unwrap();
    settle(media, at, number + 1);
}

fn recorded() -> Arc<RecordedDisk> {
    let disk = RecordedDisk::new(&created()).unwrap();
    let mut media = open(&disk, Durability::Always).unwrap();
    for number in 0..PLACES.len() as u64 {
        put(&media, number);
        disk.note(number + 1);
        if number == 2 {
            media.checkpoint().unwrap();
        }
        if number == 3 {
            media.abandon();
            media = open(&disk, Durability::Always).unwrap();
        }
    }
    media.abandon();
    disk
}

fn holds(media: &Media, count: u64) -> Result<(), String> {
    for number in 0..count {
        let (at, expected) = (PLACES[number as usize], number + 1);
        let found = media.holds(at, 8).then(|| media.load(at));
        if found != Some(expected) {
            return Err(format!("{at:#x} holds {found:?}, and {expected} was acknowledged"));
        }
    }
    Ok(())
}

/// Opens the image of a cut, grows it, and opens it again.
fn recover(cut: &[u64], disk: &Arc<RecordedDisk>) -> Result<(), String> {
    let count = cut.last().copied().unwrap_or(0);
    for life in 0..2 {
        let media = open(disk, Durability::Always).map_err(|error| error.to_string())?;
        holds(&media, count)?;
        match life {
            0 => {
                media.extend(LATER, 4096).map_err(|error| error.to_string())?;
                settle(&media, LATER, 77);
            }
            _ if media.load(LATER) != 77 => return Err(format!("{LATER:#x} was lost")),
            _ => {}
        }
        media.abandon();
    }
    Ok(())
}

fn explore(disk: &Arc<RecordedDisk>) -> Result<PowerReport, PowerFailure> {
    let cut = PowerCut::new("places_in_the_file_survive_a_cut").images_per_point(12);
    cut.explore(&disk.tape(), |cut, disk| recover(cut.notes, &disk))
}

/// The explorer finds a slot that reaches the medium after the log names its bytes, and a slot of
/// bytes that the file does not have yet.
#[test]
fn places_in_the_file_survive_a_cut() {
    for bug in ["media-chunk-unsynced", "media-chunk-no-room"] {
        finds(bug, || explore(&recorded()));
    }
}

/// A word 2 MiB into the file belongs to an object half a TiB into the store.
#[test]
fn a_file_is_as_long_as_what_it_holds_and_not_as_its_offsets() {
    let disk = recorded();
    assert!(disk.content().len() < 1 << 20, "{}", disk.content().len());
}

/// File offset of a chunk's slot, in the first copy.
fn slots(image: &[u8]) -> Vec<usize> {
    let slots = image[LEN as usize..LEN as usize + 4096].chunks_exact(32);
    (LEN as usize..)
        .step_by(32)
        .zip(slots)
        .filter(|(_, slot)| slot.iter().any(|&byte| byte != 0))
        .map(|slot| slot.0)
        .collect()
}

/// Each sector of either copy of the map is damaged: the other copy has the content. Without a
/// second copy a chunk is lost, and the error says so.
#[test]
fn one_damaged_copy_of_the_map_loses_nothing() {
    let damage = || {
        let image = recorded().content();
        assert!(slots(&image).len() >= 5);
        for at in slots(&image) {
            for copy in [0, 4096] {
                for damage in [0x55, 0] {
                    let mut image = image.clone();
                    match damage {
                        0 => image[at + copy..at + copy + 32].fill(0),
                        flip => image[at + copy + 9] ^= flip,
                    }
                    let disk = RecordedDisk::new(&image).unwrap();
                    recover(&[PLACES.len() as u64], &disk).map_err(|detail| PowerFailure {
                        point: 0,
                        image: at,
                        detail,
                        replay: String::new(),
                    })?;
                }
            }
        }
        Ok(explore(&recorded()).unwrap_or_else(|failure| panic!("{failure}")))
    };
    finds("media-chunk-one-copy", damage);
}

/// Both copies damaged: the store is refused, and the slot is named.
#[test]
fn a_slot_whose_copies_are_both_damaged_is_named() {
    let image = recorded().content();
    for (index, at) in slots(&image).into_iter().enumerate() {
        let mut image = image.clone();
        image[at + 9] ^= 1;
        image[at + 4096 + 17] ^= 1;
        let error = open(&RecordedDisk::new(&image).unwrap(), Durability::Always).unwrap_err();
        let Error::Damaged(damage) = error else { panic!("{error}") };
        assert_eq!(
            (damage.offset, damage.detail),
            (Some(at as u64), format!("both copies of slot {index} of the map of chunks are damaged"))
        );
    }
}

/// Slots that contradict each other or the file are damage.
#[test]
fn a_file_that_was_cut_short_is_damaged() {
    let image = recorded().content();
    let error = open(&RecordedDisk::new(&image[..image.len() - 4096]).unwrap(), Durability::Always).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }) && error.to_string().contains("truncated"), "{error}");
}

/// A disk that has no space for another chunk, or fails while its slot is written, leaves the
/// existing bytes intact.
#[test]
fn a_chunk_that_cannot_be_made_harms_nothing() {
    for call in [DiskCall::Allocate, DiskCall::Write, DiskCall::Sync] {
        for nth in 0..3 {
            let disk = RecordedDisk::new(&created()).unwrap();
            let media = open(&disk, Durability::Always).unwrap();
            put(&media, 0);
            disk.fail(call, nth, if call == DiskCall::Sync { libc::EIO } else { libc::ENOSPC });
            let refused = media.extend(PLACES[1], 4096);
            disk.heal();
            if refused.is_ok() {
                settle(&media, PLACES[1], 2);
            }
            media.abandon();
            let media = open(&disk, Durability::Always).unwrap();
            holds(&media, 1 + u64::from(refused.is_ok())).unwrap_or_else(|lost| panic!("{call:?} {nth}: {lost}"));
            put(&media, 1);
            holds(&media, 2).unwrap();
        }
    }
}

/// Makes chunks, and frees them for others. Each step stores a number in a chunk, or frees the
/// chunk if there is none.
const STEPS: [(u64, Option<u64>); 15] = [
    (1 << 39, Some(1)),
    (1 << 30, Some(2)),
    (1 << 39, None),
    (3 << 30, Some(3)),
    (7 << 30, Some(4)),
    (1 << 30, None),
    (3 << 30, None),
    (1 << 39, Some(5)),
    (2 << 30, Some(6)),
    (7 << 30, None),
    (1 << 30, Some(7)),
    (9 << 30, Some(8)),
    // The slot of the second chunk, and the place of the first.
    (2 << 30, None),
    (9 << 30, None),
    (11 << 30, Some(9)),
];

fn step(media: &Media, (at, value): (u64, Option<u64>)) {
    match value {
        Some(value) => {
            media.extend(at, 64 << 10).unwrap();
            settle(media, at, value);
            settle(media, at + (63 << 10), value);
        }
        None => {
            let freed = media.free_chunks(&|range| range == (at..at + (64 << 10))).unwrap();
            assert_eq!((freed, media.load(at)), (64 << 10, 0));
        }
    }
}

/// The program, or its failure: a log that a reopening refuses.
fn reused() -> Result<Arc<RecordedDisk>, PowerFailure> {
    let disk = RecordedDisk::new(&created()).unwrap();
    let mut media = open(&disk, Durability::Always).unwrap();
    for (number, now) in STEPS.into_iter().enumerate() {
        step(&media, now);
        disk.note(number as u64 + 1);
        if number == 4 || number == 9 {
            media.abandon();
            media = open(&disk, Durability::Always).map_err(|error| failure(number, error.to_string()))?;
        }
    }
    media.abandon();
    Ok(disk)
}

fn failure(image: usize, detail: String) -> PowerFailure {
    PowerFailure { point: 0, image, detail, replay: String::new() }
}

/// The content after `count` steps; of the next step none, a part, or all.
fn holds_after(media: &Media, count: usize) -> Result<(), String> {
    let mut live = std::collections::BTreeMap::new();
    for (at, value) in &STEPS[..count] {
        live.insert(*at, *value);
    }
    let next = STEPS.get(count).map(|step| step.0);
    for (&at, &value) in live.iter().filter(|live| Some(*live.0) != next) {
        let expected = value.unwrap_or(0);
        for word in [at, at + (63 << 10)] {
            let found = if media.holds(word, 8) { media.load(word) } else { 0 };
            if found != expected {
                return Err(format!("{word:#x} holds {found} after {count} steps, and {expected} was stored"));
            }
        }
    }
    Ok(())
}

fn recover_reused(count: usize, disk: &Arc<RecordedDisk>) -> Result<(), String> {
    for life in 0..3 {
        let media = open(disk, Durability::Always).map_err(|error| error.to_string())?;
        holds_after(&media, count)?;
        match life {
            0 => {
                media.extend(LATER, 64 << 10).map_err(|error| error.to_string())?;
                settle(&media, LATER, 77);
            }
            _ if media.load(LATER) != 77 => return Err(format!("{LATER:#x} was lost")),
            _ => {}
        }
        match life {
            0 => media.abandon(),
            _ => media.close().map_err(|error| error.to_string())?,
        }
    }
    Ok(())
}

/// Another chunk takes a freed place only after no slot and no record of the log names the place as
/// the old chunk's.
#[test]
fn a_place_that_was_freed_belongs_to_one_after_any_cut() {
    let explore = || {
        let cut = PowerCut::new("a_place_that_was_freed_belongs_to_one_after_any_cut").images_per_point(8);
        cut.explore(&reused()?.tape(), |cut, disk| {
            recover_reused(cut.notes.last().copied().unwrap_or(0) as usize, &disk)
        })
    };
    for bug in
        ["media-chunk-free-unwritten", "media-chunk-free-unsynced", "media-chunk-free-logged", "media-chunk-unsynced"]
    {
        finds(bug, explore);
    }
}

/// Either copy of a slot alone shows that its chunk was freed.
#[test]
fn one_damaged_copy_of_the_map_brings_no_freed_chunk_back() {
    let damage = || {
        let image = reused()?.content();
        for (at, copy) in slots(&image).into_iter().flat_map(|at| [(at, 0), (at, 4096)]) {
            let mut image = image.clone();
            image[at + copy + 9] ^= 0x55;
            let recovered = recover_reused(STEPS.len(), &RecordedDisk::new(&image).unwrap());
            recovered.map_err(|detail| failure(at + copy, detail))?;
        }
        let cut = PowerCut::new("one_damaged_copy_of_the_map_brings_no_freed_chunk_back").images_per_point(1);
        cut.explore(&reused()?.tape(), |_, _| Ok(()))
    };
    finds("media-chunk-free-one-copy", damage);
}

/// Freed slots and places are used again: repeated rounds make neither the map nor the file longer.
#[test]
fn freed_places_are_used_again() {
    let disk = RecordedDisk::new(&created()).unwrap();
    let media = open(&disk, Durability::Always).unwrap();
    let mut after_first = 0;
    for round in 0..40 {
        let at = (round + 1) << 30;
        step(&media, (at, Some(round)));
        step(&media, (at, None));
        after_first = if round == 0 { disk.content().len() } else { after_first };
    }
    assert_eq!((disk.content().len(), slots(&disk.content()).len()), (after_first, 1), "one slot for all");
    media.abandon();
}

/// With the largest number of chunks, growth is an error that says so; a freed chunk makes one more
/// possible.
#[test]
fn more_chunks_than_can_be_mapped_are_refused() {
    everbyte_media::museum::with("media-few-chunks", || {
        let media = open(&RecordedDisk::new(&created()).unwrap(), Durability::Always).unwrap();
        let place = |number: u64| (number + 1) << 30;
        let refused = (0..20).find_map(|number| Some((number, media.extend(place(number), 4096).err()?)));
        let (count, error) = refused.expect("there is an end");
        assert!(error.to_string().contains("separate ranges in its file"), "{error}");
        settle(&media, place(count - 1), 7);
        assert_eq!(media.free_chunks(&|range| range.start == place(0)).unwrap(), 64 << 10);
        media.extend(place(count), 4096).unwrap();
        settle(&media, place(count), 8);
        assert_eq!([media.load(place(count - 1)), media.load(place(count))], [7, 8]);
        media.abandon();
    });
}
