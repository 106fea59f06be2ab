//! The descriptors of this process, and its open volumes.
//!
//! Invariants
//!   CFD-1  Each use of a volume, by a descriptor, a mapping, a caller or a call that runs, holds a
//!          clone of its `Arc`. A volume is closed where all clones that are left are known and
//!          idle.
//!
//! Threads: any. The lock of the table is taken before those of callers. No call waits for a lock
//! of a file while it holds one of them.

use super::{caller, maps};
use crate::fault::{Fault, Result};
use everbyte_posix::{Files, LockBy, OpenFile};
use parking_lot::RwLock;
use std::ffi::c_int;
use std::sync::Arc;

/// The first number: those of the standard streams stay free, so that they are errors here.
const FIRST: usize = 3;
/// Every number is below.
const MOST: usize = 1 << 20;

/// A volume that this process has open.
pub(super) struct OpenVolume {
    /// Used once in the process.
    pub id: u64,
    pub files: Files,
}

impl OpenVolume {
    /// Refuses a child of fork, which has nothing of the volume.
    pub(super) fn require_here(&self) -> Result<()> {
        Ok(self.files.volume().object().media().require_here()?)
    }
}

/// An open file.
pub(super) struct Descriptor {
    pub file: OpenFile,
    pub volume: Arc<OpenVolume>,
}

struct DescriptorTable {
    volumes: Vec<Arc<OpenVolume>>,
    open: Vec<Option<Arc<Descriptor>>>,
    next_volume: u64,
}

static TABLE: RwLock<DescriptorTable> =
    RwLock::new(DescriptorTable { volumes: Vec::new(), open: Vec::new(), next_volume: 1 });

/// No descriptor has this number.
fn bad(fd: c_int) -> Fault {
    Fault::new(libc::EBADF, format!("{fd} is no descriptor of an open file"))
}

fn index(fd: c_int) -> Result<usize> {
    usize::try_from(fd).ok().and_then(|fd| fd.checked_sub(FIRST)).ok_or_else(|| bad(fd))
}

/// The open file of a descriptor.
pub(super) fn get(fd: c_int) -> Result<Arc<Descriptor>> {
    let descriptor = TABLE.read().open.get(index(fd)?).cloned().flatten().ok_or_else(|| bad(fd))?;
    descriptor.volume.require_here()?;
    Ok(descriptor)
}

/// Gives an open file the lowest free number from `least` on.
pub(super) fn add(file: OpenFile, volume: Arc<OpenVolume>, least: c_int) -> Result<c_int> {
    let least = usize::try_from(least).ok().filter(|&least| least < MOST);
    let least = least.ok_or_else(|| Fault::invalid("no descriptor has this number"))?.saturating_sub(FIRST);
    let mut table = TABLE.write();
    let free = (least..table.open.len()).find(|&index| table.open[index].is_none());
    let index = free.unwrap_or(table.open.len().max(least));
    if index + FIRST >= MOST {
        return Err(Fault::new(libc::EMFILE, "too many open files"));
    }
    if index >= table.open.len() {
        table.open.resize(index + 1, None);
    }
    table.open[index] = Some(Arc::new(Descriptor { file, volume }));
    Ok((index + FIRST) as c_int)
}

/// Frees a number. The record locks of the process on the file end now, also if another call still
/// uses the open file.
pub(super) fn remove(fd: c_int) -> Result<()> {
    let descriptor = get(fd)?;
    let taken = TABLE.write().open[index(fd)?].take().ok_or_else(|| bad(fd))?;
    drop(descriptor);
    // An open path has none, and says so.
    let _ = taken.file.unlock_range(LockBy::Process, 0..u64::MAX);
    Ok(())
}

/// Adds a volume.
pub(super) fn add_volume(files: Files) -> Arc<OpenVolume> {
    let mut table = TABLE.write();
    let volume = Arc::new(OpenVolume { id: table.next_volume, files });
    table.next_volume += 1;
    table.volumes.push(Arc::clone(&volume));
    volume
}

/// Takes a volume out, for closing, with the descriptor `fd` if that is the only one: nothing else
/// uses it (CFD-1).
///
/// # Errors
/// `EBUSY`.
pub(super) fn take_volume(fd: c_int) -> Result<Files> {
    let id = get(fd)?.volume.id;
    let mut table = TABLE.write();
    let index = index(fd)?;
    let volume = match table.open.get(index) {
        Some(Some(open)) if open.volume.id == id => Arc::clone(&open.volume),
        _ => return Err(bad(fd)),
    };
    let is_busy = || Fault::new(libc::EBUSY, "the volume is in use: close its files, directories and mappings first");
    let of_volume = |open: &&Arc<Descriptor>| open.volume.id == id;
    let idle = table.open.iter().flatten().filter(of_volume).all(|open| Arc::strong_count(open) == 1);
    if table.open.iter().flatten().filter(of_volume).count() != 1 || !idle {
        return Err(is_busy());
    }
    // The table's, the descriptor's, the one of this call.
    if !caller::leave(id, |places| places.is_some_and(|places| Arc::strong_count(&volume) == 3 + places)) {
        return Err(is_busy());
    }
    table.volumes.retain(|open| open.id != id);
    table.open[index] = None;
    drop(table);
    let volume = Arc::into_inner(volume).expect("CFD-1: the last use");
    Ok(volume.files)
}

/// Takes a volume out whose opening has failed.
pub(super) fn forget_volume(id: u64) {
    let mut table = TABLE.write();
    caller::leave(id, |_| true);
    table.volumes.retain(|volume| volume.id != id);
}

/// Closes all volumes that no call uses, when the process ends.
pub(super) fn close_all() {
    let volumes: Vec<u64> = TABLE.read().volumes.iter().map(|volume| volume.id).collect();
    for id in volumes {
        maps::end_all(id);
        let volume = {
            let mut table = TABLE.write();
            for open in &mut table.open {
                open.take_if(|open| open.volume.id == id);
            }
            caller::leave(id, |_| true);
            let index = table.volumes.iter().position(|volume| volume.id == id);
            index.map(|index| table.volumes.swap_remove(index))
        };
        // A thread that still runs a call keeps the volume open; the next opening recovers.
        if let Some(volume) = volume.and_then(Arc::into_inner) {
            let _ = volume.files.close(); // no caller is left for an error
        }
    }
}
