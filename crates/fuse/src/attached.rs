//! [`Attached`]: a mount at its directory, and the end of it from inside.
//!
//! Order of such an end
//!   1. the kernel hands over the bytes that it keeps (`writeback`, mapped files); requests are
//!      answered meanwhile
//!   2. the directory is detached, if the mount on top of it is this one
//!   3. the caller waits for programs to close their files, for [`PATIENCE`]
//!   4. if programs still hold files open, the first step is done again for these, and all that was
//!      handed over is made durable
//!
//! `syncfs` makes the kernel send what it keeps, and does not wait for the answers. Telling it that
//! a file has changed does wait, and sends what is left: the pages are dropped.

use crate::place::{self, Device};
use crate::shared_files::SharedFiles;
use crate::{Error, Result};
use everbyte_posix::OpenFiles;
use fuser::{INodeNo, Notifier};
use std::fs::File;
use std::io::{self, Write, stderr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// The time that programs have to close their files, and the kernel to hand over bytes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// A mount at its directory.
#[derive(Clone)]
pub(crate) struct Attached {
    pub files: SharedFiles,
    pub path: Arc<Path>,
    /// No other file system has it while the mount lives.
    device: Option<Device>,
    pub notifier: Notifier,
    open_files: OpenFiles,
}

impl Attached {
    /// A mount that was made just now.
    pub(crate) fn new(files: SharedFiles, path: &Path, notifier: Notifier, open_files: OpenFiles) -> Attached {
        Attached { files, path: path.into(), device: place::device_at(path), notifier, open_files }
    }

    /// Takes the directory off the mount, if it still is this mount and no other one lies on top.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn detach(&self) -> Result<()> {
        let is_on_top = || self.files.with(|_| ()).is_some() && place::device_at(&self.path) == self.device;
        if is_on_top() {
            self.hand_over_within(PATIENCE, Attached::hand_over_all);
        }
        // Another one may have come meanwhile.
        if is_on_top() { place::unmount(&self.path, true) } else { Ok(()) }
    }

    /// Waits until the kernel has handed over all bytes that it keeps.
    ///
    /// # Errors
    /// Those of `syncfs`.
    pub(crate) fn hand_over_all(&self) -> io::Result<()> {
        let root = File::open(&self.path);
        let sent = root.as_ref().ok().map(rustix::fs::syncfs);
        self.hand_over_open()?;
        let root = root?;
        sent.transpose()?;
        Ok(rustix::fs::syncfs(root)?) // tells of writes that failed since the first one
    }

    /// As [`Attached::hand_over_all`], for files that are open: of others the kernel keeps nothing.
    fn hand_over_open(&self) -> io::Result<()> {
        // An error means that the kernel has not got the file any more.
        self.open_files.inodes().iter().for_each(|ino| _ = self.notifier.inval_inode(INodeNo(ino.0), 0, 0));
        Ok(())
    }

    /// Hands bytes over in a thread of its own: a worker that is stuck, or a medium that fails,
    /// holds the end back for a while at most. `false`: that thread still waits in the kernel,
    /// where no signal ends it.
    fn hand_over_within(&self, patience: Duration, hand_over: fn(&Attached) -> io::Result<()>) -> bool {
        let (attached, (done, is_done)) = (self.clone(), channel());
        thread::spawn(move || done.send(hand_over(&attached)));
        is_done.recv_timeout(patience).is_ok()
    }

    /// Makes durable what programs have written to a mount that they still use. A terminal that is
    /// gone refuses the message. If a thread of this process still waits for the kernel, which
    /// waits for an answer of this process, the connection ends here: else the process could not
    /// end.
    ///
    /// # Errors
    /// [`Error::Posix`].
    pub(crate) fn settle(&self) -> Result<()> {
        let _ = writeln!(stderr(), "{}: still in use; programs cannot use its files any more", self.path.display());
        let is_done = self.hand_over_within(PATIENCE / 4, Attached::hand_over_open);
        let settled = self.files.settle();
        if let (false, Some(device)) = (is_done, self.device) {
            let _ = place::abort(device); // a refusal leaves the process waiting for the answer
        }
        settled
    }

    pub(crate) fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = self.path.to_path_buf();
        move |source| Error::Io { path, action, source }
    }
}
