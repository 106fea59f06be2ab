//! Who uses a shared store: locks on bytes of its file, which the kernel drops when a process ends,
//! however it ends.
//!
//! | byte | held |
//! |---|---|
//! | `OPENING` | exclusively, by who opens or closes the store |
//! | `USERS` | by every user; who gets it exclusively is alone, and recovers what others left |
//! | `READERS` | by those who only look |
//! | `MAP` | exclusively, by a process that makes a chunk of the file |
//! | `TOKENS` + token | exclusively, by the user of that number; no other user of this opening ever gets it |
//! | `ATTACHED` + id | by those who have the object of that id open |
//!
//! All of them lie far behind any store's end. They belong to one open file description, which a
//! child of fork closes: a child is no user, and its end detaches nothing. Memory without a file
//! has its users in this process: that is how several of them, and their deaths, are tested.
//!
//! Invariants
//!   USER-1  A token whose byte is not locked belongs to a dead process, or to one that has left.
//!
//! Threads: any.

use crate::processes::fork::Own;
use crate::{Error, Result};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const OPENING: u64 = 1 << 60;
const USERS: u64 = OPENING + 1;
const READERS: u64 = OPENING + 2;
const MAP: u64 = OPENING + 3;
const TOKENS: u64 = 1 << 61;
const ATTACHED: u64 = 1 << 62;
/// Objects' ids are smaller than this.
pub const IDS: u64 = 1 << 61;

/// How a byte is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Free,
    Shared,
    Alone,
}

/// The users of one media, as this process sees them.
pub(crate) struct Users {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    File(Own),
    Memory(Mutex<Present>),
}

/// Users of memory without a file.
#[derive(Default)]
struct Present {
    tokens: BTreeSet<u32>,
    /// Object, user, alone.
    attached: Vec<(u64, u32, bool)>,
}

/// The time in which a store is being opened, or closed: nobody else does either.
#[must_use = "others wait until it ends"]
pub struct Opening {
    users: Arc<Users>,
    alone: bool,
}

/// One user of a shared store; no longer one when it is dropped.
pub struct User {
    users: Arc<Users>,
    token: u32,
}

impl Users {
    pub(crate) fn in_memory() -> Users {
        Users { path: "memory".into(), kind: Kind::Memory(Mutex::default()) }
    }

    /// The users of the store `file` at `path`: a description of its own is opened for the locks,
    /// unless one is given.
    pub(crate) fn of_file(file: &File, locks: Option<File>, path: &Path) -> Result<Users> {
        let own = locks.map_or_else(|| Own::of(file), Own::new);
        let own = own.map_err(|source| Error::Io { action: "open", path: path.into(), source })?;
        Ok(Users { path: path.into(), kind: Kind::File(own) })
    }

    /// What the locks are on; `None`: there is no file.
    pub(crate) fn locks(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::File(locks) => Some(locks.as_fd()),
            Kind::Memory(_) => None,
        }
    }

    /// Waits until nobody opens or closes the store, and finds out whether anybody uses it.
    pub(crate) fn begin(self: &Arc<Users>) -> Result<Opening> {
        self.require_here()?;
        let alone = match &self.kind {
            Kind::File(_) => {
                self.lock(OPENING, Hold::Alone, true)?;
                self.lock(USERS, Hold::Alone, false)?
            }
            Kind::Memory(present) => present.lock().tokens.is_empty(),
        };
        Ok(Opening { users: Arc::clone(self), alone })
    }

    /// Locks or unlocks a byte; `false`: somebody else has it.
    fn lock(&self, at: u64, hold: Hold, wait: bool) -> Result<bool> {
        let Kind::File(locks) = &self.kind else { return Ok(true) };
        let failed = |source| Error::Io { action: "lock", path: self.path.clone(), source };
        set(locks.as_fd(), at, hold, wait).map_err(failed)
    }

    /// Waits until no other process makes a chunk; none does until what is returned is dropped.
    pub(crate) fn map_turn(&self) -> Result<MapTurn<'_>> {
        self.require_here()?;
        self.lock(MAP, Hold::Alone, true)?;
        Ok(MapTurn(self))
    }

    /// Refuses a child of fork.
    pub(crate) fn require_here(&self) -> Result<()> {
        match &self.kind {
            Kind::File(locks) if locks.is_child() => Err(Error::Forked { owner: locks.owner() }),
            _ => Ok(()),
        }
    }
}

/// The lock under which one process makes a chunk.
pub(crate) struct MapTurn<'u>(&'u Users);

impl Drop for MapTurn<'_> {
    fn drop(&mut self) {
        let _ = self.0.lock(MAP, Hold::Free, false); // as in `Opening::drop`
    }
}

impl Opening {
    /// Whether the store has no other user: who opens it then recovers it.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// Becomes a user; others may open and close from now on.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Panics
    /// USER-1: if the token is somebody's.
    pub fn enter(self, token: u32) -> Result<User> {
        let users = Arc::clone(&self.users);
        match &users.kind {
            Kind::File(_) => {
                let free = users.lock(TOKENS + u64::from(token), Hold::Alone, false)?;
                assert!(free, "USER-1: token {token} is somebody's");
                users.lock(USERS, Hold::Shared, false)?;
            }
            Kind::Memory(present) => assert!(present.lock().tokens.insert(token), "USER-1: token {token} twice"),
        }
        Ok(User { users, token })
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        // Unlocking does not fail; were it to, the end of the process does it.
        let _ = self.users.lock(OPENING, Hold::Free, false);
    }
}

