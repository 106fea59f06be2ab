//! Children of fork: they inherit descriptors, and with them the locks that say who is alive. So the descriptors that hold
//! such locks are closed in every child, before any of its code runs.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Forks between this process and its first ancestor that asked.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Descriptors that children close; -1: none.
static DESCRIPTORS: [AtomicI32; 64] = [const { AtomicI32::new(-1) }; 64];

/// One descriptor that no child keeps, and where it was opened.
pub(crate) struct Forks {
    born: u32,
    owner: u32,
    place: usize,
}

impl Forks {
    /// Has every child close `descriptor`, until [`Forks::end`].
    pub(crate) fn close_in_children(descriptor: &OwnedFd) -> io::Result<Forks> {
        static HANDLER: OnceLock<i32> = OnceLock::new();
        let refused = *HANDLER.get_or_init(|| {
            // SAFETY: the handler runs in a child of fork, on its one thread, and only calls what may be called there.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) }
        });
        if refused != 0 {
            return Err(io::Error::from_raw_os_error(refused));
        }
        let number = descriptor.as_raw_fd();
        let free = |place: &AtomicI32| place.compare_exchange(-1, number, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let place = DESCRIPTORS.iter().position(free);
        let place = place.ok_or_else(|| io::Error::other("too many shared stores in one process"))?;
        Ok(Forks { born: FORKS.load(Ordering::Acquire), owner: std::process::id(), place })
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

    /// The descriptor is about to be closed. `true`: this is a child, where it is so already.
    pub(crate) fn end(&self) -> bool {
        let child = self.is_child();
        if !child {
            DESCRIPTORS[self.place].store(-1, Ordering::Release);
        }
        child
    }
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for place in &DESCRIPTORS {
        let number = place.swap(-1, Ordering::Relaxed);
        if number >= 0 {
            // SAFETY: a descriptor of ours, whose owner in this child never uses or closes it again (`Forks::end`).
            unsafe { libc::close(number) };
        }
    }
}
