//! Reading a node where it lies: bounds, slots, keys, searches. Nothing here stores.
//!
//! Invariants
//!   NODE-1  Every offset taken from media is checked against the node's size, and the node against
//!           the backed store, before it is followed.
//!   NODE-2  Heads are monotone: of two keys, the smaller never has the larger head. So heads that
//!           differ decide.
//!   NODE-3  Among entries that are not void, `order` sorts the appended slots and the base is
//!           sorted. Empty and void slots may stand anywhere.
//!   NODE-4  The key block of a slot is read only while the slot's `start` is not 0, and the answer
//!           counts only if `start` is the same afterwards: emptying a slot frees the block, which
//!           may then hold anything. An inline key stays in its node and may be compared for as
//!           long as the node lives.
//!   NODE-5  What a look at a node found counts only if all of its pages could be read: a page that
//!           could not reads as zeros.
//!   NODE-6  A write stores where a node's header says, so it verifies the header's sum before its
//!           first store to the node, and before it copies the node. Reads need no such look: each
//!           record has a sum of its own.
//!
//! Threads: readers run beside the one writer. A slot's `start` is its sequence word: the writer
//! empties it (0) at least one fence before anything else of the slot changes. A batch that is
//! given up leaves its number to the next one, so two entries may carry the same `start`, one after
//! the other. But a reader accepts `start` = v only if it pinned v or a later version, which exists
//! only after the one commit of v, and then no batch fills a slot as v any more. So a reader that
//! accepts an entry and finds the same `start` before and after has read that one entry.

use crate::error::{Result, damaged};
use crate::tree::claims::Claims;
use crate::tree::key::{FullKey, TABLE_LEN, TableNumber};
use crate::tree::layout::*;
use crate::tree::number::Version;
use crate::tree::record::{count_fetched, record_sum};
use crate::tree::sum::Sum;
use crate::tree::version::View;
use everbyte_media::{LINE, Media, Window, seeded};
use std::cmp::Ordering;
use std::ops::Range;

/// A node's header, found sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub at: u64,
    pub level: u8,
    pub prefix_len: u8,
    base: u16,
    pub size: u32,
    pub base_end: u32,
    /// Offset of the array of heads in the node.
    heads: u32,
    /// Offset of the array of slots in the node.
    pub(super) slots: u32,
}
const _: () = assert!(size_of::<Shape>() == 32); // copied often

/// A node that can be read.
#[derive(Clone, Copy)]
pub(crate) struct Node<'m> {
    pub shape: Shape,
    pub(super) window: Window<'m>,
    media: &'m Media,
}

impl std::ops::Deref for Node<'_> {
    type Target = Shape;
    fn deref(&self) -> &Shape {
        &self.shape
    }
}

impl Shape {
    /// Slots written with the node.
    #[inline]
    pub(crate) fn base(&self) -> usize {
        self.base.into()
    }

    /// Offset of the first record in the node.
    #[inline]
    pub(crate) fn records(&self) -> u64 {
        u64::from(self.slots) + (self.base() + APPENDS) as u64 * SLOT
    }

    /// Offset of the array of slots in the store.
    #[inline]
    pub(crate) fn slots(&self) -> u64 {
        self.at + u64::from(self.slots)
    }

    /// Offset of the head of slot `index` in the store.
    #[inline]
    pub(crate) fn head_at(&self, index: usize) -> u64 {
        self.at + self.head_offset(index) as u64
    }

    /// Offset of the head of slot `index` in the node.
    #[inline]
    fn head_offset(&self, index: usize) -> usize {
        if self.level == 0 && index >= self.base() {
            self.slots as usize + index * SLOT as usize + VALUE_AT as usize
        } else {
            self.heads as usize + index * 8
        }
    }

    /// Offset of the fingerprint of slot `index` of a leaf in the node.
    #[inline]
    pub(crate) fn fingerprint_offset(&self, index: usize) -> usize {
        match index.checked_sub(self.base()) {
            None => FINGERPRINTS_AT + index,
            Some(append) => APPENDED_FINGERPRINTS_AT + append,
        }
    }

    /// Offset of the order word in the store.
    #[inline]
    pub(crate) fn order_at(&self) -> u64 {
        self.at + if self.level == 0 { LEAF_ORDER_AT } else { ORDER_AT } as u64
    }

