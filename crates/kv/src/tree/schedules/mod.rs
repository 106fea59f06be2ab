//! Threads that publish, pin and reclaim, in the orders that shuttle chooses (`explore`).
//!
//! `pins` and `readers` are compiled a second time here, with shuttle's atomics under them: the
//! code under test is that code. A program's *media* is a number: versions that ended before it
//! have been reclaimed. A reader at a version may read as long as nothing that ended behind that
//! version is reclaimed.
//!
//! Shuttle runs one thread at a time, so the orders of weak memory are not tried; the race of
//! `pin_and_publish_race` runs on the machine's own.

mod sync;

#[allow(clippy::duplicate_mod, dead_code)] // compiled with other atomics; parts are used
#[path = "../pins.rs"]
mod pins;

#[allow(clippy::duplicate_mod, dead_code)] // as above
#[path = "../readers.rs"]
mod readers;

use crate::tree::layout::ReadersPage;
use crate::tree::number::Version;
use everbyte_media::museum;
use everbyte_workload::schedules::{explore, fails};
use pins::{KeyCounts, Pins, Published};
use readers::{Page, Place, Reader, ReaderPin, Unready};
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::thread;
use std::sync::Arc;

/// Pins, and what has been reclaimed of their media.
struct Stage {
    pins: Pins,
    reclaimed: AtomicU64,
}

fn published(version: u64) -> Published {
    Published {
        version: Version::new(version),
        root: version * 64,
        keys: KeyCounts { all: version * 3, main: version * 2 },
    }
}

impl Stage {
    fn new() -> Arc<Stage> {
        Arc::new(Stage { pins: Pins::new(published(1)), reclaimed: AtomicU64::new(0) })
    }

    /// Reads at a version, at which nothing may have been reclaimed.
    fn read(&self, seen: Published) {
        assert_eq!(seen, published(seen.version.get()), "parts of two publications");
        assert!(self.reclaimed.load(SeqCst) <= seen.version.get(), "PIN-1");
    }

    /// The writer's part: a version is published, and what no reader sees goes.
    fn write(&self, version: u64) {
        self.pins.publish(published(version));
        self.pins.expire();
        let oldest = self.pins.oldest();
        assert!(oldest <= version, "nothing that the newest version sees goes");
        self.reclaimed.fetch_max(oldest, SeqCst);
    }
}

fn finds(bug: &'static str, program: fn()) {
    assert!(museum::with(bug, || fails(program)), "`{bug}` was not found");
}

fn readers(stage: &Arc<Stage>, count: usize, rounds: usize) -> Vec<thread::JoinHandle<()>> {
    let reader = || {
        let stage = Arc::clone(stage);
        thread::spawn(move || {
            let mut last = Version::new(1);
            for _ in 0..rounds {
                let (ticket, seen) = stage.pins.pin();
                assert!(seen.version >= last, "no reader goes back in time");
                stage.read(seen);
                stage.read(seen);
                last = seen.version;
                stage.pins.unpin(&ticket);
            }
        })
    };
    (0..count).map(|_| reader()).collect()
}

fn require_free(stage: &Stage, newest: u64) {
    assert_eq!(stage.pins.oldest(), newest, "no pin is left");
}

/// One reader, which finds a slot.
fn one_reader() {
    let stage = Stage::new();
    let readers = readers(&stage, 1, 2);
    (2..5).for_each(|version| stage.write(version));
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    require_free(&stage, 4);
}

/// More readers than slots: some pins go to the list.
fn crowded() {
    let stage = Stage::new();
    let held: Vec<_> = (0..sync::SLOTS).map(|_| stage.pins.pin()).collect();
    let readers = readers(&stage, 2, 2);
    stage.write(2);
    stage.write(3);
    held.iter().for_each(|&(_, seen)| stage.read(seen));
    held.iter().for_each(|(ticket, _)| stage.pins.unpin(ticket));
    stage.write(4);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    require_free(&stage, 4);
}

/// Readers of a version by its name, while it loses the name. The lock is the writer's: a name is
/// looked up under it (NAME-1).
fn named() {
    let stage = Stage::new();
    let writer = Arc::new(shuttle::sync::Mutex::new(true));
    stage.pins.hold_named(Version::new(1));
    let reader = |_| {
        let (stage, writer) = (Arc::clone(&stage), Arc::clone(&writer));
        thread::spawn(move || {
            let ticket = writer.lock().unwrap().then(|| stage.pins.hold(Version::new(1)));
            if let Some(ticket) = ticket {
                stage.read(published(1));
                stage.read(published(1));
                stage.pins.unpin(&ticket);
            }
        })
    };
    let readers: Vec<_> = (0..2).map(reader).collect();
    stage.write(2);
    {
        let mut is_named = writer.lock().unwrap();
        stage.pins.publish(published(3));
        museum::unless("kv-name-goes-silently", || *is_named = false);
        stage.pins.release_named(Version::new(1));
    }
    stage.write(4);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    require_free(&stage, 4);
}

/// Readers that may be one commit behind: what they have read counts only if they are not expired
/// afterwards.
fn limited() {
    let stage = Stage::new();
    stage.pins.set_limit(1);
    let reader = |_| {
        let stage = Arc::clone(&stage);
        thread::spawn(move || {
            let (ticket, seen) = stage.pins.pin();
            for _ in 0..2 {
                let early = stage.pins.is_expired(seen.version);
                let reclaimed = stage.reclaimed.load(SeqCst);
                let late = stage.pins.is_expired(seen.version);
                let is_expired = if museum::seeded("kv-expired-asked-early") { early } else { late };
                assert!(is_expired || reclaimed <= seen.version.get(), "PIN-2");
            }
            stage.pins.unpin(&ticket);
        })
    };
    let readers: Vec<_> = (0..3).map(reader).collect();
    (2..5).for_each(|version| stage.write(version));
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    require_free(&stage, 4);
}

