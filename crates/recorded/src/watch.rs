//! Detects a program's stores to a store's memory by page protection.
//!
//! All of it, with its second mappings ([`also`]), is made read-only. The first store to a page
//! faults; then
//!   pages   the bytes of the page are put aside and the page is made writable. When [`stored`] is
//!           called the two are compared: values of one word between two calls, and the order of
//!           words, are not seen
//!   stores  the one instruction runs with the processor's trap flag set; in the trap behind it the
//!           page is compared and made read-only again. Every store is seen, in order, at some
//!           microseconds each
//!
//! Invariants
//!   WATCH-1  A page of the watched range is writable only while its old bytes lie in `aside`.
//!   WATCH-2  The handlers use memory that is mapped beforehand and system calls alone: they may
//!            interrupt anything.
//!
//! Threads: one, which the handlers check; `WATCH` is set once and lives as long as the process.

use crate::{Refused, Result};
use everbyte_media::Media;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::io::Error;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::OnceLock;

const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;
/// Pages that may be stored to between two calls of [`stored`].
const PAGES_MAX: usize = 8192;
/// Words that may be stored between two calls.
const WORDS_MAX: usize = 1 << 20;
/// Mappings of the store's memory.
const VIEWS_MAX: usize = 1 + 64;

/// The precision of the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// The changed words of each page between two calls.
    Pages,
    /// Every store.
    Stores,
}

/// The bytes of a page before it became writable.
struct Aside {
    page: usize,
    words: [u64; WORDS],
}

struct Watch {
    precision: Precision,
    thread: i32,
    /// The handlers that were installed before.
    before: [libc::sigaction; 2],
    found: UnsafeCell<StoresSeen>,
}

/// The stores found since the last call of [`stored`], and the watched ranges. The memory for them
/// is mapped in advance (WATCH-2).
struct StoresSeen {
    aside: Vec<Aside>,
    /// Address and value, in order.
    words: Vec<(usize, u64)>,
    /// Watched addresses, and their offsets in the store.
    views: Vec<(Range<usize>, u64)>,
}

impl StoresSeen {
    /// The offset of an address in the store.
    fn offset(&self, address: usize) -> Option<u64> {
        let (view, at) = self.views.iter().find(|(view, _)| view.contains(&address))?;
        Some(at + (address - view.start) as u64)
    }
}

