//! Maps whose keys or values have changed: their blocks are checked and claimed when the value that
//! holds the map is looked at, and read when the map is made anew.
//!
//! A hash map keeps its places and tags, so its keys must feed its hash what they did before; if
//! their type has changed, the map says that its dialect is unknown: lookups pass over all entries
//! until the next insertion builds the table anew. An ordered map keeps its order.
//!
//! Invariants
//!   MOVE-5  An entry is read only from a block that [`Moving::follow_table`] or
//!           [`Moving::follow_tree`] has claimed: it is large enough, has no other owner, and its
//!           tags, levels and counts agree.

use super::Moving;
use super::moving::{Block, BlockState, Fault, Todo};
use super::plan::{PartId, PartKind};
use crate::MemPool;
use crate::description::node_shape::NodeShape;
use crate::types::hash_map::tags;

/// The words of a stored hash map.
#[derive(Clone, Copy)]
struct TableWords {
    offset: u64,
    groups: u64,
    len: u64,
    /// Places that may still be used.
    left: u64,
}

/// The stored entries of a map, and the blocks that hold them.
pub(crate) struct StoredEntries {
    /// The part of an entry.
    pub part: PartId,
    /// Entries with their places, in the order of the map.
    pub entries: Vec<(u64, *const u8)>,
    /// Offsets of the blocks, to be freed once the entries are read.
    pub blocks: Vec<u64>,
    /// Whether keys are as they were.
    pub same_keys: bool,
}