/// Words that processes share, of which threads play the part.
fn words() -> sync::Words {
    sync::Words::new(size_of::<ReadersPage>())
}

fn place(token: u64) -> Place {
    Place { object: 7, generation: 3, token }
}

/// The page of a writer, whose process has the number 1. Processes live that have a small number.
fn page(words: &sync::Words) -> Page {
    Page::begin(words.clone(), place(1), Box::new(|token| (1..9).contains(&token)))
}

fn join(words: &sync::Words, token: u64) -> Reader {
    Reader::join(words.clone(), place(token), Box::new(|token| (1..9).contains(&token))).unwrap()
}

fn pin(reader: &Reader) -> (ReaderPin, Published) {
    reader.pin(|_| Ok::<(), Unready>(())).unwrap()
}

/// A few pins of a reader in another process, and one publication.
fn outside_alone() {
    let (stage, words) = (Stage::new(), words());
    stage.pins.show(page(&words));
    let (reader, beside) = (join(&words, 2), Arc::clone(&stage));
    let reader = thread::spawn(move || {
        for _ in 0..8 {
            let (pin, seen) = pin(&reader);
            beside.read(seen);
            reader.unpin(&pin);
        }
    });
    stage.write(2);
    reader.join().unwrap();
    require_free(&stage, 2);
}

/// Readers in other processes, each with two pins that overlap.
fn outside() {
    let (stage, words) = (Stage::new(), words());
    stage.pins.show(page(&words));
    let reader = |token| {
        let (stage, words) = (Arc::clone(&stage), words.clone());
        thread::spawn(move || {
            let reader = join(&words, token);
            let (first, seen) = pin(&reader);
            stage.read(seen);
            let (second, newer) = pin(&reader);
            assert!(newer.version >= seen.version, "no reader goes back in time");
            stage.read(seen);
            reader.unpin(&first);
            stage.read(newer);
            stage.read(newer);
            reader.unpin(&second);
        })
    };
    let readers: Vec<_> = (2..4).map(reader).collect();
    (2..4).for_each(|version| stage.write(version));
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    require_free(&stage, 3);
}

/// A reader in another process that may be one commit behind.
fn outside_limited() {
    let (stage, words) = (Stage::new(), words());
    stage.pins.show(page(&words));
    stage.pins.set_limit(1);
    let reader = {
        let (stage, words) = (Arc::clone(&stage), words.clone());
        thread::spawn(move || {
            let reader = join(&words, 2);
            let (old, seen) = pin(&reader);
            let (new, newer) = pin(&reader);
            for (pin, seen) in [(&old, seen), (&new, newer), (&old, seen)] {
                let reclaimed = stage.reclaimed.load(SeqCst);
                assert!(reader.is_expired(pin) || reclaimed <= seen.version.get(), "BESIDE-1, BESIDE-2");
            }
        })
    };
    (2..5).for_each(|version| stage.write(version));
    reader.join().unwrap();
    require_free(&stage, 4);
}

/// A writer dies, and its successor recovers and publishes, beside a reader.
fn succeeded() {
    let (first, words) = (Stage::new(), words());
    first.pins.show(page(&words));
    let reader = {
        let (stage, words) = (Arc::clone(&first), words.clone());
        thread::spawn(move || {
            let reader = join(&words, 2);
            let mut last = Version::new(1);
            for _ in 0..3 {
                let (pin, seen) = pin(&reader);
                assert_eq!(seen, published(seen.version.get()), "parts of two publications");
                assert!(seen.version >= last, "no reader goes back in time");
                let reclaimed = stage.reclaimed.load(SeqCst);
                assert!(reader.is_expired(&pin) || reclaimed <= seen.version.get(), "BESIDE-2");
                last = seen.version;
                reader.unpin(&pin);
            }
        })
    };
    first.write(2);
    // Version 3 was committed, and not published; recovery reclaims what it ended.
    let page = page(&words);
    first.reclaimed.store(3, SeqCst);
    let second = Pins::new(published(3));
    second.show(page);
    reader.join().unwrap();
    assert_eq!(second.oldest(), 3, "no pin is left");
}

#[test]
fn a_version_pinned_in_another_process_is_never_reclaimed_in_any_order() {
    explore(outside_alone);
    finds("readers-pin-unchecked", outside_alone);
    explore(outside);
    finds("readers-pin-ignored", outside);
}

#[test]
fn reads_of_expired_readers_in_other_processes_never_count_in_any_order() {
    explore(outside_limited);
    finds("readers-expired-unsaid", outside_limited);
    explore(succeeded);
    finds("readers-opening-unraised", succeeded);
}

#[test]
fn a_pinned_version_is_never_reclaimed_in_any_order() {
    explore(one_reader);
    finds("tree-pin-unchecked", one_reader);
}

#[test]
fn pins_that_overflow_hold_as_well_in_any_order() {
    explore(crowded);
    finds("tree-overflow-early", crowded);
}

#[test]
fn a_version_is_held_by_its_name_until_a_reader_holds_it_in_any_order() {
    explore(named);
    finds("kv-name-goes-silently", named);
}

#[test]
fn reads_of_expired_readers_never_count_in_any_order() {
    explore(limited);
    finds("kv-expired-asked-early", limited);
}
