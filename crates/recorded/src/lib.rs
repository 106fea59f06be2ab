//! A program under the crash explorer: `crash.h`, and the recorder that writes a tape of the
//! program's stores, flushes and fences. The libraries that C and C++ programs are linked with,
//! libeverbyte and those of the bridge, open the program's store by [`open`].
//!
//! The explorer starts the program with these variables set:
//!   EVERBYTE_RECORD           the file that the tape is written to, a line for each [`TraceLine`]
//!   EVERBYTE_RECORD_MODE      `scan` or `precise`, see [`watch`]
//!   EVERBYTE_RECORD_SETTLING  `fence` or `barrier`: the operation that settles
//!   EVERBYTE_CRASH_BEGUN, EVERBYTE_CRASH_ACKED
//!                             for a check: the numbers of operations that had begun and been
//!                             acknowledged before the crash
//! The store is then a private copy: its file is not changed.
//!
//! Threads: one. The tape of a program with several would show an order that is not guaranteed.

mod watch;

use everbyte_media::{Capabilities, Media, OpenOptions, Recorder, TraceLine};
use parking_lot::Mutex;
use std::ffi::{CStr, OsString, c_char, c_int, c_long};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use watch::Precision;
pub use watch::also;

/// The reason for which a program is not watched.
#[derive(Clone, Debug)]
pub struct Refused {
    /// As C programs get it.
    pub errno: c_int,
    /// The sentence.
    pub message: String,
}

impl Refused {
    fn new(errno: c_int, message: impl Into<String>) -> Refused {
        Refused { errno, message: message.into() }
    }

    fn invalid(message: impl Into<String>) -> Refused {
        Refused::new(libc::EINVAL, message)
    }
}

type Result<T> = std::result::Result<T, Refused>;

/// The tape of this process, from its first line on.
static TAPE: Mutex<Option<Tape>> = Mutex::new(None);

struct Tape {
    file: BufWriter<File>,
    fences: u64,
}

impl Tape {
    /// Writes the stores since the last line, then the line.
    fn note(&mut self, heard: &TraceLine) {
        let mut write = |heard: &TraceLine| writeln!(self.file, "{heard}");
        let mut result = Ok(());
        watch::stored(&mut |at, bytes| {
            let written = write(&TraceLine::Store(at, bytes.to_vec()));
            result = std::mem::replace(&mut result, Ok(())).and(written);
        });
        let flushed = result.and_then(|()| write(heard)).and_then(|()| self.file.flush());
        flushed.unwrap_or_else(|error| give_up(&error));
    }
}

fn note(heard: &TraceLine) {
    let mut slot = TAPE.lock();
    if slot.is_none() {
        let Some(path) = requested() else { return };
        // One tape for each run: a second library or program would write over the first one's.
        let file = File::create_new(&path).unwrap_or_else(|error| give_up(&error));
        *slot = Some(Tape { file: BufWriter::new(file), fences: 0 });
    }
    if let Some(tape) = &mut *slot {
        tape.note(heard);
    }
}

/// The path that the explorer chose for the tape.
fn requested() -> Option<OsString> {
    std::env::var_os("EVERBYTE_RECORD")
}

/// Whether the explorer watches this process.
pub fn is_recording() -> bool {
    requested().is_some()
}

/// Ends the process: a tape that cannot be written is useless.
fn give_up(error: &io::Error) -> ! {
    eprintln!("everbyte: EVERBYTE_RECORD: the tape of this program cannot be written: {error}");
    std::process::abort()
}

/// The recorder of a program's media.
struct Ear {
    fence_settles: bool,
}

impl Recorder for Ear {
    /// Ignored: the recorder finds all stores by watching memory.
    fn store(&mut self, _at: u64, _bytes: &[u8]) {}

    fn flush(&mut self, at: u64, len: u64) {
        note(&TraceLine::Flush(at, len));
    }

    fn fence(&mut self) {
        note(&TraceLine::Fence);
        if let Some(tape) = &mut *TAPE.lock() {
            tape.fences += 1;
        }
    }

    fn mark(&mut self) -> u64 {
        TAPE.lock().as_ref().map_or(0, |tape| tape.fences)
    }

    fn barrier(&mut self, mark: u64) -> io::Result<()> {
        note(&TraceLine::Barrier(mark));
        Ok(())
    }

    fn allocate(&mut self, at: u64, len: u64) -> io::Result<()> {
        note(&TraceLine::Allocate(at, len));
        Ok(())
    }

    fn punch(&mut self, at: u64, len: u64) {
        note(&TraceLine::Punch(at, len));
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { shared: false, fence_settles: self.fence_settles, huge_pages: false }
    }
}

/// Opens the media of the store at `path` for the explorer, if the environment asks for that.
///
/// # Errors
/// If the media cannot be opened or watched, or a variable is none of the explorer's.
pub fn open<E>(path: &Path) -> std::result::Result<Option<Media>, E>
where
    E: From<Refused> + From<everbyte_media::Error>,
{
    if requested().is_none() {
        return Ok(None);
    }
    let precision = word("EVERBYTE_RECORD_MODE", &[("scan", Precision::Pages), ("precise", Precision::Stores)])?;
    let fence_settles = word("EVERBYTE_RECORD_SETTLING", &[("fence", true), ("barrier", false)])?;
    let media = OpenOptions::new(path).record(Box::new(Ear { fence_settles }))?;
    watch::start(&media, precision)?;
    Ok(Some(media))
}

fn word<T: Copy>(variable: &str, words: &[(&str, T)]) -> Result<T> {
    let value = std::env::var(variable).unwrap_or_default();
    let found = words.iter().find(|(word, _)| *word == value).map(|&(_, meaning)| meaning);
    found.ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Refused::invalid(format!("{variable} is `{value}`, which is none of {}", words.join(", ")))
    })
}

/// A number that the explorer gave; -1 without an explorer.
fn given(variable: &str) -> c_long {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(-1)
}

/// As `crash.h` says: an operation begins.
///
/// # Safety
/// `name` is a string that ends with a zero byte, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everbyte_crash_begin(name: *const c_char) -> c_int {
    if name.is_null() {
        // SAFETY: it has no conditions.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: this thread's `errno`.
        unsafe { errno.write(libc::EINVAL) };
        return 0;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    note(&TraceLine::Begin(name.to_string_lossy().into_owned()));
    1
}

/// As `crash.h` says: the operation that began last is acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn everbyte_crash_acked() {
    note(&TraceLine::Acked);
}

/// As `crash.h` says: the recovery of a check is over.
#[unsafe(no_mangle)]
pub extern "C" fn everbyte_crash_recovered() {
    note(&TraceLine::Recovered);
}

/// As `crash.h` says: the operations that had begun before the crash.
#[unsafe(no_mangle)]
pub extern "C" fn everbyte_crash_seen_begun() -> c_long {
    given("EVERBYTE_CRASH_BEGUN")
}

/// As `crash.h` says: those that had been acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn everbyte_crash_seen_acked() -> c_long {
    given("EVERBYTE_CRASH_ACKED")
}
