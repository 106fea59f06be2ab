//! The log grows: after any cut the old ring or the new one is found, and in it every acknowledged
//! record.

use crate::program::{DATA, LEN, LOG_LEN, Op, Op::*, Program, World, explore, growing, linear, open, options};
use crate::traps::{finds, settle};
use everbyte_media::{BackendChoice, Durability, Geometry, Media, OpenOptions, Options};
use everbyte_sim::{DiskCall, PowerCut, PowerReport, RecordedDisk};
use std::sync::Arc;

/// One record of one sector, on one of sixteen pages: pages cost more than records.
fn put(number: u64) -> [Op; 3] {
    let at = DATA + number % 15 * 4096;
    [Store(at), Flush(at, 8), Barrier]
}

fn puts(count: u64) -> Vec<Op> {
    (0..count).flat_map(put).collect()
}

/// Settles as [`put`] does; the words count the puts.
fn load(media: &Media, puts: std::ops::Range<u64>) {
    puts.for_each(|put| settle(media, DATA + put % 15 * 4096, put + 1));
}

/// The required content after that many puts.
fn check(media: &Media, puts: u64) {
    for put in puts.saturating_sub(15)..puts {
        assert_eq!(media.load(DATA + put % 15 * 4096), put + 1);
    }
}

/// The log fills, a checkpoint grows it, and later records lie beyond the old ring. A head with the
/// new length loses acknowledged records if it comes too early, while records still use the old
/// ring, or too late, after they lie beyond it.
#[test]
fn the_log_grows_and_every_head_finds_its_records() {
    let ops = [puts(30), vec![Checkpoint], puts(40), vec![Die], puts(5)].concat();
    let program = Program { ops, durability: Durability::Always, grows: true, world: World::default() };
    let disk = RecordedDisk::new(&program.image()).unwrap();
    program.run(&disk).unwrap();
    assert_eq!(open(&disk, Durability::Always).unwrap().log_room(), 2 * LOG_LEN);
    for bug in ["media-room-early", "media-room-late"] {
        finds(bug, || explore("the_log_grows_and_every_head_finds_its_records", &program, 1));
    }
}

/// The checkpoint that would grow the log has just written a record that passes the ring's end: its
/// second half lies at the beginning of the old ring, and the new ring has it elsewhere.
#[test]
fn the_log_does_not_grow_while_a_record_passes_its_end() {
    let fill = [Store(DATA + 1024), Flush(DATA, 2048), Flush(DATA + 2048, 2048), Barrier];
    // 3 KiB, 12.5 KiB, 4 KiB
    let ops = [puts(6), vec![Checkpoint], puts(25), fill.to_vec(), puts(6)].concat();
    let program = Program { ops, durability: Durability::Always, grows: true, world: World::default() };
    finds("media-room-in-two-pieces", || explore("the_log_does_not_grow_while_a_record_passes_its_end", &program, 1));
}

/// Only load grows the log: a hot page does not, since its checkpoints are cheap, and neither do
/// records that checkpoints remove often. It never passes its end.
#[test]
fn load_grows_the_log_to_its_end_and_hot_pages_do_not() {
    let disk = RecordedDisk::new(&growing()).unwrap();
    let media = open(&disk, Durability::Always).unwrap();
    for round in 0..8 {
        (0..20).for_each(|value| settle(&media, DATA, round * 20 + value));
        media.checkpoint().unwrap();
    }
    for round in 0..8 {
        load(&media, round * 10..round * 10 + 10);
        media.checkpoint().unwrap();
    }
    assert_eq!(media.log_room(), LOG_LEN);
    for round in 4..8 {
        load(&media, round * 20..round * 20 + 20);
        media.checkpoint().unwrap();
    }
    assert_eq!(media.log_room(), 2 * LOG_LEN);
    load(&media, 160..500);
    assert_eq!(media.log_room(), 2 * LOG_LEN);
    media.abandon();
    let media = open(&disk, Durability::Always).unwrap();
    assert_eq!(media.log_room(), 2 * LOG_LEN);
    check(&media, 500);
}

/// A disk too full for a larger log leaves the smaller one in use; with free space the log grows.
#[test]
fn a_disk_too_full_for_a_larger_log_harms_nothing() {
    for call in [DiskCall::Allocate, DiskCall::Write] {
        let disk = RecordedDisk::new(&growing()).unwrap();
        let media = open(&disk, Durability::Always).unwrap();
        load(&media, 0..20);
        // The checkpoint allocates no space, and writes fifteen pages, one run each, and a head.
        disk.fail(call, if call == DiskCall::Write { 2 } else { 0 }, libc::ENOSPC);
        media.checkpoint().unwrap();
        disk.heal();
        assert_eq!(media.log_room(), LOG_LEN, "{call:?}");
        load(&media, 20..40);
        media.checkpoint().unwrap();
        assert_eq!(media.log_room(), 2 * LOG_LEN, "{call:?}");
        load(&media, 40..60);
        media.abandon();
        check(&open(&disk, Durability::Always).unwrap(), 60);
    }
}

