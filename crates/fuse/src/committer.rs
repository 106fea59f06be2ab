//! [`Committer`]: the thread of a mount that makes all changes durable at intervals, on media whose
//! fences do not settle. It bounds the losses of programs that never call `fsync`, and of `syncfs`
//! and `sync`, which the kernel does not pass on.
//!
//! An interval in which nothing has changed writes nothing. A failed sync, which ends all changes
//! of the volume, ends the thread.

use crate::shared_files::SharedFiles;
use everbyte_posix::Files;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// Commits until it is dropped.
pub(crate) struct Committer {
    /// Is disconnected to end the thread.
    going: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// `None`: calls are durable when they return, the volume does not change, or its changes are
    /// to be durable by `fsync` alone.
    pub(crate) fn of(files: &SharedFiles, read_only: bool, interval: Option<Duration>) -> Option<Committer> {
        let interval = interval?;
        if read_only || files.with(|files| files.volume().object().media().fences_settle())? {
            return None;
        }
        let (going, is_going) = channel::<()>();
        let files = files.clone();
        let thread = spawn(move || {
            while is_going.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                // A failure is logged; all later changes fail with it.
                if !matches!(files.with_work(Files::settle), Some(Ok(()))) {
                    return;
                }
            }
        });
        Some(Committer { going: Some(going), thread: Some(thread) })
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        drop(self.going.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_fs::{Volume, VolumeOptions};
    use everbyte_media::{BackendChoice, Media, Options};
    use everbyte_posix::{FilesOptions, OpenFlags, User};
    use everbyte_store::{CreateOptions, FormatOptions, Store};

    const OFTEN: Option<Duration> = Some(Duration::from_millis(1));

    fn shared(store: &Store) -> SharedFiles {
        let options = VolumeOptions { span: Some(16 << 20), ..VolumeOptions::default() };
        let volume = Volume::create(store, "home", &options).unwrap();
        SharedFiles::new(Files::new(volume, FilesOptions::default()), Default::default())
    }

    /// A file that was not synced is in a copy of the store that was taken after an interval.
    #[test]
    fn changes_are_durable_after_an_interval() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
        let media =
            Options { backend: BackendChoice::File, background: false, log_bytes: 4 << 20, ..Options::default() };
        let options = CreateOptions { media: media.clone(), max: 256 << 20, ..CreateOptions::default() };
        let store = Store::create(&path, &options).unwrap();
        let files = shared(&store);
        let before = files.with(|files| {
            let process = files.process(User::root()).unwrap();
            let file = process.open("/a", OpenFlags::CREAT | OpenFlags::WRONLY, 0o600).unwrap();
            file.write(&[7; 5000]).unwrap();
            drop(file);
            files.volume().object().media().counts().syncs
        });
        let committer = Committer::of(&files, false, OFTEN).unwrap();
        let syncs = || files.with(|files| files.volume().object().media().counts().syncs);
        while syncs() == before {
            std::thread::yield_now();
        }
        drop(committer);
        let after = syncs();
        files.settle().unwrap();
        assert_eq!(syncs(), after, "nothing has changed");
        std::fs::copy(&path, &copy).unwrap();
        files.close().unwrap();
        store.close().unwrap();
        drop((files, store)); // a process has one store of an identity open
        let opened = Store::open(&copy, &media).unwrap();
        let volume = Volume::open(opened.object("home").unwrap()).unwrap();
        let found = volume.lookup(everbyte_fs::Ino::ROOT, b"a").unwrap().expect("the file is there");
        assert_eq!(volume.attributes(found).unwrap().size, 5000);
    }

    #[test]
    fn other_mounts_have_no_thread() {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let files = shared(&Store::format(media, &FormatOptions::default()).unwrap());
        assert!(Committer::of(&files, false, OFTEN).is_none(), "its fences settle");
        assert!(Committer::of(&files, false, None).is_none());
        assert!(Committer::of(&files, true, OFTEN).is_none());
    }
}
