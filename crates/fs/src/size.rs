//! The size of a volume: how many pages it may have.
//!
//! A word of the prime page, which changes alone. Pages in use count, wherever they
//! lie: a volume whose object is larger than its size keeps as many free pages back. So a size may
//! be lowered to what is in use.
//!
//! Invariants
//!   FS-28  No call takes a page while as many are in use as the size allows. The size changes in
//!          memory under the lock of the free pages; it is never below the pages in use.

use crate::core::Core;
use crate::extents::Pages;
use crate::layout::{LARGE_PAGES, PAGE, SIZE_AT};
use crate::space::Space;
use crate::volume::Volume;
use crate::{Error, Result};
use everbyte_media::Damage;
use everbyte_media::sealed::{seal_low, unseal_low};
use everbyte_store::CLUSTER;
use std::io::ErrorKind::StorageFull;
use std::sync::atomic::Ordering;

/// The number of pages that a volume may have; 0: as many as its span has.
pub(crate) fn read(pages: Pages<'_>) -> Result<u64, Damage> {
    let at = pages.start + SIZE_AT;
    match pages.media.load(at) {
        0 => Ok(0),
        word => unseal_low(word).ok_or_else(|| Damage::at(at, "the size of the volume fails its check")),
    }
}

impl Volume {
    /// Bytes that the volume may have at most; `None`: as many as its span has.
    pub fn size(&self) -> Option<u64> {
        match self.core.limit.load(Ordering::Relaxed) {
            0 => None,
            pages => Some(pages * PAGE),
        }
    }

    /// Sets the bytes that the volume may have at most, its own structures among them; 0: as many
    /// as its span has. The size may be raised, and lowered down to what is in use, while other
    /// threads change the volume. Whole or absent after a crash; ordered on return.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the size is no multiple of 4096, lies below what is in use, or
    /// beyond the span; [`Error::NoSpace`] for the change's records: nothing has changed.
    pub fn set_size(&self, bytes: u64) -> Result<()> {
        let core = &*self.core;
        let _one = core.snapshots.lock();
        let _change = core.freeze.enter();
        let span = core.object().span();
        let span = span.end - span.start;
        if !bytes.is_multiple_of(PAGE) || bytes > span {
            let detail =
                format!("the size of volume `{}` is a multiple of {PAGE} and at most its span, {span}", core.name());
            return Err(Error::BadOption { detail });
        }
        let old = core.require_size(bytes / PAGE)?;
        let mut change = core.change();
        change.set(core.at(0) + SIZE_AT, if bytes == 0 { 0 } else { seal_low(bytes / PAGE) });
        change.commit().inspect_err(|_| core.limit.store(old, Ordering::Relaxed))
    }
}

impl Core {
    /// Changes the size in memory: from now on no page is taken beyond it. Returns the old one.
    fn require_size(&self, pages: u64) -> Result<u64> {
        let _one = self.growing.lock();
        self.with_all_free(|free| {
            let used = self.end_page() - free.count();
            if pages > 0 && pages < used {
                let detail = format!("volume `{}` has {} bytes in use", self.name(), used * PAGE);
                return Err(Error::BadOption { detail });
            }
            Ok(self.limit.swap(pages, Ordering::Relaxed))
        })
    }
}

impl Space {
    /// Free pages that may be taken now.
    pub(crate) fn takeable_count(&self) -> u64 {
        self.with_all_free(|free| self.takeable(free))
    }

    /// One past the last page that the volume may have.
    pub(crate) fn end_page_max(&self) -> u64 {
        let span = self.object().span();
        let span = (span.end - span.start) / PAGE;
        match self.limit.load(Ordering::Relaxed) {
            0 => span,
            limit => limit.min(span),
        }
    }

    /// Refuses to grow a volume that has its size.
    pub(super) fn require_room(&self) -> Result<()> {
        match self.limit.load(Ordering::Relaxed) {
            limit if limit > 0 && self.end_page() >= limit => {
                Err(Error::SizeReached { volume: self.name().into(), size: limit * PAGE })
            }
            _ => Ok(()),
        }
    }

    /// Clusters that the object may have by its quota.
    fn quota(&self) -> Option<u64> {
        let object = self.object();
        let described = object.store().objects_below(self.name()).unwrap_or_default();
        described.iter().find(|found| found.id == object.id()).and_then(|found| found.quota)
    }

    /// See [`Volume::available_pages`].
    fn available(&self) -> u64 {
        let (info, own) = (self.object().store().info(), self.end_page() * PAGE);
        let bounds = [
            Some((self.end_page_max() * PAGE).saturating_sub(own)),
            Some(info.max.saturating_sub(info.backed)),
            self.quota().map(|clusters| (clusters * CLUSTER).saturating_sub(own)),
            self.media().disk_room().map(|room| room + info.waiting),
        ];
        self.takeable_count() + bounds.into_iter().flatten().min().unwrap_or(0) / PAGE
    }

    /// Refuses a call that needs more new pages than there are, before it takes the first: the
    /// volume would grow as far as it can and keep that size. A call of up to 2 MiB may try.
    pub(crate) fn require_available(&self, pages: u64) -> Result<()> {
        if pages <= LARGE_PAGES || pages <= self.available() {
            return Ok(());
        }
        let (volume, own, span) = (self.name().to_string(), self.end_page() * PAGE, self.object().span());
        let asked = pages.saturating_sub(self.takeable_count()) * PAGE;
        let (left, limit) = (span.end - span.start - own, self.limit.load(Ordering::Relaxed) * PAGE);
        if limit > 0 && limit < own + asked {
            return Err(Error::SizeReached { volume, size: limit });
        }
        let object = volume.clone();
        let cause = match self.quota() {
            Some(quota) if quota * CLUSTER < own + asked => {
                let (has, asked) = (own.div_ceil(CLUSTER), asked.div_ceil(CLUSTER));
                everbyte_store::Error::QuotaExceeded { object, quota, has, asked }
            }
            _ if left < asked => everbyte_store::Error::SpanFull { object, span: span.end - span.start, asked, left },
            _ => {
                let path = self.media().path().to_path_buf();
                let source = everbyte_media::Error::Io { action: "grow", path, source: StorageFull.into() };
                everbyte_store::Error::OutOfSpace { at: span.start + own, bytes: asked, source }
            }
        };
        Err(Error::NoSpace { volume, cause: Box::new(cause) })
    }
}

impl Volume {
    /// Pages that files can still take: free ones, and those by which the volume can grow as far as
    /// its size, its span, the quota of its object, its store and the disk of that allow. Costs a
    /// look at the objects of the store.
    pub fn available_pages(&self) -> u64 {
        self.core.available()
    }
}
