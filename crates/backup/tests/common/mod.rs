//! Stores on both kinds of backends, with objects whose words tests count.
#![allow(dead_code, reason = "each test uses a part")]

use everbyte_backup::{RestoreOptions, restore};
use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CLUSTER, CreateOptions, Engine, Error, ObjectOptions, Store};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) struct Folder {
    directory: TempDir,
    backend: BackendChoice,
}

impl Folder {
    /// On shared memory, written in place; and on a disk, through a log.
    pub(crate) fn both() -> [Folder; 2] {
        let directory = || tempfile::tempdir_in("/dev/shm").unwrap();
        [BackendChoice::Shm, BackendChoice::File].map(|backend| Folder { directory: directory(), backend })
    }

    /// On the disk of the build, where space that was asked for is a hole until it is written.
    pub(crate) fn on_disk() -> Folder {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Folder { directory, backend: BackendChoice::File }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn options(&self) -> Options {
        Options { backend: self.backend, log_bytes: 4 << 20, log_room: 1 << 20, ..Options::default() }
    }

    pub(crate) fn create(&self, name: &str) -> Store {
        let options = CreateOptions { media: self.options(), max: 1 << 30, ..CreateOptions::default() };
        Store::create(&self.path(name), &options).unwrap()
    }
}

/// Makes an object of that many clusters; its first offset.
pub(crate) fn object(store: &Store, name: &str, clusters: u64) -> u64 {
    let options =
        ObjectOptions { engine: Engine::None, fingerprint: 5, span: Some(clusters.next_power_of_two() * CLUSTER) };
    let made = store.create_object(name, options, |object| {
        object.grow((clusters - 1) * CLUSTER).map(drop)?;
        Ok::<(), Error>(())
    });
    made.unwrap().prime().get()
}

/// Stores and flushes a word in a section, then fences.
pub(crate) fn put(store: &Store, at: u64, value: u64) {
    let media = store.media();
    {
        let _section = media.section();
        media.store(at, value);
        media.flush(at, 8);
    }
    media.fence();
}

/// Restores a chain, opens it, and finds it whole.
pub(crate) fn again(folder: &Folder, files: &[PathBuf], number: u64) -> Store {
    let path = folder.path(&format!("again-{number}"));
    let options = RestoreOptions { new_identity: true, media: folder.options() };
    let restored = restore(files, &path, &options, &mut |_| {}).unwrap();
    assert!(restored.findings.is_empty(), "{:?}", restored.findings);
    let store = Store::open(&path, &folder.options()).unwrap();
    assert!(store.check().is_empty(), "{:?}", store.check());
    store
}

pub(crate) fn word(store: &Store, name: &str, at: u64) -> u64 {
    let object = store.object(name).unwrap();
    store.media().load(object.prime() + at)
}

/// The words of all objects behind their prime pages that are not 0, by offset in the object.
pub(crate) fn all(store: &Store, clusters: u64) -> BTreeMap<String, BTreeMap<u64, u64>> {
    let mut all = BTreeMap::new();
    for info in store.objects().unwrap() {
        let object = store.object(&info.name).unwrap();
        let end = object.backed().get().min(object.prime().get() + clusters * CLUSTER);
        let words = (object.prime().get() + 4096..end).step_by(8).map(|at| (at, store.media().load(at)));
        let words = words.filter(|(_, word)| *word != 0).map(|(at, word)| (at - object.prime().get(), word));
        all.insert(info.name, words.collect());
    }
    all
}
