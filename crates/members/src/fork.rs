//! Fork: a child inherits descriptors, and with them the locks that prove a member alive. A handler
//! that runs in every child before any of its code closes the descriptors that hold such locks, and
//! counts the fork.
//!
//! Threads: any. The handler runs in the child, on its only thread.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Forks between this process and the first ancestor that installed the handler.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Descriptors that a child closes; -1 in free places.
static DESCRIPTORS: [AtomicI32; 1024] = [const { AtomicI32::new(-1) }; 1024];

/// A descriptor that forked children do not keep: the locks of its open file description end with
/// the process that opened it.
pub struct PrivateDescriptor {
    /// `None` after it was closed.
    descriptor: Option<OwnedFd>,
    birth: Birth,
    /// Index in [`DESCRIPTORS`].
    index: usize,
}

/// The process in which a value was made.
pub struct Birth {
    forks: u32,
    owner: u32,
}

impl Birth {
    /// This process. If the system has no memory for the handler, children are not detected.
    #[allow(clippy::new_without_default)] // the value depends on the process: no neutral default
    pub fn new() -> Birth {
        let _ = install_handler();
        Birth { forks: FORKS.load(Ordering::Acquire), owner: std::process::id() }
    }

    /// Whether the calling process is a forked child of the process of this value.
    #[inline]
    pub fn is_child(&self) -> bool {
        FORKS.load(Ordering::Relaxed) != self.forks
    }

    /// The process id.
    pub fn owner(&self) -> u32 {
        self.owner
    }
}

/// Makes every child count its fork and close the descriptors.
fn install_handler() -> io::Result<()> {
    static HANDLER: OnceLock<i32> = OnceLock::new();
    let refused = *HANDLER.get_or_init(|| {
        // SAFETY:
        // - in bounds: no memory is passed;
        // - alive: the handler is a function of the program, and stays loaded with it;
        // - no writer: the handler runs in the child, on its only thread;
        // - valid: `in_child` has the expected signature and calls only async-signal-safe
        //   functions.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) }
    });
    if refused == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(refused)) }
}

impl PrivateDescriptor {
    /// Opens the file of `file` once more: the new description is shared with no other descriptor
    /// and no mapping.
    ///
    /// # Errors
    /// As [`PrivateDescriptor::new`]; the system's refusal to open the file.
    pub fn reopen(file: &File) -> io::Result<PrivateDescriptor> {
        // By descriptor: the file's name may lead to another file by now.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        PrivateDescriptor::new(File::options().read(true).write(true).open(path)?)
    }

    /// Has every child close `file`, whose description no other descriptor and no mapping shares.
    ///
    /// # Errors
    /// No memory for the handler, or more than 1024 such descriptors in this process.
    pub fn new(file: File) -> io::Result<PrivateDescriptor> {
        install_handler()?;
        let descriptor = OwnedFd::from(file);
        let number = descriptor.as_raw_fd();
        let free = |entry: &AtomicI32| entry.compare_exchange(-1, number, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let index = DESCRIPTORS.iter().position(free);
        let index = index.ok_or_else(|| io::Error::other("too many open stores in one process"))?;
        Ok(PrivateDescriptor { descriptor: Some(descriptor), birth: Birth::new(), index })
    }

    /// Whether the calling process is a forked child of the process that opened the descriptor; its
    /// copy is closed.
    #[inline]
    pub fn is_child(&self) -> bool {
        self.birth.is_child()
    }

    /// The id of the process that opened it.
    pub fn owner(&self) -> u32 {
        self.birth.owner()
    }
}

impl AsFd for PrivateDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_ref().expect("open until it is dropped").as_fd()
    }
}

impl Drop for PrivateDescriptor {
    fn drop(&mut self) {
        let descriptor = self.descriptor.take().expect("closed once");
        if self.is_child() {
            // The handler has closed it, and the number may be another file's by now.
            let _ = descriptor.into_raw_fd();
        } else {
            DESCRIPTORS[self.index].store(-1, Ordering::Release);
        }
    }
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for entry in &DESCRIPTORS {
        let number = entry.swap(-1, Ordering::Relaxed);
        if number >= 0 {
            // SAFETY:
            // - in bounds: no memory is passed;
            // - alive: the entry is taken out before `drop` of its owner closes the number;
            // - no writer: the child has one thread, and the owner neither uses nor closes the
            //   number in a child (`PrivateDescriptor`);
            // - valid: a number in the table is an open descriptor of this crate.
            unsafe { libc::close(number) };
        }
    }
}
