//! Promotion of the table to a trie: the table is full, and the object that holds the trie takes
//! the last free record.
//!
//!   1. the superblock says that the store has a trie, which older programs refuse; settled
//!   2. record, span and first clusters, as for any object
//!   3. the names of all records are inserted, one by one
//!   4. record state `live`, then a barrier
//!
//! A crash before 4 leaves a table without a trie, and an object that recovery takes back.

use super::name_space::{NameClusters, StoreRecords};
use super::part::LockedCatalogue;
use super::record::{self, Entry};
use crate::layout::{FEATURE_NAMES, STATE_LIVE};
use crate::{Access, CLUSTER, Engine, Error, Result};
use everbyte_names::LastClose;
use everbyte_names::Trie;
use everbyte_space::ObjectId;

/// The largest span of a name space: enough for some 50 million names. Addresses cost nothing.
const SPAN_MAX: u64 = 16 << 30;
/// The smallest: nodes, containers and records each take a cluster.
const SPAN_MIN: u64 = 4 * CLUSTER;

impl LockedCatalogue<'_> {
    /// Builds the trie over the names of the table.
    ///
    /// # Errors
    /// [`Error::Full`] if no record is left for it; [`Error::NoSpan`], [`Error::OutOfSpace`],
    /// [`Error::Media`]. The table goes on as before.
    pub(crate) fn promote(&mut self) -> Result<()> {
        let (media, superblock) = (self.media(), self.superblock());
        let (spans_at, max, table_slots) = (superblock.spans_at, superblock.end(), superblock.table_slots);
        let most = (max / 16).clamp(SPAN_MIN, SPAN_MAX).ilog2();
        let sizes = (SPAN_MIN.ilog2()..=most).rev();
        let index = self.index()?;
        let at = index.last_record().ok_or(Error::Full { slots: table_slots })?;
        let span = sizes.into_iter().find_map(|bits| index.spans().choose(spans_at.get()..max, 1 << bits));
        let span = span.ok_or(Error::NoSpan { size: SPAN_MIN, max })?;
        self.head().require_feature(FEATURE_NAMES)?; // 1
        let id = self.ids().next(media)?;
        let (name, engine) = (String::new(), Engine::Names);
        let (origin, access) = (None, Access::EVERYBODY);
        let entry = Entry {
            at,
            id: ObjectId::new(id),
            name,
            engine,
            fingerprint: 0,
            span,
            origin,
            small: false,
            access,
            replaces: 0,
        };
        let superblock = self.superblock();
        let named = record::read_all(media, &superblock, record::places(&superblock));

        self.index()?.take_last_record();
        self.claim_record(&entry)?; // 2
        let built = self.growth().make(&entry).and_then(|()| {
            let first = span.at()..span.at() + CLUSTER;
            let records = StoreRecords { entry: entry.clone(), table: record::table(&superblock) };
            let mut trie = Trie::new(media.clone(), first, records, LastClose::Clean);
            trie.format();
            let clusters = NameClusters { growth: self.growth(), entry: entry.clone() };
            for entry in named.iter().filter_map(|(_, slot)| slot.entry()) {
                trie.prepare(&clusters)?;
                trie.insert(entry.at, entry.name.as_bytes())?; // 3
            }
            Ok(trie)
        });
        let trie = match built {
            Ok(trie) => trie,
            Err(error) => {
                self.release_record(&entry)?;
                return Err(error);
            }
        };
        let ordered = media.fence_after(at);
        record::publish_state(media, at, STATE_LIVE, &ordered); // 4
        media.barrier()?;
        self.table().trie = Some(trie);
        Ok(())
    }
}