/// The background thread grows the log while two threads write; cuts fall anywhere.
#[test]
fn the_background_thread_grows_the_log_beside_writers() {
    let disk = RecordedDisk::new(&growing()).unwrap();
    let options = Options { background: true, ..options(Durability::Always) };
    let media = OpenOptions::new("recorded").on_disk(disk.clone()).open(&options).unwrap();
    let word = |thread: u64, page: u64| DATA + page * 4096 + thread * 64;
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (media, disk) = (&media, &disk);
            scope.spawn(move || {
                for value in 1.. {
                    settle(media, word(thread, value % 15), value);
                    disk.note(thread << 32 | value);
                    if value >= 60 && media.log_room() > LOG_LEN {
                        return;
                    }
                }
            });
        }
    });
    (1..=20).for_each(|value| settle(&media, DATA + 8, value)); // in the larger ring
    media.abandon();
    let cut = PowerCut::new("the_background_thread_grows_the_log_beside_writers").images_per_point(8);
    let explored = cut.explore(&disk.tape(), |cut, image: Arc<RecordedDisk>| {
        let media = open(&image, Durability::Always).map_err(|error| error.to_string())?;
        for thread in 0..2 {
            let notes = cut.notes.iter().filter(|&&note| note >> 32 == thread);
            let acked = notes.map(|note| note & 0xffff_ffff).max().unwrap_or(0);
            for value in acked.saturating_sub(14).max(1)..=acked {
                let found = media.load(word(thread, value % 15));
                if found < value {
                    return Err(format!("thread {thread} was told {value}, {found} found"));
                }
            }
        }
        media.abandon();
        Ok(())
    });
    println!("{:?}", explored.unwrap_or_else(|failure| panic!("{failure}")));
}

/// A new store takes the bytes of its ring from the disk, and not the largest length of its log.
#[test]
fn a_new_store_takes_little_of_its_disk() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let geometry = Geometry { max: 128 << 20, len: 64 << 20, log_at: 16 << 10, log_len: 32 << 20 };
    let options = Options { backend: BackendChoice::File, log_room: 1 << 20, ..Options::default() };
    let media = OpenOptions::new(&path).create(geometry, &options).unwrap();
    let taken = || std::fs::metadata(&path).unwrap().blocks() * 512;
    assert_eq!(media.log_room(), 1 << 20);
    assert!((1 << 20..3 << 19).contains(&taken()), "{}", taken());
    assert_eq!(Options::default().log_room, 16 << 20);
}

/// Another thread lets the file grow between any two calls of a checkpoint. The head of that
/// checkpoint reaches the medium, and the growth need not: a power cut then leaves a file that is
/// as long as its head says, or longer.
#[test]
fn a_head_never_promises_a_length_that_a_power_cut_takes_back() {
    let program = |disk: &Arc<RecordedDisk>, step: Option<u64>| {
        let media = open(disk, Durability::Always).unwrap();
        settle(&media, DATA, 7);
        disk.note(1);
        if let Some(step) = step {
            disk.grow_before(step, LEN + 8192);
        }
        let before = disk.steps();
        media.checkpoint().unwrap();
        settle(&media, DATA + 64, 8);
        media.abandon();
        disk.steps() - before
    };
    let steps = program(&RecordedDisk::new(&linear()).unwrap(), None);
    assert!(steps >= 6);
    finds("media-measure-after-sync", || {
        let mut all = PowerReport::default();
        for step in 0..steps {
            let disk = RecordedDisk::new(&linear()).unwrap();
            program(&disk, Some(step));
            let cut = PowerCut::new("a_head_never_promises_a_length_that_a_power_cut_takes_back");
            let report = cut.explore(&disk.tape(), |cut, image: Arc<RecordedDisk>| {
                let media = open(&image, Durability::Always).map_err(|error| format!("growth {step}: {error}"))?;
                let found = media.load(DATA);
                media.abandon();
                if cut.notes.is_empty() || found == 7 { Ok(()) } else { Err(format!("growth {step}: {found}")) }
            })?;
            all.images += report.images;
        }
        Ok(all)
    });
}
