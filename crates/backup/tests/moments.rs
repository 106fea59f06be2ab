//! Backups of stores that threads change meanwhile.

mod common;

use common::{Folder, again, all, object, put, word};
use everbyte_backup::{Options, Phase, RestoreOptions, backup, restore};
use everbyte_media::ViewOptions;
use everbyte_store::{CLUSTER, Store};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// On both kinds of backends: threads store two words in order, the second in another object; the
/// image has every word that was settled before, and never the second without the first.
#[test]
fn a_backup_beside_writers_has_what_was_settled_and_keeps_their_order() {
    for folder in Folder::both() {
        let store = folder.create("store");
        let (first, second) = (object(&store, "a", 64), object(&store, "b", 64));
        let (stop, settled) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (store, stop, settled) = (&store, &stop, &settled);
                scope.spawn(move || {
                    let mut round = 0;
                    while !stop.load(SeqCst) {
                        round += 1;
                        let at = (round * 37 + thread * 7) % 60 * CLUSTER + 8192 + thread * 4096;
                        put(store, first + at, round);
                        put(store, second + at, round);
                        put(store, first + 8192 + thread * 8 + 512, round);
                        store.media().barrier().unwrap();
                        if thread == 0 {
                            settled.store(round, SeqCst);
                        }
                    }
                });
            }
            for generation in 0..4 {
                while settled.load(SeqCst) < 50 * (generation + 1) {
                    std::thread::yield_now();
                }
                let before = settled.load(SeqCst);
                let file = folder.path(&format!("backup-{generation}"));
                let summary = backup(&store, &file, &Options::default(), &mut |_| {}).unwrap();
                assert!(summary.pause < Duration::from_secs(5) && summary.parent.is_none());
                let again = again(&folder, &[file], generation);
                let words = all(&again, 64);
                for (at, found) in &words["b"] {
                    let newest = words["a"].get(at).copied().unwrap_or(0);
                    assert!(newest >= *found, "at {at:#x}: b has {found} and a has {newest}");
                }
                assert!(word(&again, "a", 8192 + 512) >= before, "what was settled before");
            }
            stop.store(true, SeqCst);
        });
    }
}

/// A program that stores between any two pages that the backup copies: the image is the state at
/// its last report.
#[test]
fn a_page_that_changes_after_it_was_copied_is_copied_again() {
    for folder in Folder::both() {
        let store = folder.create("store");
        let at = object(&store, "a", 16);
        let options = Options { step: Some(1), ..Options::default() };
        let (mut round, mut last) = (0, 0);
        backup(&store, &folder.path("backup"), &options, &mut |progress| {
            round += 1;
            put(&store, at + 8192 + (round % 50) * 4096, round);
            store.media().barrier().unwrap();
            if progress.phase == Phase::Close {
                last = round;
            }
        })
        .unwrap();
        assert!(last > 20 && last == round, "{last} of {round}");
        let (ours, theirs) = (all(&store, 16), all(&again(&folder, &[folder.path("backup")], 0), 16));
        assert_eq!(ours, theirs);
    }
}

/// As above, through a second mapping of the pages, as a mapped file of several parts has one.
#[test]
fn a_page_that_changes_through_a_view_after_it_was_copied_is_copied_again() {
    let [folder, _] = Folder::both();
    let store = folder.create("store");
    let (at, media) = (object(&store, "a", 16), store.media());
    let parts = [(Some(at + 8192 + 25 * 4096), 25 * 4096), (Some(at + 8192), 25 * 4096)];
    let view = media.view(&parts, &ViewOptions::default()).unwrap().expect("shared memory has views");
    let options = Options { step: Some(1), ..Options::default() };
    let mut round = 0;
    backup(&store, &folder.path("backup"), &options, &mut |_| {
        round += 1;
        {
            let _section = media.section();
            view.store((round % 50) * 4096, round);
            view.flush((round % 50) * 4096, 8);
        }
        media.barrier().unwrap();
    })
    .unwrap();
    assert!(round > 20, "{round}");
    assert_eq!(all(&store, 16), all(&again(&folder, &[folder.path("backup")], 0), 16));
}

/// Pages that count as zeros after they were given back are zeros in the image, though they were
/// copied before.
#[test]
fn a_cluster_that_is_released_and_taken_again_is_of_zeros() {
    for folder in Folder::both() {
        let store = folder.create("store");
        let at = object(&store, "a", 32);
        for cluster in 1..32 {
            put(&store, at + cluster * CLUSTER + 512, 7);
        }
        store.media().barrier().unwrap();
        let keeper = store.object("a").unwrap();
        backup(&store, &folder.path("backup"), &Options::default(), &mut |progress| {
            if progress.phase == Phase::Close {
                keeper.release(at + CLUSTER..at + 32 * CLUSTER).unwrap();
                store.media().barrier().unwrap();
                store.trim().unwrap();
                keeper.back(at + CLUSTER..at + 32 * CLUSTER).unwrap();
                store.media().barrier().unwrap();
            }
        })
        .unwrap();
        drop(keeper);
        let again = again(&folder, &[folder.path("backup")], 0);
        for cluster in 1..32 {
            assert_eq!(word(&again, "a", cluster * CLUSTER + 512), 0);
        }
    }
}

