//! Chunks of the file on shared mappings: a process finds the chunks that another process has made,
//! with or without a refresh.

use everbyte_media::{BackendChoice, Disk, Geometry, Media, OpenOptions, Options, file_offset};
use everbyte_members::Membership;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

const LEN: u64 = 64 << 10;
const MAX: u64 = 1 << 42;
const FAR: u64 = 1 << 41;

fn options() -> Options {
    Options { backend: BackendChoice::Shm, ..Options::default() }
}

fn create(path: &Path) -> Media {
    let geometry = Geometry { max: MAX, len: LEN, log_at: 16 << 10, log_len: 16 << 10 };
    OpenOptions::new(path).create(geometry, &options()).unwrap()
}

fn join(path: &Path, token: u32) -> (Media, Arc<Membership>) {
    let (media, joining) = OpenOptions::new(path).open_shared(&options()).unwrap();
    (media, Arc::new(joining.expect("shm is shared").join(token).unwrap()))
}

fn len(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

#[test]
fn ranges_far_apart_are_found_again_in_a_short_file() {
    for backend in [BackendChoice::Shm, BackendChoice::File] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        drop(create(&path));
        let options = Options { backend, log_room: 16 << 10, ..Options::default() };
        let media = OpenOptions::new(&path).open(&options).unwrap();
        let places: Vec<u64> = (0..300).map(|index| FAR + index / 3 * (1 << 32) + index % 3 * (64 << 10)).collect();
        for &at in &places {
            media.extend(at, 64 << 10).unwrap();
            let _section = media.section();
            media.store(at + 8, at);
            media.flush(at + 8, 8);
        }
        media.barrier().unwrap();
        media.close().unwrap();
        drop(media);
        assert!(len(&path) < 2 * 300 * (64 << 10) + (2 << 20), "{backend:?}: {}", len(&path));
        for open in [OpenOptions::read_only, |plain| plain] {
            let media = open(OpenOptions::new(&path)).open(&options).unwrap();
            places.iter().for_each(|&at| assert_eq!((media.load(at + 8), media.load(at)), (at, 0), "{at:#x}"));
            assert_eq!(media.load(FAR + (1 << 31)), 0, "no byte was ever backed there");
        }
        assert_eq!(file_offset(&path, FAR + (1 << 31)).unwrap(), None);
        assert!(file_offset(&path, places[7]).unwrap().unwrap() < len(&path));
    }
}

/// One process makes chunks, the other follows a pointer before it has read the map: as a word, as
/// bytes, and from two threads.
#[test]
fn a_pointer_to_a_chunk_that_another_process_made_is_followed() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("store");
    drop(create(&path));
    let ((one, _first), (two, _second)) = (join(&path, 1), join(&path, 2));
    one.extend(FAR + (1 << 40), 4096).unwrap();
    two.refresh().unwrap(); // raises the backed length
    for index in 0..200 {
        let at = FAR + index * (1 << 30);
        one.extend(at, 8192).unwrap();
        one.store(at + 4096, index + 1);
        match index % 3 {
            0 => assert_eq!(two.load(at + 4096), index + 1),
            1 => assert_eq!(two.read_vec(at + 4096, 8), (index + 1).to_le_bytes()),
            _ => std::thread::scope(|scope| {
                (0..2).for_each(|_| drop(scope.spawn(|| assert_eq!(two.load(at + 4096), index + 1))));
            }),
        }
        two.store(at, index + 7);
        assert_eq!(one.load(at), index + 7, "both are one memory");
    }
    assert_eq!(two.load(FAR + (1 << 29)), 0, "no byte was ever backed there");
    // Both make chunks alternately, and no two chunks share bytes of the file.
    for index in 0..100 {
        for (media, at) in [(&one, 1 << 36), (&two, 1 << 37)] {
            media.extend(at + index * (1 << 24), 4096).unwrap();
            media.store(at + index * (1 << 24), at + index);
        }
    }
    for index in 0..100 {
        for at in [1 << 36, 1 << 37] {
            assert_eq!([one.load(at + index * (1 << 24)), two.load(at + index * (1 << 24))], [at + index; 2]);
        }
    }
}

/// As many chunks as four segments of the map have slots.
#[test]
fn a_map_has_as_many_segments_as_it_needs() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("store");
    let media = create(&path);
    for index in 0..400 {
        media.extend(FAR + index * (1 << 30), 4096).unwrap();
        media.store(FAR + index * (1 << 30), index);
    }
    drop(media);
    let media = OpenOptions::new(&path).open(&options()).unwrap();
    (0..400).for_each(|index| assert_eq!(media.load(FAR + index * (1 << 30)), index));
    assert!(len(&path) < 2 * 400 * (64 << 10), "{}", len(&path));
}

