//! Copying the file of a store that no process writes, and naming a finished file.
//!
//! A copy, step by step:
//!   1. the source is opened for reading, locked against writers, and recognised
//!   2. a new file is made beside the target's name
//!   3. data is copied and holes stay holes; an empty log is left out
//!   4. the copy is synced and opened, which replays its log: the source is not changed
//!
//! Invariants
//!   COPY-1  A file gets its name after all its bytes are on the medium, and never replaces
//!           another.

use crate::backends::file::disk::Disk;
use crate::open::chunks::Chunks;
use crate::open::examine::{choose, examine, open_for_reading, sync_directory};
use crate::open::head::{COPIES, Head};
use crate::{BackendKind, Error, Options, Result};
use everbyte_members::{FileLockMode, lock_file};
use rustix::fs::{CWD, RenameFlags, SeekFrom, renameat_with, seek};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes copied between two reports of progress.
const STEP: u64 = 16 << 20;

/// Steps 1 to 3, and the sync of step 4: makes the file `target` from the store `source`.
pub(crate) fn create(
    source: &Path,
    target: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<File> {
    let from = open_for_reading(source)?;
    lock_file(&from, source, FileLockMode::Readers)?;
    let (head, _) = examine(&from, source)?;
    let chunks = Chunks::open(&from, source, &head)?;
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(target);
    let file = file.map_err(|source| Error::Io { action: "create", path: target.into(), source })?;
    let copied = copy(&from, (head, &chunks), &file, target, options, progress);
    copied.map_err(|source| Error::Io { action: "copy to", path: target.into(), source }).inspect_err(|_| {
        let _ = std::fs::remove_file(target); // this call created it
    })?;
    Ok(file)
}

/// Step 3, and the sync of step 4.
fn copy(
    from: &File,
    (mut head, chunks): (Head, &Chunks),
    file: &File,
    target: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64),
) -> io::Result<()> {
    let len = Disk::len(from)?;
    let is_empty = head.log_ready != 1 || head.log_clean == 1;
    let mut ranges = Vec::new();
    let mut at = 0;
    if is_empty {
        let mut log: Vec<_> = chunks
            .parts(head.log_at, head.log_len)
            .into_iter()
            .filter_map(|(range, file)| file.map(|file| file..file + (range.end - range.start)))
            .collect();
        log.sort_by_key(|part| part.start);
        for part in log {
            ranges.extend(data(from, at..part.start.min(len))?);
            at = part.end;
        }
    }
    ranges.extend(data(from, at.min(len)..len)?);
    let total = ranges.iter().map(|range| range.end - range.start).sum();
    // A store to a block that two files share allocates a block. If the disk is full, a write gets
    // an error, but a mapping gets a signal.
    let may_share = matches!(choose(file, target, options.backend), Ok(BackendKind::File));
    crate::backends::file::require_length(len)?;
    file.set_len(len)?;
    let mut done = 0;
    for range in ranges {
        for at in range.clone().step_by(STEP as usize) {
            let step = at..range.end.min(at + STEP);
            done += step.end - step.start;
            if may_share {
                copy_sharing(from, file, step)?
            } else {
                copy_bytes(from, file, step)?
            }
            progress(done, total);
        }
    }
    if is_empty {
        head.log_ready = 0;
        for _ in COPIES {
            let (at, bytes) = head.next();
            Disk::write_at(file, at, bytes)?;
        }
    }
    Disk::sync(file)
}

/// A file in memory of `len` bytes, with the bytes of a store at their offsets and holes elsewhere.
pub(crate) fn in_memory(from: &File, chunks: &Chunks, len: u64) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create("everbyte", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.set_len(len)?;
    for extent in chunks.extents() {
        let end = (extent.file + extent.len.min(len.saturating_sub(extent.at))).min(Disk::len(from)?);
        for range in data(from, extent.file..end)? {
            for at in range.clone().step_by(STEP as usize) {
                let mut bytes = vec![0; (range.end.min(at + STEP) - at) as usize];
                Disk::read_at(from, at, &mut bytes)?;
                Disk::write_at(&file, extent.at + (at - extent.file), &bytes)?;
            }
        }
    }
    Ok(file)
}

/// Copies by the system, which shares blocks if the file system can.
fn copy_sharing(mut from: &File, mut file: &File, range: Range<u64>) -> io::Result<()> {
    from.seek(io::SeekFrom::Start(range.start))?;
    file.seek(io::SeekFrom::Start(range.start))?;
    match io::copy(&mut from.take(range.end - range.start), &mut file)? {
        copied if copied == range.end - range.start => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn copy_bytes(from: &File, file: &File, range: Range<u64>) -> io::Result<()> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    Disk::read_at(from, range.start, &mut bytes)?;
    Disk::write_at(file, range.start, &bytes)
}

/// The parts of a range of a file that hold data; the rest are holes.
fn data(file: &File, within: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let (mut ranges, mut at) = (Vec::new(), within.start);
    while at < within.end {
        match seek(file, SeekFrom::Data(at)) {
            Ok(start) => at = start,
            Err(rustix::io::Errno::NXIO) => break, // only a hole follows
            Err(errno) => return Err(errno.into()),
        }
        let end = seek(file, SeekFrom::Hole(at))?.min(within.end);
        ranges.push(at..end);
        at = end;
    }
    ranges.retain(|range| range.start < range.end); // data may begin behind the range
    Ok(ranges)
}

/// Renames the finished file `part` to `target`, which must not exist. Durable on return (COPY-1).
///
/// # Errors
/// [`Error::Io`]: the name is taken, or the system refuses. The file then keeps its old name.
pub fn publish(part: &Path, target: &Path) -> Result<()> {
    let io = |action| move |source| Error::Io { action, path: target.into(), source };
    File::open(part).and_then(|file| file.sync_all()).map_err(io("sync"))?;
    match renameat_with(CWD, part, CWD, target, RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            // The file system cannot refuse to replace a file: check first.
            let taken = target.try_exists().map_err(io("look for"))?;
            let renamed = if taken { Err(io::ErrorKind::AlreadyExists.into()) } else { std::fs::rename(part, target) };
            renamed.map_err(io("name"))?;
        }
        renamed => renamed.map_err(|errno| io("name")(errno.into()))?,
    }
    sync_directory(target)
}
