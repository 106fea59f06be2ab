//! The name space: an object of the store's own (engine `names`) with a trie over all names.
//!
//! A store begins with a table of 256 records, which is read whole when it is opened and needs no
//! trie. The full table is promoted (`promote`): the trie then leads to all names and has blocks
//! for further records. From then on opening reads the table and the trie's lists of changes in
//! progress, for any number of names.

use crate::catalogue::record::{self, Entry, Slot};
use crate::layout::{STATE_FREE, Superblock};
use crate::object::growth::Growth;
use crate::object::header;
use crate::{CLUSTER, Engine, Error, Result};
use everbyte_media::Media;
use everbyte_names::LastClose;
use everbyte_names::{Clusters, Damaged, Records, Trie};
use std::ops::Range;

/// The trie of a store.
pub(crate) type NameTrie = Trie<StoreRecords>;

/// The records of a store, and the record of the object that holds the trie.
pub(crate) struct StoreRecords {
    pub(crate) entry: Entry,
    /// The table of records that every store has.
    pub(crate) table: Range<u64>,
}

impl Records for StoreRecords {
    #[inline]
    fn outside(&self) -> Range<u64> {
        self.table.clone()
    }

    #[inline]
    fn has_name(&self, media: &Media, at: u64, name: &[u8]) -> bool {
        record::has_name(media, at, name)
    }

    fn name_of(&self, media: &Media, at: u64) -> Option<Vec<u8>> {
        record::name_of(media, at)
    }

    fn is_free(&self, media: &Media, at: u64) -> bool {
        media.load(at) == STATE_FREE
    }
}

/// The clusters of the object that holds the trie.
pub(crate) struct NameClusters<'s> {
    pub(crate) growth: &'s Growth,
    pub(crate) entry: Entry,
}

impl Clusters for NameClusters<'_> {
    type Error = Error;

    fn add_cluster(&self, end: u64) -> Result<u64> {
        let range = self.growth.fitting(&self.entry, end, CLUSTER)?;
        self.growth.extend(&self.entry, &range, None)?;
        Ok(range.start)
    }
}

impl From<Damaged> for Error {
    fn from(damaged: Damaged) -> Error {
        Error::Damaged(damaged.0)
    }
}

/// The trie of a store whose table has these records, if it has a trie. `last` is the end of the
/// last process that had the store open.
///
/// # Errors
/// [`Error::Damaged`].
pub(crate) fn find(
    media: &Media,
    superblock: &Superblock,
    slots: &[(u64, Slot)],
    last: LastClose,
) -> Result<Option<NameTrie>> {
    let entry = slots.iter().find_map(|(_, slot)| match slot {
        Slot::Live(entry) if entry.engine == Engine::Names => Some(entry.clone()),
        _ => None,
    });
    let Some(entry) = entry else { return Ok(None) };
    let damaged = |(at, detail)| Damaged::new(media.path(), at, detail);
    let extent = header::read(media, &entry).map_err(damaged)?;
    let object = entry.span.at()..extent.backed;
    let records = StoreRecords { entry, table: record::table(superblock) };
    Ok(Some(Trie::open(media.clone(), object, records, last).map_err(damaged)?))
}

/// Refuses a name that breaks a rule.
///
/// # Errors
/// [`Error::BadName`].
pub(crate) fn validate(name: &str) -> Result<()> {
    match everbyte_names::complaint(name) {
        None => Ok(()),
        Some(why) => Err(Error::BadName { name: name.chars().take(everbyte_names::NAME_MAX).collect(), why }),
    }
}
