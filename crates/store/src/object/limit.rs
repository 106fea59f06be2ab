//! Limits of objects: the number of their clusters that may be in memory.

use crate::catalogue::record::Entry;
use crate::layout::{FEATURE_COLD, header};
use crate::object::{self, Extent};
use crate::store::Inner;
use crate::superblock::identity;
use crate::{Error, FindingKind, Object, ObjectInfo, Result, Store, Want};
use everbyte_cold::{
    Backing, Candidate, ColdTable, FaultKind, Files, Location, Owner, Pager, RealFiles, Tier, TouchSource,
};
use everbyte_media::Damage;
use everbyte_space::CLUSTER;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Clusters beside the first and the table that have to be in memory at once, at least: one
/// instruction may touch several.
const LEAST: u64 = 7;

/// What of an object with a limit is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Clusters that may be in memory, its cold table's among them.
    pub limit: u64,
    /// Clusters that are.
    pub resident: u64,
    /// Clusters that are not.
    pub cold: u64,
}

impl Store {
    /// Says how many clusters of an object may be in memory at once, and where the others go: to a
    /// file at `backing`, or to one beside the store. Given again for a store that was moved,
    /// `backing` stays its file. `None`: all of them may be in memory, and the backing file goes.
    /// Settled on return; a crash leaves the old limit or the new one.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`]; [`Error::Open`] and [`Error::Attached`] while
    /// somebody has it open; [`Error::BadOption`] for a limit that is too small, or where nobody
    /// can hear of touches; [`Error::Backing`], [`Error::SpanFull`], [`Error::OutOfSpace`]. A file
    /// of that name that may be another's is refused, and stays as it is.
    pub fn set_resident(&self, name: &str, clusters: Option<u64>, backing: Option<&Path>) -> Result<()> {
        let Some(clusters) = clusters else { return self.lift_limit(name) };
        let inner = &*self.inner;
        let exclusive = self.changing()?;
        if !self.media().can_watch() && !self.media().is_recorded() {
            let detail = "only objects in memory that is written in place (backends `pmem` and `shm`) have such a limit: on backend `file` they lie on a disk already";
            return Err(Error::BadOption { detail: detail.into() });
        }
        let entry = inner.removable(&mut inner.table.lock(), name)?;
        self.require_access(&entry, Want::Write)?;
        self.attach_object(entry.id, name, true)?;
        self.detach_object(entry.id); // nobody attaches it in this turn
        let extent = inner.extent(&entry)?;
        let least = ColdTable::range(entry.span).map(|tail| 1 + (tail.end - tail.start) / CLUSTER + LEAST);
        if least.is_none_or(|least| clusters < least) {
            let detail = match least {
                Some(least) => format!("object `{name}` needs at least {least} clusters in memory, not {clusters}"),
                None => format!("object `{name}` has a span of one cluster, which always is in memory"),
            };
            return Err(Error::BadOption { detail });
        }
        if extent.resident == 0 {
            inner.require_feature(FEATURE_COLD)?;
            let made = self.make_table(&entry, &extent, backing);
            made.inspect_err(|_| inner.drop_table(&entry, &extent))?;
        } else if let Some(named) = absolute(backing)? {
            let owner = inner.backing_of(&entry, &extent).filter(|owner| owner.path == named);
            let Some(owner) = owner else {
                let detail =
                    format!("object `{name}` has a backing file; lift its limit first, and it can get another");
                return Err(Error::BadOption { detail });
            };
            Backing::bring_home(inner.files(), owner)?;
        }
        inner.set_limit(&entry, header::RESIDENT, Some(clusters))?;
        drop(exclusive);
        self.object(name).map(drop) // which keeps the limit
    }