#[test]
fn increments_over_three_generations_restore_each_of_them() {
    for folder in Folder::both() {
        let store = folder.create("store");
        let at = object(&store, "a", 64);
        let mut files = Vec::new();
        let mut states = Vec::new();
        for generation in 0..4_u64 {
            for index in 0..3 {
                put(&store, at + 8192 + (generation * 5 + index) * CLUSTER, generation + 1);
            }
            put(&store, at + 16384, if generation == 2 { 0 } else { 9 }); // a page of zeros, and back again
            store.media().barrier().unwrap();
            if generation == 1 {
                object(&store, "later", 4);
            }
            let path = folder.path(&format!("{generation}"));
            let options = Options { since: files.last().cloned(), ..Options::default() };
            let summary = backup(&store, &path, &options, &mut |_| {}).unwrap();
            assert_eq!(summary.parent.is_some(), generation > 0);
            if generation > 0 {
                assert!(summary.stored < 24, "only what changed: {}", summary.stored);
                assert!(summary.pages > summary.stored);
            }
            files.push(path);
            states.push(all(&store, 64));
        }
        for (generation, state) in states.iter().enumerate() {
            assert_eq!(all(&again(&folder, &files[..=generation], generation as u64), 64), *state);
        }
    }
}

#[test]
fn a_restored_store_keeps_its_identity_or_gets_a_new_one() {
    let [folder, _] = Folder::both();
    let store = folder.create("store");
    let at = object(&store, "a", 4);
    let identity = store.identity();
    let files = [folder.path("backup")];
    backup(&store, &files[0], &Options::default(), &mut |_| {}).unwrap();
    let renamed = RestoreOptions { new_identity: true, media: folder.options() };
    let restored = restore(&files, &folder.path("other"), &renamed, &mut |_| {}).unwrap();
    assert_ne!(restored.identity, identity);
    let beside = Store::open(&folder.path("other"), &folder.options()).unwrap();
    assert_eq!(beside.identity(), restored.identity);
    drop(beside);
    let kept = RestoreOptions { media: folder.options(), ..RestoreOptions::default() };
    let restored = restore(&files, &folder.path("same"), &kept, &mut |_| {}).unwrap();
    assert_eq!(restored.identity, identity);
    assert!(Store::open(&folder.path("same"), &folder.options()).is_err(), "beside its original");
    drop(store);
    let same = Store::open(&folder.path("same"), &folder.options()).unwrap();
    put(&same, at + 8192, 5);
    same.media().barrier().unwrap();
    let next = Options { since: Some(files[0].clone()), ..Options::default() };
    let summary = backup(&same, &folder.path("increment"), &next, &mut |_| {}).unwrap();
    assert!(summary.stored < 12, "the chain goes on: {}", summary.stored);
    let chain = [files[0].clone(), folder.path("increment")];
    let again = again(&folder, &chain, 1);
    assert_eq!(word(&again, "a", 8192), 5);
}

/// Every cluster of the restored store has its space on the disk: a store to one never meets a full
/// disk.
#[test]
fn clusters_of_zeros_have_their_space_in_a_restored_store() {
    for folder in Folder::both() {
        let store = folder.create("store");
        object(&store, "zeros", 64);
        backup(&store, &folder.path("backup"), &Options::default(), &mut |_| {}).unwrap();
        drop(store);
        let again = again(&folder, &[folder.path("backup")], 0);
        let blocks = again.media().path().metadata().unwrap().blocks();
        assert!(blocks * 512 >= 64 * CLUSTER, "{blocks} blocks");
        assert_eq!(again.objects().unwrap().len(), 1);
    }
}

/// A page that was copied with other bytes and has the parent's again at the moment of the image:
/// the newest copy in the file counts, not the one that is left out.
#[test]
fn a_page_that_changes_back_to_the_parents_bytes_has_these() {
    for folder in Folder::both() {
        let store = folder.create("store");
        let at = object(&store, "a", 4) + 8192;
        put(&store, at, 1);
        let files = [folder.path("whole"), folder.path("increment")];
        backup(&store, &files[0], &Options::default(), &mut |_| {}).unwrap();
        put(&store, at, 2);
        let since = Options { since: Some(files[0].clone()), ..Options::default() };
        backup(&store, &files[1], &since, &mut |progress| {
            if progress.phase == Phase::Close {
                put(&store, at, 1);
            }
        })
        .unwrap();
        assert_eq!(word(&again(&folder, &files, 0), "a", 8192), 1);
    }
}

/// Bytes that were flushed, and lie in the log alone: their pages are holes of the file, once the
/// system keeps no copy of them in memory.
#[test]
fn a_page_that_only_the_log_has_is_copied() {
    let folder = Folder::on_disk();
    let store = folder.create("store");
    let at = object(&store, "a", 32);
    put(&store, at + 20 * CLUSTER + 512, 5);
    let file = std::fs::File::open(store.media().path()).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    backup(&store, &folder.path("backup"), &Options::default(), &mut |_| {}).unwrap();
    assert_eq!(word(&again(&folder, &[folder.path("backup")], 0), "a", 20 * CLUSTER + 512), 5);
}
