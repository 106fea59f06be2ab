//! A daemon: this test program again, which mounts the volume that its environment names.

use everbyte_fs::{Volume, VolumeOptions};
use everbyte_fuse::{Mount, MountOptions};
use everbyte_media::{BackendChoice, ErrorInfo, ErrorKind, Options};
use everbyte_store::{CreateOptions, Store};
use rustix::process::{Pid, Signal};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// STORE, DIRECTORY, OPTIONS and BACKEND of the daemon, one a line.
pub(crate) const WORDS: &str = "EVERBYTE_TEST_MOUNT";
/// Arguments of this program as a daemon.
pub(crate) const DAEMON: [&str; 3] = ["--exact", "harness::daemon", "--nocapture"];
pub(crate) const SPAN: u64 = 256 << 20;

/// Whether mounts can be tested here.
pub(crate) fn works() -> bool {
    let opened = fs::File::options().read(true).write(true).open("/dev/fuse");
    match opened {
        Ok(_) if rustix::process::geteuid().is_root() => true,
        Ok(_) => {
            eprintln!("skipped: mounts are tested as root");
            false
        }
        Err(error) => {
            eprintln!("skipped: /dev/fuse: {error}");
            false
        }
    }
}

pub(crate) fn media(backend: BackendChoice) -> Options {
    Options { backend, log_bytes: 4 << 20, ..Options::default() }
}

/// Whether `cargo xtask posix` runs the tests: as long as a suite should run. Else a few seconds.
pub(crate) fn long() -> bool {
    std::env::var_os("EVERBYTE_SUITES").is_some()
}

/// Unmounts. A program that another test starts at this moment has this process's files open
/// until it runs.
pub(crate) fn unmount_soon(at: &Path) {
    let mut attempts = 0;
    while let Err(error) = everbyte_fuse::unmount(at, false) {
        attempts += 1;
        assert!(error.kind() == ErrorKind::Busy && attempts < 10_000, "{error}");
        thread::yield_now();
    }
}

/// Whether a volume is mounted on a directory, also by a daemon that is dead.
fn is_mounted(at: &Path) -> bool {
    let (table, at) = (fs::read_to_string("/proc/self/mountinfo").unwrap(), format!(" {} ", at.display()));
    table.lines().any(|line| line.contains(&at) && line.contains(" - fuse"))
}

/// The value of [`WORDS`].
pub(crate) fn words(store: &Path, at: &Path, options: &str, backend: &str) -> String {
    format!("{}\n{}\n{options}\n{backend}", store.display(), at.display())
}

/// Makes a store with an empty volume.
pub(crate) fn make(store: &Path, backend: BackendChoice, span: u64) {
    let options = CreateOptions { media: media(backend), max: (2 * span).max(1 << 30), ..CreateOptions::default() };
    let made = Store::create(store, &options).unwrap();
    let volume = VolumeOptions { span: Some(span), ..VolumeOptions::default() };
    Volume::create(&made, "home", &volume).unwrap().close().unwrap();
    made.close().unwrap();
}

/// Opens a store, which the daemon of an earlier mount may still be closing.
fn open(store: &Path, media: &Options, read_only: bool) -> Store {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let opening = Store::options(store);
        match if read_only { opening.read_only().open(media) } else { opening.open(media) } {
            Err(error) if error.kind() == ErrorKind::Busy && Instant::now() < end => sleep(Duration::from_millis(2)),
            opened => return opened.unwrap(),
        }
    }
}

/// Opens the volume of a store, and checks it.
pub(crate) fn check(store: &Path, backend: BackendChoice) {
    let store = open(store, &media(backend), false);
    let volume = Volume::open(store.object("home").unwrap()).unwrap();
    assert_eq!(volume.check(), []);
    volume.close().unwrap();
    store.close().unwrap();
}

/// A store and a mount of its volume.
pub(crate) struct Mounted {
    pub store: PathBuf,
    pub at: PathBuf,
    backend: BackendChoice,
    options: String,
    daemon: Option<Child>,
    _folders: Vec<TempDir>,
}

