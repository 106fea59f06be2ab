//! [`WriteGuard`]: pages that are guarded by write windows (`write_windows`), and pages that are
//! exempt.
//!
//! Threads: any.

use crate::media::Media;
use crate::pages::write_windows::{OpenWindow, WriteWindows};
use crate::pages::{fault_handler, keys};
use crate::{BackendKind, Error, Result};
use std::io;
use std::ops::Range;

/// Keeps pages guarded until it is dropped.
pub struct WriteGuard {
    media: Media,
    range: Range<u64>,
    kind: WriteWindows,
}

impl Media {
    /// Guards pages until the result is dropped: stores there are faults unless their thread has an
    /// open [`crate::Section`] of this media that began after the guard. Pages that are backed
    /// later are guarded, too. A second mapping of the pages is not.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if keys are asked for and cannot be had; [`Error::Io`] if the system
    /// refuses.
    ///
    /// # Panics
    /// If the range reaches beyond the maximum, or is not whole pages.
    pub fn guard_writes(&self, range: Range<u64>, windows: WriteWindows) -> Result<WriteGuard> {
        self.check_pages(&range);
        let kind = match windows {
            // The explorer changes recorded memory itself, and leaves volumes open as a crash does.
            WriteWindows::Default if self.kind() == BackendKind::Sim => WriteWindows::Off,
            WriteWindows::Default if keys::take().is_ok() => WriteWindows::Keys,
            WriteWindows::Default => WriteWindows::Off,
            WriteWindows::Keys => {
                let unsupported = |error| Error::Unsupported {
                    path: self.path().into(),
                    detail: format!("no write windows by protection keys ({error}); use the page table or none"),
                };
                keys::take().map_err(unsupported)?;
                WriteWindows::Keys
            }
            other => other,
        };
        if kind == WriteWindows::Keys {
            fault_handler::install();
        }
        // Dropped after an error, it ends what was begun.
        let guard = WriteGuard { media: self.clone(), range, kind };
        if kind != WriteWindows::Off {
            let mapping = &self.inner.mapping;
            mapping.windows().guard(mapping, &guard.range, kind).map_err(|source| self.refused(source))?;
        }
        Ok(guard)
    }

    /// Exempts pages from guards, present and later ones, until [`Media::end_exempt`] is called as
    /// often for the same range: pages that a program may store to at any time.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses: nothing is exempt.
    ///
    /// # Panics
    /// As [`Media::guard_writes`].
    pub fn exempt_from_guards(&self, range: Range<u64>) -> Result<()> {
        self.check_pages(&range);
        let mapping = &self.inner.mapping;
        mapping.windows().exempt(mapping, range).map_err(|source| self.refused(source))
    }

    /// Ends one [`Media::exempt_from_guards`] of the range.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses: the pages may be writable.
    ///
    /// # Panics
    /// If the range is not exempt.
    pub fn end_exempt(&self, range: &Range<u64>) -> Result<()> {
        let mapping = &self.inner.mapping;
        mapping.windows().end_exempt(mapping, range).map_err(|source| self.refused(source))
    }

    fn check_pages(&self, range: &Range<u64>) {
        assert!(range.start <= range.end && range.end <= self.max(), "only mapped pages are guarded: {range:?}");
        assert!(range.start.is_multiple_of(4096) && range.end.is_multiple_of(4096), "pages are guarded whole");
    }

    #[cold]
    fn refused(&self, source: io::Error) -> Error {
        Error::Io { action: "guard pages of", path: self.path().into(), source }
    }

    /// Opens the windows of guarded pages for a section.
    #[inline]
    pub(crate) fn open_window(&self) -> Option<OpenWindow<'_>> {
        self.inner.mapping.windows().open(&self.inner.mapping, &self.inner.counters)
    }
}

impl WriteGuard {
    /// The protection in use: never [`WriteWindows::Default`].
    pub fn kind(&self) -> WriteWindows {
        self.kind
    }
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        if self.kind != WriteWindows::Off {
            let mapping = &self.media.inner.mapping;
            mapping.windows().unguard(mapping, &self.range, self.kind);
        }
    }
}

impl std::fmt::Debug for WriteGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WriteGuard({:?}, {})", self.range, self.kind.name())
    }
}
