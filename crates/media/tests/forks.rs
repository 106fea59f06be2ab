//! Forked children that outlive the store in the parent: they keep no descriptor and no lock of it.

use everbyte_media::{BackendChoice, Geometry, Media, OpenOptions, Options, disk_alone};
use std::fs::File;
use std::path::Path;

fn options(backend: BackendChoice) -> Options {
    Options { backend, ..Options::default() }
}

fn create(path: &Path, backend: BackendChoice) -> Media {
    let geometry = Geometry { max: 64 << 20, len: 1 << 20, log_at: 16 << 10, log_len: 64 << 10 };
    OpenOptions::new(path).create(geometry, &options(backend)).unwrap()
}

/// A forked child, killed when the value is dropped.
struct Child(i32);

impl Child {
    fn fork() -> Child {
        // SAFETY: the child waits for signals and needs no lock that another thread holds.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            loop {
                // SAFETY: the function has no conditions.
                unsafe { libc::pause() };
            }
        }
        Child(child)
    }

    fn is_alive(&self) -> bool {
        // SAFETY: asks for the state of our own child without waiting.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), libc::WNOHANG) == 0 }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our own child, for which no other thread waits.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        // SAFETY: as above.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

#[test]
fn a_child_that_lives_on_keeps_no_store_from_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let media = create(&path, BackendChoice::File);
    let child = Child::fork();
    let others = || OpenOptions::new(&path).open(&options(BackendChoice::File));
    assert!(others().is_err(), "while the process that opened it lives");
    drop(media);
    drop(others().unwrap());
    assert!(child.is_alive());

    let path = dir.path().join("shared");
    drop(create(&path, BackendChoice::Shm));
    let (media, joining) = OpenOptions::new(&path).open_shared(&options(BackendChoice::Shm)).unwrap();
    let member = joining.unwrap().join(1).unwrap();
    let child = Child::fork();
    let others = || OpenOptions::new(&path).open(&options(BackendChoice::Shm));
    assert!(others().is_err(), "while a user lives");
    drop((member, media));
    drop(others().unwrap());
    assert!(child.is_alive());

    // such as the file of an object that is larger than its memory
    let path = dir.path().join("beside");
    let file = || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    let take = || disk_alone(file(), &path);
    let disk = take().unwrap();
    let child = Child::fork();
    assert!(take().is_err());
    drop(disk);
    drop(take().unwrap());
    assert!(child.is_alive());
}
