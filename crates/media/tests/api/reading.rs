//! Opening for reading.

use everbyte_media::{BackendChoice, BackendKind, Error, Geometry, Media, OpenOptions, Options, Result};
use std::path::Path;

const AT: u64 = 2 << 20;

fn options(backend: BackendChoice) -> Options {
    Options { backend, ..Options::default() }
}

fn read(path: &Path, backend: BackendChoice) -> Result<Media> {
    OpenOptions::new(path).read_only().open(&options(backend))
}

fn choice(kind: BackendKind) -> BackendChoice {
    match kind {
        BackendKind::Pmem => BackendChoice::Pmem,
        BackendKind::Shm => BackendChoice::Shm,
        _ => BackendChoice::File,
    }
}

/// A descriptor that is open for reading alone tells the same of its file as one for writing: on
/// DAX the backend is `pmem`, and elsewhere `pmem` is refused. Copies are opened in both ways.
#[test]
fn reading_finds_the_backend_that_writing_finds() {
    let usual = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    for folder in [usual.path(), memory.path()] {
        let (path, copy) = (folder.join("store"), folder.join("copy"));
        let geometry = Geometry { max: 4 << 20, len: 4 << 20, log_at: 16 << 10, log_len: 64 << 10 };
        let media = OpenOptions::new(&path).create(geometry, &options(BackendChoice::Auto)).unwrap();
        let kind = media.kind();
        media.store(AT, 7);
        media.flush(AT, 8);
        media.barrier().unwrap();
        media.close().unwrap();
        drop(media);
        for backend in [BackendChoice::Auto, choice(kind)] {
            let media = read(&path, backend).unwrap();
            assert_eq!((media.kind(), media.load(AT)), (kind, 7));
            let copied = OpenOptions::new(&copy).create_copy(&path, &options(backend), &mut |_, _| ()).unwrap();
            assert_eq!((copied.kind(), copied.load(AT)), (kind, 7));
            drop(copied);
            std::fs::remove_file(&copy).unwrap();
        }
        if kind != BackendKind::Pmem {
            assert!(matches!(read(&path, BackendChoice::Pmem), Err(Error::Unsupported { .. })));
        }
    }
}
