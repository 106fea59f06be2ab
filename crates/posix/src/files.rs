//! [`Files`]: a volume in use, with the options of its mount and the state that all of its
//! processes share.
//!
//! Invariants
//!   PX-1  The number of a directory that was removed gets no other file while a call resolves a
//!         path: such calls hold a lock of `walks` for reading, and calls that remove directories
//!         hold all of them for writing.
//!
//! Threads: any. The locks of `walks` are taken before those of the volume. No call waits for a
//! lock of a file while it holds one of them.

use crate::locks::Locks;
use crate::{Errno, Error, Result};
use everbyte_fs::{Found, Held, OpenVolume, PageSize, SealCursor, StepLimits, Volume};
use everbyte_media::{ErrorInfo, ErrorKind, WriteWindows};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::Cell;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// When a read changes the time of a file's last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// If it is older than the last change, or than a day.
    #[default]
    Relative,
    /// Always.
    Strict,
    /// Never.
    Never,
    /// As [`AccessTimes::Relative`], but never for directories.
    NeverOfDirectories,
}

/// The effect of damage that a call finds. The call fails in any case; a failed write or sync of
/// the medium ends all further changes under each of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Other files can be used and changed.
    #[default]
    Continue,
    /// The volume cannot be changed from then on.
    ReadOnly,
    /// All later calls fail with [`Errno::EIO`].
    Stop,
}

/// Options of using a volume.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// When reads change times.
    pub access_times: AccessTimes,
    /// Whether every change is durable when its call returns, on each medium.
    pub sync: bool,
    /// Whether changes are refused with [`Errno::EROFS`].
    pub read_only: bool,
    /// The effect of damage.
    pub on_damage: OnDamage,
    /// Is given one line for each call that finds damage, or a medium that fails.
    pub log: fn(&str),
    /// Of [`FilesOptions::opening`]: the page size of new files; `None`: the volume's own.
    pub page_size: Option<PageSize>,
    /// Of [`FilesOptions::opening`]: relaxed commit, see [`OpenVolume::relaxed`].
    pub relaxed: bool,
    /// Of [`FilesOptions::opening`]: the protection of pages against stray stores of this process.
    pub windows: WriteWindows,
}

impl Default for FilesOptions {
    fn default() -> FilesOptions {
        FilesOptions {
            access_times: AccessTimes::default(),
            sync: false,
            read_only: false,
            on_damage: OnDamage::default(),
            // A terminal that is gone refuses it.
            log: |line| _ = writeln!(std::io::stderr(), "{line}"),
            page_size: None,
            relaxed: false,
            windows: WriteWindows::default(),
        }
    }
}

impl FilesOptions {
    /// The words of [`FilesOptions::set`], for messages.
    pub const WORDS: &str = "ro, rw, sync, async, relatime, strictatime, noatime, nodiratime, atime, \
         errors=continue, errors=remount-ro, errors=stop, pagesize=4K, pagesize=2M, pagesize=1G, relaxed, norelaxed, \
         windows=keys, windows=mprotect, windows=off";

    /// Sets an option by its word for mount(8), such as `noatime`. `false`: none has this word.
    pub fn set(&mut self, word: &str) -> bool {
        match word {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "sync" | "dirsync" => self.sync = true,
            "async" => self.sync = false,
            "relatime" | "atime" => self.access_times = AccessTimes::Relative,
            "strictatime" => self.access_times = AccessTimes::Strict,
            "noatime" => self.access_times = AccessTimes::Never,
            "nodiratime" => self.access_times = AccessTimes::NeverOfDirectories,
            // As ext4 has them, which stops the machine in place of the volume.
            "errors=continue" => self.on_damage = OnDamage::Continue,
            "errors=remount-ro" => self.on_damage = OnDamage::ReadOnly,
            "errors=stop" => self.on_damage = OnDamage::Stop,
            "pagesize=4K" => self.page_size = Some(PageSize::Small),
            "pagesize=2M" => self.page_size = Some(PageSize::Large),
            "pagesize=1G" => self.page_size = Some(PageSize::Giant),
            "relaxed" => self.relaxed = true,
            "norelaxed" => self.relaxed = false,
            "windows=keys" => self.windows = WriteWindows::Keys,
            "windows=mprotect" => self.windows = WriteWindows::PageTable,
            "windows=off" => self.windows = WriteWindows::Off,
            _ => return false,
        }
        true
    }

