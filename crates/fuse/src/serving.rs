//! [`Serving`]: a mount that threads of its own answer, in a process that does other work too.
//!
//! An end from outside (umount(8), `everbyte fs umount`) closes the volume at once, and the process
//! goes on. An end from inside is [`Serving::stop`], or the drop: no mount outlives its `Serving`.
//!
//! Threads: the answering thread closes `files`; `stop` waits for it, and syncs them otherwise.

use crate::attached::{Attached, PATIENCE};
use crate::{Mount, MountedVolume, Result};
use std::io::{Write, stderr};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

/// A mounted volume that is being served.
pub struct Serving {
    /// Its files are closed by the answering thread when the mount has ended.
    attached: Attached,
    /// The outcome of answering and of closing the volume, once.
    ended: Receiver<Result<()>>,
}

impl Mount {
    /// Answers requests in threads of their own. Signals are the caller's.
    ///
    /// # Errors
    /// [`Error::Io`]: no thread could be started; the directory is unmounted again.
    pub fn start(self) -> Result<Serving> {
        let Mount { session, attached, upkeep, .. } = self;
        let (sender, ended) = channel();
        let of_thread = attached.clone();
        let answer = move || {
            let answered = Mount::answer(session, &of_thread, upkeep);
            let closed = of_thread.files.close();
            // The receiver is gone when the process has given up waiting.
            let _ = sender.send(answered.and(closed));
        };
        let started = thread::Builder::new().name("mount".into()).spawn(answer);
        started.map_err(attached.failed("start a thread for"))?;
        Ok(Serving { attached, ended })
    }
}

impl Serving {
    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.attached.path
    }

    /// The volume, for work beside the requests.
    pub fn volume(&self) -> MountedVolume {
        MountedVolume::new(&self.attached)
    }

    /// Unmounts, and closes the volume. `false` after a second in which programs held files of the
    /// mount open: all their writes are durable then, the volume stays open, and the programs get
    /// `ENOTCONN` when the process ends.
    ///
    /// # Errors
    /// [`Error::Io`]: unmounting failed, or the connection to the kernel did; [`Error::Posix`]:
    /// closing or syncing the volume failed.
    pub fn stop(self) -> Result<bool> {
        self.attached.detach()?;
        match self.ended.recv_timeout(PATIENCE) {
            Ok(outcome) => outcome.map(|()| true),
            Err(RecvTimeoutError::Disconnected) => Ok(true),
            Err(RecvTimeoutError::Timeout) => self.attached.settle().map(|()| false),
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After `stop` there is nothing left to detach.
        if let Err(error) = self.attached.detach() {
            let _ = writeln!(stderr(), "{error}");
        }
    }
}
