//! [`Keeper`]: a thread of a mount that does upkeep of the volume: it seals data at rest, in volumes
//! that keep checksums, or makes all changes durable at intervals, on media whose fences do not
//! settle. The latter bounds the losses of programs that never call `fsync`, and of `syncfs` and
//! `sync`, which the kernel does not pass on.

use crate::shared_files::SharedFiles;
use everbyte_posix::Upkeep;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};

/// Works until it is dropped.
pub(crate) struct Keeper {
    /// Is disconnected to end the thread.
    going: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(crate) fn of(files: &SharedFiles, mut upkeep: Upkeep) -> Keeper {
        let (going, is_going) = channel::<()>();
        let files = files.clone();
        let thread = spawn(move || {
            let mut pause = Some(upkeep.first());
            while let Some(wait) = pause
                && is_going.recv_timeout(wait) == Err(RecvTimeoutError::Timeout)
            {
                pause = files.with_work(|files| upkeep.step(files)).flatten();
            }
        });
        Keeper { going: Some(going), thread: Some(thread) }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.going.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_fs::{SEAL_AFTER, Volume, VolumeOptions, system_clock};
    use everbyte_media::{BackendChoice, Media, Options};
    use everbyte_posix::{Files, FilesOptions, OpenFlags, User};
    use everbyte_store::{CreateOptions, FormatOptions, Store};
    use std::time::Duration;

    fn shared(volume: Volume) -> SharedFiles {
        SharedFiles::new(Files::new(volume, FilesOptions::default()), Default::default())
    }

    fn keeper(files: &SharedFiles, upkeep: impl FnOnce(&Files) -> Option<Upkeep>) -> Keeper {
        Keeper::of(files, files.with(upkeep).flatten().unwrap())
    }

    fn earlier() -> i64 {
        system_clock() - 2 * SEAL_AFTER
    }

    fn files() -> (Store, SharedFiles) {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let options =
            VolumeOptions { checksums: true, clock: earlier, span: Some(16 << 20), ..VolumeOptions::default() };
        let volume = Volume::create(&store, "home", &options).unwrap();
        {
            let files = Files::new(volume, FilesOptions::default());
            let process = files.process(User::root()).unwrap();
            let old = process.open("/old", OpenFlags::CREAT | OpenFlags::WRONLY, 0o600).unwrap();
            old.write(&[7; 50_000]).unwrap();
        }
        let volume = Volume::open(store.object("home").unwrap()).unwrap();
        (store, shared(volume))
    }

    #[test]
    fn data_at_rest_is_sealed_beside_a_mount() {
        let (_store, files) = files();
        let sealer = keeper(&files, Upkeep::sealing);
        while files.with(|files| files.volume().sealed_share().sealed).unwrap() < 13 {
            std::thread::yield_now();
        }
        drop(sealer);
        assert_eq!(files.with(|files| files.volume().check()).unwrap(), []);
        files.close().unwrap();
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
        let options = VolumeOptions { span: Some(16 << 20), ..VolumeOptions::default() };
        let files = shared(Volume::create(&store, "home", &options).unwrap());
        let before = files.with(|files| {
            let process = files.process(User::root()).unwrap();
            let file = process.open("/a", OpenFlags::CREAT | OpenFlags::WRONLY, 0o600).unwrap();
            file.write(&[7; 5000]).unwrap();
            drop(file);
            files.volume().object().media().counts().syncs
        });
        let committer = keeper(&files, |files| Upkeep::committing(files, Some(Duration::from_millis(1))));
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
}
