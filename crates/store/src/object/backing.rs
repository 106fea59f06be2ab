//! [`BackingFiles`]: the part of an open store that knows the backing files of its objects.

use super::growth::{Growth, Pager};
use super::header::{self, Extent, set_word};
use crate::catalogue::record::Entry;
use crate::finding::FindingKind;
use crate::layout::header as words;
use crate::superblock::head::Head;
use crate::{Error, Result};
use everbyte_cold::{
    Backing, ColdTable, FaultKind, FileRights, Files, Location, OpenMode, Owner, RealFiles, TouchSource,
};
use everbyte_media::Media;
use everbyte_space::CLUSTER;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The least number of clusters in memory beside the first and the table: one instruction may touch
/// several.
pub(crate) const LEAST: u64 = 7;

/// The clusters of an object with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Clusters that may be in memory, its cold table's among them.
    pub limit: u64,
    /// Clusters in memory.
    pub resident: u64,
    /// Clusters in the backing file.
    pub cold: u64,
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

/// The backing files of an open store.
pub(crate) struct BackingFiles {
    media: Media,
    head: Arc<Head>,
    growth: Arc<Growth>,
    /// The path of the store's file, absolute and without links, for any later directory of the
    /// process; `None` if the media has no path.
    home: Option<PathBuf>,
    /// Set if tests replace the files of the system.
    files: OnceLock<Arc<dyn Files>>,
}

impl BackingFiles {
    pub(crate) fn new(media: Media, (head, growth): (Arc<Head>, Arc<Growth>)) -> BackingFiles {
        // Recorded media have no file, and backing files that bear their name.
        let found = media.path().canonicalize().ok();
        let home = found.or_else(|| media.is_recorded().then(|| media.path().into()));
        BackingFiles { media, head, growth, home, files: OnceLock::new() }
    }

    /// Replaces the files of the system.
    ///
    /// # Panics
    /// If they are replaced already.
    pub(crate) fn set_files(&self, files: Arc<dyn Files>) {
        assert!(self.files.set(files).is_ok(), "files are replaced once, and first");
    }

    pub(crate) fn files(&self) -> &dyn Files {
        self.files.get().map_or(&RealFiles, |files| &**files)
    }

    /// Stores a limit of an object in its header. Settled.
    pub(crate) fn set_limit(&self, entry: &Entry, word: u64, clusters: Option<u64>) -> Result<()> {
        // More clusters than addresses are no limit.
        let bytes = clusters.map_or(0, |clusters| clusters.min(1 << 31) * CLUSTER);
        set_word(&self.media, entry.span.at() + word, bytes);
        Ok(self.media.barrier_unless("store-limit-unsettled")?)
    }

