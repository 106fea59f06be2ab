//! SAVE and BGSAVE: an RDB file of all keys as of one version, in the directory of backups.
//!
//! The file appears whole and synced under its name, in place of the RDB file before, or the one
//! before stays; a file of another kind is never replaced. BGSAVE asks; when the iteration has
//! committed, a thread settles that commit, reads the newest settled version, and writes while
//! clients are served. SAVE writes in the event loop, the version that is settled then; it is the
//! first command of its client in an iteration, so that version has all that this client was
//! answered.
//!
//! Threads: the event loop asks, one thread at a time writes. Ending the server stops it.

use crate::backups;
use crate::export::write_keys;
use crate::keyspace::Tables;
use everbyte_kv::Commit;
use parking_lot::Mutex;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The first bytes of an RDB file.
const MAGIC: &[u8] = b"REDIS";
/// The name of the file, unless another one is set.
pub(crate) const NAME: &str = "dump.rdb";

/// The state of saves.
#[derive(Clone, Debug, Default)]
pub(crate) struct SaveState {
    /// Seconds since 1970 at the last save that succeeded, or the start.
    pub last: u64,
    /// Saves that succeeded.
    pub count: u64,
    /// The start of the one under way by BGSAVE.
    pub started: Option<Instant>,
    /// Keys that it has written.
    pub keys: u64,
    /// The time of the last one by BGSAVE.
    pub took: Option<Duration>,
    /// The reason why the last one failed.
    pub error: Option<String>,
    /// The version of the store at the last one, or the start.
    pub version: u64,
}

/// See the head of this file.
pub(crate) struct Saves {
    directory: Option<PathBuf>,
    /// The name of the file.
    pub name: String,
    state: Arc<Mutex<SaveState>>,
    thread: Option<JoinHandle<()>>,
    /// BGSAVE was asked for, and the iteration has not committed yet.
    wanted: bool,
    stop: Arc<AtomicBool>,
}

/// A file that is written, until the server stops.
struct Stopped<'w> {
    file: &'w mut dyn Write,
    stop: &'w AtomicBool,
}

impl Write for Stopped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.stop.load(Ordering::Acquire) {
            true => Err(io::Error::other("the server stops")),
            false => self.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Writes the file: whole or not at all.
fn write(tables: &Tables, to: &Path, state: &Mutex<SaveState>, stop: &AtomicBool) -> Result<(), String> {
    let version = tables.kv.stats().version.get();
    let done = everbyte_backup::publish(to, MAGIC, |file| {
        let mut stopped = Stopped { file, stop };
        write_keys(tables, &mut stopped, &mut |done| state.lock().keys = done.keys).map_err(io::Error::other)
    });
    let done = done.map(drop).map_err(|error| error.to_string());
    let mut state = state.lock();
    match &done {
        Ok(()) => {
            (state.last, state.error, state.version) = (seconds(), None, version);
            state.count += 1;
        }
        Err(error) => state.error = Some(error.clone()),
    }
    done
}

/// The end of a save by BGSAVE, whether its thread has panicked or not.
struct Ended {
    state: Arc<Mutex<SaveState>>,
    start: Instant,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        (state.started, state.took) = (None, Some(self.start.elapsed()));
        if std::thread::panicking() {
            state.error = Some("its thread has panicked".into());
        }
    }
}

impl Saves {
    /// Of a server that starts with this version of the store.
    pub(crate) fn new(directory: Option<PathBuf>, version: u64) -> Saves {
        let state = SaveState { last: seconds(), version, ..SaveState::default() };
        Saves {
            directory,
            name: NAME.into(),
            state: Arc::new(Mutex::new(state)),
            thread: None,
            wanted: false,
            stop: Arc::default(),
        }
    }

    /// The directory of the file.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Whether a name is one that a file may have.
    pub(crate) fn is_name(name: &[u8]) -> bool {
        backups::file(Path::new("/"), name).is_ok()
    }

    pub(crate) fn state(&self) -> SaveState {
        self.state.lock().clone()
    }

    /// Whether BGSAVE is under way.
    pub(crate) fn is_running(&self) -> bool {
        self.wanted || self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// BGSAVE: it begins when the iteration has committed.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// The iteration has committed, or what it wrote is lost.
    pub(crate) fn begin(&mut self, tables: &Arc<Tables>, commit: Option<Commit>) {
        let Some(directory) = self.directory.as_deref().filter(|_| self.wanted) else { return };
        self.wanted = false;
        let (to, tables) = (directory.join(&self.name), Arc::clone(tables));
        let (state, stop, start) = (Arc::clone(&self.state), Arc::clone(&self.stop), Instant::now());
        {
            let mut state = state.lock();
            (state.started, state.keys) = (Some(start), 0);
        }
        let save = move || {
            let ended = Ended { state: Arc::clone(&state), start };
            let settled = commit.map_or(Ok(()), |commit| tables.kv.settle(commit));
            let done = settled.map_err(|error| error.to_string()).and_then(|()| write(&tables, &to, &state, &stop));
            if let Err(error) = done {
                eprintln!("everbyte: the background save has failed: {error}");
                state.lock().error = Some(error);
            }
            drop(ended);
        };
        match std::thread::Builder::new().name("everbyte-save".into()).spawn(save) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                let mut state = self.state.lock();
                (state.started, state.error) = (None, Some(format!("no thread: {error}")));
            }
        }
    }

    /// SAVE: the version that is settled now.
    pub(crate) fn save(&self, tables: &Tables) -> Result<(), String> {
        let Some(directory) = &self.directory else { return Ok(()) };
        write(tables, &directory.join(&self.name), &self.state, &self.stop)
    }
}

impl Drop for Saves {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic was printed, and left no file
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_kv::Kv;
    use everbyte_store::{CreateOptions, Store};
    use std::os::unix::fs::PermissionsExt;

    /// A save replaces an RDB file, for the eyes of its owner only, and nothing else.
    #[test]
    fn a_save_replaces_rdb_files_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(&folder.path().join("store"), &CreateOptions::default()).unwrap();
        let kv = Kv::open_or_create(&store, "kv").unwrap();
        kv.put(b"a", b"1").unwrap();
        let tables = Tables::open(kv.clone()).unwrap();
        let version = kv.stats().version.get();
        let saves = Saves::new(Some(folder.path().into()), version);
        assert_eq!(saves.state().version, version, "nothing has changed since the start");
        let path = folder.path().join(NAME);
        for _ in 0..2 {
            saves.save(&tables).unwrap();
            assert!(std::fs::read(&path).unwrap().starts_with(MAGIC));
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        let count = || std::fs::read_dir(folder.path()).unwrap().count();
        let files = count();
        for other in [&b""[..], b"a letter", b"REDI"] {
            std::fs::write(&path, other).unwrap();
            let error = saves.save(&tables).unwrap_err();
            assert!(error.contains("other content"), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), other);
        }
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(folder.path().join("store"), &path).unwrap();
        saves.save(&tables).unwrap_err();
        assert!(path.is_symlink());
        assert_eq!(count(), files, "no unfinished file stays");
        assert_eq!(saves.state().count, 2);
    }

    /// A panic of the thread ends the save.
    #[test]
    fn a_save_ends_with_its_thread() {
        let state = Arc::new(Mutex::new(SaveState { started: Some(Instant::now()), ..SaveState::default() }));
        let ended = Ended { state: Arc::clone(&state), start: Instant::now() };
        let thread = std::thread::spawn(move || {
            let _ended = ended;
            panic!("a test");
        });
        thread.join().unwrap_err();
        let state = state.lock();
        assert!(state.started.is_none() && state.error.is_some());
    }
}
