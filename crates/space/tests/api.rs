//! Backing, releasing, keeping and preparing clusters, through the public interface.

mod common;

use common::{FIRST, OWNED, back, space};
use everbyte_media::{BackendChoice, Geometry, Media, OpenOptions, Options};
use everbyte_space::{Bitmap, CLUSTER, KEPT_MAX, PREPARED_MAX, Space, SpaceLayout};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// `count` clusters from the first.
fn clusters(count: u64) -> Range<u64> {
    FIRST..FIRST + count * CLUSTER
}

fn zero_all(space: &Space) {
    while space.zero_next() {}
}

#[test]
fn a_reused_cluster_reads_as_zeros() {
    let space = space();
    let range = clusters(2);
    back(&space, range.clone());
    space.media().write(FIRST + CLUSTER + 5, b"secret");
    space.release(&range);
    assert!(!space.is_backed(FIRST));
    back(&space, range);
    assert_eq!(space.media().read_vec(FIRST + CLUSTER + 8, 64), [0; 64]);
    assert_eq!(space.waiting(), 0, "SPACE-4: reserved again, so no longer waiting for a hole");
}

#[test]
fn a_fresh_cluster_costs_no_zeroing_and_a_suspect_one_does() {
    let space = space();
    let lines = || space.media().counts().lines;
    let before = lines();
    let zeroed = space.reserve(&clusters(1)).unwrap();
    space.prepare(&clusters(1), &zeroed);
    space.set_backed(&clusters(1));
    assert!(lines() - before <= 2, "two bitmap words");
    let suspect = FIRST + 5 * CLUSTER;
    space.suspect(suspect - 100..suspect + 1);
    space.media().write(suspect, b"x");
    space.media().write(suspect - 1, b"y");
    back(&space, FIRST + CLUSTER..FIRST + 8 * CLUSTER);
    assert_eq!(space.media().read_vec(suspect - 8, 8), [0; 8]);
}

#[test]
fn punching_gives_released_clusters_back_once() {
    let space = space();
    back(&space, clusters(8));
    space.release(&(FIRST + CLUSTER..FIRST + 3 * CLUSTER));
    space.release(&(FIRST + 5 * CLUSTER..FIRST + 6 * CLUSTER));
    assert_eq!(space.waiting(), 3 * CLUSTER);
    assert_eq!(space.trim().unwrap(), 3 * CLUSTER);
    assert_eq!(space.trim().unwrap(), 0);
    let backed = space.bitmap().set_runs(space.media(), 0..FIRST + 10 * CLUSTER);
    let [first, second, third] = [0..1, 3..5, 6..8].map(|run| FIRST + run.start * CLUSTER..FIRST + run.end * CLUSTER);
    assert_eq!(backed, [first, second, third]);
}

#[test]
fn a_zeroed_cluster_is_handed_out_without_zeroing() {
    let space = space();
    let range = clusters(4);
    back(&space, range.clone());
    assert_eq!(space.release_and_keep(&range), 4 * CLUSTER);
    (0..4).for_each(|_| assert!(space.zero_next()));
    assert!(!space.zero_next());
    assert_eq!(space.waiting(), 4 * CLUSTER, "released, and not given back");
    let before = space.media().counts().lines;
    back(&space, range.clone());
    assert!(space.media().counts().lines - before < 16, "the words of two bitmaps, and one of each cluster");
    assert_eq!(space.waiting(), 0);
    space.release(&range);
    assert!(!space.zero_next(), "a cluster that had an owner again is not zeroed any more (SPACE-5)");
}

#[test]
fn a_kept_cluster_that_is_not_zeroed_yet_is_zeroed_when_it_is_handed_out() {
    let space = space();
    let range = clusters(4);
    back(&space, range.clone());
    space.release_and_keep(&range);
    assert!(space.zero_next());
    back(&space, range.clone());
    space.release_and_keep(&range);
    assert!(space.zero_next());
    back(&space, range.start + CLUSTER..range.end);
    back(&space, range.start..range.start + CLUSTER);
}

#[test]
fn kept_clusters_stay_below_the_bound_and_can_all_be_given_back() {
    let space = space();
    let range = FIRST..FIRST + KEPT_MAX + 8 * CLUSTER;
    back(&space, range.clone());
    space.release_and_keep(&range);
    zero_all(&space);
    assert_eq!(space.waiting(), KEPT_MAX);
    assert_eq!((space.give_back(), space.waiting()), (KEPT_MAX, 0));
    back(&space, range.clone());
    space.release_and_keep(&range);
    assert!(space.zero_next());
    assert_eq!((space.trim().unwrap(), space.waiting()), (KEPT_MAX + 8 * CLUSTER, 0));
    back(&space, range);
}

