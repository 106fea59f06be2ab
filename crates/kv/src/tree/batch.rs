//! [`TreeBatch`]: one version in the making. Put and delete; what they do to nodes above is in
//! `replace.rs`, the commit in `commit.rs`, what becomes of the dead in `reclaim.rs`.
//!
//! A put that finds room in its leaf:
//!   1. the old entry's end := v
//!   2. an empty slot: record, claim, fingerprint, end, place, head; then start := v
//!   3. `order` := with the slot at its place
//!
//! All of it may survive a crash in any mixture: until v commits, start = v is void and an end = v
//! means live.
//!
//! Invariants
//!   BATCH-1  Every store of a batch is flushed before its first fence.
//!   BATCH-2  No reader sees the uncommitted stores of this batch under version v, so they may be
//!            taken back in place: slots forgotten, nodes cancelled.
//!   BATCH-3  A slot without a place was never filled and is never emptied: `emptied` and `recent`
//!            hold no such slot.
//!   BATCH-4  What a batch stored under version v into nodes that others see is taken back when the
//!            batch is given up, and a fence orders that. So the next batch may be version v again.

use crate::error::{Error, Result};
use crate::tree::dirty::Dirty;
use crate::tree::handle::OpenTree;
use crate::tree::hash::{OffsetMap, OffsetSet};
use crate::tree::key::TableNumber;
use crate::tree::layout::*;
use crate::tree::node::{Node, Query, below};
use crate::tree::number::Version;
use crate::tree::pins::KeyCounts;
use crate::tree::record;
use crate::tree::savepoint::SavepointMark;
use crate::tree::version::View;
use crate::tree::writer::{Frame, Grave, Writer};
use everbyte_heap::{Block, Op};
use everbyte_media::lock_order::RankedMutexGuard;
use everbyte_media::{LINE, Offset, Section, seeded};
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::{FromBytes, IntoBytes};

/// One version in the making: reads see its own writes; no other reader sees them before commit and
/// settlement.
///
/// Dropping a batch takes back what it stored: nothing happened. After an error inside one that is
/// all it can do.
pub(crate) struct TreeBatch<'t> {
    pub(crate) shared: &'t OpenTree,
    pub(crate) writer: RankedMutexGuard<'t, Writer>,
    pub(crate) _section: Section<'t>,
    pub(crate) view: View,
    pub(crate) root: u64,
    pub(crate) keys: KeyCounts,
    /// Keys that tables other than the main one have gained.
    pub(crate) gained: Vec<(u32, i64)>,
    /// Savepoints, the oldest first, and how many there were.
    pub(crate) marks: Vec<SavepointMark>,
    pub(crate) serial: u64,
    pub(crate) dirty: Dirty,
    /// Slots of older nodes that this batch has filled or ended (BATCH-4).
    pub(crate) touched: Vec<u64>,
    /// Blocks reserved by this batch.
    pub(crate) allocated: OffsetMap<Block>,
    pub(crate) frees: Vec<Op>,
    pub(crate) drops: Vec<u64>,
    pub(crate) graves: Vec<Grave>,
    /// Nodes of its own that it has replaced: their graves up to these places in `graves` do not
    /// count. The address may be reserved again, so later ones may be another node's.
    pub(crate) gone: Vec<(u64, usize)>,
    /// Graves taken from the graveyard for this version.
    pub(crate) reclaimed: Vec<Grave>,
    /// Frames taken from `digging` that were there when this batch began, and how many of those are
    /// left.
    pub(crate) dug: Vec<Frame>,
    pub(crate) undug: usize,
    /// The sweep's position when this batch began to reclaim; `None` before.
    pub(crate) swept: Option<Vec<u8>>,
    /// Blocks that reclaiming frees with this version.
    pub(crate) freed: u64,
    /// Slots emptied by this batch: to be reused by the next one at the earliest.
    pub(crate) emptied: OffsetSet,
    /// Keys on whose way nodes are to be merged by a later batch.
    pub(crate) poor: Vec<Vec<u8>>,
    /// Those of earlier batches on whose way this one has merged nodes.
    pub(crate) mended: Vec<Vec<u8>>,
    /// Commits though nothing was written, to give space back.
    pub(crate) reclaims: bool,
    pub(crate) horizon_fresh: bool,
    /// An inner node of this number has more entries than a cut leaves (CROWD-1).
    pub(crate) is_crowded: bool,
    pub(crate) doomed: bool,
    pub(crate) done: bool,
}