    /// The owner of the backing file at `path`, or beside the store.
    ///
    /// # Errors
    /// [`Error::BadOption`]: the store was passed as a descriptor, and has no directory.
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
        let identity = self.head.superblock().identity;
        let rights = self.home.as_deref().and_then(|home| home.metadata().ok()).map(|store| FileRights::of(&store));
        Ok(Owner { identity, object: entry.name.clone(), id: entry.id.get(), pair, path, store, home, rights })
    }

    /// The owner of an object's backing file, if the object has one.
    pub(crate) fn owner_of(&self, entry: &Entry, extent: &Extent) -> Option<Owner> {
        let table = ColdTable::of(&self.media, entry.span).filter(|_| extent.resident > 0)?;
        let (pair, path) = table.named().ok()?;
        self.owner(entry, pair, path).ok()
    }

    /// Removes a backing file if it belongs to this owner.
    pub(crate) fn remove_file(&self, owner: Option<Owner>) {
        if let Some(Ok(backing)) = owner.map(|owner| Backing::open(self.files(), owner, OpenMode::ReadWrite)) {
            backing.remove(self.files());
        }
    }

    /// Removes the backing file of an object whose removal was interrupted, if it has one. A
    /// read-only store removes none.
    pub(crate) fn remove_of(&self, entry: &Entry) {
        if self.media.opened().read_only {
            return;
        }
        let extent = header::find(&self.media, entry).ok();
        if let Some(owner) = extent.and_then(|extent| self.owner_of(entry, &extent)) {
            self.remove_file(Some(owner.clone()));
            self.files().settle_removal(&owner.path); // the dead process may have removed it
        }
    }

    /// The paging of an object, if it has a limit.
    pub(crate) fn paging(&self, entry: &Entry, extent: &Extent) -> Result<Option<Paging>> {
        if extent.resident == 0 {
            return Ok(None);
        }
        let (media, prime) = (&self.media, entry.span.at());
        let mode = if media.opened().read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        if mode == OpenMode::ReadWrite {
            media.require_opener()?; // the pager of a forked child would move its parent's clusters
        }
        let damaged = |(at, detail): (u64, String)| header::damaged(media, entry, at, &detail);
        let table = ColdTable::of(media, entry.span);
        let table = table.ok_or_else(|| damaged((prime, "it has no room for a cold table".into())))?;
        let (pair, path) = table.named().map_err(damaged)?;
        table.adopt(); // STORE-8: the member of a shared store does not know which process died
        media.fence();
        let touches = match () {
            () if mode == OpenMode::ReadOnly => TouchSource::None,
            () if media.can_watch() => TouchSource::Faults,
            () if media.is_recorded() && self.files().reports_touches() => TouchSource::Calls,
            () => TouchSource::None,
        };
        let warm = table.is_warm();
        if warm && touches == TouchSource::None {
            return Ok(None); // every cluster is in memory, and stays there
        }
        // A file is made beside the store, and never at a path that only the media names (COLD-5).
        let (beside, owner) = (path.is_none(), self.owner(entry, pair, path)?);
        let backing = match warm && beside {
            true => Backing::open_or_make(self.files(), owner)?,
            false => Backing::open(self.files(), owner, mode)?,
        };
        let clusters = (prime..extent.backed).step_by(CLUSTER as usize);
        let backed: Vec<bool> = clusters.map(|at| self.growth.space().is_backed(at)).collect();
        let frames = (extent.resident / CLUSTER).saturating_sub(1 + extent.tail / CLUSTER).max(LEAST);
        let frames = usize::try_from(frames).unwrap_or(usize::MAX);
        let pager = Pager::new(media, prime, (table, backing), (touches, frames), &backed).map_err(damaged)?;
        Ok(Some(Paging::begin(pager)?))
    }

    /// Takes back the cold table that a failed limit has made, if there was none `before`. As a
    /// growth that is taken back: the words that count it, its bits, and then the word that allows
    /// its bits.
    pub(crate) fn drop_table(&self, entry: &Entry, before: &Extent) {
        let Some(range) = ColdTable::range(entry.span).filter(|_| before.tail == 0) else { return };
        let prime = entry.span.at();
        match header::read(&self.media, entry) {
            Ok(extent) if extent.tail_reach > 0 => {}
            _ => return, // there is no table
        }
        let space = self.growth.space();
        set_word(&self.media, prime + words::TAIL, 0);
        self.media.fence();
        space.clear_backed(&range);
        self.media.fence();
        set_word(&self.media, prime + words::TAIL_REACH, 0);
        self.media.fence();
        space.list_released(range);
        space.punch();
    }

    /// The faults of an object's cold clusters. Costs a look at each of them.
    pub(crate) fn check(&self, entry: &Entry, extent: &Extent) -> Vec<(FindingKind, u64, String)> {
        if extent.resident == 0 {
            return Vec::new();
        }
        let Some(table) = ColdTable::of(&self.media, entry.span) else { return Vec::new() };
        let (pair, path) = match table.named() {
            Ok(named) => named,
            Err((at, detail)) => return vec![(FindingKind::Damage, at, detail)],
        };
        let prime = entry.span.at();
        let open = || Ok::<_, Error>(Backing::open(self.files(), self.owner(entry, pair, path)?, OpenMode::ReadOnly)?);
        let clusters = ((extent.backed - prime) / CLUSTER) as u32;
        let is_backed = |at| self.growth.space().is_backed(at);
        let kind = |kind| match kind {
            FaultKind::Damage => FindingKind::Damage,
            FaultKind::DoubleUse => FindingKind::DoubleUse,
            FaultKind::Note => FindingKind::Note,
        };
        let found = everbyte_cold::check(&table, prime, clusters, is_backed, open);
        found.into_iter().map(|fault| (kind(fault.kind), fault.at, fault.detail)).collect()
    }

    /// The clusters of an object that are cold; none if its cold table is damaged.
    pub(crate) fn cold_clusters(&self, entry: &Entry, extent: &Extent) -> Vec<u64> {
        let table = ColdTable::of(&self.media, entry.span).filter(|_| extent.resident > 0);
        let Some(table) = table.filter(|table| table.named().is_ok()) else { return Vec::new() };
        let clusters = (1..table.clusters()).zip((entry.span.at() + CLUSTER..extent.backed).step_by(CLUSTER as usize));
        clusters.filter(|(cluster, _)| table.get(*cluster) != Location::Memory).map(|(_, at)| at).collect()
    }

    /// The clusters of an object by its cold table; `None`: it has no limit.
    pub(crate) fn residency(&self, entry: &Entry, extent: &Extent) -> Option<Residency> {
        if extent.resident == 0 {
            return None;
        }
        let table = ColdTable::of(&self.media, entry.span)?;
        table.named().ok()?;
        let clusters = (extent.backed - entry.span.at()) / CLUSTER;
        let is_backed = |cluster: &u32| self.growth.space().is_backed(entry.span.at() + u64::from(*cluster) * CLUSTER);
        let backed = (0..clusters as u32).filter(is_backed);
        let (here, cold): (Vec<u32>, Vec<u32>) = backed.partition(|&cluster| table.get(cluster) == Location::Memory);
        let resident = here.len() as u64 + extent.tail / CLUSTER;
        Some(Residency { limit: extent.resident / CLUSTER, resident, cold: cold.len() as u64 })
    }
}