    /// The node again: its bytes stay where they are for as long as a version that sees it is
    /// pinned.
    #[inline]
    pub(crate) fn on<'m>(&self, media: &'m Media) -> Result<Node<'m>> {
        match media.window(self.at, u64::from(self.size)) {
            Some(window) => Ok(Node { shape: *self, window, media }),
            None => damaged(self.at, "a node leads outside the store"),
        }
    }
}

/// Offsets in a node with `base` first slots: heads, slots, records.
pub(crate) fn parts(level: u8, base: usize) -> (u64, u64, u64) {
    let (heads, headed) = match level {
        0 => (FINGERPRINTS_AT + LEAF_BASE_MAX, base),
        _ => (size_of::<NodeHeader>(), base + APPENDS),
    };
    let heads = heads as u64;
    let slots = (heads + headed as u64 * 8).next_multiple_of(SLOT);
    (heads, slots, slots + (base + APPENDS) as u64 * SLOT)
}

/// A key of a table with its checksum, computed once for a descent.
pub(crate) struct Query<'k> {
    /// With the table in front.
    pub full: FullKey,
    pub table: TableNumber,
    /// Without the table.
    pub key: &'k [u8],
    /// Sum of the key, which a record's continues.
    pub sum: Sum,
    /// The key's fingerprint.
    pub print: u8,
}

impl<'k> Query<'k> {
    #[inline(always)]
    pub(crate) fn new(table: TableNumber, key: &'k [u8]) -> Query<'k> {
        let sum = Sum::of_table(table).and(key);
        Query { full: FullKey::new(table, key), table, key, sum, print: sum.value() as u8 }
    }
}

/// Eight bytes of `key` as a big-endian number; behind its end are zeros.
#[inline]
fn word_at(key: &[u8], from: usize) -> u64 {
    let rest = key.get(from..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)) << (8 * (8 - rest.len() as u32)).min(63),
    }
}

/// The head of `key` in a node whose base shares `prefix` (NODE-2).
#[inline]
pub(crate) fn head_of(key: &[u8], prefix: &[u8]) -> u64 {
    let common = key.len().min(prefix.len());
    match key[..common].cmp(&prefix[..common]) {
        Ordering::Greater => u64::MAX,
        Ordering::Equal if common == prefix.len() => word_at(key, common),
        _ => 0,
    }
}

/// The appended slots in use, in key order, as indexes from 0 to 14.
#[inline]
pub(crate) fn order_indexes(order: u64) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
    let count = ((order & 15) as usize).min(APPENDS);
    (0..count).map(move |index| (order >> (4 + 4 * index) & 15) as usize)
}

