//! Pages that this process hides from itself, to hear of who touches them: what stands behind
//! objects that are larger than their memory.
//!
//! A watched range is protected with [`Media::protect`] as its watcher likes. A load or store that
//! the protection stops is a SIGSEGV; the handler asks the watcher of that address, and the
//! instruction runs again. Bytes of hidden pages are read and stored *beneath*: through a second
//! mapping of the file, which nobody else sees.
//!
//! Invariants
//!   HIDE-1  The handler takes no lock that is held while watched pages are touched: a watcher
//!           touches them beneath only.
//!   HIDE-2  Only the process that watches is answered: a child of fork has none of these pages.
//!
//! Threads: any. A program that sets a handler of its own for SIGSEGV afterwards must call the one
//! that it finds.

use crate::bytes::mapping::{Mapping, Mode};
use crate::media::{Backend, Media};
use crate::open::chunks;
use crate::{BackendKind, Error, Result};
use parking_lot::RwLock;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};

/// Who decides what a touch of a hidden page leads to.
pub trait Watcher: Send + Sync {
    /// The byte at `at` was touched, and the protection stopped it. `true`: try again. `false`: it
    /// is a fault.
    fn touched(&self, at: u64) -> bool;
}

/// A watched range; until it is dropped.
pub struct Watch {
    number: u64,
}

struct Watched {
    number: u64,
    addresses: Range<usize>,
    /// The offset of the first of them.
    at: u64,
    process: u32,
    watcher: Arc<dyn Watcher>,
}

/// What is watched, and how many ranges ever were.
static WATCHED: RwLock<(Vec<Watched>, u64)> = RwLock::new((Vec::new(), 0));
/// What became of SIGSEGV before there was anything to watch.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

impl Media {
    /// Whether pages can be hidden and watched: where stores reach a file that can be mapped twice.
    pub fn can_watch(&self) -> bool {
        matches!(&self.inner.backend, Backend::Direct(direct) if direct.file.is_some())
    }

    /// Watches a range of pages; from now on children of fork do not have this media.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses.
    ///
    /// # Panics
    /// Where [`Media::can_watch`] is false.
    pub fn watch(&self, range: Range<u64>, watcher: Arc<dyn Watcher>) -> Result<Watch> {
        let io = |source| Error::Io { action: "watch pages of", path: self.path().into(), source };
        self.beneath()?;
        self.inner.mapping.keep_from_children().map_err(io)?; // HIDE-2
        install();
        let address = |at: u64| self.address().as_ptr().addr() + at as usize;
        let addresses = address(range.start)..address(range.end);
        let (list, count) = &mut *WATCHED.write();
        *count += 1;
        let (number, process) = (*count, std::process::id());
        list.push(Watched { number, addresses, at: range.start, process, watcher });
        Ok(Watch { number })
    }

    /// The second mapping; the media's own where no page can be hidden.
    fn beneath(&self) -> Result<&Mapping> {
        let Backend::Direct(direct) = &self.inner.backend else { return Ok(&self.inner.mapping) };
        let Some(backing) = direct.file.as_deref() else { return Ok(&self.inner.mapping) };
        let beneath = match self.inner.beneath.get() {
            Some(beneath) => beneath,
            None => {
                let mode = if direct.kind == BackendKind::Pmem { Mode::SharedSync } else { Mode::Shared };
                let io = |source| Error::Io { action: "map a second time", path: direct.path.clone(), source };
                let (file, chunks) = (backing.file.as_fd(), &backing.disk.chunks);
                let again = match chunks.is_linear() {
                    true => Mapping::of_file(file, mode, self.max(), self.len()),
                    false => Mapping::of_pieces(None, file, mode, (self.max(), self.len()), &[], None),
                };
                let again = Arc::new(again.map_err(io)?);
                again.keep_from_children().map_err(io)?;
                chunks.show_in(&again);
                again.show(file, &chunks.extents()).map_err(io)?;
                self.inner.beneath.get_or_init(|| again)
            }
        };
        beneath.raise_limit(self.len());
        Ok(beneath)
    }

    /// Copies out what pages hold that may be hidden.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be mapped a second time.
    ///
    /// # Panics
    /// If the range is not backed.
    pub fn read_beneath(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let beneath = self.beneath()?;
        beneath.read(at, into);
        beneath.unreadable(at, into.len() as u64).map_or(Ok(()), |at| Err(self.unreadable_at(at)))
    }

