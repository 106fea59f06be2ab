//! [`Growth`]: the part of an open store that backs clusters of objects and releases them.
//!
//! One growth, a fence between the steps:
//!   1. the file system is asked for space for the clusters and the bitmaps' pages (may fail:
//!      nothing has changed)
//!   2. `reach` is raised: bits up to it may be set
//!   3. bits are set, and clusters that were used before are zeroed
//!   4. `backed` is raised: the clusters belong to the object
//!
//! A crash before 4 leaves `reach` above `backed`; recovery clears the bits in between and lowers
//! `reach`.
//!
//! Invariants
//!   STORE-6  A cluster below `backed` is backed by the file system, or was released since. It read
//!            as zeros when it was handed out, unless its owner asked for it as it is.
//!
//! Threads: any. The handle's lock serialises growth, release and backing of one object. A thread
//! that backs clusters shares the gate from step 1 until the bits are set; [`Growth::close_gate`]
//! waits for all of them.

use super::header::{self, PRIME_LEN, set_word};
use crate::background::Background;
use crate::catalogue::record::Entry;
use crate::layout::{Superblock, header as words};
use crate::recover::Recovery;
use crate::{Error, Result};
use everbyte_cold::Backing;
use everbyte_media::Media;
use everbyte_media::lock_order::{RankedGuard, RankedRwLock, rank};
use everbyte_media::museum::{misplaced, unless};
use everbyte_space::{CLUSTER, Space, ZeroedParts, clusters_up};
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use std::ops::Range;
use std::sync::Arc;

/// The pager of an object whose cold clusters lie in a backing file.
pub(crate) type Pager = everbyte_cold::Pager<Backing>;

/// The clusters of an open store.
pub(crate) struct Growth {
    background: Background, // stops before the space goes
    media: Media,
    space: Arc<Space>,
    gate: RankedRwLock<{ rank::BACKING }, ()>,
}

impl Growth {
    pub(crate) fn new(media: Media, space: Arc<Space>) -> Growth {
        Growth { background: Background::new(Arc::clone(&space)), media, space, gate: RankedRwLock::default() }
    }

    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    pub(crate) fn background(&self) -> &Background {
        &self.background
    }

    /// Makes the media refuse bytes beyond the store's maximum, if addresses go further.
    pub(crate) fn limit(&self, superblock: &Superblock) {
        if superblock.addresses != 0 {
            self.media.limit_room(superblock.max.get());
        }
    }

