//! Rot of heads and log: every sector in turn is flipped, zeroed, replaced by an older version of
//! itself, unreadable once, or unreadable for ever. The store then has everything that was
//! acknowledged, or an error names the place.
//!
//! One loss cannot be told from an interrupted write: that of the newest record, which nothing
//! follows. For it alone the state before it is accepted.

use crate::program::{DATA, LOG_LEN, fresh, growing, open};
use crate::traps::settle;
use everbyte_media::{Durability, Error, Media, museum};
use everbyte_sim::{DiskCall, DiskEvent, RecordedDisk, SECTOR};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const HEADS: Range<u64> = 8 << 10..16 << 10;

const PAGES: u64 = 7;

/// The word that a put stores to. Several pages, so that checkpoints cost more than records and the
/// log grows.
fn word(put: u64) -> u64 {
    DATA + put % PAGES * 4096
}

fn load(media: &Media, puts: Range<u64>) {
    puts.for_each(|put| settle(media, word(put), put + 1));
}

/// The history of one store, and its acknowledgements.
struct History {
    disk: Arc<RecordedDisk>,
    /// Puts that were acknowledged.
    puts: u64,
    /// The log's place.
    log: Range<u64>,
    /// The sectors of the newest record, if the store was killed after it.
    newest: Range<u64>,
}

impl History {
    fn of(image: &[u8], live: impl FnOnce(&Arc<RecordedDisk>) -> u64) -> History {
        let disk = RecordedDisk::new(image).unwrap();
        let head = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
        let (log_at, log_len) = (head((8 << 10) + 40), head((8 << 10) + 48));
        let log = log_at..log_at + log_len;
        let puts = live(&disk);
        let mut newest = 0..0;
        for event in &disk.tape().events {
            match event {
                DiskEvent::Write { at, bytes } if log.contains(at) => newest = *at..*at + bytes.len() as u64,
                // closed
                DiskEvent::Write { at, bytes } if HEADS.contains(at) && bytes.get(96) == Some(&1) => newest = 0..0,
                _ => {}
            }
        }
        History { disk, puts, log, newest }
    }

    /// Earlier contents of each sector, oldest first, without the present one.
    fn versions(&self) -> BTreeMap<u64, Vec<Vec<u8>>> {
        let tape = self.disk.tape();
        let (present, mut content) = (self.disk.content(), tape.image.clone());
        let mut versions: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
        content.resize(present.len(), 0);
        for event in &tape.events {
            let DiskEvent::Write { at, bytes } = event else { continue };
            let (start, end) = (*at as usize, *at as usize + bytes.len());
            for sector in (start / SECTOR..end.div_ceil(SECTOR)).map(|sector| sector * SECTOR) {
                versions.entry(sector as u64).or_default().push(content[sector..sector + SECTOR].to_vec());
            }
            content[start..end].copy_from_slice(bytes);
        }
        for (&sector, versions) in &mut versions {
            versions.dedup();
            versions.retain(|version| *version != present[sector as usize..][..SECTOR]);
        }
        versions
    }

    /// Opens the rotten image.
    fn opens(&self, what: &str, sector: u64, disk: &Arc<RecordedDisk>) -> Result<(), String> {
        let told = |detail: String| Err(format!("{what} at {sector:#x}: {detail}"));
        let media = match open(disk, Durability::Always) {
            Ok(media) => media,
            Err(Error::Damaged { .. }) => return Ok(()),
            Err(error @ Error::Io { .. }) if error.to_string().contains("offset") => return Ok(()),
            Err(error) => return told(format!("an error that names no place: {error}")),
        };
        let check = |media: &Media| {
            let lost = |puts: u64| (puts.saturating_sub(PAGES)..puts).find(|&put| media.load(word(put)) < put + 1);
            match lost(self.puts) {
                Some(put) if self.newest.contains(&sector) && put + 1 == self.puts => None,
                lost => lost,
            }
        };
        if let Some(put) = check(&media) {
            return told(format!("put {put} of {} was acknowledged, {} found", self.puts, media.load(word(put))));
        }
        // The words found stay, and so do later settled ones.
        settle(&media, DATA + 64, 7);
        media.abandon();
        disk.heal();
        let media = open(disk, Durability::Always).map_err(|error| format!("{what} at {sector:#x}, again: {error}"))?;
        let lost = check(&media);
        let found = media.load(DATA + 64);
        media.abandon();
        match lost {
            Some(put) => told(format!("put {put} was there once, and is not at the next opening")),
            None if found != 7 => told("the store forgets what is settled after the rot".into()),
            None => Ok(()),
        }
    }

