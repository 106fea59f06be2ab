//! Changes in progress, so that recovery finds them without a search: two short lists on the prime
//! page.
//!
//! The *intent list* names the one change of form that is in progress: the record whose name it is
//! for, the blocks that it makes, and those that it gives back. All of these lie on the path of
//! that name, or next to it. So recovery follows that path: a block that it reaches is taken, any
//! other block of the list is free. The *list of pending changes* names records that are being
//! made, removed or grown; the state word of each record says what recovery has to do.
//!
//! Invariants
//!   NAMES-4  A fence orders the intent list before a bit of its blocks changes. The list is
//!            emptied behind a fence after the last bit changed. Empty means that every word is
//!            zero: a crash may keep any word of a list and lose the words before it.
//!   NAMES-5  A record is in the list of pending changes, fenced, before its state leaves `free` or
//!            `live`, and until its state is one of these again.

use crate::layout::{Block, BlockKind, head, of_record_word, record_word};
use crate::trie::{End, Trie, child_at};
use crate::{Records, Result};
use everbyte_media::seeded;
use everbyte_space::CLUSTER;
use std::collections::HashSet;

impl<R: Records> Trie<R> {
    fn intent_at(&self, index: usize) -> u64 {
        self.start + head::INTENT + index as u64 * 8
    }

    /// Writes the blocks that a change for the name of `record` makes and gives back; flushed, not
    /// fenced.
    pub(crate) fn log_intents(&self, record: u64, blocks: impl Iterator<Item = Block>) {
        let _section = self.media.section();
        let words = std::iter::once(record_word(record)).chain(blocks.map(Block::word));
        let mut count = 0;
        for word in words {
            self.media.store(self.intent_at(count), word);
            count += 1;
        }
        assert!(count <= head::INTENT_WORDS as usize, "NAMES-4: a change has {count} words to log");
        self.media.flush(self.intent_at(0), count as u64 * 8);
        self.clear_intents_from(count);
    }

    /// Empties the list; flushed, not fenced.
    pub(crate) fn clear_intents(&self) {
        self.clear_intents_from(0);
    }

    /// Zeroes every word of the list from `first` on that is not zero; flushed, not fenced. A zero
    /// does not end the list: a crash may have lost the words in front of others.
    fn clear_intents_from(&self, first: usize) {
        let stale = (first..head::INTENT_WORDS as usize).map_while(|index| {
            let word = self.media.load(self.intent_at(index));
            (word != 0 || !seeded("names-doubt-half-emptied") && !seeded("names-doubt-unseen")).then_some((index, word))
        });
        let stale: Vec<usize> = stale.filter(|&(_, word)| word != 0).map(|(index, _)| index).collect();
        let (Some(&start), Some(&last)) = (stale.first(), stale.last()) else { return };
        let _section = self.media.section();
        stale.into_iter().for_each(|index| self.media.store(self.intent_at(index), 0));
        self.media.flush(self.intent_at(start), (last + 1 - start) as u64 * 8);
    }

    /// Whether the list is empty.
    pub(crate) fn has_no_intents(&self) -> bool {
        (0..head::INTENT_WORDS as usize).all(|index| self.media.load(self.intent_at(index)) == 0)
    }

    /// Completes or takes back the change of form that a crash interrupted; fenced on return. A
    /// damaged path stays as it is, for `check` to report.
    ///
    /// # Errors
    /// [`crate::Damaged`].
    pub fn recover_intents(&mut self) -> Result<()> {
        let list: Vec<u64> =
            (0..head::INTENT_WORDS as usize).map(|index| self.media.load(self.intent_at(index))).collect();
        self.media.reflush(self.intent_at(0), head::INTENT_WORDS * 8);
        if self.reflushes {
            // STORE-8: no list names the division of a cluster, which is fenced before the next one
            // is added. Its bits are reached by the list.
            self.media.reflush(self.slab_at(self.backed - CLUSTER), 8);
        }
        if list.iter().all(|&word| word == 0) {
            return Ok(());
        }
        // A list whose first fence did not come is torn, and then nothing else has changed yet.
        let record = of_record_word(list[0]).filter(|&record| self.is_record(record));
        let name = record.and_then(|record| self.records.name_of(&self.media, record));
        if let Some(name) = name {
            let reached = self.around(&name)?;
            let blocks: Vec<Block> = list[1..].iter().filter_map(|&word| Block::of_word(word)).collect();
            for taken in [true, false] {
                let some: Vec<Block> =
                    blocks.iter().copied().filter(|block| reached.contains(block) == taken).collect();
                self.mark(&some, taken)?;
            }
            self.media.fence(); // NAMES-4
        }
        self.clear_intents();
        self.media.fence();
        self.free_blocks = None;
        Ok(())
    }

    /// Every block on the path of a name, and every child of its nodes.
    fn around(&self, name: &[u8]) -> Result<HashSet<Block>> {
        let descent = self.descend(name)?;
        let mut nodes: Vec<u64> = descent.above.iter().map(|&(node, _)| node).collect();
        if let End::Apart(node, ..) = descent.end {
            nodes.push(node);
        }
        let mut reached: HashSet<Block> = self.child(self.root_word())?.into_iter().collect();
        for node in nodes {
            reached.insert(Block { kind: BlockKind::Node, at: node });
            for byte in 0..=255 {
                reached.extend(self.child(child_at(node, byte))?);
            }
        }
        Ok(reached)
    }

    fn pending_at(&self, slot: u32) -> u64 {
        self.start + head::PENDING + u64::from(slot) * 8
    }

    /// Adds a record to the list of pending changes; flushed, not fenced. Returns its slot in the
    /// list, or `None` if the list is full.
    pub fn begin_change(&mut self, record: u64) -> Option<u32> {
        let slot = (!self.pending).trailing_zeros();
        if u64::from(slot) >= head::PENDING_WORDS {
            return None;
        }
        self.pending |= 1 << slot;
        let _section = self.media.section();
        self.media.store(self.pending_at(slot), record_word(record));
        self.media.flush(self.pending_at(slot), 8);
        Some(slot)
    }

    /// Removes a slot from the list of pending changes; flushed, not fenced: a stale slot costs
    /// recovery one look at a record.
    pub fn end_change(&mut self, slot: u32) {
        let _section = self.media.section();
        self.media.store(self.pending_at(slot), 0);
        self.media.flush(self.pending_at(slot), 8);
        self.pending &= !(1 << slot);
    }

    /// The records in the list of pending changes, each with its slot.
    pub fn pending_changes(&mut self) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        for slot in 0..head::PENDING_WORDS as u32 {
            let word = self.media.load(self.pending_at(slot));
            if word == 0 {
                continue;
            }
            self.pending |= 1 << slot;
            self.media.reflush(self.pending_at(slot), 8);
            match of_record_word(word).filter(|&record| self.is_record(record)) {
                Some(record) => found.push((slot, record)),
                // a torn word: its change has not begun; `check` reports a damaged one
                None => self.end_change(slot),
            }
        }
        found
    }
}
