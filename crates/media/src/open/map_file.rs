//! Mapping a store's file: at its bound address or anywhere, linear or chunk by chunk.

use crate::backends::file::disk::Disk;
use crate::backends::file::replay;
use crate::bytes::mapping::{Mapping, Mode};
use crate::open::chunks::{ChunkDisk, Chunks};
use crate::open::head::Head;
use crate::open::opened::Opened;
use crate::pages::binding;
use crate::{Error, Result};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Maps a file whose store has `len` bytes, at the store's bound address or anywhere. See
/// [`Mapping::of_pieces`] for `guarded`.
pub(crate) fn map_file(
    file: BorrowedFd<'_>,
    path: &Path,
    mode: Mode,
    (head, chunks, len): (&Head, &Chunks, u64),
    guarded: Option<u64>,
) -> Result<Mapping> {
    if chunks.is_linear() {
        return map_linear(file, path, mode, head, len);
    }
    try_mode(file, path, mode)?;
    let limit = len.min(head.max) & !4095;
    let place = head.bound_to().map(|address| binding::reserve(path, address, head.max)).transpose()?;
    let mapping = Mapping::of_pieces(place, file, mode, (head.max, limit), &chunks.extents(), guarded);
    mapping.map_err(|source| Error::Io { action: "map", path: path.into(), source })
}

/// An error if the file system refuses such mappings (MAP-4).
fn try_mode(file: BorrowedFd<'_>, path: &Path, mode: Mode) -> Result<()> {
    let answer = if mode == Mode::SharedSync { Mapping::try_sync(file) } else { Ok(()) };
    answer.map_err(|source| Error::Io { action: "map", path: path.into(), source })
}

/// Maps a file whose offsets equal the store's.
pub(crate) fn map_linear(file: BorrowedFd<'_>, path: &Path, mode: Mode, head: &Head, len: u64) -> Result<Mapping> {
    try_mode(file, path, mode)?;
    let limit = len.min(head.max) & !4095;
    let mapping = match head.bound_to() {
        None => Mapping::of_file(file, mode, head.max, limit),
        Some(address) => Mapping::over(binding::reserve(path, address, head.max)?, file, mode, head.max, limit),
    };
    mapping.map_err(|source| Error::Io { action: "map", path: path.into(), source })
}

/// Private memory with the content of a store's file and of its log; the store's length; and the
/// findings.
pub(crate) fn private_copy(
    file: &File,
    disk: &ChunkDisk,
    path: &Path,
    head: &Head,
    at_home: bool,
) -> Result<(Mapping, u64, Opened)> {
    let content = replay::peek(disk, path, *head)?;
    let len = disk.len().map_err(|source| Error::Io { action: "measure", path: path.into(), source })?;
    let home = head.bound_to().filter(|_| at_home);
    let place = home.and_then(|address| binding::reserve(path, address, head.max).ok());
    let limit = len.min(head.max) & !4095;
    let mut extents = disk.chunks.extents();
    if disk.chunks.is_linear() {
        extents.iter_mut().for_each(|extent| extent.len = limit);
        extents.retain(|extent| extent.len > 0);
    }
    let mapping = Mapping::copy_of_file(file.as_fd(), place, (head.max, limit), &extents);
    let mapping = mapping.map_err(|source| Error::Io { action: "map", path: path.into(), source })?;
    content.put(&mapping);
    Ok((mapping, len, content.opened()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::sizes::LARGE;

    /// MAP-4: unmapped, they might by then be another thread's, as after the refusal of ext4.
    #[test]
    fn a_mapping_that_is_refused_leaves_its_addresses() {
        let (path, file) = (Path::new("store"), tempfile::tempfile_in("/dev/shm").unwrap());
        let address = binding::address(LARGE, u64::from(std::process::id())).unwrap();
        let place = binding::reserve(path, address, LARGE).unwrap();
        assert!(Mapping::over(place, file.as_fd(), Mode::SharedSync, LARGE, 0).is_err(), "tmpfs has no MAP_SYNC");
        assert!(matches!(binding::reserve(path, address, LARGE), Err(Error::AddressTaken { .. })));
    }
}
