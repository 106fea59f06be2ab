//! Questions of callers about unreadable pages: may a range be trusted after it was read, and did a
//! flush carry bytes that must not reach the medium. See `unreadable` for the pages themselves.
//!
//! Threads: any.

use crate::media::Media;
use crate::pages::named_ranges::NamedRange;
use crate::pages::unreadable::{CODES, count};
use crate::units::{Length, Offset};
use crate::{BackendKind, Damage, Error, Result};
use std::ffi::c_int;
use std::ops::Range;

impl Media {
    /// Refuses a range with a page that could not be read when it was touched. Callers ask after
    /// reading and before answering. One load and one comparison while the process has no such
    /// page.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    #[inline(always)]
    pub fn require_readable(&self, at: impl Into<Offset>, len: impl Into<Length>) -> Result<()> {
        let (at, len) = (at.into().get(), len.into().get());
        if count() == 0 { Ok(()) } else { self.search(at, len) }
    }

    #[cold]
    #[inline(never)]
    fn search(&self, at: u64, len: u64) -> Result<()> {
        self.inner.mapping.watched().find(at, len).map_or(Ok(()), |at| Err(self.unreadable_at(at)))
    }

    /// Whether a flush of `at..at+len` carries bytes that must not reach the log of backend `file`;
    /// the thread's next barrier is an error (BUS-3).
    #[inline(always)]
    pub(crate) fn loses(&self, at: u64, len: u64) -> bool {
        count() != 0 && self.inner.mapping.watched().loses(at, len) && self.kind() == BackendKind::File
    }

    /// Refuses a barrier of a thread that has flushed an unreadable page.
    #[inline(always)]
    pub(crate) fn require_nothing_lost(&self) -> Result<()> {
        if count() == 0 { Ok(()) } else { self.report_lost() }
    }

    #[cold]
    #[inline(never)]
    fn report_lost(&self) -> Result<()> {
        self.inner.mapping.watched().take_lost().map_or(Ok(()), |at| Err(self.unreadable_at(at)))
    }

    /// The number of unreadable pages that this process has met on any media. If it has changed,
    /// bytes read meanwhile may be zeros.
    #[inline(always)]
    pub fn unreadable_count() -> u64 {
        count()
    }

    /// Forgets the flushes that would fail the thread's next barrier. For engines that have refused
    /// a change because of an unreadable page, reported it, and flushed the rollback there.
    #[inline]
    pub fn forget_lost(&self) {
        if count() != 0 {
            let _ = self.inner.mapping.watched().take_lost();
        }
    }

    /// The touched pages of this media that could not be read, each with the name of its range.
    pub fn unreadable_pages(&self) -> Vec<(u64, Option<String>)> {
        let mut pages = self.inner.mapping.watched().pages();
        if let Some(beneath) = self.inner.beneath.get() {
            pages.extend(beneath.watched().pages());
            pages.sort_unstable();
            pages.dedup();
        }
        pages.into_iter().map(|at| (at, self.inner.names.of(at))).collect()
    }

    /// Names a range in errors about unreadable pages. Two ranges are equal or do not overlap.
    pub fn name_range(&self, range: Range<u64>, name: &str) -> NamedRange {
        NamedRange::new(&self.inner.names, range, name)
    }

    /// For tests: sends this thread the signal of an uncorrectable memory error at `at`. As with a
    /// real error, the page's bytes are lost for this media, and the file keeps them.
    ///
    /// # Panics
    /// If the offset is not backed.
    #[doc(hidden)]
    pub fn raise_memory_error(&self, at: impl Into<Offset>) {
        let at = at.into().get();
        self.inner.mapping.check_len(at, 1);
        Media::raise_memory_error_at(self.address().addr().get() + at as usize);
    }

    /// For tests: as [`Media::raise_memory_error`], at an address of any mapping, such as a view's.
    #[doc(hidden)]
    pub fn raise_memory_error_at(address: usize) {
        /// The fields of `siginfo_t` that the kernel fills for SIGBUS.
        #[repr(C, align(8))]
        struct BusErrorInfo {
            signal: c_int,
            errno: c_int,
            code: c_int,
            pad: c_int,
            address: usize,
            lsb: u64,
            rest: [u64; 12],
        }
        const _: () = assert!(size_of::<BusErrorInfo>() == size_of::<libc::siginfo_t>());
        let info =
            BusErrorInfo { signal: libc::SIGBUS, errno: 0, code: CODES[1], pad: 0, address, lsb: 12, rest: [0; 12] };
        // SAFETY: a system call without arguments: it reads and writes no memory of ours.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        let (call, process) = (libc::SYS_rt_tgsigqueueinfo, std::process::id());
        // SAFETY:
        // - in bounds: the kernel reads one `siginfo_t`, which has the size of `info`;
        // - alive: `info` lives through the call, and the handler runs before the call returns;
        // - no writer: `info` is local;
        // - valid: every field is initialised.
        let refused = unsafe { libc::syscall(call, process, thread, libc::SIGBUS, &raw const info) };
        assert_eq!(refused, 0, "a process may send itself any signal");
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn unreadable_at(&self, at: u64) -> Error {
        let damage = Damage::at(at, "the memory there cannot be read").of_file(&self.inner.path);
        Error::Unreadable(Damage { object: self.inner.names.of(at), ..damage }.into())
    }
}
