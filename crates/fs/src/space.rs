//! [`Space`]: the pages of an open volume, which of them are free, and which are shared. The volume
//! grows when none is free.
//!
//! Threads: any. The locks of growth, of the shared pages, of a thread's own free pages, or of all
//! threads', and of the free pages are taken in this order, each for one call.

use crate::free_pages::FreePages;
use crate::layout::{PAGE, Place, STATE_SNAPSHOT, State, inode};
use crate::order::{Blank, Fresh};
use crate::own_pages::{self, OwnPages};
use crate::parts::{Apart, PARTS, thread_number};
use crate::quota::usage::{Charge, Delta, Owner, Quotas};
use crate::shared_pages::SharedPages;
use crate::{Clock, Error, PageSize, Result};
use everbyte_media::{Damage, Media, seeded};
use everbyte_store::{CLUSTER, ErrorInfo, ErrorKind, Object};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The pages of an open volume.
pub(crate) struct Space {
    object: Object,
    /// Free pages of threads.
    own: [Apart<Mutex<OwnPages>>; PARTS],
    free: Apart<Mutex<FreePages>>,
    shared: Apart<Mutex<SharedPages>>,
    /// Serialises growth of the object.
    pub(super) growing: Mutex<()>,
    /// The pages and inodes of users, groups and projects.
    pub(crate) quotas: Quotas,
    /// Pages that the volume may have; 0: as many as its span has.
    pub(super) limit: AtomicU64,
    /// The next opening has to scan: see [`Space::require_scan`].
    is_unsure: AtomicBool,
}

impl Space {
    pub(crate) fn new(object: Object, free: FreePages, shared: SharedPages, clock: Clock) -> Space {
        let (free, shared) = (Apart::new(Mutex::new(free)), Apart::new(Mutex::new(shared)));
        let (quotas, growing) = (Quotas::new(clock), Mutex::new(()));
        let limit = AtomicU64::new(0);
        Space {
            object,
            own: Default::default(),
            free,
            shared,
            growing,
            quotas,
            limit,
            is_unsure: AtomicBool::new(false),
        }
    }

    /// The state in memory may differ from the media: a file is damaged, or a call has panicked or
    /// failed in the middle. It is not saved then.
    pub(crate) fn require_scan(&self) {
        self.is_unsure.store(true, Ordering::Relaxed);
    }

    /// Whether the next opening has to scan.
    pub(crate) fn requires_scan(&self) -> bool {
        self.is_unsure.load(Ordering::Relaxed)
    }

    /// Refuses runs of pages of which one counts as free. A scan has found none, so that only
    /// saved bits are looked at.
    pub(crate) fn require_used(&self, runs: impl Iterator<Item = (u64, u64)>) -> Result<(), Damage> {
        if !self.free.lock().is_saved() {
            return Ok(());
        }
        let owned: Vec<_> = self.own.iter().map(|own| own.lock()).collect();
        let free = self.free.lock();
        for (first, count) in runs {
            let shared = free.next_free(first).filter(|&page| page < first + count);
            let owned = owned.iter().any(|own| own.has(first, count)).then_some(first);
            if let Some(page) = shared.or(owned) {
                return Err(Damage::at(self.at(page), "a page of a file counts as free"));
            }
        }
        Ok(())
    }

    /// The object.
    #[inline]
    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// The media of the object.
    #[inline]
    pub(crate) fn media(&self) -> &Media {
        self.object.media()
    }

    /// The name of the volume.
    pub(crate) fn name(&self) -> &str {
        self.object.name()
    }

    /// Offset of a page in the store.
    #[inline]
    pub(crate) fn at(&self, page: u64) -> u64 {
        self.object.span().start + page * PAGE
    }

    /// The page of an offset.
    pub(crate) fn page(&self, at: u64) -> u64 {
        (at - self.object.span().start) / PAGE
    }

    /// One past the last page that the volume has.
    pub(crate) fn end_page(&self) -> u64 {
        self.page(self.object.backed().get())
    }

    /// Pages that are free now.
    pub(crate) fn free_pages(&self) -> FreePages {
        self.with_all_free(|free| free.clone())
    }

    /// Calls `with` for all free pages, while no thread has some of its own (FS-45).
    pub(super) fn with_all_free<T>(&self, with: impl FnOnce(&mut FreePages) -> T) -> T {
        let mut all = self.own.each_ref().map(|own| own.lock());
        let mut free = self.free.lock();
        for own in &mut all {
            own.take_all().for_each(|(first, count)| free.give(first, count));
        }
        with(&mut free)
    }

