//! Traps, each by its name: the shortest program that loses data if one sentence of the contract is
//! violated. Each is explored with the right code, and must pass; then with the violation, which
//! must be found.

use crate::program::{DATA, LOG_AT, LOG_LEN, Op, Op::*, Program, World, explore, fresh, open, options};
use everbyte_media::{Durability, Error, Media, OpenOptions, museum};
use everbyte_sim::{DiskCall, PowerCut, PowerFailure, PowerReport, RecordedDisk};
use std::sync::Arc;

const A: u64 = DATA;
const B: u64 = DATA + 4096;

/// Explores a program, which must pass, and with the bug, which must be found.
fn check(trap: &str, bug: &'static str, durability: Durability, ops: &[Op]) {
    let program = Program { ops: ops.to_vec(), durability, grows: false, world: World::default() };
    finds(bug, || explore(trap, &program, 1));
}

pub(crate) fn finds(bug: &'static str, explore: impl Fn() -> Result<PowerReport, PowerFailure>) {
    explore().unwrap_or_else(|failure| panic!("{failure}"));
    let found = museum::with(bug, &explore);
    println!("{bug}: {}", found.expect_err("the seeded bug was not found").detail);
}

pub(crate) fn settle(media: &Media, at: u64, value: u64) {
    let _section = media.section();
    media.store(at, value);
    media.flush(at, 8);
    media.barrier().unwrap();
}

/// A barrier without a sync settles nothing.
#[test]
fn a_barrier_is_on_the_medium() {
    let ops = [Store(A), Flush(A, 8), Barrier];
    check("a_barrier_is_on_the_medium", "media-barrier-unsynced", Durability::Always, &ops);
}

/// Recovery must not act on a record that was only in the cache: the next cut could lose the record
/// and keep the effect.
#[test]
fn recovery_syncs_the_log_before_it_replays() {
    let ops = [Store(A), Flush(A, 8), Fence, Store(B), Flush(B, 8), Barrier, Die];
    check("recovery_syncs_the_log_before_it_replays", "media-replay-unsynced", Durability::Process, &ops);
}

/// B's page is dirty, and is copied with a store to B that was never flushed; the flush before that
/// store is only in the open batch. The log is full, so that flush starts a checkpoint.
#[test]
fn a_checkpoint_writes_no_page_before_the_log() {
    for durability in [Durability::Always, Durability::Process] {
        let fill = [Flush(DATA + 8192, 4096), Flush(DATA + 12288, 4096), Flush(B + 64, 4032), Barrier];
        let trap = [Store(A), Flush(A, 8), Fence, Store(B), Flush(DATA + 16384, 4096)];
        let ops = [&fill[..], &trap].concat();
        check("a_checkpoint_writes_no_page_before_the_log", "media-page-before-log", durability, &ops);
    }
}

/// The head passes records whose pages are not on the medium.
#[test]
fn a_head_passes_no_record_before_its_pages() {
    let ops = [Store(A), Flush(A, 8), Barrier, Checkpoint, Store(B), Flush(B, 8), Barrier];
    for bug in ["media-head-before-pages", "media-pages-unsynced"] {
        check("a_head_passes_no_record_before_its_pages", bug, Durability::Always, &ops);
    }
}

/// Log space is written again while the head on the medium still begins there.
#[test]
fn the_log_is_not_reused_before_a_head_has_passed_it() {
    let mut ops = vec![Store(A), Flush(A, 8), Barrier];
    ops.extend([Flush(DATA + 8192, 4096), Flush(DATA + 12288, 4096), Flush(DATA + 16384, 4096)]);
    ops.extend([Checkpoint, Flush(DATA + 8192, 4096), Store(B), Flush(B, 8), Barrier]);
    let test = "the_log_is_not_reused_before_a_head_has_passed_it";
    check(test, "media-reuse-before-head", Durability::Always, &ops);
}

/// A record of which some sectors are missing is no record.
#[test]
fn a_torn_record_is_not_replayed() {
    let mut ops: Vec<Op> = (0..20).map(|line| Store(DATA + line * 64)).collect();
    ops.extend([Flush(DATA, 20 * 64), Barrier, Checkpoint]);
    ops.extend((0..20).map(|line| Store(DATA + line * 64)));
    ops.extend([Flush(DATA, 20 * 64), Barrier]);
    check("a_torn_record_is_not_replayed", "media-torn-record", Durability::Always, &ops);
}