/// A process dies after the first copy of a slot. The next one that makes a chunk writes the second
/// copy before its own slot: a third process looks for new chunks behind it.
#[test]
fn a_slot_that_a_dead_process_left_half_written_hides_no_later_chunk() {
    let news = |bug: &'static str| {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("store");
        drop(create(&path));
        let ((one, _first), (two, _second)) = (join(&path, 1), join(&path, 2));
        let ((three, _third), far) = (join(&path, 3), |index: u64| FAR + index * (1 << 30));
        one.extend(FAR + (1 << 40), 4096).unwrap();
        [&two, &three].iter().for_each(|media| media.refresh().unwrap());
        everbyte_media::museum::with("media-chunk-one-copy", || one.extend(far(1), 4096)).unwrap();
        everbyte_media::museum::with(bug, || two.extend(far(2), 4096)).unwrap();
        two.store(far(2), 7);
        three.refresh().unwrap();
        three.load(far(2))
    };
    assert_eq!(news("none"), 7);
    assert_eq!(news("media-chunk-left-half"), 0, "the seeded bug is found");
}

/// The system refuses to unmap a chunk that is being freed, as near its limit on mappings: the map
/// still has the chunk, so no other one takes its offsets.
#[test]
fn a_chunk_that_cannot_be_unmapped_is_not_freed() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("store");
    let media = create(&path);
    for at in [FAR, FAR + (1 << 30)] {
        media.extend(at, 4096).unwrap();
        media.store(at, at);
    }
    let freed = everbyte_media::museum::with("media-hide-refused", || media.free_chunks(&|range| range.start == FAR));
    freed.unwrap_err();
    let refused = media.extend(FAR, 8192).expect_err("a mapping may lack the chunk").to_string();
    assert!(refused.contains("failed earlier"), "{refused}");
    media.extend(FAR + (1 << 30), 8192).expect("every mapping has that one");
    assert_eq!(media.load(FAR + (1 << 30)), FAR + (1 << 30));
    drop(media);
    let media = OpenOptions::new(&path).open(&options()).unwrap();
    assert_eq!(media.load(FAR + (1 << 30)), FAR + (1 << 30));
    assert_eq!(media.free_chunks(&|range| range.start == FAR).unwrap(), 64 << 10);
    media.extend(FAR, 8192).unwrap();
    assert_eq!(media.load(FAR), 0);
}

/// A file on a disk with one free MiB. As some file systems do, it reserves more than that without
/// an error.
struct NearlyFull(File);

impl Disk for NearlyFull {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        Disk::read_at(&self.0, at, into)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        Disk::write_at(&self.0, at, bytes)
    }

    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        Disk::write_sync_at(&self.0, at, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Disk::sync(&self.0)
    }

    fn len(&self) -> io::Result<u64> {
        Disk::len(&self.0)
    }

    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        Disk::allocate(&self.0, at, len)
    }

    fn lengthen(&self, len: u64) -> io::Result<()> {
        Disk::lengthen(&self.0, len)
    }

    fn free(&self) -> io::Result<u64> {
        Ok(1 << 20)
    }

    fn punch(&self, at: u64, len: u64) {
        Disk::punch(&self.0, at, len);
    }

    fn mappable(&self) -> BorrowedFd<'_> {
        Disk::mappable(&self.0)
    }
}

/// A growth that the file system has no space for leaves the length of the file unchanged. (A limit
/// on the length of files: `a_limit_on_the_size_of_files_is_an_error_and_no_signal`.)
#[test]
fn a_refused_growth_does_not_lengthen_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    drop(create(&path));
    let disk = Arc::new(NearlyFull(File::options().read(true).write(true).open(&path).unwrap()));
    let media =
        OpenOptions::new(&path).on_disk(disk).open(&Options { log_room: 16 << 10, ..Options::default() }).unwrap();
    let before = len(&path);
    let refused = media.extend(FAR, 4 << 20).unwrap_err();
    assert!(refused.to_string().contains("No space left"), "{refused}");
    assert_eq!(len(&path), before);
    media.extend(FAR, 4096).unwrap();
}

/// The limit counts space on the disk, not offsets: ranges that lie far apart have as much of it as
/// adjacent ones, and the log has its reserve.
#[test]
fn space_beyond_the_limit_is_refused_at_every_offset() {
    let grows = |backend| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let geometry = Geometry { max: MAX, len: LEN, log_at: 16 << 20, log_len: 2 << 20 };
        drop(OpenOptions::new(&path).create(geometry, &options()).unwrap());
        let options = Options { backend, log_room: 16 << 10, ..Options::default() };
        let media = OpenOptions::new(&path).open(&options).unwrap();
        media.limit_room(8 << 20);
        let refused = |index: &u64| media.extend(FAR + index * (1 << 30), 1 << 20).is_err();
        let count = (0..20).find(refused).unwrap_or(20);
        media.limit_room(10 << 20);
        (count, media.extend(FAR + count * (1 << 30), 1 << 20).is_ok())
    };
    assert_eq!(grows(BackendChoice::Shm), (7, true));
    assert_eq!(grows(BackendChoice::File), (6, true), "two MiB are for the log");
    let unlimited = everbyte_media::museum::with("media-no-limit", || grows(BackendChoice::Shm));
    assert_eq!(unlimited.0, 20, "the seeded bug is found");
}