    fn lift_limit(&self, name: &str) -> Result<()> {
        let exclusive = self.exclusive()?;
        self.inner.removable(&mut self.inner.table.lock(), name)?;
        drop(exclusive);
        let (inner, object) = (&*self.inner, self.object(name)?);
        let Some(cold) = object.cold() else {
            let Some(owner) = inner.backing_of(object.entry(), &inner.extent(object.entry())?) else { return Ok(()) };
            inner.set_limit(object.entry(), header::RESIDENT, None)?; // everything is in memory
            inner.remove_backing(Some(owner));
            return Ok(());
        };
        cold.pager().warm_all()?;
        inner.set_limit(object.entry(), header::RESIDENT, None)?;
        cold.pager().tier().remove(inner.files());
        Ok(())
    }

    /// Makes an empty cold table at the end of the span, and a backing file. Neither counts before
    /// the object has a limit.
    fn make_table(&self, entry: &Entry, extent: &Extent, backing: Option<&Path>) -> Result<()> {
        let (inner, media, prime) = (&*self.inner, self.media(), entry.span.at());
        let range = ColdTable::range(entry.span).expect("the limit fits");
        inner.space.give_back(); // nothing is cleared in the background where pages may be hidden
        if range.start < extent.backed {
            let (span, asked) = (entry.span.len(), range.end - range.start);
            return Err(Error::SpanFull {
                object: entry.name.clone(),
                span,
                asked,
                left: entry.span.end() - extent.backed,
            });
        }
        if extent.tail == 0 {
            let _flight = self.depart(entry.at);
            let _counted = inner.require_quota(entry, extent.backed, range.end - range.start)?;
            let _gate = self.backing_gate();
            let cleared = inner.space.reserve(&range)?;
            object::set_word(media, prime + header::TAIL_REACH, range.end - range.start);
            media.fence(); // as a growth: `reach` before the bits
            inner.space.prepare(&range, &cleared);
            inner.space.set_backed(&range);
            media.fence();
            object::set_word(media, prime + header::TAIL, range.end - range.start);
            media.fence();
        }
        let table = ColdTable::of(media, entry.span).expect("it has a place");
        let earlier = table.named().ok().map(|(pair, _)| pair);
        let owner = inner.owner(entry, [0; 16], absolute(backing)?)?;
        let files = inner.files();
        let candidate = Candidate::find(files, &owner, earlier)?;
        let pair = candidate.earlier.map_or_else(|| files.pair(), Ok).map_err(identity::no_random)?;
        table.name(pair, owner.home.is_some().then_some(&owner.path)).map_err(|detail| Error::BadOption { detail })?;
        media.barrier_unless("store-backing-unnamed")?; // before the file bears the pair: a later limit takes no other
        let made = Backing::make(candidate, Owner { pair, ..owner }, files)?;
        made.reserve((extent.backed - prime) / CLUSTER).inspect_err(|_| made.remove(files))?;
        Ok(media.barrier()?)
    }