impl<'m> Node<'m> {
    #[inline]
    pub(crate) fn open(media: &'m Media, at: u64) -> Result<Node<'m>> {
        const HEADER: u64 = size_of::<NodeHeader>() as u64;
        let Some(header) = media.window(at, HEADER).filter(|_| at.is_multiple_of(LINE)) else {
            return damaged(at, "a node pointer leads outside the store");
        };
        let words = header.words::<SHAPE_WORDS>(0);
        let level = field_of!(words, NodeHeader, level) as u8;
        let prefix_len = field_of!(words, NodeHeader, prefix_len) as usize;
        let base = field_of!(words, NodeHeader, base) as usize;
        let size = field_of!(words, NodeHeader, size) as u32;
        let base_end = field_of!(words, NodeHeader, base_end) as u32;
        let magic = field_of!(words, NodeHeader, magic) as u16;
        let most = if level == 0 { LEAF_BASE_MAX } else { INNER_BASE_LIMIT };
        if magic != NODE_MAGIC || prefix_len > PREFIX_MAX || base > most || level > 32 {
            media.require_readable(at, HEADER)?;
            return damaged(at, "no node where one should be");
        }
        let (heads, slots, records) = parts(level, base);
        let window = media.window(at, u64::from(size));
        let Some(window) =
            window.filter(|_| u64::from(base_end) >= records && base_end <= size && size as usize <= NODE_MAX)
        else {
            return damaged(at, "a node's sizes contradict each other");
        };
        let (prefix_len, base) = (prefix_len as u8, base as u16);
        let shape = Shape { at, level, base, size, base_end, prefix_len, heads: heads as u32, slots: slots as u32 };
        Ok(Node { shape, window, media })
    }

    /// Refuses a node of which a page could not be read: asked after looking, and before what was
    /// found counts (NODE-5).
    #[inline(always)]
    pub(crate) fn require_readable(&self) -> Result<()> {
        Ok(self.media.require_readable(self.at, u64::from(self.size))?)
    }

    /// Bytes of this node contradict themselves, or could not be read.
    #[cold]
    pub(crate) fn damaged<T>(&self, detail: &'static str) -> Result<T> {
        self.require_readable()?;
        damaged(self.at, detail)
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.level == 0
    }

    pub(crate) fn count(&self) -> usize {
        self.base() + APPENDS
    }

    #[inline]
    pub(crate) fn slot_at(&self, index: usize) -> u64 {
        self.slots() + index as u64 * SLOT
    }

    #[inline]
    pub(super) fn slot_offset(&self, index: usize) -> usize {
        self.slots as usize + index * SLOT as usize
    }

    #[inline]
    pub(crate) fn slot(&self, index: usize) -> Slot {
        let mut slot = Slot::from_words(self.window.words(self.slot_offset(index)));
        if self.is_leaf() && index >= self.base() {
            // A slot that a crash tore may lead anywhere: a value without end is refused.
            let length = slot.record().wrapping_sub(LENGTH) as usize;
            slot.value = if slot.record() < self.size.into() && slot.record() > LENGTH {
                self.window.load(length)
            } else {
                u64::MAX
            };
        }
        // Its words were read after `start`.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        slot
    }

    /// The places of the records of a leaf's appended entries.
    #[inline]
    pub(crate) fn claims(&self) -> Claims {
        Claims(self.window.words(CLAIMS_AT))
    }

    /// The child or value of slot `index` of an inner node.
    #[inline]
    pub(crate) fn child(&self, index: usize) -> u64 {
        self.window.load(self.slot_offset(index) + VALUE_AT as usize)
    }

    #[inline]
    pub(crate) fn start(&self, index: usize) -> Version {
        Version::new(self.window.load(self.slot_offset(index) + START_AT as usize))
    }

    /// The version that ended slot `index`.
    #[inline]
    pub(crate) fn end(&self, index: usize) -> Version {
        Version::new(self.window.load(self.slot_offset(index) + END_AT as usize))
    }

    /// Whether key or value of slot `index` have a block of their own.
    #[inline]
    pub(crate) fn owns(&self, index: usize) -> bool {
        self.window.load(self.slot_offset(index) + PLACE_AT as usize) & (KEY_OUT | VALUE_OUT) != 0
    }

    /// Whether `view` sees the entry of slot `index`.
    #[inline]
    pub(crate) fn sees(&self, view: &View, index: usize) -> bool {
        self.stamps(index).is_some_and(|(start, end)| view.sees(start, end))
    }

    /// As [`Node::sees`], for a slot of the base: those are never reused, so there is no need to
    /// look twice.
    #[inline]
    pub(crate) fn sees_base(&self, view: &View, index: usize) -> bool {
        let at = self.slot_offset(index);
        view.sees(
            Version::new(self.window.load(at + START_AT as usize)),
            Version::new(self.window.load(at + END_AT as usize)),
        )
    }

    /// Start and end of a slot, read as one; `None` where the writer is reusing it.
    #[inline]
    fn stamps(&self, index: usize) -> Option<(Version, Version)> {
        let at = self.slot_offset(index);
        let (start, end) = (self.window.load(at + START_AT as usize), self.window.load(at + END_AT as usize));
        (self.window.load(at + START_AT as usize) == start).then_some((Version::new(start), Version::new(end)))
    }

    #[inline]
    pub(crate) fn order(&self) -> u64 {
        self.window.load(if self.is_leaf() { LEAF_ORDER_AT } else { ORDER_AT })
    }

    #[inline]
    pub(crate) fn head(&self, index: usize) -> u64 {
        self.window.load(self.head_offset(index))
    }

    pub(crate) fn birth(&self) -> Version {
        Version::new(self.window.load(BIRTH_AT))
    }

    /// The prefix that all base keys share, in `buffer`.
    #[inline]
    pub(crate) fn prefix<'b>(&self, buffer: &'b mut [u8; PREFIX_MAX]) -> &'b [u8] {
        for (word, chunk) in buffer.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&self.window.load(PREFIX_AT + word * 8).to_le_bytes());
        }
        &buffer[..usize::from(self.prefix_len)]
    }

    /// The head of `key` here; the same as [`head_of`] with this node's prefix, but a word at a
    /// time.
    #[inline]
    pub(crate) fn query_head(&self, key: &[u8]) -> u64 {
        for (word, from) in (0..usize::from(self.prefix_len)).step_by(8).enumerate() {
            let theirs = self.window.load(PREFIX_AT + word * 8).swap_bytes();
            // Bytes behind the prefix are zero in the header; they do not count in the key.
            let beyond = (from + 8).saturating_sub(self.prefix_len.into()) * 8;
            let ours = word_at(key, from) >> beyond << beyond;
            match ours.cmp(&theirs) {
                Ordering::Less => return 0,
                Ordering::Greater => return u64::MAX,
                Ordering::Equal => {}
            }
        }
        if key.len() < usize::from(self.prefix_len) { 0 } else { word_at(key, self.prefix_len.into()) }
    }

    /// The record of `slot`, if it lies inside the node (NODE-1).
    #[inline]
    pub(crate) fn record(&self, slot: &Slot) -> Result<usize> {
        let offset = slot.record();
        // Lengths first: the size of a record is only computed from lengths that a record can have.
        if (!slot.has(VALUE_OUT) && self.is_leaf() && slot.value > INLINE_VALUE as u64)
            || (!slot.has(KEY_OUT) && slot.key_len() > INLINE_KEY)
            || offset.saturating_add(slot.record_bytes(self.is_leaf())) > u64::from(self.size)
            || offset < size_of::<NodeHeader>() as u64
        {
            return self.damaged("a record leads outside its node");
        }
        Ok(offset as usize)
    }

    /// Compares the full key of `slot` with `key`.
    #[inline]
    pub(crate) fn compare(&self, slot: &Slot, key: &[u8]) -> Result<Ordering> {
        if !self.is_leaf() {
            return self.compare_stored(slot, key);
        }
        let (table, rest) = key.split_at(key.len().min(TABLE_LEN));
        match slot.table().bytes().as_slice().cmp(table) {
            Ordering::Equal => self.compare_stored(slot, rest),
            other => Ok(other),
        }
    }

    /// Compares the key that is stored for `slot` with `key`: of a leaf's entry without its table.
    #[inline]
    fn compare_stored(&self, slot: &Slot, key: &[u8]) -> Result<Ordering> {
        let record = self.record(slot)?;
        if !slot.has(KEY_OUT) {
            return Ok(self.window.compare(record + RECORD_KEY_AT, slot.key_len(), key));
        }
        let block = self.key_block(slot)?;
        let order = self.media.compare(block, slot.key_len() as u64, key);
        self.media.require_readable(block, slot.key_len() as u64)?;
        Ok(order)
    }

    /// Offset of a key in a block of its own.
    pub(crate) fn key_block(&self, slot: &Slot) -> Result<u64> {
        let block = self.window.load(self.record(slot)? + RECORD_KEY_AT);
        // A separator is a prefix of a full key, which has the table in front.
        let most = if self.is_leaf() { KEY_MAX } else { KEY_MAX + TABLE_LEN };
        if slot.key_len() > most || !self.media.holds(block, slot.key_len() as u64) {
            return self.damaged("a key's block leads outside the store");
        }
        Ok(block)
    }

    /// Offset of a value in a block of its own.
    pub(crate) fn value_block(&self, slot: &Slot) -> Result<u64> {
        let block = self.window.load(self.record(slot)? + RECORD_KEY_AT + slot.key_bytes() as usize);
        if slot.value > VALUE_MAX || !self.media.holds(block, slot.value) {
            return self.damaged("a value's block leads outside the store");
        }
        Ok(block)
    }

    /// Appends the full key of `slot` to `into`.
    pub(crate) fn full_key_into(&self, slot: &Slot, into: &mut Vec<u8>) -> Result<()> {
        if self.is_leaf() {
            into.extend_from_slice(&slot.table().bytes());
        }
        self.key_into(slot, into)
    }

    /// Appends the key that is stored for `slot` to `into`: of a leaf's entry without its table.
    pub(crate) fn key_into(&self, slot: &Slot, into: &mut Vec<u8>) -> Result<()> {
        match slot.has(KEY_OUT) {
            true => extend_from(self.media, self.key_block(slot)?, slot.key_len(), into),
            false => {
                self.window.append_to(self.record(slot)? + RECORD_KEY_AT, slot.key_len(), into);
                Ok(())
            }
        }
    }

    /// Appends the value of `slot` to `into`.
    pub(crate) fn value_into(&self, slot: &Slot, into: &mut Vec<u8>) -> Result<()> {
        let len = slot.value as usize;
        match slot.has(VALUE_OUT) {
            true => extend_from(self.media, self.value_block(slot)?, len, into),
            false => {
                let at = self.record(slot)? + RECORD_KEY_AT + slot.key_bytes() as usize;
                self.window.append_to(at, len, into);
                Ok(())
            }
        }
    }

    /// Appends the record of `slot` to `into`, as it stands.
    pub(crate) fn record_into(&self, slot: &Slot, into: &mut Vec<u8>) -> Result<()> {
        self.window.append_to(self.record(slot)?, slot.record_bytes(self.is_leaf()) as usize, into);
        Ok(())
    }

    /// Copies key and value of a leaf's slot into `entry`, the value at the word behind the key,
    /// and verifies them; returns the lengths of both.
    #[inline]
    pub(crate) fn entry_into(&self, slot: &Slot, entry: &mut Vec<u8>) -> Result<(usize, usize)> {
        let (record, key_len, value_len) = (self.record(slot)?, slot.key_len(), slot.value as usize);
        let value_at = key_len.next_multiple_of(8);
        let total = if slot.has(KEY_OUT | VALUE_OUT) {
            entry.clear();
            self.key_into(slot, entry)?;
            entry.resize(value_at, 0);
            self.value_into(slot, entry)?;
            record_sum(Sum::of_table(slot.table()).and(&entry[..key_len]), &entry[value_at..])
        } else {
            // Nearly always: no longer than the buffer already is.
            let len = value_at + value_len.next_multiple_of(8);
            if entry.len() < len {
                entry.resize(INLINE_KEY + INLINE_VALUE, 0);
            }
            let (key, value) = entry[..len].split_at_mut(value_at);
            let key_from = record + RECORD_KEY_AT;
            let value_from = key_from + value_at;
            Sum::of_table(slot.table())
                .copied(&self.window, key_from, key, key_len)
                .copied(&self.window, value_from, value, value_len)
                .value()
        };
        if total != self.sums(record).0 {
            return self.damaged("a record fails its checksum");
        }
        Ok((key_len, value_len))
    }

    /// The fingerprint of slot `index` of a leaf.
    pub(crate) fn fingerprint(&self, index: usize) -> u8 {
        let at = self.fingerprint_offset(index);
        (self.window.load(at & !7) >> (at % 8 * 8)) as u8
    }

    /// The sums of the record at `record`: of the whole and of the head.
    #[inline(always)]
    fn sums(&self, record: usize) -> (u32, u32) {
        let words = [self.window.load(record)];
        (field_of!(words, RecordSums, whole) as u32, field_of!(words, RecordSums, head) as u32)
    }

    /// The checksum kept with the record of `slot`.
    #[inline]
    pub(crate) fn record_sum(&self, slot: &Slot) -> Result<u32> {
        Ok(self.sums(self.record(slot)?).0)
    }

    /// The checksum of key and length kept with the record of a leaf's `slot`.
    #[inline]
    pub(crate) fn record_head_sum(&self, slot: &Slot) -> Result<u32> {
        Ok(self.sums(self.record(slot)?).1)
    }

    /// The media the node lies on.
    pub(crate) fn media(&self) -> &'m Media {
        self.media
    }

    /// How slot `index` compares with the query: by heads, and by whole keys where they tie.
    #[inline]
    pub(crate) fn order_against(&self, index: usize, key: &[u8], head: u64) -> Result<Ordering> {
        match self.head(index).cmp(&head) {
            Ordering::Equal => self.compare(&self.slot(index), key),
            other => Ok(other),
        }
    }

    /// How base slot `index` compares with the query; `None` if its entry has been emptied and its
    /// key freed with it (NODE-4).
    #[inline]
    fn order_in_base(&self, index: usize, key: &[u8], head: u64) -> Result<Option<Ordering>> {
        match self.head(index).cmp(&head) {
            Ordering::Equal => {
                let slot = self.slot(index);
                if slot.has(KEY_OUT) {
                    self.order_of_long(index, &slot, key)
                } else {
                    self.compare(&slot, key).map(Some)
                }
            }
            other => Ok(Some(other)),
        }
    }

    #[cold]
    fn order_of_long(&self, index: usize, slot: &Slot, key: &[u8]) -> Result<Option<Ordering>> {
        let unchecked = seeded("tree-freed-key-compared");
        if slot.start == 0 && !unchecked {
            return Ok(None);
        }
        let order = self.compare(slot, key);
        // The second look: the writer may have emptied the slot and reused the block in the middle
        // of the comparison.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        if self.start(index) == slot.start.get() || unchecked { order.map(Some) } else { Ok(None) }
    }

    /// How many base entries are not larger than `key`. Emptied entries may be counted or not: no
    /// version sees them.
    #[inline]
    pub(crate) fn rank(&self, key: &[u8], head: u64) -> Result<usize> {
        let (mut low, mut high) = (0, self.base());
        while low < high {
            let middle = (low + high) / 2;
            // Entries without a key cannot decide: the nearest comparable one to the left does.
            let mut probe = middle;
            let mut order = self.order_in_base(probe, key, head)?;
            while order.is_none() && probe > low {
                probe -= 1;
                order = self.order_in_base(probe, key, head)?;
            }
            if order == Some(Ordering::Greater) { high = probe } else { low = middle + 1 }
        }
        Ok(low)
    }

    /// The slot of an inner node whose subtree holds `key`, and the child.
    #[inline]
    pub(crate) fn child_for(&self, view: &View, key: &[u8]) -> Result<(usize, u64)> {
        let head = self.query_head(key);
        // Entries that died since the node was written are covered by appended ones with the same
        // or a larger separator, so stepping left over them is short.
        let rank = self.rank(key, head)?;
        let based = (0..rank).rev().find(|&index| self.sees(view, index));
        let mut best = based;
        for append in order_indexes(self.order()).rev() {
            let index = self.base() + append;
            // Heads lie together: most of the entries behind the key are passed over without
            // touching their slots.
            if append >= APPENDS || self.head(index) > head || !self.sees(view, index) {
                continue;
            }
            if self.order_against(index, key, head)? == Ordering::Greater {
                continue;
            }
            best = match based {
                Some(based) if self.compare_slots(index, based)? == Ordering::Less => Some(based),
                _ => Some(index),
            };
            break;
        }
        // Below the first separator the first child counts: the leaf that covered these keys may
        // have been unlinked.
        let index = match best {
            Some(index) => index,
            None => self.first_visible(view)?,
        };
        let child = self.child(index);
        self.require_readable()?;
        Ok((index, child))
    }

    #[cold]
    fn first_visible(&self, view: &View) -> Result<usize> {
        let mut all = Vec::new();
        self.visible(view, &mut all)?;
        all.first().map_or_else(|| self.damaged("an inner node without entries"), |&index| Ok(index.into()))
    }

    /// Compares the keys of two slots.
    pub(crate) fn compare_slots(&self, left: usize, right: usize) -> Result<Ordering> {
        match self.head(left).cmp(&self.head(right)) {
            Ordering::Equal => {
                let mut key = Vec::with_capacity(64);
                self.full_key_into(&self.slot(right), &mut key)?;
                self.compare(&self.slot(left), &key)
            }
            other => Ok(other),
        }
    }

    /// The leaf slot that holds `query` at `view`, found by fingerprint.
    #[inline]
    pub(crate) fn find(&self, view: &View, query: &Query<'_>) -> Result<Option<(usize, Slot)>> {
        let found = match self.find_among(view, query, FINGERPRINTS_AT, 0..self.base())? {
            None => self.find_among(view, query, APPENDED_FINGERPRINTS_AT, self.base()..self.count())?,
            found => found,
        };
        self.require_readable()?;
        Ok(found)
    }

    /// As [`Node::find`], among the slots `indexes`, whose fingerprints begin at `prints`.
    #[inline(always)]
    fn find_among(
        &self,
        view: &View,
        query: &Query<'_>,
        prints: usize,
        indexes: Range<usize>,
    ) -> Result<Option<(usize, Slot)>> {
        for word in 0..indexes.len().div_ceil(8) {
            let mut marks = self.print_marks(prints + word * 8, query.print);
            while marks != 0 {
                let index = indexes.start + word * 8 + marks.trailing_zeros() as usize / 8;
                marks &= marks - 1;
                if index >= indexes.end {
                    break;
                }
                self.prefetch_record(index);
                let slot = self.slot(index);
                let same_shape = slot.key_len() == query.key.len() && slot.table() == query.table;
                if !same_shape || !view.sees(slot.start, slot.end) {
                    continue;
                }
                let order = self.compare_stored(&slot, query.key);
                // The second look: a slot in the middle of being reused may show anything, an error
                // among it.
                std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
                if self.start(index) == slot.start.get() && order? == Ordering::Equal {
                    return Ok(Some((index, slot)));
                }
            }
        }
        Ok(None)
    }

    /// Of the eight fingerprints at `at` in the node, the highest bit of each that is `print`. The
    /// one above a match may be marked too: keys decide.
    #[inline(always)]
    fn print_marks(&self, at: usize, print: u8) -> u64 {
        const LOW: u64 = 0x0101_0101_0101_0101;
        let different = self.window.load(at) ^ (u64::from(print) * LOW);
        different.wrapping_sub(LOW) & !different & (LOW << 7) // a zero byte, and a borrow from it
    }

    /// The first slot of a leaf whose fingerprint is `print`: nearly always the key's, if it is
    /// there.
    pub(crate) fn print_match(&self, print: u8) -> Option<usize> {
        let among = |prints: usize, indexes: Range<usize>| {
            let marked = (0..indexes.len().div_ceil(8)).map(|word| (word, self.print_marks(prints + word * 8, print)));
            let (word, marks) = marked.into_iter().find(|(_, marks)| *marks != 0)?;
            let index = indexes.start + word * 8 + marks.trailing_zeros() as usize / 8;
            Some(index).filter(|&index| index < indexes.end)
        };
        among(FINGERPRINTS_AT, 0..self.base()).or_else(|| among(APPENDED_FINGERPRINTS_AT, self.base()..self.count()))
    }

    /// The entries that `view` sees, in key order, as slot indexes.
    pub(crate) fn visible(&self, view: &View, into: &mut Vec<u16>) -> Result<()> {
        self.select(into, |start, end| view.sees(start, end))
    }

    /// The slots whose stamps `wanted` accepts, in key order. `wanted` must refuse empty and void
    /// entries (NODE-3).
    pub(crate) fn select(&self, into: &mut Vec<u16>, wanted: impl Fn(Version, Version) -> bool) -> Result<()> {
        into.clear();
        let keep = |index: usize| self.stamps(index).is_some_and(|(start, end)| wanted(start, end));
        let mut seen = 0_u16;
        let mut appended = [(0, 0); APPENDS];
        let mut count = 0;
        for append in order_indexes(self.order()) {
            // A damaged word may name a slot twice or out of range; each is taken once.
            if append < APPENDS && seen & (1 << append) == 0 && keep(self.base() + append) {
                seen |= 1 << append;
                appended[count] = (self.base() + append, self.head(self.base() + append));
                count += 1;
            }
        }
        let mut appended = &appended[..count];
        for index in 0..self.base() {
            // Slots of the base are never reused: no need to look twice.
            let at = self.slot_offset(index);
            if !wanted(
                Version::new(self.window.load(at + START_AT as usize)),
                Version::new(self.window.load(at + END_AT as usize)),
            ) {
                continue;
            }
            if !appended.is_empty() {
                let head = self.head(index);
                while let Some((&(append, its_head), rest)) = appended.split_first() {
                    if its_head > head || (its_head == head && self.compare_slots(append, index)? != Ordering::Less) {
                        break;
                    }
                    into.push(append as u16);
                    appended = rest;
                }
            }
            into.push(index as u16);
        }
        into.extend(appended.iter().map(|&(append, _)| append as u16));
        self.require_readable()
    }
}

/// Opens the child of an inner node; its level must be lower.
#[inline]
pub(crate) fn below<'m>(media: &'m Media, parent: &Node<'_>, child: u64) -> Result<Node<'m>> {
    // The header, and what a search looks at next: fingerprints or heads.
    (0..3).for_each(|line| media.prefetch(child + line * LINE));
    let node = Node::open(media, child)?;
    if node.level + 1 != parent.level {
        return damaged(child, "a child has the wrong level");
    }
    Ok(node)
}

/// Appends `len` stored bytes to `into`.
#[inline]
pub(crate) fn extend_from(media: &Media, at: u64, len: usize, into: &mut Vec<u8>) -> Result<()> {
    count_fetched(len);
    let old = into.len();
    into.resize(old + len, 0);
    media.read(at, &mut into[old..]);
    Ok(media.require_readable(at, len as u64)?)
}