/// Unsynced records reached the medium, but not the first of them. The next life begins at the
/// missing one and writes records of the same length, even of the same bytes: those of the life
/// before must not join them.
#[test]
fn a_stale_record_of_an_earlier_life_joins_no_chain() {
    // Without the record that begins a life, its first record may have the very bytes of the lost
    // one, and the records behind it join. If any record is believed, those behind it join, too.
    for (bug, value) in [("media-no-life", 1), ("media-no-chain", 2), ("media-no-chain", 4)] {
        finds(bug, || {
            let disk = RecordedDisk::new(&fresh()).unwrap();
            let media = open(&disk, Durability::Process).unwrap();
            for value in 1..=3 {
                settle(&media, A, value);
            }
            media.abandon();
            PowerCut::new("a_stale_record_of_an_earlier_life_joins_no_chain").explore(&disk.tape(), |_, image| {
                let media = open(&image, Durability::Always).map_err(|error| error.to_string())?;
                settle(&media, A, value);
                media.abandon();
                let found = open(&image, Durability::Always).map_err(|error| error.to_string())?.load(A);
                if found == value { Ok(()) } else { Err(format!("{value} was acknowledged, {found} found")) }
            })
        });
    }
}

/// Laps of the log: a record of an earlier lap behind the newest record is never taken for its
/// successor.
#[test]
fn a_stale_record_of_an_earlier_lap_joins_no_chain() {
    let disk = RecordedDisk::new(&fresh()).unwrap();
    let media = open(&disk, Durability::Always).unwrap();
    for value in 1..200 {
        settle(&media, A + value % 3 * 64, value);
        if value % 13 == 0 {
            media.checkpoint().unwrap();
        }
        let image = RecordedDisk::new(&disk.content()).unwrap();
        let opened = open(&image, Durability::Always).unwrap();
        for lately in value.saturating_sub(2).max(1)..=value {
            assert_eq!(opened.load(A + lately % 3 * 64), lately);
        }
        opened.abandon();
    }
}

/// A bit flips in a record that was synced according to a later record or to the head: that is
/// damage, and the error says so.
#[test]
fn a_break_below_a_synced_mark_is_damage() {
    let disk = RecordedDisk::new(&fresh()).unwrap();
    let media = open(&disk, Durability::Always).unwrap();
    for value in 1..=3 {
        settle(&media, A, value);
    }
    media.abandon();
    let whole = disk.content();
    for record in 0..3 {
        for byte in [0, 4, 9, 20, 30, 40, 50, 64, 100] {
            let mut image = whole.clone();
            image[LOG_AT as usize + record * 512 + byte] ^= 4;
            let opened = open(&RecordedDisk::new(&image).unwrap(), Durability::Always);
            match (record, opened) {
                (0 | 1, Err(Error::Damaged(damage))) => {
                    assert_eq!(damage.offset, Some(LOG_AT + record as u64 * 512));
                    assert!(damage.detail.contains("synced"), "{damage}");
                }
                // No record proves that the last one was ever whole: it ends the log.
                (2, Ok(media)) => {
                    assert_eq!(media.load(A), 2);
                    media.abandon();
                }
                (_, opened) => panic!("record {record}, byte {byte}: {opened:?}"),
            }
        }
    }
}

/// A full disk refuses growth and no other operation; with free space, growth works again.
#[test]
fn a_full_disk_refuses_growth_and_harms_nothing() {
    let disk = RecordedDisk::new(&fresh()).unwrap();
    let media = open(&disk, Durability::Always).unwrap();
    settle(&media, A, 1);
    disk.limit(media.len());
    let refused = media.extend(media.len(), 4096).unwrap_err();
    assert!(matches!(&refused, Error::Io { source, .. } if source.raw_os_error() == Some(28)), "{refused}");
    let len = media.len();
    settle(&media, A, 2);
    media.checkpoint().unwrap();
    disk.heal();
    media.extend(len, 4096).unwrap();
    settle(&media, len, 3);
    media.abandon();
    let media = open(&disk, Durability::Always).unwrap();
    assert_eq!((media.load(A), media.load(len)), (2, 3));
}

/// The disk fills during a checkpoint (a file system that writes elsewhere): the store is poisoned,
/// and no acknowledged store is lost.
#[test]
fn a_full_disk_during_a_checkpoint_poisons_and_loses_nothing() {
    let disk = RecordedDisk::new(&fresh()).unwrap();
    let media = open(&disk, Durability::Always).unwrap();
    settle(&media, A, 1);
    settle(&media, B, 2);
    disk.fail(DiskCall::Write, 0, libc::ENOSPC);
    assert!(matches!(media.checkpoint(), Err(Error::Poisoned { .. })));
    disk.heal();
    drop(media);
    let media = open(&disk, Durability::Always).unwrap();
    assert_eq!((media.load(A), media.load(B)), (1, 2));
}

