//! Run-time choices of opening: backend, durability, flush instruction, device profile.

use crate::backends::profile::Profile;
use crate::bytes::isa::FlushKind;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The backend that a store is to get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// `pmem` where `MAP_SYNC` works, `shm` on tmpfs, else `file`.
    #[default]
    Auto,
    /// Shared `MAP_SYNC` mapping of a DAX file; an error elsewhere.
    Pmem,
    /// Private mapping and a log, on any disk (tmpfs too).
    File,
    /// Shared mapping, real flush instructions, no power-loss promise.
    Shm,
}

impl FromStr for BackendChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<BackendChoice, String> {
        match text {
            "auto" => Ok(BackendChoice::Auto),
            "pmem" => Ok(BackendChoice::Pmem),
            "file" => Ok(BackendChoice::File),
            "shm" => Ok(BackendChoice::Shm),
            other => Err(format!("`{other}` is none of auto, pmem, file, shm")),
        }
    }
}

/// The backend a store got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// Persistent memory.
    Pmem,
    /// A file on a disk, through a log.
    File,
    /// Shared memory.
    Shm,
    /// Recorded memory, for the crash explorer.
    Sim,
}

impl BackendKind {
    /// The name used in options, benches and `info`.
    pub fn name(self) -> &'static str {
        match self {
            BackendKind::Pmem => "pmem",
            BackendKind::File => "file",
            BackendKind::Shm => "shm",
            BackendKind::Sim => "sim",
        }
    }
}

/// The event that a barrier on the `file` backend waits for. The other backends settle at the fence
/// in every mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Written and synced: survives power loss.
    #[default]
    Always,
    /// Written (survives the process), synced at most this much later.
    Interval(Duration),
    /// Written (survives the process), synced at checkpoint and close.
    Process,
}

/// The text form: `always`, `interval:MILLISECONDS`, `process`.
impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Durability, String> {
        let interval = |text: &str| text.strip_prefix("interval:")?.parse().ok().map(Duration::from_millis);
        match text {
            "always" => Ok(Durability::Always),
            "process" => Ok(Durability::Process),
            other => interval(other)
                .map(Durability::Interval)
                .ok_or_else(|| format!("`{other}` is none of always, interval:MILLISECONDS, process")),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Always => f.write_str("always"),
            Durability::Interval(every) => write!(f, "interval:{}", every.as_millis()),
            Durability::Process => f.write_str("process"),
        }
    }
}

/// The choice that `given` names, else the one of the environment variable `variable`, such as
/// `EVERBYTE_BACKEND`. An empty text makes no choice.
///
/// # Errors
/// If the text names none; with the variable, if it is that one's.
pub fn chosen<T: FromStr<Err = String>>(given: &str, variable: &str) -> Result<Option<T>, String> {
    if !given.is_empty() {
        return given.parse().map(Some);
    }
    match std::env::var(variable) {
        Ok(text) if !text.is_empty() => text.parse().map(Some).map_err(|why| format!("{variable}: {why}")),
        _ => Ok(None),
    }
}

/// The choices of [`crate::OpenOptions::open`] and [`crate::OpenOptions::create`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The backend.
    pub backend: BackendChoice,
    /// The event that a barrier on `file` waits for.
    pub durability: Durability,
    /// The flush instruction; `None` picks the CPU's best.
    pub flush: Option<FlushKind>,
    /// Flush-on-fail: the platform flushes caches when power fails (eADR, battery), so flushes
    /// issue no instruction.
    pub flush_on_fail: bool,
    /// Slows `shm` down to a device.
    pub profile: Profile,
    /// Largest length of the `file` log of a new store, in bytes; a multiple of 64 KiB, at most
    /// 1 GiB.
    pub log_bytes: u64,
    /// Bytes of the log that are backed when `file` first opens the store; the ring grows under
    /// load.
    pub log_room: u64,
    /// Whether background threads of `file` checkpoint when the log is half full, and write a batch
    /// of flushed lines that is half full. Without them, the flush that finds the log or the batch
    /// full does.
    pub background: bool,
    /// Whether `file` releases clean pages to the system after a checkpoint. Every store must then
    /// be made inside a [`crate::Section`], as Everbyte's crates do; programs that store elsewhere
    /// turn it off and keep their pages.
    pub give_back: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            backend: BackendChoice::Auto,
            durability: Durability::Always,
            flush: None,
            flush_on_fail: false,
            profile: Profile::DRAM,
            log_bytes: 256 << 20,
            log_room: 16 << 20,
            background: true,
            give_back: true,
        }
    }
}
