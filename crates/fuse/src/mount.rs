//! [`Mount`]: the life of a mount, from the attaching to the closing of the volume.
//!
//! End of a mount
//!   1. a signal, [`crate::unmount`] or umount(8) detaches the directory
//!   2. the kernel sends no more requests once the last open file is closed
//!   3. all files that the kernel knew are released, and the volume is closed
//!
//! A signal waits for the second step for [`PATIENCE`]; programs that still hold files open get
//! `ENOTCONN` from then on, after all their writes were made durable. A process that does other
//! work too serves a mount by [`Mount::start`] (`serving.rs`).

use crate::keeper::Keeper;
use crate::requests::VolumeRequests;
use crate::shared_files::{OnlyMount, SharedFiles};
use crate::workers::Workers;
use crate::{Error, MountOptions, MountedVolume, Result, place};
use everbyte_fs::Volume;
use everbyte_posix::{Files, Upkeep};
use fuser::{Config, Session, SessionACL};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The time that programs have to close their files after a signal.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// A mounted volume, whose requests are answered by [`Mount::run`].
pub struct Mount {
    pub(crate) session: Session<VolumeRequests>,
    pub(crate) files: SharedFiles,
    pub(crate) path: PathBuf,
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
        let only = OnlyMount::of(&volume).ok_or_else(|| Error::Busy { path: path.to_owned(), detail })?;
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
        let files = SharedFiles::new(files, workers);
        match Session::new(requests, &path, &config) {
            Ok(session) => Ok(Mount { session, files, path, upkeep, signals: None }),
            Err(source) => Err(Error::Io { path, action: "mount", source }),
        }
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The volume, for work beside the requests.
    pub fn volume(&self) -> MountedVolume {
        MountedVolume::new(self.files.clone(), self.session.notifier(), &self.path)
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
            let failed = |source| Error::Io { path: self.path.clone(), action: "catch signals", source };
            self.signals = Some(caught.map_err(failed)?);
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
        let Mount { session, files, path, upkeep, signals } = self;
        let mut signals = signals.expect("they are caught");
        let handle = signals.handle();
        let (done, is_done) = channel::<()>();
        let (at, in_use) = (path.clone(), files.clone());
        let watcher = thread::spawn(move || {
            if signals.forever().next().is_none() {
                return;
            }
            if let Err(error) = place::unmount(&at, true) {
                let _ = writeln!(stderr(), "{error}");
            }
            if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                leave(&at, &in_use);
            }
        });
        let outcome = Mount::answer(session, &files, &path, upkeep);
        drop::<Sender<()>>(done);
        handle.close();
        drop(watcher.join());
        let closed = files.close();
        outcome?;
        closed
    }

    /// Answers requests until the mount has ended; does the upkeep meanwhile.
    pub(crate) fn answer(
        session: Session<VolumeRequests>,
        files: &SharedFiles,
        path: &Path,
        upkeep: Vec<Upkeep>,
    ) -> Result<()> {
        let _keepers: Vec<Keeper> = upkeep.into_iter().map(|upkeep| Keeper::of(files, upkeep)).collect();
        let _follower = files.workers().follower();
        match session.run() {
            // The mount ended before a thread began to wait for a request.
            Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
            outcome => outcome.map_err(|source| Error::Io { path: path.into(), action: "answer requests", source }),
        }
    }
}

/// Whether this process was started with SIGHUP ignored.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// Ends the process although programs hold files open: whatever they wrote is durable. A terminal
/// that is gone refuses the message.
fn leave(path: &Path, files: &SharedFiles) -> ! {
    let _ = writeln!(stderr(), "{}: programs hold files open; they cannot use them any more", path.display());
    let synced = files.settle();
    if let Err(error) = &synced {
        let _ = writeln!(stderr(), "{}: {error}", path.display());
    }
    std::process::exit(if synced.is_ok() { 0 } else { 5 })
}
