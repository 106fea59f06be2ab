//! `pmem` and `shm`: a shared mapping and the CPU's own flush instructions, slowed to a device profile on request.

use crate::file::Disk;
use crate::head::Head;
use crate::mapping::Mapping;
use crate::profile::{Profile, spin_since};
use crate::{BackendKind, Error, FlushKind, Result, isa};
use parking_lot::Mutex;
use std::cell::Cell;
use std::fs::File;
use std::path::PathBuf;

pub(crate) struct Direct {
    pub kind: BackendKind,
    pub flush: FlushKind,
    pub profile: Profile,
    /// `None` for memory without a file.
    pub file: Option<Box<Backing>>,
    pub path: PathBuf,
    /// Whether the profile asks for any delay.
    pub slow: bool,
}

/// The file of a direct mapping, and its head, which says how long the file should be.
pub(crate) struct Backing {
    pub file: File,
    pub head: Mutex<Head>,
}

thread_local! {
    /// Lines this thread has sent since its last fence, for the device profile.
    static SENT: Cell<u64> = const { Cell::new(0) };
}

impl Direct {
    #[inline]
    pub(crate) fn flush(&self, mapping: &Mapping, at: u64, len: u64) -> u64 {
        let lines = mapping.flush(self.flush, at, len);
        if self.slow {
            SENT.with(|sent| sent.set(sent.get() + lines));
        }
        lines
    }

    #[inline]
    pub(crate) fn copy_nt(&self, mapping: &Mapping, at: u64, bytes: &[u8]) {
        mapping.copy_nt(self.flush, at, bytes);
        if self.slow {
            let (first, end) = crate::mapping::line_range(at, bytes.len() as u64);
            SENT.with(|sent| sent.set(sent.get() + (end - first) / isa::LINE));
        }
    }

    #[inline]
    pub(crate) fn fence(&self) {
        let start = if self.slow { isa::ticks() } else { 0 };
        isa::fence();
        if self.slow {
            spin_since(start, self.profile.delay(SENT.with(|sent| sent.replace(0))));
        }
    }

    pub(crate) fn allocate(&self, at: u64, len: u64) -> Result<()> {
        let Some(Backing { file, head }) = self.file.as_deref() else { return Ok(()) };
        let io = |action| move |source| Error::Io { action, path: self.path.clone(), source };
        let mut head = head.lock();
        Disk::allocate(file, at, len).map_err(io("allocate space"))?;
        if at + len > head.file_len {
            // The growth first: a head must never promise bytes that a power loss can take back.
            Disk::sync(file).map_err(io("sync the growth of"))?;
            head.file_len = at + len;
            let (place, bytes) = head.next();
            Disk::write_sync_at(file, place, bytes).map_err(io("write the media head of"))?;
        }
        Ok(())
    }

    pub(crate) fn punch(&self, at: u64, len: u64) {
        if let Some(backing) = &self.file {
            Disk::punch(&backing.file, at, len);
        }
    }
}