    /// All sectors, all kinds of rot.
    fn sweep(&self) -> Result<usize, String> {
        self.sweep_with(&self.versions())
    }

    fn sweep_with(&self, versions: &BTreeMap<u64, Vec<Vec<u8>>>) -> Result<usize, String> {
        let whole = self.disk.content();
        let mut count = 0;
        for sector in HEADS.chain(self.log.clone()).step_by(SECTOR) {
            let place = sector as usize..sector as usize + SECTOR;
            let mut changed = |what: &str, bytes: &[u8]| {
                let mut image = whole.clone();
                image[place.clone()].copy_from_slice(bytes);
                count += 1;
                self.opens(what, sector, &RecordedDisk::new(&image).unwrap())
            };
            for byte in [0, 4, 9, 20, 30, 40, 56, 97, 100, 200, 511] {
                let mut bytes = whole[place.clone()].to_vec();
                bytes[byte] ^= 4;
                changed("a flipped bit", &bytes)?;
            }
            changed("zeros", &[0; SECTOR])?;
            for older in versions.get(&sector).into_iter().flatten() {
                changed("an older version", older)?;
            }
            let disk = RecordedDisk::new(&whole).unwrap();
            disk.make_unreadable(sector, SECTOR as u64);
            self.opens("unreadable for ever", sector, &disk)?;
            count += 1;
        }
        // Each read of an opening fails once.
        for nth in 0.. {
            let disk = RecordedDisk::new(&whole).unwrap();
            disk.fail(DiskCall::Read, nth, libc::EIO);
            self.opens("read once in vain", nth, &disk)?;
            disk.heal();
            self.opens("read once in vain, and then", nth, &disk)?;
            count += 1;
            if disk.calls(DiskCall::Read) <= nth {
                return Ok(count);
            }
        }
        Ok(count)
    }
}

/// Stores that were killed under load, each in another state of its heads and its log, and some
/// that were closed.
fn histories() -> Vec<(&'static str, History)> {
    let always = |disk: &Arc<RecordedDisk>| open(disk, Durability::Always).unwrap();
    vec![
        (
            "killed in its first life",
            History::of(&fresh(), |disk| {
                let media = always(disk);
                load(&media, 0..9);
                media.abandon();
                9
            }),
        ),
        (
            "killed after several laps of the log",
            History::of(&fresh(), |disk| {
                let media = always(disk);
                for round in 0..5 {
                    load(&media, round * 17..round * 17 + 17);
                    media.checkpoint().unwrap();
                }
                load(&media, 85..99);
                media.abandon();
                99
            }),
        ),
        (
            "killed after its log has grown",
            History::of(&growing(), |disk| {
                let media = always(disk);
                load(&media, 0..30);
                media.checkpoint().unwrap();
                assert_eq!(media.log_room(), 2 * LOG_LEN);
                load(&media, 30..70); // beyond the old room
                media.abandon();
                70
            }),
        ),
        (
            "killed in its third life",
            History::of(&fresh(), |disk| {
                for life in 0..3 {
                    let media = always(disk);
                    load(&media, life * 7..life * 7 + 7);
                    media.abandon();
                }
                21
            }),
        ),
        (
            "closed in order",
            History::of(&fresh(), |disk| {
                let media = always(disk);
                load(&media, 0..50);
                media.close().unwrap();
                media.abandon();
                50
            }),
        ),
        (
            "closed in order, opened again and killed",
            History::of(&fresh(), |disk| {
                let media = always(disk);
                load(&media, 0..50);
                media.close().unwrap();
                media.abandon();
                let media = always(disk);
                load(&media, 50..54);
                media.abandon();
                54
            }),
        ),
        (
            "killed between the two copies of its first head, opened again and killed",
            History::of(&fresh(), |disk| {
                let media = always(disk);
                media.store(word(0), 1);
                media.flush(word(0), 8);
                disk.fail(DiskCall::Write, 1, libc::EIO);
                media.barrier().unwrap_err();
                media.abandon();
                disk.heal();
                let media = always(disk);
                load(&media, 0..9);
                media.abandon();
                9
            }),
        ),
        (
            "killed between the two copies of the head of a larger log, opened again and killed",
            History::of(&growing(), |disk| {
                let media = always(disk);
                load(&media, 0..30);
                // behind pages, their head, zeros, and one copy
                disk.fail(DiskCall::Write, 4, libc::EIO);
                let _ = media.checkpoint(); // fails, if two copies are written
                media.abandon();
                disk.heal();
                let media = always(disk);
                assert_eq!(media.log_room(), 2 * LOG_LEN);
                load(&media, 30..70); // beyond the old room
                media.abandon();
                70
            }),
        ),
    ]
}