    /// Gives room to pages that may be hidden and are holes, and stores `bytes` there, fenced on
    /// return.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no room: nothing has changed.
    ///
    /// # Panics
    /// If the range is not backed, or not whole pages.
    pub fn fill_beneath(&self, at: u64, bytes: &[u8]) -> Result<()> {
        match &self.inner.backend {
            Backend::Direct(direct) => {
                direct.allocate(&self.inner.mapping, at, bytes.len() as u64)?;
                let beneath = self.beneath()?;
                direct.copy_nt(beneath, at, bytes);
            }
            Backend::File(_) | Backend::Sim(_) => {
                self.extend(at, bytes.len() as u64)?;
                let _section = self.section();
                // A recorder remembers what a hole held, and is not told of stores that change
                // nothing.
                self.zero(at, bytes.len() as u64);
                self.write(at, bytes);
                self.flush(at, bytes.len() as u64);
            }
        }
        self.fence();
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.write().0.retain(|watched| watched.number != self.number);
    }
}

/// Takes SIGSEGV, once in the life of a process.
pub(crate) fn install() {
    BEFORE.get_or_init(|| {
        // SAFETY: zeros are a valid sigaction: no flags, nothing blocked, the default action.
        let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
        let mut before = ours;
        ours.sa_sigaction = handle as *const () as usize;
        // On the stack of whoever faults, which has more room than those for signals: a watcher
        // reads and writes files.
        ours.sa_flags = libc::SA_SIGINFO;
        // SAFETY: both point to values that live through the call; `handle` is a handler of this
        // form.
        let refused = unsafe { libc::sigaction(libc::SIGSEGV, &raw const ours, &raw mut before) };
        assert_eq!(refused, 0, "the arguments are what the system asks for");
        before
    });
}

/// The handler of SIGSEGV.
unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: a function without conditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: this thread's own errno, which nobody else touches, and which outlives the call.
    let errno = unsafe { &mut *errno };
    let kept = *errno;
    // SAFETY: the kernel hands a handler with SA_SIGINFO what happened.
    let info_here = unsafe { &*info };
    // SAFETY: SIGSEGV fills this field; for a signal that a process has sent it is some number, and
    // no address of ours.
    let address = unsafe { info_here.si_addr() }.addr();
    let found = WATCHED.read().0.iter().find(|watched| watched.addresses.contains(&address)).map(|watched| {
        let at = watched.at + (address - watched.addresses.start) as u64;
        (Arc::clone(&watched.watcher), at, watched.process)
    });
    let again = found.is_some_and(|(watcher, at, process)| process == std::process::id() && watcher.touched(at))
        || chunks::resolve(address);
    *errno = kept;
    if !again {
        // SAFETY: with what the kernel has handed to us.
        unsafe { pass_on(BEFORE.get().expect("the handler was installed"), signal, info, context) };
    }
}

/// A fault of other memory: to the action before ours.
///
/// # Safety
/// As the kernel calls handlers.
pub(crate) unsafe fn pass_on(
    before: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The instruction runs again, and the kernel does what it does by default.
            // SAFETY: a constant action for a signal that exists.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
            // SAFETY: the kernel hands a handler with SA_SIGINFO what happened.
            if unsafe { (*info).si_code } <= 0 {
                // SAFETY: a signal that a process has sent comes once; it comes again when the
                // handler returns.
                unsafe { libc::raise(signal) };
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the kernel had this address as a handler of this form.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: as above, of the other form.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Geometry, OpenOptions, Options};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Fills each page with its number when it is touched.
    struct Numbers(Media, AtomicU64);

    impl Watcher for Numbers {
        fn touched(&self, at: u64) -> bool {
            let page = at & !4095;
            self.1.fetch_add(1, Ordering::Relaxed);
            let filled = self.0.fill_beneath(page, &(page / 4096).to_le_bytes().repeat(512));
            filled.and_then(|()| self.0.protect(page, 4096, (true, true))).is_ok()
        }
    }

    #[test]
    fn who_touches_a_hidden_page_finds_what_its_watcher_puts_there() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let geometry = Geometry { max: 1 << 20, len: 1 << 20, log_at: 16384, log_len: 65536 };
        let media = OpenOptions::new(directory.path().join("m")).create(geometry, &Options::default()).unwrap();
        let hidden = 1 << 19..1 << 20;
        media.protect(hidden.start, 1 << 19, (false, false)).unwrap();
        let numbers = Arc::new(Numbers(media.clone(), AtomicU64::new(0)));
        let watch = media.watch(hidden.clone(), Arc::clone(&numbers) as _).unwrap();
        let pages = hidden.step_by(4096);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| pages.clone().for_each(|page| assert_eq!(media.load(page + 8), page / 4096)));
            }
        });
        assert!(numbers.1.load(Ordering::Relaxed) >= 128);
        media.store(1 << 19, 7); // visible by now: nobody is asked
        let mut word = [0; 8];
        media.read_beneath(1 << 19, &mut word).unwrap();
        assert_eq!(word, 7_u64.to_le_bytes(), "both mappings are one memory");
        drop(watch);
        assert!(WATCHED.read().0.is_empty());
    }
}
