//! [`Sealer`]: the thread of a mount that seals data at rest, in volumes that keep checksums.
//!
//! A step reads up to 1 MiB. Within a pass a step begins every [`BETWEEN_STEPS`], so that a pass
//! reads at most 100 MiB a second; passes begin [`BETWEEN_PASSES`] after the last one has ended,
//! and [`AFTER_FAILURE`] after one that has failed.

use crate::shared_files::SharedFiles;
use everbyte_posix::{SealCursor, StepLimits};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

const BETWEEN_STEPS: Duration = Duration::from_millis(10);
const BETWEEN_PASSES: Duration = Duration::from_secs(1);
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// Seals until it is dropped.
pub(crate) struct Sealer {
    /// Is disconnected to end the thread.
    going: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sealer {
    /// `None`: the volume keeps no checksums, or does not change.
    pub(crate) fn of(files: &SharedFiles, read_only: bool) -> Option<Sealer> {
        if read_only || !files.with(|files| files.volume().has_checksums())? {
            return None;
        }
        let (going, is_going) = channel::<()>();
        let files = files.clone();
        let thread = spawn(move || {
            let (mut cursor, mut pause) = (SealCursor::default(), BETWEEN_STEPS);
            while is_going.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = match files.with_work(|files| files.seal_step(&mut cursor, &StepLimits::default())) {
                    None => return,
                    // Without room, or damaged, which is logged each time.
                    Some(Err(_)) => {
                        cursor = SealCursor::default();
                        AFTER_FAILURE
                    }
                    Some(Ok(_)) if cursor.is_at_start() => BETWEEN_PASSES,
                    Some(Ok(_)) => BETWEEN_STEPS,
                };
            }
        });
        Some(Sealer { going: Some(going), thread: Some(thread) })
    }
}

impl Drop for Sealer {
    fn drop(&mut self) {
        drop(self.going.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_fs::{SEAL_AFTER, Volume, VolumeOptions, system_clock};
    use everbyte_media::{Media, Options};
    use everbyte_posix::{Files, FilesOptions, OpenFlags, User};
    use everbyte_store::{FormatOptions, Store};

    fn earlier() -> i64 {
        system_clock() - 2 * SEAL_AFTER
    }

    fn files(checksums: bool) -> (Store, SharedFiles) {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let options = VolumeOptions { checksums, clock: earlier, span: Some(16 << 20), ..VolumeOptions::default() };
        let volume = Volume::create(&store, "home", &options).unwrap();
        {
            let files = Files::new(volume, FilesOptions::default());
            let process = files.process(User::root()).unwrap();
            let old = process.open("/old", OpenFlags::CREAT | OpenFlags::WRONLY, 0o600).unwrap();
            old.write(&[7; 50_000]).unwrap();
        }
        let volume = Volume::open(store.object("home").unwrap()).unwrap();
        (store, SharedFiles::new(Files::new(volume, FilesOptions::default()), Default::default()))
    }

    #[test]
    fn data_at_rest_is_sealed_beside_a_mount() {
        let (_store, files) = files(true);
        let sealer = Sealer::of(&files, false).unwrap();
        while files.with(|files| files.volume().sealed_share().sealed).unwrap() < 13 {
            std::thread::yield_now();
        }
        drop(sealer);
        assert_eq!(files.with(|files| files.volume().check()).unwrap(), []);
        files.close().unwrap();
    }

    #[test]
    fn other_volumes_have_no_thread() {
        assert!(Sealer::of(&files(false).1, false).is_none());
        assert!(Sealer::of(&files(true).1, true).is_none());
    }
}
