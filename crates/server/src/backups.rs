//! Backups of the served store: one at a time, by a thread of its own, while clients are served.
//!
//! Clients name a file in the one directory that the options allow, and never a path.
//!
//! Threads: the event loop asks, the thread copies. Ending the server waits for the thread.

use everbyte_backup::{Options, Phase, Summary};
use everbyte_store::Store;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The longest name of a backup.
const NAME_MAX: usize = 200;

/// The state of the newest backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    /// None was asked for.
    #[default]
    None,
    /// It has copied so many bytes of so many.
    Running(u64, u64),
    /// It is whole.
    Done(Box<Summary>),
    /// There is no file.
    Failed(String),
}

/// See the head of this file.
pub(crate) struct Backups {
    directory: Option<PathBuf>,
    status: Arc<Mutex<Status>>,
    thread: Option<JoinHandle<()>>,
}

/// The reason why a backup does not begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The server was not given a directory.
    NoDirectory,
    /// The name leads elsewhere.
    Name,
    /// Another one runs.
    Running,
    /// The system gives no thread.
    NoThread,
}

impl Backups {
    pub(crate) fn new(directory: Option<PathBuf>) -> Backups {
        Backups { directory, status: Arc::default(), thread: None }
    }

    /// Begins a backup to the file `name`, of what has changed since the backup `since`.
    pub(crate) fn start(&mut self, store: &Store, name: &[u8], since: Option<&[u8]>) -> Result<(), Refusal> {
        let directory = self.directory.as_deref().ok_or(Refusal::NoDirectory)?;
        let to = file(directory, name)?;
        let since = since.map(|since| file(directory, since)).transpose()?;
        if matches!(self.status(), Status::Running(..)) {
            return Err(Refusal::Running);
        }
        *self.status.lock() = Status::Running(0, 0);
        let (store, status) = (store.clone(), Arc::clone(&self.status));
        let copy = move || {
            let options = Options { since, ..Options::default() };
            let done = everbyte_backup::backup(&store, &to, &options, &mut |progress| {
                if progress.phase == Phase::Copy {
                    *status.lock() = Status::Running(progress.done, progress.total);
                }
            });
            *status.lock() = match done {
                Ok(summary) => Status::Done(summary.into()),
                Err(error) => Status::Failed(error.to_string()),
            };
        };
        match std::thread::Builder::new().name("everbyte-backup".into()).spawn(copy) {
            Ok(thread) => self.thread = Some(thread),
            Err(_) => {
                *self.status.lock() = Status::None;
                return Err(Refusal::NoThread);
            }
        }
        Ok(())
    }

    pub(crate) fn status(&self) -> Status {
        let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        match self.status.lock().clone() {
            Status::Running(..) if ended => Status::Failed("its thread has panicked, and left no file".into()),
            status => status,
        }
    }
}

impl Drop for Backups {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic was printed, and left no file
        }
    }
}

/// The file of a backup.
pub(crate) fn file(directory: &Path, name: &[u8]) -> Result<PathBuf, Refusal> {
    let name = std::str::from_utf8(name).map_err(|_| Refusal::Name)?;
    let plain = !name.contains(['/', '\\']) && !name.contains(char::is_control);
    if plain && !name.is_empty() && !name.starts_with('.') && name.len() <= NAME_MAX {
        Ok(directory.join(name))
    } else {
        Err(Refusal::Name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_the_directory() {
        let directory = Path::new("/backups");
        for name in ["", ".", "..", "../x", "a/b", "/etc/passwd", ".part", "a\\b", "a\nb", "a\0b", &"x".repeat(201)] {
            assert_eq!(file(directory, name.as_bytes()), Err(Refusal::Name), "{name:?}");
        }
        assert_eq!(file(directory, b"\xff"), Err(Refusal::Name));
        for name in ["monday", "2026-11-25 04:00", "a..b", "é"] {
            assert_eq!(file(directory, name.as_bytes()).unwrap(), directory.join(name));
        }
    }
}