    /// The options of opening the volume, for [`Volume::open_with`]: its page size, relaxed commit
    /// and write windows.
    pub fn opening(&self) -> OpenVolume {
        let &FilesOptions { page_size, relaxed, windows, .. } = self;
        OpenVolume { page_size, relaxed, windows, ..OpenVolume::default() }
    }
}

/// A volume in use. Cheap to clone.
#[derive(Clone)]
pub struct Files(Arc<VolumeInUse>);

struct VolumeInUse {
    volume: Volume,
    options: FilesOptions,
    read_only: AtomicBool,
    stopped: AtomicBool,
    /// A write or a sync of the medium has failed: later changes would be lost.
    poisoned: AtomicBool,
    walks: [Walks; WALKS],
    locks: Locks,
}

const WALKS: usize = 8;

/// One lock of [`VolumeInUse::walks`], in lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Walks(RwLock<()>);

thread_local! {
    /// The lock of `walks` that this thread uses.
    static HOME: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % WALKS)
    };
}

/// Numbers that a thread takes at once: threads do not write to one line for each.
const IDS: u64 = 1 << 10;

/// A number that no other process of a volume and no other open file has.
pub(crate) fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static OWN: Cell<u64> = const { Cell::new(0) };
    }
    let own = match OWN.get() {
        used if used.is_multiple_of(IDS) => NEXT.fetch_add(1, Ordering::Relaxed) * IDS,
        free => free,
    };
    OWN.set(own + 1);
    own
}

/// The files of a call, for the log: its path, or the two of a call that leads from one to another.
pub(crate) struct Paths<'p> {
    from: &'p [u8],
    to: Option<&'p [u8]>,
}

impl<'p> Paths<'p> {
    pub(crate) fn of(path: &'p [u8]) -> Paths<'p> {
        Paths { from: path, to: None }
    }

    pub(crate) fn of_two(from: &'p [u8], to: &'p [u8]) -> Paths<'p> {
        Paths { from, to: Some(to) }
    }
}

/// The line of the log about a call that has failed.
fn line(volume: &str, paths: &Paths<'_>, error: &Error) -> String {
    // A file that was opened by its number, as a mount does, has no path: the error has the number.
    let known = [Some(paths.from), paths.to].into_iter().flatten().filter(|path| !path.is_empty());
    let known: Vec<_> = known.map(|path| format!("`{}`", String::from_utf8_lossy(path).escape_debug())).collect();
    match known.is_empty() {
        true => format!("volume `{volume}`: {error}"),
        false => format!("volume `{volume}`: {}: {error}", known.join(" to ")),
    }
}

impl Files {
    /// Begins to use a volume.
    pub fn new(volume: Volume, options: FilesOptions) -> Files {
        Files(Arc::new(VolumeInUse {
            read_only: AtomicBool::new(options.read_only),
            stopped: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            volume,
            options,
            walks: Default::default(),
            locks: Locks::default(),
        }))
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.0.volume
    }

    /// Seals data that has not changed for [`everbyte_fs::SEAL_AFTER`], as far as the limits go;
    /// returns the number of pages that it has read: see [`Volume::seal_step`]. For a thread of
    /// the caller's, again and again.
    ///
    /// # Errors
    /// [`Errno::EROFS`]; [`Errno::ENOSPC`] without a page for checksums; [`Errno::EIO`].
    pub fn seal_step(&self, cursor: &mut SealCursor, limits: &StepLimits) -> Result<u64> {
        self.require_writable()?;
        self.logged(b"/", || Ok(self.volume().seal_step(cursor, limits, self.volume().now())?))
    }

    /// Ends the use of the volume and closes it, so that the next opening reads no inode. Durable
    /// on return.
    ///
    /// # Errors
    /// [`Errno::EBUSY`] while processes, open files or other clones exist: the last of them may be
    /// closed. [`Errno::EIO`]: the medium failed.
    pub fn close(self) -> Result<()> {
        let VolumeInUse { volume, options, .. } = Arc::into_inner(self.0).ok_or(Errno::EBUSY)?;
        let name = volume.object().name().to_owned();
        let closed = volume.close().map_err(Error::from);
        closed.inspect_err(|error| (options.log)(&line(&name, &Paths::of(b"/"), error)))
    }

    /// Waits until all changes that returned before are durable.
    ///
    /// # Errors
    /// [`Errno::EIO`]: the medium failed, and later changes fail.
    pub fn sync(&self) -> Result<()> {
        self.sync_for(b"/")
    }