/// After the first failed sync every operation except reads is refused, for all threads and for
/// ever. No byte is written any more, by dropping neither; reopening in the same boot shows only
/// the content of the medium.
#[test]
fn a_failed_sync_poisons() {
    let disk = RecordedDisk::new(&fresh()).unwrap();
    let media = open(&disk, Durability::Always).unwrap();
    settle(&media, A, 1);
    media.store(A, 2);
    media.flush(A, 8);
    disk.fail(DiskCall::Sync, 0, libc::EIO);
    let poisoned = media.barrier().unwrap_err();
    assert!(matches!(poisoned, Error::Poisoned { .. }) && poisoned.to_string().contains("os error 5"), "{poisoned}");
    let events = disk.tape().events.len();
    let mark = media.mark();
    for refused in [media.barrier(), media.settle(mark), media.checkpoint(), media.close(), media.extend(A, 8)] {
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    }
    for at in (DATA..DATA + 8 * 4096).step_by(64) {
        media.flush(at, 64); // more than the log has space for: it does not wait for ever
    }
    assert_eq!(media.load(A), 2);
    drop(media);
    assert_eq!(disk.tape().events.len(), events, "a poisoned store writes nothing");
    let media = open(&disk, Durability::Always).unwrap();
    assert_eq!(media.load(A), 1, "the page cache shows 2, the medium never had it");
}

/// Every disk call of a program fails once. The program gets the error, no acknowledged store is
/// lost, and the rule holds: for a process that reopens at once, and for one that comes after a
/// power cut.
#[test]
fn the_nth_write_and_sync_fail() {
    let ops =
        [Store(A), Flush(A, 8), Barrier, Store(A), Flush(A, 8), Fence, Store(B), Flush(B, 8), Barrier, Checkpoint];
    let ops = [&ops[..], &[Store(B), Flush(B, 8), Fence, Store(A), Flush(A, 8), Barrier, Close]].concat();
    let new = crate::program::LEN;
    let grown = [Extend(new), Store(new + 128), Flush(new + 128, 8), Barrier, Die, Extend(new + 4096), Barrier];
    let longer =
        [&ops[..], &grown, &[Store(new), Flush(new, 8), Barrier, Die, Store(A), Flush(A, 8), Barrier]].concat();
    let plain = World::default();
    let (halves, zeros) = (World { halves: true, ..plain }, World { without_fallocate: true, ..plain });
    for (call, errno, world, ops, least) in [
        (DiskCall::Write, libc::EIO, plain, &ops, 6),
        (DiskCall::Sync, libc::EIO, plain, &ops, 6),
        (DiskCall::Write, libc::EIO, zeros, &longer, 12),
        (DiskCall::Sync, libc::EIO, zeros, &longer, 12),
        (DiskCall::Read, libc::EIO, plain, &longer, 6),
        (DiskCall::Allocate, libc::EIO, plain, &longer, 2),
        (DiskCall::Allocate, libc::ENOSPC, halves, &longer, 2),
        (DiskCall::Write, libc::ENOSPC, zeros, &longer, 12),
    ] {
        let program = Program { ops: ops.clone(), durability: Durability::Always, grows: false, world };
        for nth in 0.. {
            let disk = world.disk(&fresh());
            disk.fail(call, nth, errno);
            let (lives, outcome) = program.run_to_failure(&disk);
            if disk.calls(call) <= nth {
                outcome.unwrap();
                assert!(nth >= least, "{call:?} {nth}");
                break;
            }
            // Only the read of a page to be released may fail without an error: the process keeps
            // the page.
            assert!(outcome.is_err() || call == DiskCall::Read, "{call:?} {nth}");
            disk.heal();
            crate::program::explore_end("the_nth_write_and_sync_fail", &lives, &disk, nth)
                .unwrap_or_else(|failure| panic!("{call:?} {nth} failed: {failure}"));
        }
    }
}

/// A disk too full for the log refuses the first opening as `file`, and the store is what it was.
#[test]
fn a_disk_too_full_for_the_log_refuses_to_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let geometry = everbyte_media::Geometry { max: 128 << 10, len: 64 << 10, log_at: LOG_AT, log_len: LOG_LEN };
    let shm = everbyte_media::Options { backend: everbyte_media::BackendChoice::Shm, ..Default::default() };
    drop(OpenOptions::new(&path).create(geometry, &shm).unwrap());
    let disk = RecordedDisk::new(&std::fs::read(&path).unwrap()).unwrap();
    for call in [DiskCall::Allocate, DiskCall::Write] {
        disk.fail(call, 0, libc::ENOSPC);
        let refused = open(&disk, Durability::Always).unwrap_err();
        assert!(matches!(&refused, Error::Io { action: "allocate the log", .. }), "{refused}");
        disk.heal();
    }
    settle(&open(&disk, Durability::Always).unwrap(), A, 1);
}

