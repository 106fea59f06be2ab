//! Children of fork: they inherit descriptors, and with them the locks that say who is alive. So
//! the descriptors that hold such locks are closed in every child, before any of its code runs.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Forks between this process and its first ancestor that asked.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Descriptors that children close; -1: none.
static DESCRIPTORS: [AtomicI32; 1024] = [const { AtomicI32::new(-1) }; 1024];

/// A descriptor that no child keeps, and with it the locks of its open file description.
pub(crate) struct Own {
    /// `None` once it was closed.
    descriptor: Option<OwnedFd>,
    born: u32,
    owner: u32,
    place: usize,
}

/// The process that something was made in.
pub(crate) struct Birth {
    forks: u32,
    owner: u32,
}

impl Birth {
    /// This process. Where the system has no room for the note, children are not told apart.
    pub(crate) fn new() -> Birth {
        let _ = hear_of_forks();
        Birth { forks: FORKS.load(Ordering::Acquire), owner: std::process::id() }
    }

    /// Whether this is a child of that process.
    #[inline]
    pub(crate) fn is_child(&self) -> bool {
        FORKS.load(Ordering::Relaxed) != self.forks
    }

    /// Its id.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }
}

/// Has every child of fork count that it is one.
fn hear_of_forks() -> io::Result<()> {
    static HANDLER: OnceLock<i32> = OnceLock::new();
    let refused = *HANDLER.get_or_init(|| {
        // SAFETY: the handler runs in a child of fork, on its one thread, and only calls what may
        // be called there.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) }
    });
    if refused == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(refused)) }
}

impl Own {
    /// The file that `file` has open, by a description that nothing else has: neither another
    /// descriptor nor a mapping.
    pub(crate) fn of(file: &File) -> io::Result<Own> {
        // The file itself, whatever its name leads to by now.
        Own::new(File::options().read(true).write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))?)
    }

    /// Has every child close what is given, of which nothing else has the description.
    pub(crate) fn new(file: File) -> io::Result<Own> {
        hear_of_forks()?;
        let descriptor = OwnedFd::from(file);
        let number = descriptor.as_raw_fd();
        let free = |place: &AtomicI32| place.compare_exchange(-1, number, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let place = DESCRIPTORS.iter().position(free);
        let place = place.ok_or_else(|| io::Error::other("too many open stores in one process"))?;
        let (born, owner) = (FORKS.load(Ordering::Acquire), std::process::id());
        Ok(Own { descriptor: Some(descriptor), born, owner, place })
    }

    /// Whether this is a child of the process that opened the descriptor: it has none.
    #[inline]
    pub(crate) fn is_child(&self) -> bool {
        FORKS.load(Ordering::Relaxed) != self.born
    }

    /// The process that opened it.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }
}

impl AsFd for Own {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_ref().expect("open until it is dropped").as_fd()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let descriptor = self.descriptor.take().expect("closed once");
        if self.is_child() {
            // closed already, and the number may be another file's by now
            let _ = descriptor.into_raw_fd();
        } else {
            DESCRIPTORS[self.place].store(-1, Ordering::Release);
        }
    }
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for place in &DESCRIPTORS {
        let number = place.swap(-1, Ordering::Relaxed);
        if number >= 0 {
            // SAFETY: a descriptor of ours, whose owner in this child never uses or closes it again
            // (`Own`).
            unsafe { libc::close(number) };
        }
    }
}
