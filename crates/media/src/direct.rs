//! `pmem` and `shm`: a shared mapping and the CPU's own flush instructions, slowed to a device profile on request.

use crate::file::Disk;
use crate::mapping::Mapping;
use crate::profile::{Profile, spin_since};
use crate::{BackendKind, Error, FlushKind, Result, isa};
use std::cell::Cell;
use std::fs::File;
use std::path::PathBuf;

pub(crate) struct Direct {
    pub kind: BackendKind,
    pub flush: FlushKind,
    pub profile: Profile,
    /// `None` for memory without a file.
    pub file: Option<File>,
    pub path: PathBuf,
    /// Whether the profile asks for any delay.
    pub slow: bool,
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
        let Some(file) = &self.file else { return Ok(()) };
        Disk::allocate(file, at, len).map_err(|source| Error::Io {
            action: "allocate space",
            path: self.path.clone(),
            source,
        })
    }

    pub(crate) fn punch(&self, at: u64, len: u64) {
        if let Some(file) = &self.file {
            Disk::punch(file, at, len);
        }
    }
}
