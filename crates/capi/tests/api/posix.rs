//! C programs over `posix.h`: every call, the example, and stores that the command line makes.

use crate::programs::{compile, run, succeed, text};
use everbyte_fs::{Volume, VolumeOptions, layout};
use everbyte_media::{Checked, Options};
use everbyte_posix::{Files, FilesOptions, OpenFlags, User};
use everbyte_store::{CreateOptions, Store};

pub(crate) const PARTS: [&str; 6] = ["volumes", "bytes", "names", "attributes", "locks", "maps"];

#[test]
fn every_call_on_files_does_what_the_header_says() {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile("crates/capi/tests/c/posix.c", dir.path());
        for part in PARTS {
            succeed(&program, &dir.path().join(part), backend, &[part]);
        }
        succeed(&program, &dir.path().join("locks"), backend, &["again"]);
        succeed(&program, &dir.path().join("maps"), backend, &["mapped"]);
    }
}

/// Rust reads what C wrote: without a crash, and closed by the end of the process.
#[test]
fn files_outlive_their_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let program = compile("examples/c/files.c", dir.path());
    assert_eq!(succeed(&program, &path, "file", &["buy milk"]), "1: buy milk\n");
    assert_eq!(succeed(&program, &path, "file", &["call home"]), "1: buy milk\n2: call home\n");
    let store = Store::open(&path, &Options::default()).unwrap();
    let volume = Volume::open(store.object("notebook").unwrap()).unwrap();
    assert!(volume.recovery().saved, "it was closed");
    let files = Files::new(volume, FilesOptions::default());
    let page = files.process(User::root()).unwrap().open("/pages/002", OpenFlags::default(), 0).unwrap();
    let mut bytes = [0; 20];
    let len = page.read(&mut bytes).unwrap();
    assert_eq!(&bytes[..len], b"call home");
}

#[test]
fn a_volume_of_a_newer_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::create(&path, &CreateOptions { max: 1 << 30, ..CreateOptions::default() }).unwrap();
    let made = VolumeOptions { span: Some(64 << 20), ..VolumeOptions::default() };
    Volume::create(&store, "newer", &made).unwrap().close().unwrap();
    let (media, start) = (store.media(), store.object("newer").unwrap().prime().get());
    let head: layout::Head = media.get(start + layout::HEAD_AT);
    let newer = layout::Head { format: layout::FORMAT + 1, ..head }.sealed();
    for at in [layout::HEAD_AT, layout::HEAD_COPY_AT] {
        media.put(start + at, &newer);
        media.flush(start + at, size_of::<layout::Head>() as u64);
    }
    store.close().unwrap();
    drop(store);
    let program = compile("crates/capi/tests/c/posix.c", dir.path());
    succeed(&program, &path, "file", &["newer"]);
}

/// A store that is not bound to an address has volumes, and no objects for pointers.
#[test]
fn volumes_need_no_bound_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = CreateOptions { max: 1 << 30, ..CreateOptions::default() };
    let store = Store::create(&path, &options).unwrap();
    let made = VolumeOptions { span: Some(64 << 20), ..VolumeOptions::default() };
    Volume::create(&store, "notebook", &made).unwrap().close().unwrap();
    store.close().unwrap();
    drop(store);
    let program = compile("examples/c/files.c", dir.path());
    assert_eq!(succeed(&program, &path, "file", &["one"]), "1: one\n");
    let heapo = compile("crates/capi/tests/c/posix.c", dir.path());
    let refused = run(&heapo, &path, "file", &["volumes"]);
    assert!(!refused.status.success() && text(&refused).contains("create --bound"), "{}", text(&refused));
}