/// The way from the root to a leaf: inner nodes and the slots taken.
pub(crate) type Path<'t> = Vec<(Node<'t>, usize)>;

/// A record ready to be placed: key and value, or the blocks that hold them.
pub(crate) struct NewRecord {
    pub bytes: Vec<u8>,
    pub flags: u64,
    pub table: TableNumber,
    pub key_len: usize,
    pub value: u64,
    pub key_sum: u8,
}

impl<'t> TreeBatch<'t> {
    pub(crate) fn begin(shared: &'t OpenTree) -> TreeBatch<'t> {
        let mut writer = shared.writer.lock();
        let thread = crate::tree::thread::current();
        shared.holder.store(thread, Relaxed);
        let dirty = std::mem::take(&mut writer.dirty);
        let touched = std::mem::take(&mut writer.touched);
        let undug = writer.digging.len();
        writer.prefetched.clear();
        let section = shared.media.section();
        let view = shared.view(writer.next);
        if writer.applied_by != thread {
            writer.flush_applied(shared);
        }
        TreeBatch {
            view,
            root: writer.committed.root,
            keys: writer.committed.keys,
            shared,
            writer,
            _section: section,
            gained: Vec::new(),
            marks: Vec::new(),
            serial: 0,
            dirty,
            touched,
            allocated: OffsetMap::default(),
            frees: Vec::new(),
            drops: Vec::new(),
            graves: Vec::new(),
            gone: Vec::new(),
            reclaimed: Vec::new(),
            dug: Vec::new(),
            undug,
            swept: None,
            freed: 0,
            emptied: OffsetSet::default(),
            poor: Vec::new(),
            mended: Vec::new(),
            reclaims: false,
            horizon_fresh: false,
            is_crowded: false,
            doomed: false,
            done: false,
        }
    }

    /// The value of `key`, this batch's writes included.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn get(&self, table: TableNumber, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.shared.get(&self.view, self.root, table, key)
    }

