//! A volume opened with relaxed commit: calls that let a file grow return before their last fence,
//! and are durable after a sync. The crash cases `fs-relaxed` hold what a crash leaves.

use crate::{make, root, store, volume};
use everbyte_fs::{OpenVolume, Volume};
use everbyte_media::Counts;
use everbyte_posix::{Files, FilesOptions, OpenFile, OpenFlags};
use everbyte_store::Store;

/// The volume of a store, opened with or without relaxed commit.
fn files(store: &Store, relaxed: bool, sync: bool) -> Files {
    let options = OpenVolume { relaxed, ..OpenVolume::default() };
    let volume = Volume::open_with(store.object("files").unwrap(), &options).unwrap();
    Files::new(volume, FilesOptions { sync, ..FilesOptions::default() })
}

/// The cost of one call.
fn cost(store: &Store, call: impl FnOnce()) -> Counts {
    let before = store.media().counts();
    call();
    store.media().counts() - before
}

fn bytes(file: &OpenFile) -> Vec<u8> {
    let mut bytes = vec![0; 2000];
    let len = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(len);
    bytes
}

#[test]
fn an_append_waits_for_one_fence_less_and_is_durable_after_a_sync() {
    let store = store();
    volume(&store, everbyte_fs::system_clock).close().unwrap();
    for (relaxed, fences) in [(false, 2), (true, 1)] {
        let files = files(&store, relaxed, false);
        let process = root(&files);
        let name = format!("relaxed-{relaxed}");
        let file = make(&process, &name, &[1; 1000]);
        let append = cost(&store, || _ = file.write_at(&[2; 50], 1000).unwrap());
        assert_eq!((append.fences, append.barriers), (fences, 0), "relaxed: {relaxed}");
        assert_eq!(bytes(&file), [vec![1; 1000], vec![2; 50]].concat(), "a read sees it at once");
        let overwrite = cost(&store, || _ = file.write_at(&[3; 10], 0).unwrap());
        assert!(overwrite.fences >= 2, "other writes wait for all of their fences");
        let sync = cost(&store, || file.sync().unwrap());
        assert_eq!((sync.fences, sync.barriers), (1, 1));
        drop((file, process));
        files.close().unwrap();
        // The next opening reads no inode: closing has saved what was left unfenced.
        let files = self::files(&store, false, false);
        let file = root(&files).open(name.as_str(), OpenFlags::empty(), 0).unwrap();
        assert_eq!(bytes(&file), [vec![3; 10], vec![1; 990], vec![2; 50]].concat());
        drop(file);
        files.close().unwrap();
    }
}

/// With `O_DSYNC`, and with the option of synced changes, an append is durable on return all the
/// same.
#[test]
fn synced_appends_are_durable_on_return() {
    let store = store();
    volume(&store, everbyte_fs::system_clock).close().unwrap();
    for sync in [false, true] {
        let files = files(&store, true, sync);
        let process = root(&files);
        let flags = OpenFlags::CREAT | OpenFlags::RDWR | if sync { OpenFlags::empty() } else { OpenFlags::DSYNC };
        let file = process.open("file", flags, 0o644).unwrap();
        let at = file.status().unwrap().size;
        file.write_at(&[1; 1000], at).unwrap();
        let append = cost(&store, || _ = file.write_at(&[2; 50], at + 1000).unwrap());
        assert_eq!((append.fences, append.barriers), (2, 1), "sync: {sync}");
        drop((file, process));
        files.close().unwrap();
    }
}
