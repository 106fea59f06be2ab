//! [`Serving`]: a mount that threads of its own answer, in a process that does other work too.
//!
//! An end from outside (umount(8), `everbyte fs umount`) closes the volume at once, and the process
//! goes on. An end from inside is [`Serving::stop`], or the drop: no mount outlives its `Serving`.
//!
//! Threads: the answering thread closes `files`; `stop` waits for it, and syncs them otherwise.

use crate::mount::{Mount, PATIENCE};
use crate::place::Device;
use crate::shared_files::SharedFiles;
use crate::{Error, MountedVolume, Result, place};
use fuser::Notifier;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

/// A mounted volume that is being served.
pub struct Serving {
    path: PathBuf,
    /// The device of the mount; no other file system has it while the mount lives.
    device: Option<Device>,
    notifier: Notifier,
    /// Closed by the answering thread when the mount has ended.
    files: SharedFiles,
    /// The outcome of answering and of closing the volume, once.
    ended: Receiver<Result<()>>,
}

impl Mount {
    /// Answers requests in threads of their own. Signals are the caller's.
    ///
    /// # Errors
    /// [`Error::Io`]: no thread could be started; the directory is unmounted again.
    pub fn start(self) -> Result<Serving> {
        let Mount { session, files, path, upkeep, .. } = self;
        let (sender, ended) = channel();
        let notifier = session.notifier();
        let (at, shared) = (path.clone(), files.clone());
        let answer = move || {
            let answered = Mount::answer(session, &shared, &at, upkeep);
            let closed = shared.close();
            // The receiver is gone when the process has given up waiting.
            let _ = sender.send(answered.and(closed));
        };
        let started = thread::Builder::new().name("mount".into()).spawn(answer);
        started.map_err(|source| Error::Io { path: path.clone(), action: "start a thread for", source })?;
        let device = place::device_at(&path);
        Ok(Serving { path, device, notifier, files, ended })
    }
}

impl Serving {
    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The volume, for work beside the requests.
    pub fn volume(&self) -> MountedVolume {
        MountedVolume::new(self.files.clone(), self.notifier.clone(), &self.path)
    }

    /// Unmounts, and closes the volume. `false` after a second in which programs held files of the
    /// mount open: all their writes are durable then, the volume stays open, and the programs get
    /// `ENOTCONN` when the process ends.
    ///
    /// # Errors
    /// [`Error::Io`]: unmounting failed, or the connection to the kernel did; [`Error::Posix`]:
    /// closing or syncing the volume failed.
    pub fn stop(self) -> Result<bool> {
        self.detach()?;
        match self.ended.recv_timeout(PATIENCE) {
            Ok(outcome) => outcome.map(|()| true),
            Err(RecvTimeoutError::Disconnected) => Ok(true),
            Err(RecvTimeoutError::Timeout) => {
                let settled = self.files.settle();
                // A terminal that is gone refuses the message.
                let say = "programs hold files open; they cannot use them any more";
                let _ = writeln!(stderr(), "{}: {say}", self.path.display());
                settled.map(|()| false)
            }
        }
    }

    /// Takes the directory off the mount, if it still is this mount.
    fn detach(&self) -> Result<()> {
        let is_here = self.files.with(|_| ()).is_some() && place::device_at(&self.path) == self.device;
        if is_here { place::unmount(&self.path, true) } else { Ok(()) }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After `stop` there is nothing left to detach.
        if let Err(error) = self.detach() {
            let _ = writeln!(stderr(), "{error}");
        }
    }
}