    /// A cursor over what this batch sees.
    pub(crate) fn cursor(&self) -> crate::tree::cursor::Cursor<'_> {
        crate::tree::cursor::Cursor::new(self.shared.media.clone(), self.view.clone(), self.root, None)
    }

    /// A cursor over the newest settled version. Only the writer reclaims, so the batch keeps it.
    pub(crate) fn settled_cursor(&self) -> crate::tree::cursor::Cursor<'_> {
        let newest = self.shared.pins.published();
        let view = self.shared.view(newest.version);
        crate::tree::cursor::Cursor::new(self.shared.media.clone(), view, newest.root, None)
    }

    /// Live keys of the main table, this batch's writes included.
    pub(crate) fn len(&self) -> u64 {
        self.keys.main
    }

    /// Whether no table but the main one has a key.
    pub(crate) fn has_one_table(&self) -> bool {
        self.keys.all == self.keys.main
    }

    /// Notes that `table` has gained or lost keys.
    pub(crate) fn count(&mut self, table: TableNumber, gained: i64) {
        self.keys.all = self.keys.all.wrapping_add_signed(gained);
        if table == TableNumber::MAIN {
            self.keys.main = self.keys.main.wrapping_add_signed(gained);
            return;
        }
        match self.gained.iter_mut().find(|(number, _)| *number == table.0) {
            Some((_, all)) => *all += gained,
            None => self.gained.push((table.0, gained)),
        }
    }

    /// The commit gives space back though nothing is written.
    pub(crate) fn set_reclaims(&mut self) {
        self.reclaims = true;
    }

    /// The name of the object that holds the tree.
    pub(crate) fn object_name(&self) -> String {
        self.shared.heap.object().name().to_string()
    }

    /// The version that what is written now belongs to.
    pub(crate) fn version(&self) -> Version {
        self.view.version
    }

    /// Whether an error in the middle of a write has spoiled this batch: it cannot be committed.
    pub(crate) fn is_doomed(&self) -> bool {
        self.doomed
    }

    /// Spoils this batch: a write of several steps has failed behind its first one.
    pub(crate) fn doom(&mut self) {
        self.doomed = true;
    }

    /// Binds `value` to `key`; returns whether the key was there.
    ///
    /// # Errors
    /// Out of space, damage, a key or value over the limits. After an error in the middle the batch
    /// cannot be committed.
    pub(crate) fn put(&mut self, table: TableNumber, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_limits(key, value)?;
        let query = Query::new(table, key);
        let key = &*query.full;
        let record = self.record(&query, value)?;
        let known = self.writer.prefetched.take(key);
        self.guarded(|batch| {
            let (path, leaf) = match known {
                Some(at) => {
                    let leaf = Node::open(&batch.shared.media, at)?; // PREF-1
                    leaf.require_sealed()?;
                    (None, leaf)
                }
                None => {
                    let (path, leaf) = batch.descend(key)?;
                    (Some(path), leaf)
                }
            };
            batch.prefetch_append(&leaf);
            let old = leaf.find(&batch.view, &query)?;
            if let Some((index, slot)) = old {
                batch.end_entry(&leaf, index, &slot)?;
            }
            if !batch.append(&leaf, key, &record)? {
                let path = match path {
                    Some(path) => path,
                    None => batch.descend(key)?.0,
                };
                batch.rebuild_leaf(path, leaf, key, record)?;
            }
            if old.is_none() {
                batch.count(table, 1);
            }
            Ok(old.is_some())
        })
    }

    /// Prefetches the memory for the next puts of `keys`, in that order, for all of them at once. A
    /// hint, forgotten at the next call: it changes only the time that the puts take.
    ///
    /// # Errors
    /// Damage, which the puts would report too.
    pub(crate) fn prefetch<'k>(&mut self, table: TableNumber, keys: impl IntoIterator<Item = &'k [u8]>) -> Result<()> {
        self.writer.prefetched.find(&self.shared.media, &self.view, self.root, table, keys)
    }

    /// Removes `key`; returns whether it was there.
    ///
    /// # Errors
    /// Damage, out of space. After an error the batch cannot be committed.
    pub(crate) fn delete(&mut self, table: TableNumber, key: &[u8]) -> Result<bool> {
        self.check_key(key)?;
        let query = Query::new(table, key);
        let deleted = self.guarded(|batch| {
            let (path, leaf) = batch.descend(&query.full)?;
            let Some((index, slot)) = leaf.find(&batch.view, &query)? else { return Ok(None) };
            batch.end_entry(&leaf, index, &slot)?;
            batch.count(table, -1);
            let mut rest = Vec::new();
            leaf.visible(&batch.view, &mut rest)?;
            if rest.is_empty() {
                batch.writer.prefetched.forget(leaf.at);
                batch.unlink(&path)?;
            }
            Ok(Some((path, rest.len())))
        })?;
        let Some((path, left)) = deleted else { return Ok(false) };
        if left < LEAF_BASE_MAX / 4 {
            self.note_poor(&path, &query.full);
        }
        Ok(true)
    }

    pub(crate) fn check_limits(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_key(key)?;
        if value.len() as u64 > VALUE_MAX {
            return Err(Error::ValueTooLong { len: value.len() as u64, max: VALUE_MAX });
        }
        Ok(())
    }

    fn check_key(&self, key: &[u8]) -> Result<()> {
        if self.doomed {
            return Err(Error::Doomed);
        }
        if key.len() > KEY_MAX {
            return Err(Error::KeyTooLong { len: key.len(), max: KEY_MAX });
        }
        Ok(())
    }

    /// Runs one operation; an error in its middle dooms the batch, for half of it may have been
    /// stored.
    pub(crate) fn guarded<T>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.doomed {
            return Err(Error::Doomed);
        }
        if self.view.version >= 1 << 62 {
            return Err(Error::VersionsExhausted);
        }
        self.doomed = true;
        let result = operation(self)?;
        self.doomed = false;
        if std::mem::take(&mut self.is_crowded) && self.try_number() {
            self.keep_number(); // CROWD-1
        }
        if self.dirty.is_full() {
            self.flush_dirty();
        }
        Ok(result)
    }

    /// Flushes what was stored since the last time.
    pub(crate) fn flush_dirty(&mut self) {
        if self.shared.volatile { self.dirty.forget() } else { self.dirty.flush(&self.shared.media) }
    }

    /// The way to the leaf of the full key `key`, whose header is sound (NODE-6).
    pub(crate) fn descend(&self, key: &[u8]) -> Result<(Path<'t>, Node<'t>)> {
        let media = &self.shared.media;
        let mut path = Path::with_capacity(8);
        let mut node = Node::open(media, self.root)?;
        while !node.is_leaf() {
            let (index, child) = node.child_for(&self.view, key)?;
            path.push((node, index));
            node = below(media, &node, child)?;
        }
        // A write looks at every appended slot; asked for now, they come while the old entry is
        // searched.
        (node.slot_at(node.base())..node.slot_at(node.count()))
            .step_by(LINE as usize)
            .for_each(|line| media.prefetch(line));
        node.require_sealed()?;
        Ok((path, node))
    }

    /// Turns key and value into a record; long ones go to blocks of their own, complete before
    /// anything points there.
    pub(crate) fn record(&mut self, query: &Query<'_>, value: &[u8]) -> Result<NewRecord> {
        let mut flags = 0;
        let mut bytes = Vec::with_capacity(16 + query.key.len().min(INLINE_KEY) + value.len().min(INLINE_VALUE));
        bytes.extend_from_slice(&record::record_word(query.sum, value).to_le_bytes());
        self.key_part(query.key, &mut bytes, &mut flags)?;
        if value.len() > INLINE_VALUE {
            flags |= VALUE_OUT;
            let block = match self.value_block_of(value) {
                Ok(block) => block,
                Err(error) => {
                    if flags & KEY_OUT != 0 {
                        // The key's block has no owner yet: without this the commit would mark it.
                        let (key, _) = LongKey::read_from_prefix(&bytes[RECORD_KEY_AT..]).expect("the key part");
                        self.release(key.block.get())?;
                    }
                    return Err(error);
                }
            };
            bytes.extend_from_slice(&block.to_le_bytes());
        } else {
            bytes.extend_from_slice(value);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        Ok(NewRecord {
            bytes,
            flags,
            table: query.table,
            key_len: query.key.len(),
            value: value.len() as u64,
            key_sum: query.print,
        })
    }

    /// Appends the key part of a record to `bytes`.
    pub(crate) fn key_part(&mut self, key: &[u8], bytes: &mut Vec<u8>, flags: &mut u64) -> Result<()> {
        if key.len() > INLINE_KEY {
            *flags |= KEY_OUT;
            let block = self.block_of(key)?;
            let head = *key.first_chunk().expect("longer than a short key");
            bytes.extend_from_slice(LongKey { block: Offset::new(block), head }.as_bytes());
        } else {
            bytes.extend_from_slice(key);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        Ok(())
    }

    /// Stores `content` in a block of its own.
    fn block_of(&mut self, content: &[u8]) -> Result<u64> {
        let block = self.reserve(content.len() as u64)?;
        self.shared.fill(block.at, content);
        Ok(block.at.get())
    }

    /// Stores a value, and behind it the table of its chunks, in a block of its own (PART-2).
    fn value_block_of(&mut self, value: &[u8]) -> Result<u64> {
        let table = record::table_of(value);
        if table.is_empty() {
            return self.block_of(value);
        }
        let block = self.reserve(record::block_len(value.len() as u64))?;
        self.shared.fill(block.at, value);
        let table_at = (block.at + value.len() as u64).align_up(8);
        self.shared.media.copy_nt_unless("tree-parts-unflushed", table_at, &table);
        Ok(block.at.get())
    }

    pub(crate) fn reserve(&mut self, size: u64) -> Result<Block> {
        let block = self.shared.heap.reserve(size)?;
        self.allocated.insert(block.at.get(), block);
        Ok(block)
    }

    /// Takes back a block of this batch (BATCH-2), or frees one that an earlier version made.
    pub(crate) fn release(&mut self, at: u64) -> Result<()> {
        match self.allocated.remove(&at) {
            Some(block) => self.shared.heap.cancel(block),
            None => self.frees.push(self.shared.heap.op_free(at)?),
        }
        Ok(())
    }

    pub(crate) fn store(&mut self, at: u64, value: u64) {
        self.shared.media.store(at, value);
        self.dirty.note(at, 8);
    }

    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.shared.media.write(at, bytes);
        self.dirty.note(at, bytes.len() as u64);
    }

    /// Whether what ended at `end` is seen by no reader any more (TREE-2).
    pub(crate) fn past(&mut self, end: Version) -> bool {
        if end > self.writer.horizon && !self.horizon_fresh {
            let oldest = self.shared.pins.oldest();
            if oldest == self.writer.horizon {
                self.shared.held.note_once(oldest, self.shared.pins.published().version.get());
            }
            self.writer.horizon = oldest;
            self.horizon_fresh = true;
        }
        end <= self.writer.horizon
    }

    /// Ends an entry at this version.
    pub(crate) fn end_entry(&mut self, node: &Node<'_>, index: usize, slot: &Slot) -> Result<()> {
        let at = node.slot_at(index);
        if slot.start == self.view.version {
            // Made by this batch: taken back at once (BATCH-2), with what it owns.
            let owned = owned_blocks(node, slot)?;
            self.store(at + START_AT, 0);
            self.emptied.remove(&at);
            for block in owned.into_iter().flatten() {
                self.release(block)?;
            }
            return Ok(());
        }
        self.bury(node, index);
        Ok(())
    }

    /// Stamps an entry's end and lists it if it owns something. The entries below an inner node's
    /// have moved, or have ended one by one (CUT-1).
    pub(crate) fn bury(&mut self, node: &Node<'_>, index: usize) {
        let (at, slot) = (node.slot_at(index), node.slot(index));
        self.touch(node, at);
        if !node.is_leaf() && slot.has(WHOLE) && !seeded("tree-stale-whole") {
            self.store(at + PLACE_AT, slot.place & !WHOLE); // CUT-1
        }
        self.store(at + END_AT, self.view.version.get());
        if !node.is_leaf() || slot.has(KEY_OUT | VALUE_OUT) {
            self.graves.push(Grave { end: self.view.version, node: node.at, index });
        }
    }

    /// Notes that the slot at `at` carries this version from now on (BATCH-4). A node of this batch
    /// goes with it as a whole.
    #[inline]
    pub(crate) fn touch(&mut self, node: &Node<'_>, at: u64) {
        if node.birth() != self.view.version.get() {
            self.touched.push(at);
        }
    }
}

/// The blocks a slot owns beside its node: key and value.
pub(crate) fn owned_blocks(node: &Node<'_>, slot: &Slot) -> Result<[Option<u64>; 2]> {
    let key = if slot.has(KEY_OUT) { Some(node.key_block(slot)?) } else { None };
    let value = if node.is_leaf() && slot.has(VALUE_OUT) { Some(node.value_block(slot)?) } else { None };
    Ok([key, value])
}
