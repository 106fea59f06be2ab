//! Limits of objects: the number of their clusters that may be in memory.

use super::backing::{LEAST, Residency};
use super::header::{self, Extent, set_word};
use super::opened::HeldObject;
use crate::catalogue::record::Entry;
use crate::layout::{FEATURE_COLD, header as words};
use crate::superblock::identity;
use crate::{CLUSTER, Error, Object, ObjectInfo, Result, Store, Want};
use everbyte_cold::{Backing, Candidate, ColdTable, Files, Owner, Tier};
use everbyte_media::Offset;
use everbyte_members::SlotMode;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Store {
    /// Sets the number of clusters of an object that may be in memory at once. The others go to a
    /// file at `backing`, or to one beside the store. A store that was moved names its `backing`
    /// again. `None`: all of them may be in memory, and the backing file is removed. Settled on
    /// return; a crash leaves the old limit or the new one.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`]; [`Error::Open`] and [`Error::Attached`] while a
    /// process has it open; [`Error::BadOption`] for a limit that is too small, or on a backend
    /// that reports no touches; [`Error::Backing`], [`Error::SpanFull`], [`Error::OutOfSpace`],
    /// [`Error::ReadOnly`]. A file of that name that may be another owner's is refused, and stays
    /// as it is.
    pub fn set_resident(&self, name: &str, clusters: Option<u64>, backing: Option<&Path>) -> Result<()> {
        self.require_writable()?;
        let Some(clusters) = clusters else { return self.lift_limit(name) };
        let parts = self.parts();
        let exclusive = self.changing()?;
        if !self.media().can_watch() && !self.media().is_recorded() {
            let detail = "only objects in memory that is written in place (backends `pmem` and `shm`) have such a limit: on backend `file` they lie on a disk already";
            return Err(Error::BadOption { detail: detail.into() });
        }
        let (entry, held) = self.closed_object(name)?;
        parts.sharing().attach(entry.id, name, SlotMode::Exclusive)?;
        // the store's lock keeps other processes from attaching it
        parts.sharing().detach(entry.id);
        let extent = header::extent(self.media(), &entry)?;
        let least = ColdTable::range(entry.span).map(|tail| 1 + (tail.end - tail.start) / CLUSTER + LEAST);
        if least.is_none_or(|least| clusters < least) {
            let detail = match least {
                Some(least) => format!("object `{name}` needs at least {least} clusters in memory, not {clusters}"),
                None => format!("object `{name}` has a span of one cluster, which always is in memory"),
            };
            return Err(Error::BadOption { detail });
        }
        if extent.resident == 0 {
            parts.head().require_feature(FEATURE_COLD)?;
            let made = self.make_table(&entry, &extent, backing);
            made.inspect_err(|_| parts.backing().drop_table(&entry, &extent))?;
        } else if let Some(named) = absolute(backing)? {
            let owner = parts.backing().owner_of(&entry, &extent).filter(|owner| owner.path == named);
            let Some(owner) = owner else {
                let detail =
                    format!("object `{name}` has a backing file; lift its limit first, and it can get another");
                return Err(Error::BadOption { detail });
            };
            Backing::bring_home(parts.backing().files(), owner)?;
        }
        parts.backing().set_limit(&entry, words::RESIDENT, Some(clusters))?;
        drop((held, exclusive));
        self.object(name).map(drop) // opening enforces the limit
    }

    /// The object of this name, which this process may change and does not have open. No other
    /// thread opens, renames or removes it until the second value is dropped.
    fn closed_object(&self, name: &str) -> Result<(Entry, HeldObject<'_>)> {
        let mut names = self.parts().catalogue().lock();
        let entry = names.live(name)?;
        self.require_access(&entry, Want::Write)?;
        let held = self.parts().opened().hold(&entry)?;
        Ok((entry, held))
    }

    fn lift_limit(&self, name: &str) -> Result<()> {
        let exclusive = self.exclusive()?;
        let (entry, _held) = self.closed_object(name)?;
        // A handle of this thread alone: clusters of another's would stay cold.
        let (backing, object) = (self.parts().backing(), self.new_handle(entry, SlotMode::Exclusive, |_| false)?);
        drop(exclusive);
        let Some(paging) = object.paging() else {
            let extent = header::extent(self.media(), object.entry())?;
            let Some(owner) = backing.owner_of(object.entry(), &extent) else { return Ok(()) };
            backing.set_limit(object.entry(), words::RESIDENT, None)?; // every cluster is in memory
            backing.remove_file(Some(owner));
            return Ok(());
        };
        paging.pager().warm_all()?;
        backing.set_limit(object.entry(), words::RESIDENT, None)?;
        paging.pager().tier().remove(backing.files());
        Ok(())
    }

    /// Makes an empty cold table at the end of the span, and a backing file. Neither counts before
    /// the object has a limit.
    fn make_table(&self, entry: &Entry, extent: &Extent, backing: Option<&Path>) -> Result<()> {
        let (parts, media, prime) = (self.parts(), self.media(), entry.span.at());
        let range = ColdTable::range(entry.span).expect("the limit fits");
        let space = self.space();
        space.give_back(); // no cluster is zeroed in the background where pages may be hidden
        if range.start < extent.backed {
            let (span, asked) = (entry.span.len(), range.end - range.start);
            let left = entry.span.end() - extent.backed;
            return Err(Error::SpanFull { object: entry.name.clone(), span, asked, left });
        }
        if extent.tail == 0 {
            let _pending = parts.catalogue().begin_change(entry.at);
            let _counted = parts.quotas().require(entry, extent.backed, range.end - range.start)?;
            let _gate = parts.growth().enter_gate();
            let cleared = space.reserve(&range)?;
            set_word(media, prime + words::TAIL_REACH, range.end - range.start);
            media.fence(); // as a growth: `reach` before the bits
            space.prepare(&range, &cleared);
            space.set_backed(&range);
            media.fence();
            set_word(media, prime + words::TAIL, range.end - range.start);
            media.fence();
        }
        let table = ColdTable::of(media, entry.span).expect("the span has a range for it");
        let earlier = table.named().ok().map(|(pair, _)| pair);
        let owner = parts.backing().owner(entry, [0; 16], absolute(backing)?)?;
        let files = parts.backing().files();
        let candidate = Candidate::find(files, &owner, earlier)?;
        let pair = candidate.earlier.map_or_else(|| files.pair(), Ok).map_err(identity::no_random)?;
        table.name(pair, owner.home.is_some().then_some(&owner.path)).map_err(|detail| Error::BadOption { detail })?;
        // before the file bears the pair: a later limit takes no other
        media.barrier_unless("store-backing-unnamed")?;
        let made = Backing::make(candidate, Owner { pair, ..owner }, files)?;
        Ok(made.reserve((extent.backed - prime) / CLUSTER).inspect_err(|_| made.remove(files))?)
    }

    /// Refuses a store with objects that lie in backing files in part; a copy of the store's file
    /// would lack them.
    ///
    /// # Errors
    /// [`Error::BadOption`], [`Error::Damaged`].
    pub fn require_whole(&self) -> Result<()> {
        if self.parts().head().superblock().features & FEATURE_COLD == 0 {
            return Ok(());
        }
        match self.objects()?.into_iter().find(|object| object.residency.is_some()) {
            None => Ok(()),
            Some(ObjectInfo { name, .. }) => {
                let detail = format!(
                    "object `{name}` has a backing file; lift its limit with `everbyte limit --resident all` first"
                );
                Err(Error::BadOption { detail })
            }
        }
    }

    /// Replaces the files of the system as backing files, before the first use of one.
    #[doc(hidden)]
    pub fn set_files(&self, files: Arc<dyn Files>) {
        self.parts().backing().set_files(files);
    }
}

