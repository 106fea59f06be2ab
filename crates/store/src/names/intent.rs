//! What is under way, so that a crash is found without looking everywhere: two short lists on the
//! prime page.
//!
//! The *doubt list* names the one change of the trie's form that is under way: the record whose
//! name it is for, the blocks it makes, and those it gives back. All of them lie on the way of that
//! name, or next to it. So recovery walks that way: what can be reached is taken, what cannot is
//! free. The *flight list* names records that are being made, removed or grown; what is to be done
//! about each, its state word says.
//!
//! Invariants
//!   NAMES-4  The doubt list is fenced before a bit of its blocks changes, and emptied behind a
//!            fence after the last did. Empty means that every word of it is zero: a crash may keep
//!            any word of a list and lose the ones before it.
//!   NAMES-5  A record is in flight, fenced, before its state leaves `free` or `live`, and until it
//!            is back.

use super::layout::{Block, Kind, head, of_record_word, record_word};
use super::trie::{End, Trie, child_at};
use crate::{Result, catalogue};
use everbyte_media::seeded;
use std::collections::HashSet;

impl Trie {
    fn doubt_at(&self, index: usize) -> u64 {
        self.entry.span.at() + head::DOUBT + index as u64 * 8
    }

    /// Says which blocks a change for the name of `record` makes and gives back; flushed, not
    /// fenced.
    pub(super) fn doubt(&self, record: u64, blocks: impl Iterator<Item = Block>) {
        let _section = self.media.section();
        let words = std::iter::once(record_word(record)).chain(blocks.map(Block::word));
        let mut count = 0;
        for word in words {
            self.media.store(self.doubt_at(count), word);
            count += 1;
        }
        assert!(count <= head::DOUBT_WORDS as usize, "NAMES-4: a change has {count} words to note");
        self.media.flush(self.doubt_at(0), count as u64 * 8);
        self.clear_doubt_from(count);
    }

    /// Empties the list; flushed, not fenced.
    pub(super) fn doubt_nothing(&self) {
        self.clear_doubt_from(0);
    }

    /// Zeroes every word of the list from `first` on that is not zero; flushed, not fenced. A zero
    /// does not end the list: a crash may have lost the words in front of others.
    fn clear_doubt_from(&self, first: usize) {
        let stale = (first..head::DOUBT_WORDS as usize).map_while(|index| {
            let word = self.media.load(self.doubt_at(index));
            (word != 0 || !seeded("names-doubt-half-emptied") && !seeded("names-doubt-unseen")).then_some((index, word))
        });
        let stale: Vec<usize> = stale.filter(|&(_, word)| word != 0).map(|(index, _)| index).collect();
        let (Some(&start), Some(&last)) = (stale.first(), stale.last()) else { return };
        let _section = self.media.section();
        stale.into_iter().for_each(|index| self.media.store(self.doubt_at(index), 0));
        self.media.flush(self.doubt_at(start), (last + 1 - start) as u64 * 8);
    }

    /// Whether no change of form is noted as under way.
    pub(super) fn doubts_nothing(&self) -> bool {
        (0..head::DOUBT_WORDS as usize).all(|index| self.media.load(self.doubt_at(index)) == 0)
    }

    /// Settles what was in doubt; fenced on return. What is damaged stays, for `check` to report.
    pub(crate) fn settle_doubt(&mut self) -> Result<()> {
        let list: Vec<u64> =
            (0..head::DOUBT_WORDS as usize).map(|index| self.media.load(self.doubt_at(index))).collect();
        self.media.adopt(self.doubt_at(0), head::DOUBT_WORDS * 8);
        if list.iter().all(|&word| word == 0) {
            return Ok(());
        }
        // A list whose first fence did not come is torn, and then nothing has changed yet.
        let record = of_record_word(list[0]).filter(|&record| self.is_record(record));
        let name = record.and_then(|record| catalogue::name_of(&self.media, record));
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
        self.doubt_nothing();
        self.media.fence();
        self.slabs = None;
        Ok(())
    }

    /// Every block on the way of a name, and every child of its nodes.
    fn around(&self, name: &[u8]) -> Result<HashSet<Block>> {
        let walk = self.walk(name)?;
        let mut nodes: Vec<u64> = walk.above.iter().map(|&(node, _)| node).collect();
        if let End::Apart(node, ..) = walk.end {
            nodes.push(node);
        }
        let mut reached: HashSet<Block> = self.child(self.root_word())?.into_iter().collect();
        for node in nodes {
            reached.insert(Block { kind: Kind::Node, at: node });
            for byte in 0..=255 {
                reached.extend(self.child(child_at(node, byte))?);
            }
        }
        Ok(reached)
    }

    fn flight_at(&self, slot: u32) -> u64 {
        self.entry.span.at() + head::FLIGHT + u64::from(slot) * 8
    }

    /// Notes that a record is in flight; flushed, not fenced. Returns the place of the note, or
    /// `None` if all are taken.
    pub(crate) fn depart(&mut self, record: u64) -> Option<u32> {
        let slot = (!self.flights).trailing_zeros();
        if u64::from(slot) >= head::FLIGHT_WORDS {
            return None;
        }
        self.flights |= 1 << slot;
        let _section = self.media.section();
        self.media.store(self.flight_at(slot), record_word(record));
        self.media.flush(self.flight_at(slot), 8);
        Some(slot)
    }

    /// Takes the note back; flushed, not fenced: a note too many costs recovery a look.
    pub(crate) fn arrive(&mut self, slot: u32) {
        let _section = self.media.section();
        self.media.store(self.flight_at(slot), 0);
        self.media.flush(self.flight_at(slot), 8);
        self.flights &= !(1 << slot);
    }

    /// The records that were in flight, each with its note.
    pub(crate) fn flights(&mut self) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        for slot in 0..head::FLIGHT_WORDS as u32 {
            let word = self.media.load(self.flight_at(slot));
            if word == 0 {
                continue;
            }
            self.flights |= 1 << slot;
            self.media.adopt(self.flight_at(slot), 8);
            match of_record_word(word).filter(|&record| self.is_record(record)) {
                Some(record) => found.push((slot, record)),
                // torn or damaged: what it was for has not begun, or `check` finds it
                None => self.arrive(slot),
            }
        }
        found
    }
}