impl<P: MemPool> Moving<'_, P> {
    /// MOVE-1 for a block of a map, which has one owner.
    fn claim(&self, at: u64, bytes: u64, part: PartId) -> Result<(), Fault> {
        let found = self.block_size(at);
        if found == 0 || found < bytes {
            return Err(self.damaged(at, format!("a pointer of a map to what is no block of {bytes} bytes")));
        }
        let block = Block { part, state: BlockState::Left, new: 0, room: 0 };
        if self.blocks.borrow_mut().insert(at, block).is_some() {
            return Err(self.damaged(at, "a block with two owners"));
        }
        self.count_freed(found);
        Ok(())
    }

    fn table_words(&self, from: *const u8) -> TableWords {
        // SAFETY: MOVE-1: the map's six words; any bits are words.
        let word = |index: usize| unsafe { from.cast::<u64>().wrapping_add(index).read() };
        TableWords { offset: word(0), groups: word(1) & u64::from(u32::MAX), len: word(2), left: word(3) }
    }

    fn tag(&self, table: TableWords, place: u64) -> u8 {
        // SAFETY: a byte of the block's tags.
        unsafe { self.address(table.offset + place).read() }
    }

    /// Puts what the entries of the hash map at `from` point to on the list.
    pub(super) fn follow_table(&self, from: *const u8, of: PartId, todo: &mut Vec<Todo>) -> Result<(), Fault> {
        let table = self.table_words(from);
        if table.offset == 0 {
            return Ok(());
        }
        let size = self.plan.part(of).stored.0 as u64;
        let bytes = tags::bytes(table.groups, size).filter(|_| table.groups.is_power_of_two());
        let bytes = bytes.ok_or_else(|| self.damaged(self.offset(from), "a hash map of impossible size"))?;
        self.claim(table.offset, bytes, of)?;
        // SAFETY: a word of the tags, inside the block.
        let word = |group: u64| unsafe { self.address(table.offset + group * tags::GROUP).cast::<u64>().read() };
        let counts = (0..table.groups).map(word).try_fold((0, 0), |sum, word| {
            let (entries, empties) = tags::count(word)?;
            Some((sum.0 + entries, sum.1 + empties))
        });
        if table.left.checked_add(table.groups).is_none_or(|empties| counts != Some((table.len, empties))) {
            return Err(self.damaged(self.offset(from), "a hash map whose tags and counts differ"));
        }
        self.places(table, size).into_iter().try_for_each(|(_, at)| self.follow(at, of, todo))
    }

    fn places(&self, table: TableWords, size: u64) -> Vec<(u64, *const u8)> {
        let used = (0..table.groups * tags::GROUP).filter(|&place| tags::is_entry(self.tag(table, place)));
        let start = table.offset + tags::before(table.groups);
        used.map(|place| (place, self.address(start + place * size).cast_const())).collect()
    }

    /// Puts what the entries of the ordered map at `from` point to on the list.
    pub(super) fn follow_tree(
        &self,
        from: *const u8,
        (of, shape): (PartId, NodeShape),
        todo: &mut Vec<Todo>,
    ) -> Result<(), Fault> {
        // SAFETY: MOVE-1: the map's two words; any bits are words.
        let [root, len] = unsafe { from.cast::<[u64; 2]>().read() };
        let (mut nodes, mut found) = (vec![(root, None)], 0);
        while let Some((at, level)) = nodes.pop().filter(|_| root != 0) {
            self.claim(at, shape.leaf(), of)?;
            let (count, here) = self.node_head(at);
            let fits = here == 0 || self.block_size(at) >= shape.inner();
            if !fits || level.is_some_and(|level| level != here) || !(1..=shape.most).contains(&count) {
                return Err(self.damaged(at, format!("a node of {count} entries in level {here} of an ordered map")));
            }
            found += count;
            for index in (0..=count).filter(|_| here > 0) {
                nodes.push((self.edge(at, shape, index), Some(here - 1)));
            }
            for index in 0..count {
                self.follow(self.address(at + shape.entries + index * shape.size), of, todo)?;
            }
        }
        match found == len {
            true => Ok(()),
            false => Err(self.damaged(self.offset(from), format!("an ordered map of {len} entries has {found}"))),
        }
    }

    /// Entries and level of the node at an offset.
    fn node_head(&self, at: u64) -> (u64, u64) {
        // SAFETY: the first word of a block that was claimed.
        let [len, level] = unsafe { self.address(at).cast::<[u32; 2]>().read() };
        (len.into(), level.into())
    }

    fn edge(&self, at: u64, shape: NodeShape, index: u64) -> u64 {
        // SAFETY: an edge of a node that was claimed, and is large enough for edges.
        unsafe { self.address(at + shape.edges + index * 8).cast::<u64>().read() }
    }

    /// The entries of the map at `from`, which is the stored form of `part`.
    pub(crate) fn stored_entries(&self, from: *const u8, part: PartId) -> StoredEntries {
        let (of, entries, blocks) = match self.plan.part(part).kind {
            PartKind::Table(of) => {
                let table = self.table_words(from);
                let has_block = table.offset != 0;
                let entries = if has_block { self.places(table, self.plan.part(of).stored.0 as u64) } else { vec![] };
                (of, entries, has_block.then_some(table.offset).into_iter().collect())
            }
            PartKind::Tree(of, shape) => {
                // SAFETY: the map's two words.
                let root = unsafe { from.cast::<u64>().read() };
                let (mut entries, mut blocks) = (Vec::new(), Vec::new());
                if root != 0 {
                    self.in_order(root, shape, &mut entries, &mut blocks);
                }
                (of, entries, blocks)
            }
            _ => unreachable!("PLAN-1: planned as a map"),
        };
        let PartKind::Fields(fields) = &self.plan.part(of).kind else { unreachable!("PLAN-1: an entry has fields") };
        StoredEntries { part: of, entries, blocks, same_keys: self.plan.part(fields[0].1).same }
    }

    /// The entries of the node at an offset and of those below, in order; as deep as the tree.
    fn in_order(&self, at: u64, shape: NodeShape, entries: &mut Vec<(u64, *const u8)>, blocks: &mut Vec<u64>) {
        let (count, level) = self.node_head(at);
        for index in 0..=count {
            if level > 0 {
                self.in_order(self.edge(at, shape, index), shape, entries, blocks);
            }
            if index < count {
                entries.push((entries.len() as u64, self.address(at + shape.entries + index * shape.size)));
            }
        }
        blocks.push(at);
    }
}