/// An owner that releases all of its clusters may have released some before.
#[test]
fn a_cluster_released_twice_counts_once() {
    let space = space();
    let range = clusters(4);
    back(&space, range.clone());
    space.release_and_keep(&clusters(1));
    assert!(space.zero_next());
    space.release(&(FIRST + CLUSTER..FIRST + 2 * CLUSTER));
    assert_eq!(space.release_and_keep(&range), 2 * CLUSTER);
    assert_eq!(space.waiting(), 4 * CLUSTER);
    zero_all(&space);
    space.release(&range);
    assert_eq!((space.punch(), space.waiting()), (4 * CLUSTER, 0), "no hole counts as zeroed (SPACE-2)");
    back(&space, range);
}

#[test]
fn prepared_clusters_are_reserved_without_asking_the_file_system() {
    let space = space();
    let range = clusters(6);
    assert!(space.want(&range) && !space.want(&range), "wanted once");
    zero_all(&space);
    assert_eq!(space.waiting(), 6 * CLUSTER);
    let before = space.media().counts().lines;
    back(&space, range.clone());
    assert!(space.media().counts().lines - before < 16, "nothing is zeroed");
    assert!(!space.want(&range), "the clusters have an owner");
}

#[test]
fn a_used_cluster_is_prepared_with_zeros() {
    let space = space();
    let range = clusters(2);
    back(&space, range.clone());
    space.release(&range);
    assert_eq!(space.trim().unwrap(), 2 * CLUSTER);
    assert!(space.want(&range) && space.zero_next());
    let before = space.media().counts().lines;
    back(&space, range);
    assert!(space.media().counts().lines - before < 16, "zeroed before");
}

#[test]
fn a_reserved_cluster_is_not_wanted_any_more_and_prepared_ones_can_be_given_back() {
    let space = space();
    let range = clusters(8);
    assert!(space.want(&range));
    back(&space, clusters(1));
    zero_all(&space);
    assert_eq!(space.waiting(), 7 * CLUSTER, "SPACE-6");
    assert_eq!((space.give_back(), space.waiting()), (7 * CLUSTER, 0));
    assert_eq!(space.media().load(FIRST), OWNED, "the owner still has its cluster");
    assert!(space.want(&range));
    space.give_back();
    assert!(!space.zero_next(), "file space was short");
    assert!(!space.want(&(FIRST..FIRST + PREPARED_MAX + 2 * CLUSTER)), "more than is prepared at most");
}

/// The bytes of a former owner do not reach the owner of a cluster's first part with the rest.
#[test]
fn the_rest_of_a_cluster_is_zeroed_when_it_is_completed() {
    const PART: u64 = 4096;
    let (space, range) = (space(), clusters(1));
    back(&space, range.clone());
    space.media().write(FIRST + PART, &[9; 256]);
    space.media().write(FIRST + CLUSTER - 256, &[9; 256]);
    space.release(&range);
    space.reserve_part(&range, &(FIRST..FIRST + PART)).unwrap();
    space.prepare_part(&range, PART);
    space.set_backed(&range);
    let lines = space.media().counts().lines;
    space.complete(&(FIRST + PART..FIRST + CLUSTER)).unwrap();
    assert_eq!(space.media().read_vec(FIRST, CLUSTER as usize), vec![0; CLUSTER as usize]);
    assert_eq!(space.media().counts().lines - lines, (CLUSTER - PART) / 64, "and flushed");
}

/// Prepared clusters hold file space that no bit speaks for: a sweep gives it back, and memory no
/// longer takes them for zeros that have their space.
#[test]
fn swept_clusters_are_prepared_no_more() {
    let (space, range) = (space(), clusters(4));
    assert!(space.want(&range));
    zero_all(&space);
    assert_eq!(space.waiting(), 4 * CLUSTER);
    space.sweep(&range);
    assert_eq!(space.waiting(), 0);
    assert!(space.want(&range), "they have no state");
}

