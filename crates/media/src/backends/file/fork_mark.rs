//! Detecting a forked child of the process that opened the store, by one load.
//!
//! A page marked `MADV_WIPEONFORK` holds the owner's process id; in a child it reads as zero.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A word that is wiped in every child of this process.
pub(crate) struct ForkMark {
    page: NonNull<u8>,
    owner: u32,
}

// SAFETY: the page is plain memory that lives until drop; all access is atomic.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

const PAGE: usize = 4096;

impl ForkMark {
    pub(crate) fn new() -> io::Result<ForkMark> {
        use rustix::mm::{Advice, MapFlags, ProtFlags};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
        let page = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), PAGE, protection, MapFlags::PRIVATE) }?;
        let page = NonNull::new(page.cast::<u8>()).expect("mmap returned null");
        let mark = ForkMark { page, owner: std::process::id() };
        // SAFETY: advice on our own fresh mapping.
        unsafe { rustix::mm::madvise(page.as_ptr().cast(), PAGE, Advice::LinuxWipeOnFork) }?;
        mark.word().store(mark.owner, Relaxed);
        Ok(mark)
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY:
        // - in bounds: the start of our page, which is aligned;
        // - alive: the reference cannot outlive `self`, which owns the page;
        // - no writer: all access is atomic;
        // - valid: any bytes are a u32.
        unsafe { AtomicU32::from_ptr(self.page.as_ptr().cast()) }
    }

    /// Whether this process inherited the store by fork.
    #[inline(always)]
    pub(crate) fn is_child(&self) -> bool {
        self.word().load(Relaxed) == 0
    }

    /// The process that opened the store.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        // SAFETY: our own page, and no reference into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), PAGE) };
    }
}
