//! What programs with plain pointers ask of a mapping: pages mapped a second time, over variables
//! that the program was linked with, and pages that it may only read, or not touch.

use crate::backends::direct::Direct;
use crate::media::{Backend, Media};
use crate::{BackendKind, Error, Result};
use std::ptr::NonNull;

impl Media {
    /// Maps the pages `at..at+len` over `place..place+len` too, so that both are one memory; until
    /// the process ends. `false`: this store's mapping is the process's own, stores reach it by
    /// being copied, and nothing was mapped.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses; nothing was mapped.
    ///
    /// # Panics
    /// If the range is not backed, or `at`, `len` or `place` are not whole pages.
    ///
    /// # Safety
    /// `place..place+len` is mapped, readable and writable, and its owner, the caller, wants it
    /// replaced: nobody holds a Rust reference into it.
    pub unsafe fn map_over(&self, at: u64, len: u64, place: NonNull<u8>) -> Result<bool> {
        use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mremap_fixed};
        self.inner.mapping.check_len(at, len);
        assert!([at, len, place.addr().get() as u64].iter().all(|size| size % 4096 == 0), "pages are mapped whole");
        let (from, place) =
            (self.address().as_ptr().wrapping_add(at as usize).cast(), place.as_ptr().cast::<std::ffi::c_void>());
        let mapped = match &self.inner.backend {
            Backend::Direct(Direct { file: Some(backing), kind, .. }) => {
                let flags = match kind {
                    BackendKind::Pmem => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
                    _ => MapFlags::SHARED,
                };
                let access = ProtFlags::READ | ProtFlags::WRITE;
                let io = |source| Error::Io { action: "map", path: self.path().into(), source };
                backing.disk.cover(at, len).map_err(io)?;
                backing.disk.chunks.parts(at, len).into_iter().try_fold(place, |_, (range, file)| {
                    let part = place.wrapping_byte_add((range.start - at) as usize);
                    let (len, file) = ((range.end - range.start) as usize, file.expect("covered"));
                    // SAFETY: the caller gives these pages away; the file holds as many, as was
                    // seen to above, and shrinks for nobody.
                    unsafe { mmap(part, len, access, flags | MapFlags::FIXED, &backing.file, file) }
                })
            }
            // Nothing is moved: so many bytes of shared pages, from here on, are mapped there too,
            // with the same protection.
            Backend::Sim(_) => {
                // SAFETY: the caller gives these pages away; our own mapping, which stays as it is,
                // lies at `from`.
                match unsafe { mremap_fixed(from, 0, len as usize, MremapFlags::MAYMOVE, place) } {
                    Err(rustix::io::Errno::INVAL) => return Ok(false), // pages that are not shared
                    mapped => mapped,
                }
            }
            _ => return Ok(false),
        };
        let io = |errno: rustix::io::Errno| Error::Io { action: "map", path: self.path().into(), source: errno.into() };
        mapped.map(|_| true).map_err(io)
    }

    /// Says what this process may do with the pages `at..at+len`: read them, store to them. Whoever
    /// does otherwise is killed by the system, ourselves included: nobody else has use for these
    /// pages. Where this store's mapping is the process's own they stay readable; where a recorder
    /// watches all pages it goes on to.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses.
    ///
    /// # Panics
    /// If the range reaches beyond the maximum, or is not whole pages.
    pub fn protect(&self, at: u64, len: u64, (read, write): (bool, bool)) -> Result<()> {
        use rustix::mm::MprotectFlags;
        assert!(at.checked_add(len).is_some_and(|end| end <= self.max()), "only what is mapped is protected");
        assert!(at.is_multiple_of(4096) && len.is_multiple_of(4096), "pages are protected whole");
        if matches!(self.inner.backend, Backend::Sim(_)) {
            return Ok(());
        }
        // A checkpoint reads what was flushed.
        let read = read || !matches!(self.inner.backend, Backend::Direct(_));
        let mut access = MprotectFlags::empty();
        access.set(MprotectFlags::READ, read);
        access.set(MprotectFlags::WRITE, write);
        let mapping = &self.inner.mapping;
        let parts = match &self.inner.backend {
            Backend::Direct(Direct { file: Some(backing), .. }) => backing.disk.chunks.parts(at, len),
            Backend::File(file) => file.parts(at, len),
            _ => vec![(at..at + len, Some(at))],
        };
        let changed = parts.into_iter().try_for_each(|(range, file)| {
            let (mut access, len) = (access, range.end - range.start);
            let start = range.start;
            if file.is_none() {
                mapping.remember(range, access);
                access.set(MprotectFlags::WRITE, false); // there is nothing to store to
            }
            mapping.protect(start, len, access)
        });
        changed.map_err(|errno| Error::Io { action: "protect pages of", path: self.path().into(), source: errno })
    }
}