    /// Refuses a store of whose objects some lie in backing files too: for whoever is about to copy
    /// its file.
    ///
    /// # Errors
    /// [`Error::BadOption`], [`Error::Damaged`].
    pub fn require_whole(&self) -> Result<()> {
        if self.inner.superblock().features & FEATURE_COLD == 0 {
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

    /// Where backing files are made and found; the system's, unless this is called before.
    #[doc(hidden)]
    pub fn set_files(&self, files: Arc<dyn Files>) {
        assert!(self.inner.files.set(files).is_ok(), "said once, and first");
    }

    /// The pager of an object that has a limit.
    pub(crate) fn pager(&self, entry: &Entry, extent: &Extent) -> Result<Option<Paging>> {
        if extent.resident == 0 {
            return Ok(None);
        }
        let (inner, media, prime) = (&*self.inner, self.media(), entry.span.at());
        let damaged = |(at, detail): (u64, String)| {
            Error::from(Damage::at(at, detail).of_file(media.path()).of_object(&entry.name))
        };
        let table = ColdTable::of(media, entry.span)
            .ok_or_else(|| damaged((prime, "it has no room for a cold table".into())))?;
        let (pair, path) = table.named().map_err(damaged)?;
        table.adopt(); // STORE-8: of a shared store nobody is told whose process died
        media.fence();
        let read_only = media.opened().read_only;
        let touches = match () {
            () if read_only => TouchSource::None,
            () if media.can_watch() => TouchSource::Faults,
            () if media.is_recorded() && inner.files().reports_touches() => TouchSource::Calls,
            () => TouchSource::None,
        };
        let warm = table.is_warm();
        if warm && touches == TouchSource::None {
            return Ok(None); // no cluster leaves the memory, and none is elsewhere
        }
        // A file is made where the store says, and never where only a path on media says (COLD-5).
        let (beside, owner) = (path.is_none(), inner.owner(entry, pair, path)?);
        let backing = match warm && beside {
            true => Backing::open_or_make(inner.files(), owner)?,
            false => Backing::open(inner.files(), owner, read_only)?,
        };
        let backed: Vec<bool> =
            (prime..extent.backed).step_by(CLUSTER as usize).map(|at| inner.space.is_backed(at)).collect();
        let frames = (extent.resident / CLUSTER).saturating_sub(1 + extent.tail / CLUSTER).max(LEAST);
        let frames = usize::try_from(frames).unwrap_or(usize::MAX);
        let pager = Pager::new(media, prime, (table, backing), (touches, frames), &backed).map_err(damaged)?;
        Ok(Some(Paging::begin(pager)?))
    }
}

/// The paging of an object whose cold clusters lie in a backing file.
pub(crate) type Paging = everbyte_cold::Paging<Backing>;

impl From<everbyte_cold::Error> for Error {
    fn from(error: everbyte_cold::Error) -> Error {
        match error {
            everbyte_cold::Error::Media(error) => Error::Media(error),
            everbyte_cold::Error::OutOfSpace { at, bytes, source } => Error::OutOfSpace { at, bytes, source },
            everbyte_cold::Error::Backing { store, object, path, detail } => {
                Error::Backing { store, object, path, detail }
            }
        }
    }
}

fn absolute(path: Option<&Path>) -> Result<Option<PathBuf>> {
    let path = path.map(std::path::absolute).transpose();
    path.map_err(|source| Error::BadOption { detail: format!("the path of the backing file is none: {source}") })
}

impl Inner {
    pub(crate) fn set_limit(&self, entry: &Entry, word: u64, clusters: Option<u64>) -> Result<()> {
        // More clusters than addresses are no limit.
        let bytes = clusters.map_or(0, |clusters| clusters.min(1 << 31) * CLUSTER);
        object::set_word(&self.media, entry.span.at() + word, bytes);
        Ok(self.media.barrier_unless("store-limit-unsettled")?)
    }

    pub(crate) fn files(&self) -> &dyn Files {
        self.files.get().map_or(&RealFiles, |files| &**files)
    }

    /// Who has the backing file of an object: `path`, or beside the store.
    ///
    /// # Errors
    /// [`Error::BadOption`]: the store was passed as a descriptor, and nothing lies beside it.
    pub(crate) fn owner(&self, entry: &Entry, pair: [u8; 16], path: Option<PathBuf>) -> Result<Owner> {
        let store = self.media.path().to_path_buf();
        let Some(home) = &self.home else {
            let detail =
                format!("object `{}` cannot have a backing file: its store has no place in a directory", entry.name);
            return Err(Error::BadOption { detail });
        };
        let (path, home) = match path {
            Some(path) => (path, Some(home.clone())),
            None => {
                let mut path = home.as_os_str().to_owned();
                path.push(format!(".swap-{:x}", entry.id));
                (path.into(), None)
            }
        };
        let identity = self.superblock().identity;
        Ok(Owner { identity, object: entry.name.clone(), id: entry.id, pair, path, store, home })
    }

    /// Who has an object's backing file, if it has one.
    pub(crate) fn backing_of(&self, entry: &Entry, extent: &Extent) -> Option<Owner> {
        let table = ColdTable::of(&self.media, entry.span).filter(|_| extent.resident > 0)?;
        let (pair, path) = table.named().ok()?;
        self.owner(entry, pair, path).ok()
    }

    /// Removes a backing file if it is this owner's.
    pub(crate) fn remove_backing(&self, owner: Option<Owner>) {
        if let Some(Ok(backing)) = owner.map(|owner| Backing::open(self.files(), owner, false)) {
            backing.remove(self.files());
        }
    }

    /// Takes a cold table back that a limit which failed has made, where there was none `before`.
    /// As a growth that is taken back: the words that say that it is there, its bits, and then how
    /// far bits may be set.
    fn drop_table(&self, entry: &Entry, before: &Extent) {
        let Some(range) = ColdTable::range(entry.span).filter(|_| before.tail == 0) else { return };
        let prime = entry.span.at();
        match object::read_header(&self.media, entry) {
            Ok(extent) if extent.tail_reach > 0 => {}
            _ => return, // the table did not come to be
        }
        object::set_word(&self.media, prime + header::TAIL, 0);
        self.media.fence();
        self.space.clear_backed(&range);
        self.media.fence();
        object::set_word(&self.media, prime + header::TAIL_REACH, 0);
        self.media.fence();
        self.space.list_released(range);
        self.space.punch();
    }

    /// The faults of an object's cold clusters. Costs a look at each of them.
    pub(crate) fn check_cold(&self, entry: &Entry, extent: &Extent) -> Vec<(FindingKind, u64, String)> {
        if extent.resident == 0 {
            return Vec::new();
        }
        let Some(table) = ColdTable::of(&self.media, entry.span) else { return Vec::new() };
        let (pair, path) = match table.named() {
            Ok(named) => named,
            Err((at, detail)) => return vec![(FindingKind::Damage, at, detail)],
        };
        let (prime, open) =
            (entry.span.at(), || Ok::<_, Error>(Backing::open(self.files(), self.owner(entry, pair, path)?, true)?));
        let clusters = ((extent.backed - prime) / CLUSTER) as u32;
        let found = everbyte_cold::check(&table, prime, clusters, |at| self.space.is_backed(at), open).into_iter();
        let kind = |kind| match kind {
            FaultKind::Damage => FindingKind::Damage,
            FaultKind::DoubleUse => FindingKind::DoubleUse,
            FaultKind::Note => FindingKind::Note,
        };
        found.map(|fault| (kind(fault.kind), fault.at, fault.detail)).collect()
    }

    /// The clusters of an object in memory, by its cold table; `None`: it has no limit.
    pub(crate) fn residency(&self, entry: &Entry, extent: &Extent) -> Option<Residency> {
        if extent.resident == 0 {
            return None;
        }
        let table = ColdTable::of(&self.media, entry.span)?;
        table.named().ok()?;
        let clusters = (extent.backed - entry.span.at()) / CLUSTER;
        let backed = (0..clusters as u32)
            .filter(|&cluster| self.space.is_backed(entry.span.at() + u64::from(cluster) * CLUSTER));
        let (here, cold): (Vec<u32>, Vec<u32>) = backed.partition(|&cluster| table.get(cluster) == Location::Memory);
        let resident = here.len() as u64 + extent.tail / CLUSTER;
        Some(Residency { limit: extent.resident / CLUSTER, resident, cold: cold.len() as u64 })
    }
}

impl Object {
    /// Lets the clusters of a range grow cold that are in memory. Settled on return. Nothing in an
    /// object without a limit.
    ///
    /// # Errors
    /// [`Error::Backing`], [`Error::Media`]: nothing is lost, and they stay in memory.
    pub fn cool(&self, range: std::ops::Range<u64>) -> Result<()> {
        self.cold().map_or(Ok(()), |cold| Ok(cold.pager().cool(&range)?))
    }

    /// Brings the cold clusters of a range to memory, as touching them does.
    ///
    /// # Errors
    /// [`Error::Backing`], [`Error::OutOfSpace`], [`Error::Media`]: nothing is lost.
    pub fn warm(&self, range: std::ops::Range<u64>) -> Result<()> {
        self.cold().map_or(Ok(()), |cold| Ok(cold.pager().warm(&range)?))
    }

    /// What of it is in memory; `None`: it has no limit.
    pub fn residency(&self) -> Option<Residency> {
        let extent = object::read_header(self.media(), self.entry()).ok()?;
        self.store().inner.residency(self.entry(), &extent)
    }
}
