//! Volumes of the process's store: made, opened, closed, and their figures.

use super::caller::{self, current};
use super::table::OpenVolume;
use super::{done, of_volume, path, require_flags, store, table, text};
use crate::fault::{Fault, Result, answer};
use crate::process::{self, Process};
use everbyte_fs::{Volume, VolumeOptions};
use everbyte_media::WriteWindows;
use everbyte_posix::{AccessTimes, Files, FilesOptions, OnDamage, OpenFlags, PageSize};
use everbyte_store::NAME_MAX;
use std::ffi::{c_char, c_int, c_ulong};
use std::sync::Arc;

/// The flags of `eb_volume_open`.
const READ_ONLY: c_int = 1;
const SYNC: c_int = 2;
const STRICT_TIMES: c_int = 4;
const NO_TIMES: c_int = 8;
const NO_DIRECTORY_TIMES: c_int = 16;
const DAMAGE_READ_ONLY: c_int = 32;
const DAMAGE_STOPS: c_int = 64;
const RELAXED: c_int = 128;
const SMALL_PAGES: c_int = 256;
const LARGE_PAGES: c_int = 512;
const GIANT_PAGES: c_int = 1024;
const WINDOWS_BY_KEYS: c_int = 2048;
const WINDOWS_BY_MPROTECT: c_int = 4096;
const WINDOWS_OFF: c_int = 8192;
/// All of them.
const KNOWN: c_int = 2 * WINDOWS_OFF - 1;

/// # Safety
/// As said in `posix/mod.rs`.
unsafe fn volume_name<'n>(name: *const c_char) -> Result<&'n str> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { text(name, NAME_MAX + 1) }?;
    std::str::from_utf8(bytes).map_err(|_| Fault::invalid("the name of a volume is UTF-8"))
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_volume_make(name: *const c_char, size_max: usize) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { volume_name(name) }.and_then(|name| {
        let span = if size_max == 0 { None } else { process::span(size_max, 0)? };
        let user = current().user();
        let options = VolumeOptions { span, owner: (user.uid, user.gid), ..VolumeOptions::default() };
        let process = Process::look_unbound()?;
        let volume = Volume::create(process.store(), name, &options).map_err(of_volume)?;
        volume.close().map_err(of_volume)
    }))
}

fn options(flags: c_int) -> Result<FilesOptions> {
    require_flags(flags, KNOWN)?;
    let chosen = |flag| flags & flag != 0;
    let one_of = |flags: &[c_int]| match flags.iter().filter(|&&flag| chosen(flag)).count() {
        ..=1 => Ok(()),
        _ => Err(Fault::invalid("flags that exclude each other")),
    };
    one_of(&[STRICT_TIMES, NO_TIMES, NO_DIRECTORY_TIMES])?;
    one_of(&[DAMAGE_READ_ONLY, DAMAGE_STOPS])?;
    one_of(&[SMALL_PAGES, LARGE_PAGES, GIANT_PAGES])?;
    one_of(&[WINDOWS_BY_KEYS, WINDOWS_BY_MPROTECT, WINDOWS_OFF])?;
    let access_times = match () {
        () if chosen(STRICT_TIMES) => AccessTimes::Strict,
        () if chosen(NO_TIMES) => AccessTimes::Never,
        () if chosen(NO_DIRECTORY_TIMES) => AccessTimes::NeverOfDirectories,
        () => AccessTimes::Relative,
    };
    let on_damage = match () {
        () if chosen(DAMAGE_READ_ONLY) => OnDamage::ReadOnly,
        () if chosen(DAMAGE_STOPS) => OnDamage::Stop,
        () => OnDamage::Continue,
    };
    let page_size = match () {
        () if chosen(SMALL_PAGES) => Some(PageSize::Small),
        () if chosen(LARGE_PAGES) => Some(PageSize::Large),
        () if chosen(GIANT_PAGES) => Some(PageSize::Giant),
        () => None,
    };
    let windows = match () {
        () if chosen(WINDOWS_BY_KEYS) => WriteWindows::Keys,
        () if chosen(WINDOWS_BY_MPROTECT) => WriteWindows::PageTable,
        () if chosen(WINDOWS_OFF) => WriteWindows::Off,
        () => WriteWindows::Default,
    };
    let (sync, read_only, relaxed) = (chosen(SYNC), chosen(READ_ONLY), chosen(RELAXED));
    let log = FilesOptions::default().log;
    Ok(FilesOptions { access_times, sync, read_only, on_damage, log, page_size, relaxed, windows })
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_volume_open(name: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let opened = unsafe { volume_name(name) }.and_then(|name| {
        let options = options(flags)?;
        let process = Process::look_unbound()?;
        let object = process.store().object(name)?;
        let volume = Volume::open_with(object, &options.opening()).map_err(of_volume)?;
        let volume = table::add_volume(Files::new(volume, options));
        process::at_close(table::close_all);
        let id = volume.id;
        begin(volume).inspect_err(|_| table::forget_volume(id))
    });
    answer(opened, -1, |fd| fd)
}

/// The descriptor of the root of a volume, which becomes the working directory if there is none.
fn begin(volume: Arc<OpenVolume>) -> Result<c_int> {
    let caller = current();
    let place = caller.place(&volume)?;
    let root = place.process.read().open("/", OpenFlags::PATH | OpenFlags::DIRECTORY, 0)?;
    caller.begin(&place);
    table::add(root, volume, 0)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_volume_close(fd: c_int) -> c_int {
    done(table::take_volume(fd).and_then(|files| Ok(files.close()?)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_syncfs(fd: c_int) -> c_int {
    done(table::get(fd).and_then(|open| Ok(open.volume.files.sync()?)))
}

/// The figures of a volume as C has them.
fn status(files: &Files) -> libc::statvfs {
    let status = files.status();
    // SAFETY: a struct of numbers, for which zeros are valid.
    let mut told: libc::statvfs = unsafe { std::mem::zeroed() };
    told.f_bsize = status.block_size;
    told.f_frsize = status.block_size;
    told.f_blocks = status.blocks;
    told.f_bfree = status.free_blocks;
    told.f_bavail = status.free_blocks;
    told.f_files = status.inodes;
    told.f_ffree = status.free_inodes;
    told.f_favail = status.free_inodes;
    told.f_fsid = status.id as c_ulong;
    told.f_namemax = status.name_max;
    told.f_flag = if status.read_only { libc::ST_RDONLY } else { 0 };
    told
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_statvfs(path: *const c_char, into: *mut libc::statvfs) -> c_int {
    // SAFETY: the caller's promise.
    let told = unsafe { self::path(path) }.and_then(|path| {
        caller::with_place(libc::AT_FDCWD, path, |place, at| {
            place.process.read().status(at)?;
            Ok(status(&place.volume.files))
        })
    });
    // SAFETY: the caller's promise.
    done(told.and_then(|told| unsafe { store(into, told) }))
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_fstatvfs(fd: c_int, into: *mut libc::statvfs) -> c_int {
    let told = table::get(fd).map(|open| status(&open.volume.files));
    // SAFETY: the caller's promise.
    done(told.and_then(|told| unsafe { store(into, told) }))
}