    /// [`Files::sync`] for the owner of the volume: changes that returned before damage was met
    /// become durable also when [`OnDamage::Stop`] has ended all calls since.
    ///
    /// # Errors
    /// As [`Files::sync`].
    pub fn settle(&self) -> Result<()> {
        let settled = self.volume().settle().map_err(Error::from);
        if let Err(error) = &settled
            && error.is_failure()
        {
            self.failed(&Paths::of(b"/"), error);
        }
        settled
    }

    /// [`Files::sync`] as a call on the file of a path.
    pub(crate) fn sync_for(&self, path: &[u8]) -> Result<()> {
        self.logged(path, || Ok(self.volume().settle()?))
    }

    /// Whether both are uses of one volume.
    pub(crate) fn is(&self, other: &Files) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The options of using the volume.
    pub fn options(&self) -> &FilesOptions {
        &self.0.options
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.0.locks
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.0.read_only.load(Ordering::Acquire)
    }

    /// A call that changes nothing. `path` tells the file in the log.
    pub(crate) fn look<T>(&self, path: &[u8], call: impl FnOnce(&Volume) -> Result<T>) -> Result<T> {
        let _walk = self.walk();
        self.logged(path, || call(self.volume()))
    }

    /// A call that changes the volume and removes no directory.
    pub(crate) fn change<T>(&self, path: &[u8], call: impl FnOnce(&Volume) -> Result<T>) -> Result<T> {
        let done = self.change_unsettled(&Paths::of(path), call)?;
        self.settle_if_sync()?;
        Ok(done)
    }

    /// [`Files::change`] that leaves it to the caller to settle what it changed.
    pub(crate) fn change_unsettled<T>(&self, paths: &Paths<'_>, call: impl FnOnce(&Volume) -> Result<T>) -> Result<T> {
        self.require_writable()?;
        let _walk = self.walk();
        self.logged_of(paths, || call(self.volume()))
    }

    /// A call that may remove a directory (PX-1).
    pub(crate) fn change_alone<T>(&self, paths: &Paths<'_>, call: impl FnOnce(&Volume) -> Result<T>) -> Result<T> {
        self.require_writable()?;
        let done = {
            let _walks: [RwLockWriteGuard<'_, ()>; WALKS] = self.0.walks.each_ref().map(|walks| walks.0.write());
            self.logged_of(paths, || call(self.volume()))?
        };
        self.settle_if_sync()?;
        Ok(done)
    }

    pub(crate) fn walk(&self) -> RwLockReadGuard<'_, ()> {
        self.0.walks[HOME.get()].0.read()
    }

    pub(crate) fn require_writable(&self) -> Result<()> {
        if self.is_read_only() {
            return Err(Errno::EROFS.into());
        }
        match self.0.poisoned.load(Ordering::Acquire) {
            true => Err(Errno::EIO.into()),
            false => Ok(()),
        }
    }

    pub(crate) fn settle_if_sync(&self) -> Result<()> {
        if self.options().sync { self.sync() } else { Ok(()) }
    }

    /// Runs a call; gives a line to the log and applies the policy of damage if it fails so.
    pub(crate) fn logged<T>(&self, path: &[u8], call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.logged_of(&Paths::of(path), call)
    }

    /// [`Files::logged`] of a call on two files.
    pub(crate) fn logged_of<T>(&self, paths: &Paths<'_>, call: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.0.stopped.load(Ordering::Acquire) {
            return Err(Errno::EIO.into());
        }
        let outcome = call();
        if let Err(error) = &outcome
            && error.is_failure()
        {
            self.failed(paths, error);
        }
        outcome
    }

    #[cold]
    fn failed(&self, paths: &Paths<'_>, error: &Error) {
        (self.options().log)(&line(self.volume().object().name(), paths, error));
        if error.kind() == ErrorKind::Poisoned {
            self.0.poisoned.store(true, Ordering::Release);
        }
        match self.options().on_damage {
            OnDamage::Continue => (),
            OnDamage::ReadOnly => self.0.read_only.store(true, Ordering::Release),
            OnDamage::Stop => self.0.stopped.store(true, Ordering::Release),
        }
    }

    /// Holds a file that a name has led to. `None`: it was removed meanwhile.
    pub(crate) fn hold(&self, found: &Found) -> Result<Option<Held>> {
        match self.volume().hold_found(found) {
            Ok(held) => Ok(Some(held)),
            Err(everbyte_fs::Error::Stale { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Files({})", self.volume().object().name())
    }
}
