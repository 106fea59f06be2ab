//! Making a store's file of an image's pages: restoring a backup.
//!
//!   1. the file is created with its heads and an empty map of chunks
//!   2. pages get their place and are written; all others are holes
//!   3. the pages are synced, then the head says how long the store is
//!
//! The file is not mapped. The log is empty: the pages are all of the image.

use crate::backends::file::disk::Disk;
use crate::backends::file::require_length;
use crate::open::chunks::{ChunkDisk, Chunks};
use crate::open::head::Head;
use crate::{Error, Result};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Pages of an image, from an offset on; `None` at the end of the image.
pub(crate) type NextPages<'p> = dyn FnMut() -> io::Result<Option<(u64, Vec<u8>)>> + 'p;

/// Steps 2 and 3, of a store of `len` bytes.
pub(crate) fn fill(file: File, path: &Path, mut head: Head, len: u64, next: &mut NextPages<'_>) -> Result<()> {
    let io = |action| move |source| Error::Io { action, path: path.into(), source };
    let file = Arc::new(file);
    let chunks = Arc::new(Chunks::open(&*file, path, &head)?);
    let disk = ChunkDisk::new(Arc::clone(&file) as _, chunks, head.file_len);
    while let Some((at, bytes)) = next().map_err(io("restore"))? {
        let end = at.checked_add(bytes.len() as u64).filter(|&end| end <= len);
        let end = end.ok_or(Error::OutOfRange { at, len: bytes.len() as u64, limit: len })?;
        require_length(end).and_then(|()| disk.allocate(at, end - at)).map_err(io("allocate space"))?;
        disk.write_pages_at(at, &bytes).map_err(io("write"))?;
    }
    disk.sync().map_err(io("sync"))?;
    head.file_len = head.file_len.max(len);
    head.write_both(&*file).map_err(io("write"))?;
    Disk::sync(&*file).map_err(io("sync"))
}
