//! [`Mount`]: the life of a mount, from the attaching to the closing of the volume.
//!
//! End of a mount
//!   1. a signal (`attached.rs`), [`crate::unmount`] or umount(8) detaches the directory
//!   2. the kernel sends no more requests once the last open file is closed
//!   3. all files that the kernel knew are released, and the volume is closed
//!
//! A signal waits for the second step for [`PATIENCE`]; programs that still hold files open get
//! `ENOTCONN` from then on, after all their writes were made durable. A process that does other
//! work too serves a mount by [`Mount::start`] (`serving.rs`).

use crate::attached::{Attached, PATIENCE};
use crate::keeper::Keeper;
use crate::requests::VolumeRequests;
use crate::shared_files::SharedFiles;
use crate::workers::Workers;
use crate::{Error, MountOptions, MountedVolume, Result, place};
use everbyte_fs::Volume;
use everbyte_posix::{Files, OnlyClient, Upkeep, ignores_hangups};
use fuser::{Config, Session, SessionACL};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{Write, stderr};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;

/// A mounted volume, whose requests are answered by [`Mount::run`].
pub struct Mount {
    pub(crate) session: Session<VolumeRequests>,
    pub(crate) attached: Attached,
    pub(crate) upkeep: Vec<Upkeep>,
    signals: Option<Signals>,
}

impl Mount {
    /// Mounts a volume on an empty directory. A dead mount there is taken away first. `source` is
    /// told in the table of mounts, as `STORE:VOLUME`.
    ///
    /// # Errors
    /// [`Error::BadMountPoint`], [`Error::NoFuse`]; [`Error::Busy`], also for a volume that is
    /// mounted by a clone; [`Error::Io`] without the right to mount.
    pub fn new(volume: Volume, path: &Path, source: &str, options: &MountOptions) -> Result<Mount> {
        let detail = "the volume is mounted by this process already";
        let only = OnlyClient::of(&volume).ok_or_else(|| Error::Busy { path: path.to_owned(), detail })?;
        let path = place::prepare(path, options.nonempty)?;
        let files = Files::new(volume, options.files.clone());
        let workers = Workers::new(files.volume().object().media().fences_settle());
        let requests = VolumeRequests::new(files.clone(), only, options.writeback, workers.clone())?;
        let upkeep = [Upkeep::sealing(&files), Upkeep::committing(&files, options.commit)];
        let upkeep = upkeep.into_iter().flatten().collect();
        let cores = thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
        let mut config = Config::default();
        config.mount_options = options.of_kernel(source);
        config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(options.threads.unwrap_or(cores));
        config.clone_fd = true;
        let (files, open_files) = (SharedFiles::new(files, workers), requests.open_files.clone());
        let failed = |source| Error::Io { path: path.clone(), action: "mount", source };
        let session = Session::new(requests, &path, &config).map_err(failed)?;
        let attached = Attached::new(files, &path, session.notifier(), open_files);
        Ok(Mount { session, attached, upkeep, signals: None })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.attached.path
    }

    /// The volume, for work beside the requests.
    pub fn volume(&self) -> MountedVolume {
        MountedVolume::new(&self.attached)
    }

    /// Holds SIGTERM, SIGINT and SIGHUP from now on: [`Mount::run`] unmounts as soon as it is
    /// called. For a process that tells others of the mount first. A process that ignores SIGHUP,
    /// as nohup(1) has it, still does.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn catch_signals(&mut self) -> Result<()> {
        if self.signals.is_none() {
            let hangup = Some(SIGHUP).filter(|_| !ignores_hangups());
            let caught = Signals::new([SIGTERM, SIGINT].into_iter().chain(hangup));
            self.signals = Some(caught.map_err(self.attached.failed("catch signals"))?);
        }
        Ok(())
    }

    /// Answers requests until the directory is unmounted, and closes the volume then. SIGTERM,
    /// SIGINT and SIGHUP unmount.
    ///
    /// # Errors
    /// [`Error::Io`]: the connection to the kernel failed; [`Error::Posix`]: closing the volume
    /// failed.
    pub fn run(mut self) -> Result<()> {
        self.catch_signals()?;
        let Mount { session, attached, upkeep, signals } = self;
        let mut signals = signals.expect("they are caught");
        let handle = signals.handle();
        let (done, is_done) = channel::<()>();
        let ending = attached.clone();
        let watcher = thread::spawn(move || {
            if signals.forever().next().is_none() {
                return;
            }
            let say = |error: Error| _ = writeln!(stderr(), "{error}"); // a terminal may be gone
            ending.detach().unwrap_or_else(say);
            if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let settled = ending.settle().map_err(say);
                std::process::exit(if settled.is_ok() { 0 } else { 5 })
            }
        });
        let outcome = Mount::answer(session, &attached, upkeep);
        drop::<Sender<()>>(done);
        handle.close();
        drop(watcher.join());
        let closed = attached.files.close();
        outcome?;
        closed
    }

    /// Answers requests until the mount has ended; does the upkeep meanwhile.
    pub(crate) fn answer(session: Session<VolumeRequests>, attached: &Attached, upkeep: Vec<Upkeep>) -> Result<()> {
        let files = &attached.files;
        let _keepers: Vec<Keeper> = upkeep.into_iter().map(|upkeep| Keeper::of(files, upkeep)).collect();
        let _follower = files.workers().follower();
        match session.run() {
            // The mount ended before a thread began to wait for a request.
            Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
            outcome => outcome.map_err(attached.failed("answer requests")),
        }
    }
}