impl User {
    /// Its number.
    pub fn token(&self) -> u32 {
        self.token
    }

    /// Refuses a child of fork: it inherits nothing.
    ///
    /// # Errors
    /// [`Error::Forked`].
    #[inline]
    pub fn require_here(&self) -> Result<()> {
        self.users.require_here()
    }

    /// Whether the user of another number is still there (USER-1).
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn is_alive(&self, token: u32) -> Result<bool> {
        match &self.users.kind {
            Kind::File(locks) => {
                let taken = is_taken(locks.as_fd(), TOKENS + u64::from(token), Hold::Alone);
                taken.map_err(|source| Error::Io { action: "look for locks of", path: self.users.path.clone(), source })
            }
            Kind::Memory(present) => Ok(present.lock().tokens.contains(&token)),
        }
    }

    /// Notes that this user has an object open, `alone` or with others. `false`: others have it,
    /// and it cannot be.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn attach(&self, id: u64, alone: bool) -> Result<bool> {
        assert!(id < IDS, "objects' ids are smaller");
        match &self.users.kind {
            Kind::File(_) => self.users.lock(ATTACHED + id, if alone { Hold::Alone } else { Hold::Shared }, false),
            Kind::Memory(present) => {
                let attached = &mut present.lock().attached;
                let others = attached.iter().filter(|(object, user, _)| *object == id && *user != self.token);
                let free = others.into_iter().all(|(.., theirs)| !alone && !theirs);
                if free {
                    attached.retain(|(object, user, _)| (*object, *user) != (id, self.token));
                    attached.push((id, self.token, alone));
                }
                Ok(free)
            }
        }
    }

    /// Takes [`User::attach`] back.
    pub fn detach(&self, id: u64) {
        match &self.users.kind {
            Kind::File(_) => {
                let _ = self.users.lock(ATTACHED + id, Hold::Free, false); // as in `Opening::drop`
            }
            Kind::Memory(present) => {
                present.lock().attached.retain(|(object, user, _)| (*object, *user) != (id, self.token));
            }
        }
    }

    /// Stops being a user: `last` is called while nobody opens or closes, and told whether this is
    /// the only one left.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Io`]; whatever `last` returns.
    pub fn leave<T, E: From<Error>>(&self, last: impl FnOnce(bool) -> Result<T, E>) -> Result<T, E> {
        let mut opening = self.users.begin()?;
        if let Kind::Memory(present) = &self.users.kind {
            opening.alone = present.lock().tokens.iter().all(|&token| token == self.token);
        }
        let answer = last(opening.alone);
        self.end();
        answer
    }

    fn end(&self) {
        match &self.users.kind {
            Kind::File(_) => {
                // as in `Opening::drop`
                let _ = self.users.lock(TOKENS + u64::from(self.token), Hold::Free, false);
                let _ = self.users.lock(USERS, Hold::Free, false);
            }
            Kind::Memory(present) => {
                let mut present = present.lock();
                present.tokens.remove(&self.token);
                present.attached.retain(|(_, user, _)| *user != self.token);
            }
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if self.require_here().is_ok() {
            self.end();
        }
    }
}

/// Notes on `file` that it is only looked at. `false`: users change it meanwhile.
pub(crate) fn look(file: BorrowedFd<'_>) -> io::Result<bool> {
    set(file, READERS, Hold::Shared, false)?;
    Ok(!is_taken(file, USERS, Hold::Alone)?)
}

/// Whether somebody looks at `file` without being a user.
pub(crate) fn is_looked_at(file: &File) -> io::Result<bool> {
    is_taken(file.as_fd(), READERS, Hold::Alone)
}

fn byte(at: u64, hold: Hold) -> libc::flock {
    let kind = match hold {
        Hold::Free => libc::F_UNLCK,
        Hold::Shared => libc::F_RDLCK,
        Hold::Alone => libc::F_WRLCK,
    };
    // `l_pid` is 0, as the calls below demand.
    libc::flock { l_type: kind as _, l_whence: libc::SEEK_SET as _, l_start: at as _, l_len: 1, l_pid: 0 }
}

/// Locks a byte of the open file description of `file`; `false`: somebody else has it.
fn set(file: BorrowedFd<'_>, at: u64, hold: Hold, wait: bool) -> io::Result<bool> {
    let lock = byte(at, hold);
    loop {
        let command = if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
        // SAFETY: the command reads one `flock`, which lives through the call; a bad descriptor is
        // an error.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// Whether a lock of another description stands against this one.
fn is_taken(file: BorrowedFd<'_>, at: u64, hold: Hold) -> io::Result<bool> {
    let mut lock = byte(at, hold);
    // SAFETY: the command reads and writes one `flock`, which lives through the call; a bad
    // descriptor is an error.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } {
        0 => Ok(lock.l_type != libc::F_UNLCK as _),
        _ => Err(io::Error::last_os_error()),
    }
}