    /// Keeps the gate open for a thread that backs clusters, from step 1 until the bits are set.
    pub(crate) fn enter_gate(&self) -> RankedGuard<RwLockReadGuard<'_, ()>> {
        self.gate.read()
    }

    /// Waits until no thread backs clusters, and keeps others from it.
    pub(crate) fn close_gate(&self) -> RankedGuard<RwLockWriteGuard<'_, ()>> {
        self.gate.write()
    }

    /// The range of `bytes` more bytes, in whole clusters, of an object that ends at `from`.
    ///
    /// # Errors
    /// [`Error::SpanFull`].
    pub(crate) fn fitting(&self, entry: &Entry, from: u64, bytes: u64) -> Result<Range<u64>> {
        let left = header::growth_end(&self.media, entry).saturating_sub(from);
        match clusters_up(bytes).filter(|&bytes| bytes <= left) {
            Some(grown) => Ok(from..from + grown),
            None => Err(Error::SpanFull { object: entry.name.clone(), span: entry.span.len(), asked: bytes, left }),
        }
    }

    /// Backs `range` at the end of an object: steps 1 to 4. The caller has checked the quota.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`]: nothing has changed.
    pub(crate) fn extend(&self, entry: &Entry, range: &Range<u64>, pager: Option<&Pager>) -> Result<()> {
        let (media, space, prime) = (&self.media, &self.space, entry.span.at());
        let _gate = self.enter_gate();
        let cleared = match pager {
            None => space.reserve(range)?, // 1
            Some(pager) => {
                pager.reserve(range)?;
                pager.hide(range)?;
                // the file has to reach this far
                space.reserve_part(range, &(range.end - PRIME_LEN..range.end))?;
                ZeroedParts::default()
            }
        };
        if entry.small && range.start == prime + CLUSTER {
            let rest = prime + PRIME_LEN..prime + CLUSTER;
            space.complete(&rest).inspect_err(|_| space.give_up(range))?;
        }
        set_word(media, prime + words::REACH, range.end); // 2
        media.fence_unless("store-reach-unordered");
        match pager {
            None => space.prepare(range, &cleared), // 3
            Some(pager) => {
                pager.expect(range);
                space.set_used(range);
            }
        }
        unless("store-bit-late", || space.set_backed(range));
        media.fence();
        set_word(media, prime + words::BACKED, range.end); // 4
        media.fence();
        misplaced("store-bit-late", || {
            space.set_backed(range);
            media.fence();
        });
        if let Some(pager) = pager {
            pager.admit(range);
        }
        Ok(())
    }

    /// Backs the first cluster of a new object and writes its header, ordered by the caller's next
    /// fence. Neither counts before the record does. The caller has checked the quota.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`].
    pub(crate) fn make(&self, entry: &Entry) -> Result<()> {
        let at = entry.span.at();
        let first = at..at + CLUSTER;
        let _gate = self.enter_gate();
        if entry.small {
            self.space.reserve_part(&first, &(at..at + PRIME_LEN))?;
            self.space.prepare_part(&first, PRIME_LEN);
        } else {
            let cleared = self.space.reserve(&first)?;
            self.space.prepare(&first, &cleared);
        }
        self.media.fence(); // the `used` bit before the first byte that is not zero
        header::write(&self.media, entry, first.end);
        self.space.set_backed(&first);
        Ok(())
    }

    /// Backs holes of an object again; fenced on return.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`]: nothing has changed.
    pub(crate) fn back(&self, holes: &[Range<u64>], contents: Contents, pager: Option<&Pager>) -> Result<()> {
        let space = &self.space;
        let _gate = self.enter_gate();
        if let Some(pager) = pager {
            return holes.iter().try_for_each(|hole| self.back_cold(pager, hole));
        }
        let mut cleared = Vec::new();
        for (reserved, hole) in holes.iter().enumerate() {
            cleared.push(space.reserve(hole).inspect_err(|_| {
                // their space stays unused
                holes[..reserved].iter().for_each(|hole| space.give_up(hole));
                space.punch();
            })?);
        }
        if contents == Contents::Zeros {
            holes.iter().zip(&cleared).for_each(|(hole, cleared)| space.prepare(hole, cleared));
            self.media.fence(); // zeros before the bits that hand them out (STORE-6)
        }
        holes.iter().for_each(|hole| space.set_backed(hole));
        self.media.fence();
        Ok(())
    }

    /// Backs a hole of an object whose clusters may be cold: its clusters are cold zeros.
    fn back_cold(&self, pager: &Pager, hole: &Range<u64>) -> Result<()> {
        pager.reserve(hole)?;
        pager.hide(hole)?;
        self.space.reserve_part(hole, &(hole.start..hole.start))?;
        pager.expect(hole);
        self.media.fence(); // the words before the bits that make them count
        self.space.set_used(hole);
        self.space.set_backed(hole);
        self.media.fence();
        pager.admit(hole);
        Ok(())
    }

    /// Takes the unfinished growth of an object back.
    pub(crate) fn recover(&self, entry: &Entry, recovery: &mut Recovery) {
        let Ok(extent) = header::read(&self.media, entry) else { return };
        if extent.tail_reach != extent.tail {
            self.space.clear_backed(&(entry.span.end() - extent.tail_reach..entry.span.end()));
            self.media.fence(); // as below
            set_word(&self.media, entry.span.at() + words::TAIL_REACH, extent.tail);
            self.media.fence();
        }
        if extent.reach == extent.backed {
            return;
        }
        let unfinished = extent.backed..extent.reach;
        self.space.clear_backed(&unfinished);
        self.media.fence(); // the bits before the word that covers them (STORE-5)
        set_word(&self.media, entry.span.at() + words::REACH, extent.backed);
        self.media.fence();
        self.space.list_released(unfinished);
        recovery.growths.push(entry.name.clone());
    }
}

/// The contents of clusters that are backed again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Zeros.
    Zeros,
    /// Of each page its former contents, or zeros.
    AsIs,
}