    /// The free pages of this thread; `None`: threads have none, since the volume has a size, which
    /// changes while the locks of all threads are held.
    fn own(&self) -> Option<MutexGuard<'_, OwnPages>> {
        let own = self.own[thread_number() % PARTS].lock();
        (self.limit.load(Ordering::Relaxed) == 0).then_some(own)
    }

    /// Free pages that may be taken: those beyond the size of the volume may not. The caller holds
    /// the lock of the free pages, under which the size changes.
    pub(super) fn takeable(&self, free: &FreePages) -> u64 {
        match self.limit.load(Ordering::Relaxed) {
            0 => free.count(),
            limit => free.count().saturating_sub(self.end_page().saturating_sub(limit)),
        }
    }

    /// Takes up to `wanted` adjacent pages, at least one: the first one, and their number. The
    /// volume grows if none is free.
    pub(crate) fn take_pages(&self, wanted: u64) -> Result<(u64, u64)> {
        if wanted <= own_pages::SHORT
            && let Some(mut own) = self.own()
        {
            if let Some(taken) = own.take(wanted) {
                return Ok(taken);
            }
            let run = self.free.lock().take(own_pages::RUN);
            if let Some(run) = run {
                own.put_run(run);
                return Ok(own.take(wanted).expect("a run has pages"));
            }
        }
        self.take_or_grow(wanted, |free, takeable| free.take(takeable.min(wanted)))
    }

    /// [`Space::take_pages`] for pages that replace as many others.
    pub(crate) fn take_replacement(&self, wanted: u64) -> Result<(u64, u64)> {
        let freed = if wanted == 1 { self.own().and_then(|mut own| own.take_freed()) } else { None };
        freed.map_or_else(|| self.take_pages(wanted), |page| Ok((page, 1)))
    }

    /// Takes pages; the volume grows by `wanted` where they cannot be taken. `take` is given the
    /// number of pages that may be, at least one.
    fn take_or_grow<T>(&self, wanted: u64, take: impl Fn(&mut FreePages, u64) -> Option<T>) -> Result<T> {
        let attempt = |free: &mut FreePages| {
            let takeable = self.takeable(free);
            if takeable > 0 { take(free, takeable) } else { None }
        };
        if let Some(taken) = attempt(&mut self.free.lock()) {
            return Ok(taken);
        }
        loop {
            if let Some(taken) = self.with_all_free(attempt) {
                return Ok(taken);
            }
            if let Err(error) = self.grow(wanted) {
                return self.with_all_free(attempt).ok_or(error); // another thread has grown the volume meanwhile
            }
        }
    }

    /// Takes the free pages that follow each other from `page` on, up to `wanted`; their number.
    pub(crate) fn take_pages_at(&self, page: u64, wanted: u64) -> u64 {
        let own = match self.own() {
            Some(mut own) => own.take_at(page, wanted),
            None => 0,
        };
        if own == wanted {
            return own;
        }
        let mut free = self.free.lock();
        let takeable = self.takeable(&free);
        own + free.take_from(page + own, (wanted - own).min(takeable))
    }

    /// Takes `wanted` pages, in as few runs as there are.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: none is taken.
    pub(crate) fn take_runs(&self, mut wanted: u64) -> Result<Vec<(u64, u64)>> {
        let mut runs = Vec::new();
        while wanted > 0 {
            match self.take_pages(wanted) {
                Ok((page, count)) => {
                    runs.push((page, count));
                    wanted -= count;
                }
                Err(error) => {
                    self.give_runs(&runs);
                    return Err(error);
                }
            }
        }
        Ok(runs)
    }

    /// [`Space::give_pages`] of several runs.
    pub(crate) fn give_runs(&self, runs: &[(u64, u64)]) {
        if runs.is_empty() {
            return;
        }
        let mut shared = self.shared.lock();
        if shared.is_empty() || seeded("fs-share-freed") {
            drop(shared); // pages that have one extent are not shared meanwhile: see there
            let mut free = self.free.lock();
            return runs.iter().for_each(|&(page, count)| free.give(page, count));
        }
        let mut free = self.free.lock();
        for &(first, count) in runs {
            for (page, count, others) in shared.parts(first, count) {
                match others {
                    0 => free.give(page, count),
                    _ => shared.lower(page, count),
                }
            }
        }
    }

    /// [`Space::give_pages`] of pages whose extent was not marked as shared (FS-21).
    pub(crate) fn give_unshared(&self, first: u64, count: u64) {
        if count == 1
            && let Some(mut own) = self.own()
        {
            if let Some(many) = own.give(first) {
                let mut free = self.free.lock();
                many.for_each(|page| free.give(page, 1));
            }
            return;
        }
        self.free.lock().give(first, count);
    }

    /// One extent more leads to these pages, which are in use; [`Space::give_runs`] ends that.
    pub(crate) fn share_runs(&self, runs: &[(u64, u64)]) {
        let mut shared = self.shared.lock();
        runs.iter().for_each(|&(page, count)| shared.raise(page, count));
    }

    /// Whether several extents lead to a page.
    pub(crate) fn is_shared(&self, page: u64) -> bool {
        self.shared.lock().of(page) > 0
    }

    /// Whether several extents lead to one of these pages.
    pub(crate) fn has_shared(&self, first: u64, count: u64) -> bool {
        self.shared.lock().parts(first, count).iter().any(|&(_, _, others)| others > 0)
    }

    /// Pages that are shared now.
    pub(crate) fn shared_pages(&self) -> SharedPages {
        self.shared.lock().clone()
    }

    /// Takes `count` adjacent pages; the first one.
    pub(crate) fn take_run(&self, count: u64) -> Result<u64> {
        self.take_or_grow(count, |free, takeable| if takeable < count { None } else { free.take_aligned(count, 1) })
    }

    /// Takes an aligned run of the pages of a large page; the first one. `None`: the volume has
    /// none and cannot grow by one.
    pub(crate) fn take_large(&self, size: PageSize) -> Result<Option<u64>> {
        let attempt = |free: &mut FreePages| {
            if self.takeable(free) < size.pages() { None } else { free.take_large(size.pages()) }
        };
        if let Some(page) = attempt(&mut self.free.lock()) {
            return Ok(Some(page));
        }
        // The volume may end inside of a large page; a part of that may be in use.
        for _ in 0..2 {
            if let Some(page) = self.with_all_free(attempt) {
                return Ok(Some(page));
            }
            let end = self.end_page();
            match self.grow((end + 1).next_multiple_of(size.pages()) - end) {
                Err(Error::NoSpace { .. } | Error::SizeReached { .. }) => break,
                outcome => outcome?,
            }
        }
        Ok(self.with_all_free(attempt))
    }

    /// An extent leads to these pages no more, and the fence of the change that removed it has
    /// passed. They become free if no other extent leads to them.
    pub(crate) fn give_pages(&self, first: u64, count: u64) {
        self.give_runs(&[(first, count)]);
    }

    /// Whether the inode at `at` belongs to a snapshot.
    pub(crate) fn is_of_snapshot(&self, at: u64) -> bool {
        State::of(self.media().load(at + inode::STATE)).flags & STATE_SNAPSHOT != 0
    }

    /// Charges the owners of the file at `at` for pages, outside of a change; see
    /// [`crate::change::Change::charge`].
    pub(crate) fn charge(&self, at: u64, pages: i64) -> Result<Charge<'_>> {
        if !self.quotas.is_on() || self.is_of_snapshot(at) {
            return self.quotas.charge(self.name(), &[]);
        }
        let owner = Owner::of(&self.media().get(at));
        self.quotas.charge(self.name(), &[Delta { owner, pages, inodes: 0 }])
    }

    /// Adds pages to the volume: an eighth of its size, at most 64 MiB, at least `wanted`; where
    /// that does not fit, as many as do. The last clusters may pass the size of the volume.
    pub(crate) fn grow(&self, wanted: u64) -> Result<()> {
        let _one = self.growing.lock();
        if wanted == 1 && self.takeable_count() > 0 {
            return Ok(()); // another thread has grown it
        }
        self.require_room()?;
        let needed = (wanted * PAGE).next_multiple_of(CLUSTER);
        let step = (self.end_page() * PAGE / 8).clamp(CLUSTER, 64 << 20).max(needed).next_multiple_of(CLUSTER);
        let mut outcome = self.object.grow(step);
        for fewer in [needed, CLUSTER] {
            let is_full = |error: &everbyte_store::Error| matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Quota);
            if outcome.as_ref().is_err_and(is_full) && fewer < step {
                outcome = self.object.grow(fewer);
            }
        }
        let range = outcome.map_err(|error| Error::no_space(self.name(), error))?;
        if !range.is_empty() {
            self.give_pages(self.page(range.start), (range.end - range.start) / PAGE);
        }
        Ok(())
    }

    /// Stores zeros to pages that were taken.
    pub(crate) fn zero_pages(&self, first: u64, count: u64) -> Fresh<Place> {
        Blank::new(Place::page(first)).zero(self.media(), self.at(first), count)
    }

    /// Stores bytes to pages that were taken.
    #[track_caller]
    pub(crate) fn copy_pages_unless(&self, bug: &'static str, first: u64, bytes: &[u8]) -> Fresh<Place> {
        Blank::new(Place::page(first)).copy_nt_unless(self.media(), bug, self.at(first), bytes)
    }
}

impl Error {
    /// The error of a growth that the store refused.
    pub(crate) fn no_space(volume: &str, cause: everbyte_store::Error) -> Error {
        match cause.kind() {
            ErrorKind::NoSpace | ErrorKind::Quota => Error::NoSpace { volume: volume.into(), cause: Box::new(cause) },
            _ => Error::Store(cause),
        }
    }
}