impl Mounted {
    /// On `file`, in a new folder on the disk.
    pub(crate) fn new() -> Mounted {
        Mounted::on(BackendChoice::File, tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), "")
    }

    pub(crate) fn on(backend: BackendChoice, folder: TempDir, options: &str) -> Mounted {
        Mounted::of_span(backend, folder, options, SPAN)
    }

    pub(crate) fn of_span(backend: BackendChoice, folder: TempDir, options: &str, span: u64) -> Mounted {
        let point = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        make(&store, backend, span);
        let at = point.path().canonicalize().unwrap();
        let (options, _folders) = (options.to_owned(), vec![folder, point]);
        let mut mounted = Mounted { store, at, backend, options, daemon: None, _folders };
        mounted.mount();
        mounted
    }

    /// On a backend, with room for the work of a suite.
    pub(crate) fn large(backend: BackendChoice) -> Mounted {
        let folder = if backend == BackendChoice::Shm { "/dev/shm" } else { env!("CARGO_TARGET_TMPDIR") };
        Mounted::of_span(backend, tempfile::tempdir_in(folder).unwrap(), "", 512 << 20)
    }

    /// Starts the daemon, and waits for the mount.
    pub(crate) fn mount(&mut self) {
        self.mount_by(Command::new(std::env::current_exe().unwrap()));
    }

    /// As [`Mounted::mount`], by a command that runs this program.
    pub(crate) fn mount_by(&mut self, mut command: Command) {
        let backend = if self.backend == BackendChoice::Shm { "shm" } else { "file" };
        command.args(DAEMON).env(WORDS, words(&self.store, &self.at, &self.options, backend));
        let mut daemon = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        // In this order: once `statvfs` answers, a dead mount that was there is gone; the second
        // one is answered by the new mount, whose daemon catches signals by then.
        let answers = || rustix::fs::statvfs(&self.at).is_ok();
        while !(answers() && is_mounted(&self.at) && answers()) {
            assert!(daemon.try_wait().unwrap().is_none(), "the daemon has ended");
            assert!(Instant::now() < end, "the volume is not mounted");
            sleep(Duration::from_millis(2));
        }
        self.daemon = Some(daemon);
    }

    /// The options of the next mount.
    pub(crate) fn set_options(&mut self, options: &str) {
        self.options = options.to_owned();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    /// Kills the daemon with SIGKILL. The mount stays, dead.
    pub(crate) fn kill(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Sends SIGTERM to the daemon; returns its exit code.
    pub(crate) fn terminate(&mut self) -> i32 {
        self.signal(Signal::TERM).code().unwrap()
    }

    /// Sends a signal to the daemon, and waits for its end.
    pub(crate) fn signal(&mut self, signal: Signal) -> ExitStatus {
        let mut daemon = self.daemon.take().unwrap();
        rustix::process::kill_process(Pid::from_child(&daemon), signal).unwrap();
        daemon.wait().unwrap()
    }

    /// The number of the daemon's process.
    pub(crate) fn daemon_id(&self) -> u32 {
        self.daemon.as_ref().unwrap().id()
    }

    /// Unmounts, and waits for the daemon to close the store.
    pub(crate) fn unmount(&mut self) {
        unmount_soon(&self.at);
        assert!(self.daemon.take().unwrap().wait().unwrap().success());
    }

    /// Opens the volume without a mount, and checks it.
    pub(crate) fn check(&self) {
        check(&self.store, self.backend);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if is_mounted(&self.at) {
            drop(everbyte_fuse::unmount(&self.at, true));
        }
        if let Some(mut daemon) = self.daemon.take() {
            if std::thread::panicking() {
                drop(daemon.kill());
            }
            drop(daemon.wait());
        }
    }
}

/// Not a test: the daemon.
#[test]
fn daemon() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let [store, at, options, backend] = words.split('\n').collect::<Vec<_>>()[..] else { panic!("{words}") };
    let options = MountOptions::parse(options).unwrap();
    let media = media(if backend == "shm" { BackendChoice::Shm } else { BackendChoice::File });
    let opened = open(Path::new(store), &media, options.files.read_only);
    let volume = Volume::open(opened.object("home").unwrap()).unwrap();
    let mount = Mount::new(volume, Path::new(at), &format!("{store}:home"), &options);
    mount.unwrap_or_else(|error| panic!("{error}")).run().unwrap();
    opened.close().unwrap();
}
