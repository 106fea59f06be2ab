//! Pages that this process hides from itself in order to learn of accesses, for objects that are
//! larger than their memory.
//!
//! The watcher of a range protects its pages with [`Media::protect`]. An access that the protection
//! stops raises SIGSEGV; the handler (`fault_handler`) asks the watcher of the address, and the
//! instruction runs again. Bytes of hidden pages are read and stored *beneath*: through a second
//! mapping of the file, which no other code uses.
//!
//! Threads: any.

use crate::bytes::mapping::{Mapping, Mode};
use crate::media::{Backend, Media};
use crate::pages::fault_handler::{Watch, Watcher};
use crate::units::Offset;
use crate::{BackendKind, Error, Result};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

impl Media {
    /// Whether pages can be hidden and watched: stores must reach a file that can be mapped twice.
    pub fn can_watch(&self) -> bool {
        matches!(&self.inner.backend, Backend::Direct(direct) if direct.file.is_some())
    }

    /// Watches a range of pages. From now on forked children do not have this media.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses.
    ///
    /// # Panics
    /// If [`Media::can_watch`] is false.
    pub fn watch(&self, range: Range<u64>, watcher: Arc<dyn Watcher>) -> Result<Watch> {
        let io = |source| Error::Io { action: "watch pages of", path: self.path().into(), source };
        self.beneath()?;
        self.inner.mapping.keep_from_children().map_err(io)?; // HIDE-2
        let address = |at: u64| self.address().as_ptr().addr() + at as usize;
        Ok(Watch::new(address(range.start)..address(range.end), range.start, watcher))
    }

    /// The second mapping; the media's own if no page can be hidden.
    fn beneath(&self) -> Result<&Mapping> {
        let Backend::Direct(direct) = &self.inner.backend else { return Ok(&self.inner.mapping) };
        let Some(backing) = direct.file.as_deref() else { return Ok(&self.inner.mapping) };
        let beneath = match self.inner.beneath.get() {
            Some(beneath) => beneath,
            None => {
                let mode = if direct.kind == BackendKind::Pmem { Mode::SharedSync } else { Mode::Shared };
                let io = |source| Error::Io { action: "map a second time", path: direct.path.clone(), source };
                let (file, chunks) = (backing.file.as_fd(), &backing.disk.chunks);
                let again = match chunks.is_linear() {
                    true => Mapping::of_file(file, mode, self.max(), self.len()),
                    false => Mapping::of_pieces(None, file, mode, (self.max(), self.len()), &[], None),
                };
                let again = Arc::new(again.map_err(io)?);
                again.keep_from_children().map_err(io)?;
                chunks.show_in(&again);
                again.show(file, &chunks.extents()).map_err(io)?;
                self.inner.beneath.get_or_init(|| again)
            }
        };
        beneath.raise_limit(self.len());
        Ok(beneath)
    }

    /// Copies bytes out of pages that may be hidden.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be mapped a second time.
    ///
    /// # Panics
    /// If the range is not backed.
    pub fn read_beneath(&self, at: impl Into<Offset>, into: &mut [u8]) -> Result<()> {
        let at = at.into().get();
        let beneath = self.beneath()?;
        beneath.read(at, into);
        beneath.unreadable(at, into.len() as u64).map_or(Ok(()), |at| Err(self.unreadable_at(at)))
    }

    /// Backs pages that may be hidden and are holes, and stores `bytes` there. Fenced on return.
    ///
    /// # Errors
    /// [`Error::Io`] if the disk is full: nothing has changed. [`Error::Unreadable`] if a page of
    /// the second mapping is lost, so that the bytes did not reach the file.
    ///
    /// # Panics
    /// If the range is not backed, or not whole pages.
    pub fn fill_beneath(&self, at: impl Into<Offset>, bytes: &[u8]) -> Result<()> {
        let at = at.into().get();
        match &self.inner.backend {
            Backend::Direct(direct) => {
                direct.allocate(&self.inner.mapping, at, bytes.len() as u64)?;
                let beneath = self.beneath()?;
                direct.copy_nt(beneath, at, bytes);
                self.note_change(at, bytes.len() as u64);
                if let Some(at) = beneath.unreadable(at, bytes.len() as u64) {
                    return Err(self.unreadable_at(at)); // BUS-3
                }
            }
            Backend::File(_) | Backend::Sim(_) => {
                self.extend(at, bytes.len() as u64)?;
                let _section = self.section();
                // A recorder keeps the old content of a hole and ignores stores that change
                // nothing, so zeros are stored first.
                self.zero(at, bytes.len() as u64);
                self.write(at, bytes);
                self.flush(at, bytes.len() as u64);
            }
        }
        self.fence();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::fault_handler::watched_ranges;
    use crate::{Geometry, OpenOptions, Options};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Fills each page with its number when it is touched.
    struct Numbers(Media, AtomicU64);

    impl Watcher for Numbers {
        fn touched(&self, at: u64) -> bool {
            let page = at & !4095;
            self.1.fetch_add(1, Ordering::Relaxed);
            let filled = self.0.fill_beneath(page, &(page / 4096).to_le_bytes().repeat(512));
            filled.and_then(|()| self.0.protect(page, 4096, (true, true))).is_ok()
        }
    }

    #[test]
    fn a_thread_that_touches_a_hidden_page_finds_the_bytes_of_its_watcher() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let geometry = Geometry { max: 1 << 20, len: 1 << 20, log_at: 16384, log_len: 65536 };
        let media = OpenOptions::new(directory.path().join("m")).create(geometry, &Options::default()).unwrap();
        let hidden = 1 << 19..1 << 20;
        media.protect(hidden.start, 1 << 19, (false, false)).unwrap();
        let numbers = Arc::new(Numbers(media.clone(), AtomicU64::new(0)));
        let watch = media.watch(hidden.clone(), Arc::clone(&numbers) as _).unwrap();
        let pages = hidden.step_by(4096);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| pages.clone().for_each(|page| assert_eq!(media.load(page + 8), page / 4096)));
            }
        });
        assert!(numbers.1.load(Ordering::Relaxed) >= 128);
        media.store(1 << 19, 7); // visible by now: the watcher is not asked
        let mut word = [0; 8];
        media.read_beneath(1 << 19, &mut word).unwrap();
        assert_eq!(word, 7_u64.to_le_bytes(), "both mappings are one memory");
        drop(watch);
        assert_eq!(watched_ranges(), 0);
    }

    #[test]
    fn bytes_for_a_lost_page_of_the_second_mapping_are_refused() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let geometry = Geometry { max: 1 << 20, len: 1 << 20, log_at: 16384, log_len: 65536 };
        let media = OpenOptions::new(directory.path().join("m")).create(geometry, &Options::default()).unwrap();
        media.fill_beneath(1 << 19, &[1; 4096]).unwrap();
        let beneath = media.inner.beneath.get().unwrap().address().addr().get();
        Media::raise_memory_error_at(beneath + (1 << 19));
        media.fill_beneath((1 << 19) + 4096, &[1; 4096]).unwrap();
        match media.fill_beneath(1 << 19, &[2; 4096]) {
            Err(Error::Unreadable(damage)) => assert_eq!(damage.offset, Some(1 << 19)),
            other => panic!("{other:?}"),
        }
        assert_eq!(media.load(1 << 19), u64::from_le_bytes([1; 8]), "the file keeps its bytes");
    }
}