fn sweep() -> Result<usize, String> {
    let mut count = 0;
    for (name, history) in histories() {
        count += history.sweep().map_err(|detail| format!("{name}: {detail}"))?;
    }
    Ok(count)
}

#[test]
fn no_sector_of_heads_and_log_loses_what_was_acknowledged() {
    let count = sweep().unwrap_or_else(|detail| panic!("{detail}"));
    println!("{count} kinds of rot");
    assert!(count > 4000);
    for bug in ["media-one-head-copy", "media-copies-disagree", "media-witness-of-one-life"] {
        let found = museum::with(bug, sweep);
        println!("{bug}: {}", found.expect_err("the seeded bug was not found"));
    }
}

/// A program that wrote one copy of the head before its first record, as earlier ones did: the
/// other copy says that the log is empty. A lost copy is detected, so the log is read even if the
/// other copy calls it empty.
#[test]
fn one_whole_copy_of_the_head_never_proves_that_the_log_is_empty() {
    let history = museum::with("media-one-head-copy", || {
        History::of(&fresh(), |disk| {
            let media = open(disk, Durability::Always).unwrap();
            load(&media, 0..9);
            media.abandon();
            9
        })
    });
    history.sweep_with(&BTreeMap::new()).unwrap_or_else(|detail| panic!("{detail}"));
    let found = museum::with("media-clean-by-one-copy", || history.sweep_with(&BTreeMap::new()));
    println!("{}", found.expect_err("the seeded bug was not found"));
}

/// A failed read leaves the head unknown: the error names the copy, no byte is written over that
/// copy, and the next opening has everything.
#[test]
fn a_head_that_cannot_be_read_once_loses_nothing() {
    let attempt = || {
        for nth in 0..2 {
            let disk = RecordedDisk::new(&fresh()).unwrap();
            let media = open(&disk, Durability::Always).unwrap();
            load(&media, 0..9);
            media.abandon();
            let events = disk.tape().events.len();
            disk.fail(DiskCall::Read, nth, libc::EIO);
            let place = ["0x2000", "0x3000"][nth as usize];
            match open(&disk, Durability::Always) {
                Err(error @ Error::Io { .. }) if error.to_string().contains(place) => {}
                Err(error) => return Err(format!("{error}")),
                Ok(media) => return Err(format!("{place} was not read, and the store opens: {media:?}")),
            }
            if disk.tape().events.len() != events {
                return Err(format!("{place} was not read, and something was written"));
            }
            let media = open(&disk, Durability::Always).unwrap();
            if (2..9).any(|put| media.load(word(put)) != put + 1) {
                return Err("what was acknowledged is lost".into());
            }
            media.abandon();
        }
        Ok(())
    };
    attempt().unwrap_or_else(|detail| panic!("{detail}"));
    println!("{}", museum::with("media-unread-head", attempt).expect_err("the seeded bug was not found"));
}