/// An owner that uses a part of a prepared cluster leaves the rest of its file space to others.
#[test]
fn a_part_of_a_prepared_cluster_takes_no_more_space_than_the_part() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options { backend: BackendChoice::Shm, ..Options::default() };
    let geometry = Geometry { max: 64 << 20, len: FIRST, log_at: 512 << 10, log_len: 64 << 10 };
    let media = OpenOptions::new(dir.path().join("space")).create(geometry, &options).unwrap();
    let space = Space::new(media, SpaceLayout { bitmap_at: 16 << 10, used_at: 20 << 10, bitmap_len: 4096 });
    let (range, part) = (clusters(1), FIRST..FIRST + 4096);
    let data = || space.media().data(FIRST, CLUSTER).unwrap();
    assert!(space.want(&range) && space.zero_next());
    space.media().store(FIRST + CLUSTER - 8, 1); // also where the system maps no page for a load
    assert_ne!(data(), []);
    space.reserve_part(&range, &part).unwrap();
    assert!(data().iter().all(|data| data.end <= part.end), "{:x?}", data());
}

/// A page of a bitmap for which there was no space is asked for again by the next reservation.
#[test]
fn a_page_of_a_bitmap_that_got_no_space_is_not_known() {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let used_at = media.max(); // behind the end
    let space = Space::new(media, SpaceLayout { bitmap_at: 16 << 10, used_at, bitmap_len: 4096 });
    for _ in 0..2 {
        assert!(space.reserve(&clusters(1)).is_err());
    }
    assert_eq!(space.waiting(), 0);
}

/// Of clusters that are wanted and were not prepared yet, the newest count: the earlier ones leave
/// the map when the bound is reached.
#[test]
fn wanted_clusters_stay_below_the_bound() {
    let space = space();
    let half = PREPARED_MAX / 2;
    assert!(space.want(&(FIRST..FIRST + half)));
    assert!(space.want(&(FIRST + half..FIRST + half + PREPARED_MAX)), "as many as the bound");
    zero_all(&space);
    assert_eq!(space.waiting(), PREPARED_MAX);
    let before = space.media().counts().lines;
    back(&space, FIRST..FIRST + half + PREPARED_MAX);
    assert!(space.media().counts().lines - before < 64 + 3 * PREPARED_MAX / CLUSTER);
}

/// The last cluster that a bitmap has a bit for, and the first that it has none for.
#[test]
fn a_bitmap_ends_with_its_last_word() {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let bitmap = Bitmap::new(16 << 10, 4096);
    let end = bitmap.capacity();
    media.store(20u64 << 10, u64::MAX); // behind the bitmap: none of its words
    assert!(!bitmap.test(&media, end - CLUSTER) && !bitmap.test(&media, end));
    assert_eq!(bitmap.damaged(&media, end - CLUSTER..end + CLUSTER), Vec::<u64>::new());
    assert_eq!(bitmap.set_runs(&media, end - CLUSTER..end + CLUSTER), []);
}

/// Threads that back and release beside one that zeroes: no thread reads the bytes of another.
#[test]
fn threads_share_kept_clusters() {
    let (space, done) = (space(), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (space, done) = (&space, &done);
            scope.spawn(move || {
                let range = FIRST + number * 4 * CLUSTER..FIRST + (number + 1) * 4 * CLUSTER;
                for _ in 0..50 {
                    back(space, range.clone());
                    space.release_and_keep(&range);
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        while done.load(Ordering::SeqCst) < 3 {
            space.zero_next();
        }
    });
    zero_all(&space);
    assert_eq!(space.waiting(), 12 * CLUSTER);
}

/// Threads that grow, and want more each time, beside one that prepares: no thread loses its data.
#[test]
fn threads_grow_into_prepared_clusters() {
    const EACH: u64 = 64 * CLUSTER;
    let (space, done) = (space(), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (space, done) = (&space, &done);
            scope.spawn(move || {
                let end = FIRST + (number + 1) * EACH;
                for at in (end - EACH..end).step_by(CLUSTER as usize) {
                    back(space, at..at + CLUSTER);
                    space.want(&(at + CLUSTER..end.min(at + 9 * CLUSTER)));
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        while done.load(Ordering::SeqCst) < 3 {
            space.zero_next();
        }
    });
    space.trim().unwrap();
    let lost = (FIRST..FIRST + 3 * EACH).step_by(CLUSTER as usize).find(|&at| space.media().load(at) != OWNED);
    assert_eq!((lost, space.waiting()), (None, 0));
}