/// The log is prepared in the first life as `file`: after any cut the store opens, and the log is
/// prepared again.
#[test]
fn the_first_preparation_of_the_log_may_be_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let geometry = everbyte_media::Geometry { max: 128 << 10, len: 64 << 10, log_at: LOG_AT, log_len: LOG_LEN };
    let shm = everbyte_media::Options { backend: everbyte_media::BackendChoice::Shm, ..Default::default() };
    let media = OpenOptions::new(&path).create(geometry, &shm).unwrap();
    media.store(A, 7);
    drop(media);
    let disk = RecordedDisk::new(&std::fs::read(&path).unwrap()).unwrap();
    open(&disk, Durability::Always).unwrap().abandon();
    let explored = PowerCut::new("the_first_preparation_of_the_log_may_be_cut").explore(&disk.tape(), |_, image| {
        let media = open(&image, Durability::Always).map_err(|error| error.to_string())?;
        settle(&media, B, 8);
        media.abandon();
        let media = open(&image, Durability::Always).map_err(|error| error.to_string())?;
        if (media.load(A), media.load(B)) == (7, 8) { Ok(()) } else { Err("lost".into()) }
    });
    explored.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Writers continue while the background thread checkpoints, many times around the log; cuts fall
/// anywhere in both.
#[test]
fn power_is_cut_while_the_background_thread_checkpoints_beside_writers() {
    let disk = RecordedDisk::new(&fresh()).unwrap();
    let options = everbyte_media::Options { background: true, ..options(Durability::Always) };
    let media = OpenOptions::new("recorded").on_disk(disk.clone()).open(&options).unwrap();
    let (pair, bulk) = (|thread: u64| A + thread * 4096, |thread: u64| DATA + 8192 + thread * 4096);
    settle(&media, DATA + 16384, 1);
    let first = media.mark();
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (media, disk) = (&media, &disk);
            scope.spawn(move || {
                for value in 1..=40 {
                    let _section = media.section();
                    media.store(pair(thread), value);
                    media.flush(pair(thread), 8);
                    media.fence();
                    // never without the first, flushed or not
                    media.store(pair(thread) + 64, value);
                    if value % 4 != 0 {
                        media.flush(pair(thread) + 64, 8);
                    }
                    media.flush(bulk(thread), 1024);
                    media.barrier().unwrap();
                    disk.note(thread << 32 | value);
                }
            });
        }
    });
    assert!(media.checkpointed(first), "the log has turned over");
    media.abandon();
    let cut = PowerCut::new("power_is_cut_while_the_background_thread_checkpoints_beside_writers").images_per_point(8);
    let explored = cut.explore(&disk.tape(), |cut, image: Arc<RecordedDisk>| {
        let media = open(&image, Durability::Always).map_err(|error| error.to_string())?;
        for thread in 0..2 {
            let acked = cut.notes.iter().filter(|&&note| note >> 32 == thread).map(|note| note & 0xff).max();
            let (first, second) = (media.load(pair(thread)), media.load(pair(thread) + 64));
            if first < acked.unwrap_or(0) || second > first || first > 40 {
                return Err(format!("thread {thread} was told {acked:?}, {first} and {second} found"));
            }
        }
        media.abandon();
        Ok(())
    });
    println!("{:?}", explored.unwrap_or_else(|failure| panic!("{failure}")));
}

/// Two threads store to words of one line and settle each its own: after any cut each finds its
/// acknowledged words.
#[test]
fn two_threads_flush_one_line() {
    let disk = RecordedDisk::new(&fresh()).unwrap();
    let media = open(&disk, Durability::Always).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (media, disk) = (&media, &disk);
            scope.spawn(move || {
                for value in 1..=30 {
                    settle(media, A + thread * 8, value);
                    disk.note(thread << 32 | value);
                }
            });
        }
    });
    media.abandon();
    let cut = PowerCut::new("two_threads_flush_one_line");
    let explored = cut.explore(&disk.tape(), |cut, image: Arc<RecordedDisk>| {
        let media = open(&image, Durability::Always).map_err(|error| error.to_string())?;
        for thread in 0..2 {
            let acked = cut.notes.iter().filter(|&&note| note >> 32 == thread).map(|note| note & 0xff).max();
            let found = media.load(A + thread * 8);
            if found < acked.unwrap_or(0) || found > 30 {
                return Err(format!("thread {thread} was told {acked:?}, {found} found"));
            }
        }
        media.abandon();
        Ok(())
    });
    explored.unwrap_or_else(|failure| panic!("{failure}"));
}
