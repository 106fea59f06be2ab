//! Mappings for programs with plain pointers: pages mapped a second time over linked variables, and
//! pages that are read-only or inaccessible.

use crate::backends::direct::Direct;
use crate::media::{Backend, Media};
use crate::units::{Length, Offset};
use crate::{BackendKind, Error, Result};
use std::ptr::NonNull;

impl Media {
    /// Maps the pages `at..at+len` a second time over `place..place+len`, until the process ends:
    /// both are one memory. `false`: the store's mapping is private to the process, stores must be
    /// copied into it, and nothing was mapped.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses; nothing was mapped.
    ///
    /// # Panics
    /// If the range is not backed, or `at`, `len` or `place` are not whole pages.
    ///
    /// # Safety
    /// `place..place+len` is mapped, readable and writable, and the caller owns it: no Rust
    /// reference into it exists.
    pub unsafe fn map_over(&self, at: impl Into<Offset>, len: impl Into<Length>, place: NonNull<u8>) -> Result<bool> {
        let (at, len) = (at.into().get(), len.into().get());
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
                    // SAFETY:
                    // - in bounds: `part` lies in the caller's pages, and `cover` made the file
                    //   that long;
                    // - alive: the file never shrinks while the store is open;
                    // - no writer: the caller holds no reference into these pages;
                    // - valid: any bytes are valid for them.
                    unsafe { mmap(part, len, access, flags | MapFlags::FIXED, &backing.file, file) }
                })
            }
            // An old length of 0 moves nothing: the shared pages are mapped a second time, with the
            // same protection.
            Backend::Sim(_) => {
                // SAFETY:
                // - in bounds: `from` and `len` were checked above; the caller owns `place`;
                // - alive: both mappings stay until the process ends, or until `self` drops its
                //   own;
                // - no writer: the caller holds no reference into these pages;
                // - valid: any bytes are valid for them.
                match unsafe { mremap_fixed(from, 0, len as usize, MremapFlags::MAYMOVE, place) } {
                    Err(rustix::io::Errno::INVAL) => return Ok(false), // the pages are not shared
                    mapped => mapped,
                }
            }
            _ => return Ok(false),
        };
        let io = |errno: rustix::io::Errno| Error::Io { action: "map", path: self.path().into(), source: errno.into() };
        mapped.map(|_| true).map_err(io)
    }

    /// Sets the access that this process has to the pages `at..at+len`: reads, stores. Any other
    /// access is a fault, this crate's included, so only the owner of the pages calls this. On a
    /// private mapping the pages stay readable; with a recorder nothing changes.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses.
    ///
    /// # Panics
    /// If the range reaches beyond the maximum, or is not whole pages.
    pub fn protect(&self, at: impl Into<Offset>, len: impl Into<Length>, (read, write): (bool, bool)) -> Result<()> {
        let (at, len) = (at.into().get(), len.into().get());
        use rustix::mm::MprotectFlags;
        assert!(at.checked_add(len).is_some_and(|end| end <= self.max()), "only mapped pages are protected");
        assert!(at.is_multiple_of(4096) && len.is_multiple_of(4096), "pages are protected whole");
        if matches!(self.inner.backend, Backend::Sim(_)) {
            return Ok(());
        }
        // A checkpoint reads flushed pages.
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
                access.set(MprotectFlags::WRITE, false); // a store would go to a page of zeros
            }
            mapping.protect(start, len, access)
        });
        changed.map_err(|errno| Error::Io { action: "protect pages of", path: self.path().into(), source: errno })
    }
}
