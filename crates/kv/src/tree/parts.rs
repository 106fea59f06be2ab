//! Reads of less than an entry: whether a key is there, how long its value is, a part of the value.
//! Parts are verified without the rest of the value, by the table of its chunks (`record.rs`), and
//! fetched bytes are counted, so tests hold their cost.
//!
//! Invariants
//!   PART-1  No key, length or byte is returned before a sum that covers it has been compared.
//!   PART-2  A block's table is stored with its value, before the entry that points there.

use crate::error::{Result, damaged};
use crate::tree::handle::OpenTree;
use crate::tree::handle::{Tree, TreeSnapshot};
use crate::tree::key::TableNumber;
use crate::tree::layout::{CHUNK, Slot};
use crate::tree::node::{Node, Query, below, extend_from};
use crate::tree::record::{head_sum, record_sum, table, table_of};
use crate::tree::sum::Sum;
use crate::tree::version::View;
use std::ops::Range;

impl Node<'_> {
    /// Compares the head sum of `slot`, whose key has the sum `key`.
    pub(crate) fn verify_head(&self, slot: &Slot, key: Sum) -> Result<()> {
        match head_sum(key, slot.value) == self.record_head_sum(slot)? {
            true => Ok(()),
            false => self.damaged("a key or the length of its value fails its checksum"),
        }
    }

    /// Verifies the stored table of a value whose bytes are sound.
    pub(crate) fn verify_table(&self, slot: &Slot, value: &[u8]) -> Result<()> {
        match table_of(value) == self.stored_table(slot)? {
            true => Ok(()),
            false => self.damaged("the table of a value's chunks is wrong"),
        }
    }

    /// The table of the value of `slot`, as stored.
    fn stored_table(&self, slot: &Slot) -> Result<Vec<u8>> {
        let (table_at, size) = table(slot.value);
        let mut bytes = Vec::new();
        if size > 0 {
            let block = self.value_block(slot)?;
            if !self.media().holds(block, table_at + size as u64) {
                return self.damaged("a value's block leads outside the store");
            }
            extend_from(self.media(), block + table_at, size, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// The bytes `part` of the value of `slot`, whose key has the sum `key`.
    fn part(&self, slot: &Slot, key: Sum, part: Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if slot.value <= CHUNK {
            self.value_into(slot, &mut bytes)?;
            if record_sum(key, &bytes) != self.record_sum(slot)? {
                return self.damaged("a record fails its checksum");
            }
            bytes.truncate(part.end as usize);
            bytes.drain(..part.start as usize);
            return Ok(bytes);
        }
        let sums = self.stored_table(slot)?;
        if key.and(&sums).value() != self.record_sum(slot)? {
            return self.damaged("the table of a value's chunks fails its checksum");
        }
        let block = self.value_block(slot)?;
        let (first, end) = (part.start / CHUNK, part.end.div_ceil(CHUNK));
        for number in first..end {
            let (from, old) = (number * CHUNK, bytes.len());
            let len = CHUNK.min(slot.value - from) as usize;
            extend_from(self.media(), block + from, len, &mut bytes)?;
            let sum = Sum::NONE.and(&bytes[old..]).value();
            if sums[number as usize * 4..][..4] != sum.to_le_bytes() {
                return damaged(block + from, "a part of a value fails its checksum");
            }
        }
        bytes.truncate((part.end - first * CHUNK) as usize);
        bytes.drain(..(part.start - first * CHUNK) as usize);
        Ok(bytes)
    }
}

impl OpenTree {
    /// The leaf and slot of `key`, its head verified.
    fn locate(&self, view: &View, root: u64, query: &Query<'_>) -> Result<Option<(Node<'_>, Slot)>> {
        let media = &self.media;
        let mut node = Node::open(media, root)?;
        while !node.is_leaf() {
            let (_, child) = node.child_for(view, &query.full)?;
            node = below(media, &node, child)?;
        }
        let Some((_, slot)) = node.find(view, query)? else { return Ok(None) };
        node.verify_head(&slot, query.sum)?;
        Ok(Some((node, slot)))
    }

    pub(crate) fn len_of(&self, view: &View, root: u64, table: TableNumber, key: &[u8]) -> Result<Option<u64>> {
        Ok(self.locate(view, root, &Query::new(table, key))?.map(|(_, slot)| slot.value))
    }

    pub(crate) fn part_of(
        &self,
        view: &View,
        root: u64,
        table: TableNumber,
        key: &[u8],
        choose: &mut dyn FnMut(u64) -> Range<u64>,
    ) -> Result<Option<Vec<u8>>> {
        let query = Query::new(table, key);
        let Some((node, slot)) = self.locate(view, root, &query)? else { return Ok(None) };
        let part = choose(slot.value);
        let end = part.end.min(slot.value);
        if part.start >= end {
            return Ok(Some(Vec::new()));
        }
        node.part(&slot, query.sum, part.start..end).map(Some)
    }
}

impl Tree {
    /// The length of the value of `key`, without the value. Takes no lock.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn len_of(&self, table: TableNumber, key: &[u8]) -> Result<Option<u64>> {
        self.newest(|seen| self.shared.len_of(&self.shared.view(seen.version), seen.root, table, key))
    }

    /// The part of the value of `key` that `choose` names when it is told the length; what lies
    /// behind the end is left out. Fetches the chunks of 64 KiB that the part touches, and 4 bytes
    /// for each chunk of the value.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn part_of(
        &self,
        table: TableNumber,
        key: &[u8],
        choose: &mut dyn FnMut(u64) -> Range<u64>,
    ) -> Result<Option<Vec<u8>>> {
        self.newest(|seen| self.shared.part_of(&self.shared.view(seen.version), seen.root, table, key, choose))
    }
}

impl TreeSnapshot {
    /// As [`Tree::len_of`], at this version.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn len_of(&self, table: TableNumber, key: &[u8]) -> Result<Option<u64>> {
        let len = self.0.shared.len_of(&self.0.view, self.0.seen.root, table, key);
        self.0.require_kept()?;
        len
    }

    /// As [`Tree::part_of`], at this version.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn part_of(
        &self,
        table: TableNumber,
        key: &[u8],
        choose: &mut dyn FnMut(u64) -> Range<u64>,
    ) -> Result<Option<Vec<u8>>> {
        let part = self.0.shared.part_of(&self.0.view, self.0.seen.root, table, key, choose);
        self.0.require_kept()?;
        part
    }
}

impl crate::tree::TreeBatch<'_> {
    /// As [`Tree::len_of`], this batch's writes included.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn len_of(&self, table: TableNumber, key: &[u8]) -> Result<Option<u64>> {
        self.shared.len_of(&self.view, self.root, table, key)
    }

    /// As [`Tree::part_of`], this batch's writes included.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn part_of(
        &self,
        table: TableNumber,
        key: &[u8],
        choose: &mut dyn FnMut(u64) -> Range<u64>,
    ) -> Result<Option<Vec<u8>>> {
        self.shared.part_of(&self.view, self.root, table, key, choose)
    }
}
