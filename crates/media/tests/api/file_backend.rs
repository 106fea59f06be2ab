//! The `file` backend as programs see it: the effect of a barrier, of an end without close, and of
//! a log that wraps around.

use everbyte_media::{BackendChoice, Durability, Geometry, Media, OpenOptions, Options};
use std::path::PathBuf;
use std::time::Duration;

const LOG: u64 = 64 << 10;
const DATA: u64 = 128 << 10;
const MAX: u64 = 16 << 20;

fn options() -> Options {
    Options { backend: BackendChoice::File, ..Options::default() }
}

fn create(options: &Options) -> (tempfile::TempDir, PathBuf, Media) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let geometry = Geometry { max: MAX, len: MAX / 2, log_at: 16 << 10, log_len: LOG };
    let media = OpenOptions::new(&path).create(geometry, options).unwrap();
    (dir, path, media)
}

fn settle(media: &Media, at: u64, value: u64) {
    let _section = media.section();
    media.store(at, value);
    media.flush(at, 8);
    media.barrier().unwrap();
}

/// Settled words are there after the process died; words that were never flushed are not.
#[test]
fn settled_words_survive_a_death_and_unflushed_ones_do_not() {
    for durability in [Durability::Always, Durability::Interval(Duration::from_millis(5)), Durability::Process] {
        let (_dir, path, media) = create(&Options { durability, ..options() });
        settle(&media, DATA, 1);
        settle(&media, DATA + 4096, 2);
        media.store(DATA + 8192, 3);
        media.abandon();
        let media = OpenOptions::new(&path).open(&options()).unwrap();
        assert_eq!((media.load(DATA), media.load(DATA + 4096), media.load(DATA + 8192)), (1, 2, 0));
    }
}

/// Many times the log's size goes through it, by one thread and by several, with background
/// checkpoints and without.
#[test]
fn the_log_turns_over() {
    for background in [true, false] {
        let options = Options { background, ..options() };
        let (_dir, path, media) = create(&options);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let media = &media;
                scope.spawn(move || {
                    for round in 1..300_u64 {
                        let _section = media.section();
                        for line in 0..8 {
                            let at = DATA + ((thread * 300 + round * 7 % 300) * 8 + line) * 64;
                            media.store(at, round * 10 + thread);
                            media.flush(at, 8);
                        }
                        media.barrier().unwrap();
                    }
                });
            }
        });
        let image = media.read_vec(DATA, 1200 * 512);
        media.abandon();
        let media = OpenOptions::new(&path).open(&options).unwrap();
        assert!(media.read_vec(DATA, 1200 * 512) == image, "background {background}");
    }
}

/// One epoch larger than the whole log is cut, with checkpoints between.
#[test]
fn an_epoch_larger_than_the_log_passes() {
    let (_dir, path, media) = create(&options());
    {
        let _section = media.section();
        for at in (DATA..DATA + (1 << 20)).step_by(8) {
            media.store(at, at);
        }
        media.flush(DATA, 1 << 20);
        media.barrier().unwrap();
    }
    media.abandon();
    let media = OpenOptions::new(&path).open(&options()).unwrap();
    assert!((DATA..DATA + (1 << 20)).step_by(8).all(|at| media.load(at) == at));
}

/// Closing, or dropping the last clone, leaves an empty log and everything in its place: a reader
/// of the bare file finds it.
#[test]
fn closing_and_dropping_leave_everything_in_place() {
    for close in [true, false] {
        let (_dir, path, media) = create(&options());
        settle(&media, DATA + 64, 77);
        if close {
            media.close().unwrap();
        }
        drop(media);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[DATA as usize + 64..][..8], 77_u64.to_le_bytes());
        let media =
            OpenOptions::new(&path).open(&Options { backend: BackendChoice::Shm, ..Options::default() }).unwrap();
        assert_eq!(media.load(DATA + 64), 77);
    }
}

/// A store left with a full log is replayed by every backend that opens it.
#[test]
fn every_backend_replays_before_it_maps() {
    let (_dir, path, media) = create(&options());
    settle(&media, DATA + 64, 78);
    media.abandon();
    let media = OpenOptions::new(&path).open(&Options { backend: BackendChoice::Shm, ..Options::default() }).unwrap();
    assert_eq!(media.load(DATA + 64), 78);
}

/// A range that was backed before a settled store is backed again after a crash.
#[test]
fn growth_survives_with_what_was_stored_in_it() {
    let (_dir, path, media) = create(&options());
    media.extend(MAX / 2 + 100, (1 << 20) - 1000).unwrap(); // backs whole pages
    settle(&media, MAX / 2 + 4096, 5);
    media.abandon();
    let media = OpenOptions::new(&path).open(&options()).unwrap();
    assert_eq!(media.len(), MAX / 2 + (1 << 20));
    assert_eq!(media.load(MAX / 2 + 4096), 5);
}
