//! Promotion of the table to a trie: the table is full, and the object that holds the trie takes the
//! last free record.
//!
//!   1. the superblock says that the store has a trie, which older programs refuse; settled
//!   2. record, span and first clusters, as for any object
//!   3. the names of all records are inserted, one by one
//!   4. record state `live`, then a barrier
//!
//! A crash before 4 leaves a table without a trie, and an object that recovery takes back.

use crate::catalogue::name_space::{NameClusters, StoreRecords};
use crate::catalogue::record::{self, Entry};
use crate::catalogue::table::Table;
use crate::layout::{FEATURE_NAMES, STATE_LIVE, SUPERBLOCKS, Superblock};
use crate::store::Inner;
use crate::{Access, CLUSTER, Engine, Error, Result, object, superblock};
use everbyte_names::Trie;

/// The largest span of a name space: enough for some 50 million names. Addresses cost nothing.
const SPAN_MAX: u64 = 16 << 30;
/// The smallest: nodes, containers and records each take a cluster.
const SPAN_MIN: u64 = 4 * CLUSTER;

impl Inner {
    /// Builds the trie over the names of the table.
    ///
    /// # Errors
    /// [`Error::Full`] if no record is left for it; [`Error::NoSpan`], [`Error::OutOfSpace`],
    /// [`Error::Media`]. The table goes on as before.
    pub(crate) fn promote(&self, table: &mut Table) -> Result<()> {
        let superblock = self.superblock();
        let (spans_at, max, table_slots) = (superblock.spans_at, superblock.end(), superblock.table_slots);
        let most = (max / 16).clamp(SPAN_MIN, SPAN_MAX).ilog2();
        let sizes = (SPAN_MIN.ilog2()..=most).rev();
        let index = self.index(table)?;
        let at = index.last_free().ok_or(Error::Full { slots: table_slots })?;
        let span = sizes.into_iter().find_map(|bits| index.spans.choose(spans_at..max, 1 << bits));
        let span = span.ok_or(Error::NoSpan { size: SPAN_MIN, max })?;
        self.require_feature(FEATURE_NAMES)?; // 1
        let id = self.next_id()?;
        let (name, engine) = (String::new(), Engine::Names);
        let (origin, access) = (None, Access::EVERYBODY);
        let entry = Entry { at, id, name, engine, fingerprint: 0, span, origin, small: false, access, replaces: 0 };
        let named = record::read_all(&self.media, &self.superblock(), record::places(&self.superblock()));

        self.index(table)?.take_last();
        self.claim_record(table, &entry)?; // 2
        let built = object::make(self, &entry).and_then(|()| {
            let first = span.at()..span.at() + CLUSTER;
            let records = StoreRecords { entry: entry.clone(), table: record::table(&self.superblock()) };
            let mut trie = Trie::new(self.media.clone(), first, records, false);
            trie.format();
            let clusters = NameClusters { store: self, entry: entry.clone() };
            for entry in named.iter().filter_map(|(_, slot)| slot.entry()) {
                trie.prepare(&clusters)?;
                trie.insert(entry.at, entry.name.as_bytes())?; // 3
            }
            Ok(trie)
        });
        let trie = match built {
            Ok(trie) => trie,
            Err(error) => {
                self.release_record(table, &entry)?;
                return Err(error);
            }
        };
        self.media.fence();
        record::set_state(&self.media, at, STATE_LIVE); // 4
        self.media.barrier()?;
        table.trie = Some(trie);
        Ok(())
    }

    /// Adds `feature` to the features that a reader must know, in the superblock. Settled.
    pub(crate) fn require_feature(&self, feature: u64) -> Result<()> {
        let mut current = self.current.write();
        if current.features & feature == feature {
            return Ok(());
        }
        let next = Superblock { features: current.features | feature, sequence: current.sequence + 1, ..*current };
        superblock::write(&self.media, next, &SUPERBLOCKS)?;
        *current = next.sealed();
        Ok(())
    }
}
