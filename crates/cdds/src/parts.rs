//! Reads of less than an entry: whether a key is there, how long its value is, a part of the value.
//! Parts are verified without the rest of the value, and fetched bytes are counted, so tests hold
//! their cost.
//!
//! The word of a leaf's record has two sums: of key and value, and in its high half of the key and
//! the value's length (the *head sum*). A value longer than [`CHUNK`] is followed in its block by a
//! table with a sum for each chunk; the record's sum then covers the key and the table. So a part
//! is verified by the table and the chunks that it touches.
//!
//! Invariants
//!   PART-1  No key, length or byte is returned before a sum that covers it has been compared.
//!   PART-2  A block's table is stored with its value, before the entry that points there.

use crate::error::{Result, damaged};
use crate::layout::{CHUNK, Slot};
use crate::node::{Node, Query, extend_from};
use crate::sum::Sum;
use crate::tree::{TreeState, below};
use crate::version::View;
use crate::{Tree, TreeSnapshot};
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    static FETCHED: Cell<u64> = const { Cell::new(0) };
}

/// Bytes that this thread has copied out of blocks of keys and values, since it began. Values in
/// leaves do not count: they are short.
pub fn fetched() -> u64 {
    FETCHED.get()
}

/// Counts bytes that are copied.
#[inline]
pub(crate) fn count_fetched(len: usize) {
    FETCHED.set(FETCHED.get() + len as u64);
}

/// Offset of the table in the block of a value of `len` bytes, and its bytes. No table: zero bytes.
fn table(len: u64) -> (u64, usize) {
    let sums = if len > CHUNK { len.div_ceil(CHUNK) } else { 0 };
    (len.next_multiple_of(8), sums as usize * 4)
}

/// Bytes of the block of a value of `len` bytes.
pub(crate) fn block_len(len: u64) -> u64 {
    let (at, size) = table(len);
    if size == 0 { len } else { at + size as u64 }
}

/// The table of a value: the sum of each chunk. Empty for a value of one chunk.
pub(crate) fn table_of(value: &[u8]) -> Vec<u8> {
    if value.len() as u64 <= CHUNK {
        return Vec::new();
    }
    value.chunks(CHUNK as usize).flat_map(|chunk| Sum::NONE.and(chunk).value().to_le_bytes()).collect()
}

/// The sum of a record: `key` continued by the value, or by its table if it has one.
#[inline]
pub(crate) fn record_sum(key: Sum, value: &[u8]) -> u32 {
    if value.len() as u64 <= CHUNK { key.and(value).value() } else { key.and(&table_of(value)).value() }
}

/// The head sum: `key` continued by the value's length.
#[inline]
pub(crate) fn head_sum(key: Sum, value_len: u64) -> u32 {
    key.and(&value_len.to_le_bytes()).value()
}

/// The first word of a leaf's record.
#[inline]
pub(crate) fn record_word(key: Sum, value: &[u8]) -> u64 {
    u64::from(record_sum(key, value)) | u64::from(head_sum(key, value.len() as u64)) << 32
}

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

impl TreeState {
    /// The leaf and slot of `key`, its head verified.
    fn locate(&self, view: &View, root: u64, query: &Query<'_>) -> Result<Option<(Node<'_>, Slot)>> {
        let media = &self.media;
        let mut node = Node::open(media, root)?;
        while !node.is_leaf() {
            let (_, child) = node.child_for(view, query.key)?;
            node = below(media, &node, child)?;
        }
        let Some((_, slot)) = node.find(view, query)? else { return Ok(None) };
        node.verify_head(&slot, query.sum)?;
        Ok(Some((node, slot)))
    }

    pub(crate) fn len_of(&self, view: &View, root: u64, key: &[u8]) -> Result<Option<u64>> {
        Ok(self.locate(view, root, &Query::new(key))?.map(|(_, slot)| slot.value))
    }

    pub(crate) fn part_of(
        &self,
        view: &View,
        root: u64,
        key: &[u8],
        choose: &mut dyn FnMut(u64) -> Range<u64>,
    ) -> Result<Option<Vec<u8>>> {
        let query = Query::new(key);
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
    pub fn len_of(&self, key: &[u8]) -> Result<Option<u64>> {
        let (ticket, seen) = self.shared.pins.pin();
        let result = self.shared.len_of(&self.shared.view(seen.version), seen.root, key);
        self.shared.pins.unpin(&ticket);
        result
    }

    /// The part of the value of `key` that `choose` names when it is told the length; what lies
    /// behind the end is left out. Fetches the chunks of 64 KiB that the part touches, and 4 bytes
    /// for each chunk of the value.
    ///
    /// # Errors
    /// Damage.
    pub fn part_of(&self, key: &[u8], choose: &mut dyn FnMut(u64) -> Range<u64>) -> Result<Option<Vec<u8>>> {
        let (ticket, seen) = self.shared.pins.pin();
        let result = self.shared.part_of(&self.shared.view(seen.version), seen.root, key, choose);
        self.shared.pins.unpin(&ticket);
        result
    }
}

impl TreeSnapshot {
    /// As [`Tree::len_of`], at this version.
    ///
    /// # Errors
    /// Damage.
    pub fn len_of(&self, key: &[u8]) -> Result<Option<u64>> {
        self.0.shared.len_of(&self.0.view, self.0.seen.root, key)
    }

    /// As [`Tree::part_of`], at this version.
    ///
    /// # Errors
    /// Damage.
    pub fn part_of(&self, key: &[u8], choose: &mut dyn FnMut(u64) -> Range<u64>) -> Result<Option<Vec<u8>>> {
        self.0.shared.part_of(&self.0.view, self.0.seen.root, key, choose)
    }
}

impl crate::TreeBatch<'_> {
    /// As [`Tree::len_of`], this batch's writes included.
    ///
    /// # Errors
    /// Damage.
    pub fn len_of(&self, key: &[u8]) -> Result<Option<u64>> {
        self.shared.len_of(&self.view, self.root, key)
    }

    /// As [`Tree::part_of`], this batch's writes included.
    ///
    /// # Errors
    /// Damage.
    pub fn part_of(&self, key: &[u8], choose: &mut dyn FnMut(u64) -> Range<u64>) -> Result<Option<Vec<u8>>> {
        self.shared.part_of(&self.view, self.root, key, choose)
    }
}