// SAFETY: `found` is used by one thread alone: handlers refuse others, and `stored` runs under the
// tape's lock in it.
unsafe impl Sync for Watch {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Watch {}

static WATCH: OnceLock<Watch> = OnceLock::new();

/// Watches all memory of `media` from now on, until the process ends.
pub(crate) fn start(media: &Media, precision: Precision) -> Result<()> {
    if precision == Precision::Stores && cfg!(not(target_arch = "x86_64")) {
        return Err(Refused::new(
            libc::ENOTSUP,
            "stepping through a program is for x86-64; explore it with a page scan",
        ));
    }
    let (aside, words) = match precision {
        Precision::Pages => (PAGES_MAX, 0),
        Precision::Stores => (2, WORDS_MAX),
    };
    let handlers = [(libc::SIGSEGV, on_fault as *const () as usize), (libc::SIGTRAP, on_trap as *const () as usize)];
    let (base, reserve) = (media.address().as_ptr().expose_provenance(), media.max() as usize);
    let mut views = Vec::with_capacity(VIEWS_MAX);
    views.push((base..base + reserve, 0));
    let watch = Watch {
        precision,
        thread: thread(),
        before: handlers.map(|(signal, _)| replace(signal, None)),
        found: UnsafeCell::new(StoresSeen {
            aside: Vec::with_capacity(aside),
            words: Vec::with_capacity(words),
            views,
        }),
    };
    if WATCH.set(watch).is_err() {
        return Err(Refused::new(libc::EBUSY, "this program is being watched already"));
    }
    for (signal, handler) in handlers {
        replace(signal, Some(handler));
    }
    protect(base, reserve, libc::PROT_READ).map_err(unwatchable)
}

/// Watches also the memory at `place`, a second mapping of the store from `at` on. Does nothing if
/// no memory is watched.
///
/// # Errors
/// If there are too many mappings, or the system refuses to protect it.
pub fn also(place: Range<usize>, at: u64) -> Result<()> {
    let Some(watch) = WATCH.get() else { return Ok(()) };
    // SAFETY: as in `stored`.
    let found = unsafe { &mut *watch.found.get() };
    if found.views.len() == found.views.capacity() {
        return Err(Refused::invalid("a program before the explorer has at most 64 sections of persistent variables"));
    }
    found.views.push((place.clone(), at));
    protect(place.start, place.len(), libc::PROT_READ).map_err(unwatchable)
}

fn unwatchable(error: Error) -> Refused {
    Refused::new(libc::EIO, format!("the store's memory cannot be watched: {error}"))
}

/// Returns the stores since the last call: offsets and bytes.
pub(crate) fn stored(each: &mut dyn FnMut(u64, &[u8])) {
    let Some(watch) = WATCH.get() else { return };
    // SAFETY: this thread's alone (see `Sync` above); no store to watched memory, so no handler,
    // comes before the end.
    let found = unsafe { &mut *watch.found.get() };
    let mut each = |address, value: u64| each(found.offset(address).expect("watched"), &value.to_le_bytes());
    for &(address, value) in &found.words {
        each(address, value);
    }
    for aside in &found.aside {
        changed(aside, &mut each);
    }
    found.words.clear();
    for aside in found.aside.drain(..) {
        protect(aside.page, PAGE, libc::PROT_READ).expect("a page of our own mapping");
    }
}

/// Reports each word of a page that differs from its copy, with its new value.
fn changed(aside: &Aside, mut each: impl FnMut(usize, u64)) {
    for (index, &before) in aside.words.iter().enumerate() {
        let now = word(aside.page + index * 8);
        if now != before {
            each(aside.page + index * 8, now);
        }
    }
}

/// Reads a word of the watched range.
fn word(address: usize) -> u64 {
    let pointer = std::ptr::with_exposed_provenance::<u64>(address);
    // SAFETY: aligned, and inside the range that `start` was given, which is mapped readable until
    // the process ends; any bits are a u64. No other thread stores there.
    unsafe { pointer.read_volatile() }
}

fn protect(address: usize, len: usize, access: c_int) -> std::io::Result<()> {
    let pointer = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: whole pages inside the media's mapping, which lives until the process ends; only
    // this file relies on the protection of its pages.
    match unsafe { libc::mprotect(pointer, len, access) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Sets or queries the handler of a signal; returns the previous one.
fn replace(signal: c_int, handler: Option<usize>) -> libc::sigaction {
    // SAFETY: a `sigaction` of zeros is one: the default, without flags.
    let mut old = unsafe { std::mem::zeroed::<libc::sigaction>() };
    let mut new = old;
    let mut place: *const libc::sigaction = std::ptr::null();
    if let Some(handler) = handler {
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        place = &raw const new;
    }
    // SAFETY: both live until it returns; the handlers are functions of this file with the
    // signature of SA_SIGINFO.
    unsafe { libc::sigaction(signal, place, &raw mut old) };
    old
}

fn thread() -> i32 {
    // SAFETY: it has no conditions.
    unsafe { libc::gettid() }
}

/// Writes a message and ends the process, from a handler.
fn give_up(sentence: &str) -> ! {
    // SAFETY: the bytes live until it returns; a failure to write them changes nothing.
    unsafe { libc::write(2, sentence.as_ptr().cast(), sentence.len()) };
    // SAFETY: it has no conditions.
    unsafe { libc::_exit(70) }
}

/// Forwards a signal of another cause to the previous handler.
///
/// # Safety
/// The arguments are those of the handler.
unsafe fn pass_on(watch: &Watch, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = &watch.before[usize::from(signal == libc::SIGTRAP)];
    let handler = before.sa_sigaction;
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: it was installed before; the instruction faults again and has its default effect.
        unsafe { libc::sigaction(signal, before, null_mut()) };
    } else if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the program that installed it promised a function of this signature.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = unsafe { std::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: as above, without SA_SIGINFO.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
}

/// A store to a read-only page: a watched page, or a mistake of the program.
extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(watch) = WATCH.get() else { return };
    // SAFETY: the kernel hands a handler a whole siginfo, which lives until it returns.
    let info_of_fault = unsafe { &*info };
    // SAFETY: the signal is a fault's, so the address is there.
    let address = unsafe { info_of_fault.si_addr() }.addr();
    // SAFETY: only `also` changes `views`, and it runs before another thread could.
    let views = unsafe { &(*watch.found.get()).views };
    if !views.iter().any(|(view, _)| view.contains(&address)) {
        // SAFETY: our own arguments.
        return unsafe { pass_on(watch, signal, info, context) };
    }
    if thread() != watch.thread {
        give_up("everbyte: a second thread stores to the store; the explorer watches programs of one thread\n");
    }
    // SAFETY: this thread's alone, and it was interrupted by its own store to watched memory, which
    // `stored` makes none of.
    let found = unsafe { &mut *watch.found.get() };
    if found.aside.len() == found.aside.capacity() {
        give_up("everbyte: more is stored between two flushes than the explorer watches (32 MiB)\n");
    }
    let page = address & !(PAGE - 1);
    // WATCH-1
    found.aside.push(Aside { page, words: std::array::from_fn(|index| word(page + index * 8)) });
    if protect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE).is_err() {
        give_up("everbyte: too many pages are stored to for the system to watch them\n");
    }
    if watch.precision == Precision::Stores {
        // SAFETY: our own argument.
        unsafe { set_trap(context, true) };
    }
}

/// The storing instruction has run.
extern "C" fn on_trap(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(watch) = WATCH.get() else { return };
    // SAFETY: as in `on_fault`.
    let found = unsafe { &mut *watch.found.get() };
    if watch.precision == Precision::Pages || found.aside.is_empty() || thread() != watch.thread {
        // SAFETY: our own arguments.
        return unsafe { pass_on(watch, signal, info, context) };
    }
    for aside in &found.aside {
        changed(aside, |address, value| {
            if found.words.len() == found.words.capacity() {
                give_up("everbyte: more words are stored between two flushes than the explorer watches (1 Mi)\n");
            }
            found.words.push((address, value));
        });
        if protect(aside.page, PAGE, libc::PROT_READ).is_err() {
            give_up("everbyte: a page cannot be watched any longer\n");
        }
    }
    found.aside.clear();
    // SAFETY: our own argument.
    unsafe { set_trap(context, false) };
}

/// Sets or clears the trap flag that the interrupted code goes on with.
///
/// # Safety
/// `context` is what the kernel handed to a handler of SA_SIGINFO.
#[cfg(target_arch = "x86_64")]
unsafe fn set_trap(context: *mut c_void, on: bool) {
    const TRAP: i64 = 1 << 8;
    // SAFETY: the caller's promise: a `ucontext_t` without another reference.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let flags = &mut context.uc_mcontext.gregs[libc::REG_EFL as usize];
    *flags = if on { *flags | TRAP } else { *flags & !TRAP };
}

/// # Safety
/// None; `start` has refused this architecture.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn set_trap(_context: *mut c_void, _on: bool) {}
