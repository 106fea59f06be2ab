//! Backing a range of a file: with `fallocate`, or with zeros if the file system lacks it.
//!
//! Every later write to a backed range must succeed: a write that finds no block on a full disk
//! poisons the store. So zeros are written into all holes of the range.
//!
//! Invariants
//!   ALLOC-1  Existing bytes stay: zeros are written into holes only, and no page is written
//!            between the search for the hole and the write.
//!   ALLOC-2  A file never grows beyond the process's limit (`ulimit -f`): the system would send
//!            SIGXFSZ, which ends the process, before it answers `EFBIG`.
//!
//! Threads: any. A caller whose other threads write the file passes the lock that they hold during
//! a write.

use crate::seeded;
use parking_lot::RwLock;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes of zeros that are written at once, with the lock held.
const STEP: u64 = 64 << 10;

/// Backs a range and lets the file grow to its end.
pub(crate) fn allocate(file: &File, at: u64, len: u64, writes: &RwLock<()>) -> io::Result<()> {
    require_length(at + len)?;
    match retry(|| fallocate(file, FallocateFlags::empty(), at, len)) {
        Err(Errno::OPNOTSUPP) => write_zeros(file, at..at + len, writes),
        allocated => Ok(allocated?),
    }
}

/// Repeats a call that a signal has interrupted.
fn retry(mut call: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        match call() {
            Err(Errno::INTR) if !seeded("media-allocate-interrupted") => {}
            done => return done,
        }
    }
}

/// The longest that this process may let a file become: one byte more is the signal SIGXFSZ
/// (ALLOC-2).
pub fn length_limit() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// Refuses a length that this process may not let a file have (ALLOC-2).
pub(crate) fn require_length(len: u64) -> io::Result<()> {
    match len > length_limit() {
        true => Err(io::Error::from_raw_os_error(libc::EFBIG)),
        false => Ok(()),
    }
}

/// Writes zeros into every hole of a range, and past the end of the file.
fn write_zeros(file: &File, range: Range<u64>, writes: &RwLock<()>) -> io::Result<()> {
    let zeros = vec![0; STEP as usize];
    let mut at =
        if seeded("media-zeros-behind-the-end") { range.start.max(file.metadata()?.len()) } else { range.start };
    while at < range.end {
        let _no_writes = writes.write(); // ALLOC-1
        let Some(hole) = next_hole(file, at..range.end)? else { break };
        let step = (hole.end - hole.start).min(STEP);
        file.write_all_at(&zeros[..step as usize], hole.start)?;
        at = hole.start + step;
    }
    Ok(())
}

/// The first hole within a range; the range past the end of the file is a hole.
fn next_hole(file: &File, within: Range<u64>) -> io::Result<Option<Range<u64>>> {
    let start = match seek(file, SeekFrom::Hole(within.start)) {
        Ok(start) => start.max(within.start),
        Err(Errno::NXIO) => within.start, // past the end
        Err(errno) => return Err(errno.into()),
    };
    if start >= within.end {
        return Ok(None);
    }
    let end = match seek(file, SeekFrom::Data(start)) {
        Ok(end) => end.min(within.end),
        Err(Errno::NXIO) => within.end, // no more data
        Err(errno) => return Err(errno.into()),
    };
    Ok(Some(start..end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn zeros_go_into_holes_and_existing_bytes_stay() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&[7; 8192], 128 << 10).unwrap();
        let whole = |range: Range<u64>| next_hole(&file, range).unwrap().is_none();
        write_zeros(&file, 64 << 10..256 << 10, &RwLock::default()).unwrap();
        assert!(whole(64 << 10..256 << 10) && !whole(0..64 << 10) && !whole(256 << 10..1 << 20));
        write_zeros(&file, 960 << 10..(1 << 20) + 4096, &RwLock::default()).unwrap();
        assert!(whole(960 << 10..(1 << 20) + 4096));
        let mut bytes = vec![0; (1 << 20) + 4096];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[128 << 10..136 << 10].iter().all(|&byte| byte == 7));
        assert_eq!(bytes.iter().filter(|&&byte| byte != 0).count(), 8192);
        assert!(file.metadata().unwrap().blocks() * 512 >= (192 << 10) + (64 << 10));
    }

    #[test]
    fn an_interrupted_call_is_made_again() {
        let mut answers = vec![Err(Errno::NOSPC), Err(Errno::INTR), Err(Errno::INTR)];
        assert_eq!(retry(|| answers.pop().unwrap()), Err(Errno::NOSPC));
        assert!(answers.is_empty());
        assert_eq!(
            crate::museum::with("media-allocate-interrupted", || retry(|| Err(Errno::INTR))),
            Err(Errno::INTR),
            "the seeded bug was not found"
        );
    }
}