fn absolute(path: Option<&Path>) -> Result<Option<PathBuf>> {
    let path = path.map(std::path::absolute).transpose();
    path.map_err(|source| Error::BadOption { detail: format!("the path of the backing file is none: {source}") })
}

impl Object {
    /// Makes those clusters of a range cold that are in memory. Settled on return. Nothing in an
    /// object without a limit.
    ///
    /// # Errors
    /// [`Error::Backing`], [`Error::Media`]: nothing is lost, and they stay in memory.
    pub fn cool(&self, range: Range<impl Into<Offset>>) -> Result<()> {
        let range = range.start.into().get()..range.end.into().get();
        self.paging().map_or(Ok(()), |paging| Ok(paging.pager().cool(&range)?))
    }

    /// Brings the cold clusters of a range to memory, as a touch does.
    ///
    /// # Errors
    /// [`Error::Backing`], [`Error::OutOfSpace`], [`Error::Media`]: nothing is lost.
    pub fn warm(&self, range: Range<impl Into<Offset>>) -> Result<()> {
        let range = range.start.into().get()..range.end.into().get();
        self.paging().map_or(Ok(()), |paging| Ok(paging.pager().warm(&range)?))
    }

    /// The clusters in memory and in the backing file; `None`: the object has no limit.
    pub fn residency(&self) -> Option<Residency> {
        let extent = header::read(self.media(), self.entry()).ok()?;
        self.store().parts().backing().residency(self.entry(), &extent)
    }
}
