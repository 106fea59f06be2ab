//! The trie of names: finding a name, and descending to the place of a change.
//!
//! A descent follows a name byte by byte; a zero, which no name holds, ends the name. A *node* has
//! a child for each byte, behind a *skip* that all names below share. A *container* has up to
//! sixteen entries in no order, each with the offset of a record and a tag of its name. The names
//! themselves stand in the records.
//!
//! Invariants
//!   NAMES-1  A block is written and marked as taken, and a fence orders that, before a word leads
//!            to it. It is freed behind a fence after the word was stored that leads past it.
//!   NAMES-2  The record of an entry is in use, or pending (`intent`), and has the name that leads
//!            to the entry.
//!
//! Threads: the owner's lock serialises all calls.
//!
//! Design: docs/design/names.md

use crate::burst_policy::BurstPolicy;
use crate::layout::{Block, BlockKind, CONTAINER, Head, NODE_HEAD, NodeHead, head, may_have_tag, of_entry_word, tag};
use crate::slab::FreeBlocks;
use crate::{Damaged, PRIME_LEN, Records, Result};
use everbyte_media::{Checked, Media, Offset, Ordered, PublishWord};
use everbyte_space::CLUSTER;
use std::mem::offset_of;
use std::ops::Range;

/// A trie on media, with the volatile state of this process.
pub struct Trie<R> {
    pub(crate) media: Media,
    /// The start of the object that holds it.
    pub(crate) start: u64,
    /// One past the object's last cluster.
    pub(crate) backed: u64,
    pub(crate) records: R,
    /// Free blocks; `None` before the first request for one.
    pub(crate) free_blocks: Option<FreeBlocks>,
    pub(crate) policy: BurstPolicy,
    /// Words of the list of pending changes that are in use, as a mask.
    pub(crate) pending: u64,
    /// Whether an earlier process died: bytes that are read are flushed before anything is built on
    /// them (STORE-8).
    pub(crate) reflushes: bool,
}

/// The path of a name through the trie.
pub(crate) struct Descent {
    /// The nodes on the path, each with the word that leads to it.
    pub(crate) above: Vec<(u64, u64)>,
    /// The word behind the last of them.
    pub(crate) word: u64,
    /// Bytes of the name that the path has consumed.
    pub(crate) depth: usize,
    pub(crate) end: End,
}

/// The end of a path.
pub(crate) enum End {
    Empty,
    Container(u64),
    /// A node whose skip has only this many bytes in common with the name.
    Apart(u64, NodeHead, usize),
}

/// The end of the last process that had the names open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastClose {
    /// It closed them: every word is flushed.
    Clean,
    /// It died: a word that leads on is flushed again before a change relies on it.
    Crashed,
}

/// The byte of a name at a depth; behind its end a zero.
pub(crate) fn byte(name: &[u8], depth: usize) -> u8 {
    name.get(depth).copied().unwrap_or(0)
}

impl<R: Records> Trie<R> {
    /// The trie in the object that spans `object`, before [`Trie::format`].
    pub fn new(media: Media, object: Range<u64>, records: R, last: LastClose) -> Trie<R> {
        let reflushes = last == LastClose::Crashed;
        let (free_blocks, policy, pending) = (None, BurstPolicy::default(), 0);
        Trie { media, start: object.start, backed: object.end, records, free_blocks, policy, pending, reflushes }
    }

    /// The trie that the object at `object` holds.
    ///
    /// # Errors
    /// The offset of the damage, and its description.
    pub fn open(media: Media, object: Range<u64>, records: R, last: LastClose) -> Result<Trie<R>, (u64, String)> {
        let at = object.start + head::AT;
        if !media.holds(object.start, object.end - object.start) {
            return Err((at, format!("the file ends at {:#x}, before it does", media.len())));
        }
        let found: Head = media.get(at);
        if found != Head::new() {
            return Err((at, "its head is none of this format".into()));
        }
        Ok(Trie::new(media, object, records, last))
    }

    /// The end of the last process that had the names open.
    pub fn last_close(&self) -> LastClose {
        if self.reflushes { LastClose::Crashed } else { LastClose::Clean }
    }

    /// The records, as the owner gave them.
    pub fn records(&self) -> &R {
        &self.records
    }

    pub(crate) fn root_word(&self) -> u64 {
        self.start + head::ROOT
    }

    /// The record of this name, in any state.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn find(&mut self, name: &[u8]) -> Result<Option<u64>> {
        // The name in the record proves a result of the quick search. An empty result may be
        // damage, so the full search follows.
        let found = match self.find_quickly(name).filter(|_| !self.reflushes) {
            Some(found) => Some(found),
            None => self.find_entry(name)?,
        };
        if let Some((place, _)) = found {
            self.policy.record(place, name);
        }
        Ok(found.map(|(_, record)| record))
    }

    /// [`Trie::find_entry`] without the checks of nodes and their words, and without entries of
    /// other tags. The cost of a lookup is the wait for memory: a node's child is prefetched before
    /// the node's head has arrived, which helps if the node has no skip.
    fn find_quickly(&self, name: &[u8]) -> Option<(u64, u64)> {
        let (mut word, mut depth) = (self.root_word(), 0);
        let wanted = tag(name);
        while depth <= name.len() {
            let block = Block::of_unchecked(self.media.load(word))?;
            if !self.holds(block.at, block.kind.size()) {
                return None;
            }
            let Block { kind: BlockKind::Node, at: node } = block else {
                return self.find_tagged(block.at, name, wanted);
            };
            self.media.prefetch(child_at(node, byte(name, depth)));
            let skip = (self.media.load(node) >> 32) as usize;
            if skip > 0 {
                let rest = name.get(depth..depth + skip)?;
                if !self.media.compare(node + offset_of!(NodeHead, skip) as u64, skip as u64, rest).is_eq() {
                    return None;
                }
                depth += skip;
            }
            word = child_at(node, byte(name, depth));
            depth += 1;
        }
        None // damaged: no name leads so far
    }

    fn find_tagged(&self, container: u64, name: &[u8], wanted: u64) -> Option<(u64, u64)> {
        let named = |place: u64| {
            let word = Some(self.media.load(place)).filter(|&word| may_have_tag(word, wanted))?;
            let (record, _) = of_entry_word(word).filter(|&(record, _)| self.is_record(record))?;
            self.records.has_name(&self.media, record, name).then_some((place, record))
        };
        places(container).find_map(named)
    }

    /// The place of the entry of this name, and its record.
    pub(crate) fn find_entry(&self, name: &[u8]) -> Result<Option<(u64, u64)>> {
        let End::Container(at) = self.descend(name)?.end else { return Ok(None) };
        let wanted = tag(name);
        for place in places(at) {
            let Some((record, tag)) = self.entry_at(place)? else { continue };
            if tag == wanted && self.records.has_name(&self.media, record, name) {
                if self.reflushes {
                    self.media.reflush(place, 8);
                }
                return Ok(Some((place, record)));
            }
        }
        Ok(None)
    }

    /// Follows a name to the end of its path.
    pub(crate) fn descend(&self, name: &[u8]) -> Result<Descent> {
        let mut descent = Descent { above: Vec::new(), word: self.root_word(), depth: 0, end: End::Empty };
        loop {
            if self.reflushes {
                self.media.reflush(descent.word, 8);
            }
            let node = match self.child(descent.word)? {
                None => return Ok(descent),
                Some(Block { kind: BlockKind::Node, at }) => at,
                Some(Block { at, .. }) => return Ok(Descent { end: End::Container(at), ..descent }),
            };
            if descent.depth > name.len() {
                return Err(self.damaged(descent.word, "a node behind the end of a name".into()));
            }
            let head = self.node_head(node)?;
            let skip = &head.skip[..head.skip_len as usize];
            let common = skip.iter().zip(&name[descent.depth..]).take_while(|(one, other)| one == other).count();
            if common < skip.len() {
                return Ok(Descent { end: End::Apart(node, head, common), ..descent });
            }
            descent.above.push((node, descent.word));
            descent.depth += common;
            descent.word = child_at(node, byte(name, descent.depth));
            descent.depth += 1;
        }
    }

    /// The block that a child word leads to; `None`: the word is empty.
    pub(crate) fn child(&self, word: u64) -> Result<Option<Block>> {
        match self.media.load(word) {
            0 => Ok(None),
            found => match Block::of_word(found).filter(|block| self.holds(block.at, block.kind.size())) {
                Some(block) => Ok(Some(block)),
                None => Err(self.damaged(word, format!("{found:#018x} is no child"))),
            },
        }
    }

    /// The record and the tag of an entry; `None`: the entry is empty.
    pub(crate) fn entry_at(&self, place: u64) -> Result<Option<(u64, u64)>> {
        match self.media.load(place) {
            0 => Ok(None),
            found => match of_entry_word(found).filter(|(record, _)| self.is_record(*record)) {
                Some(entry) => Ok(Some(entry)),
                None => Err(self.damaged(place, format!("{found:#018x} is no entry"))),
            },
        }
    }

    pub(crate) fn node_head(&self, node: u64) -> Result<NodeHead> {
        let head: NodeHead = self.media.get(node);
        let good = head.checksum_agrees() && head.skip_len as usize <= head.skip.len();
        if good { Ok(head) } else { Err(self.damaged(node, "a node's checksum is wrong".into())) }
    }

    /// [`Trie::set_word`] of a word that leads to new blocks.
    pub(crate) fn publish(&self, at: u64, value: u64, blocks: &Ordered<()>) {
        let _section = self.media.section();
        PublishWord::new(Offset::new(at)).publish(&self.media, value, blocks);
    }

    /// Stores a word and flushes it; no fence.
    pub(crate) fn set_word(&self, at: u64, value: u64) {
        let _section = self.media.section();
        self.media.store(at, value);
        self.media.flush(at, 8);
    }

    /// Whether a block can lie at `at`.
    fn holds(&self, at: u64, len: u64) -> bool {
        at >= self.start + PRIME_LEN && at.saturating_add(len) <= self.backed && self.media.holds(at, len)
    }

    /// Whether a record can lie at `at`.
    pub(crate) fn is_record(&self, at: u64) -> bool {
        let len = BlockKind::Record.size();
        let outside = || self.records.outside().contains(&at) && self.media.holds(at, len);
        at.is_multiple_of(len) && (outside() || self.holds(at, len))
    }

    pub(crate) fn damaged(&self, at: u64, detail: String) -> Damaged {
        Damaged::new(self.media.path(), at, detail)
    }

    /// The object's clusters, in order.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = u64> + use<R> {
        (self.start..self.backed).step_by(CLUSTER as usize)
    }
}

/// The offsets of a container's entries.
pub(crate) fn places(container: u64) -> impl Iterator<Item = u64> {
    (0..CONTAINER).map(move |index| container + index * 8)
}

/// The offset of a node's child for `byte`.
pub(crate) fn child_at(node: u64, byte: u8) -> u64 {
    node + NODE_HEAD + u64::from(byte) * 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaultKind;
    use crate::desk::Desk;

    #[test]
    fn a_node_that_leads_to_itself_is_damage() {
        let mut desk = Desk::new();
        (0..100).for_each(|number| desk.insert(&format!("{number:02}")));
        let root = desk.trie.root_word();
        let Some(Block { kind: BlockKind::Node, at }) = desk.trie.child(root).unwrap() else {
            panic!("a hundred names")
        };
        let media = &desk.trie.media;
        [0, b'x'].iter().for_each(|&byte| media.store(child_at(at, byte), media.load(root)));
        for name in ["x", "xxxxxxxx", "xx7"] {
            assert!(matches!(desk.trie.find(name.as_bytes()), Err(_) | Ok(None)), "{name}");
        }
        assert!(desk.find("07").is_some());
        // Listing and checking need no stack for the depth of the damaged trie.
        let walks = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
            assert!(desk.trie.list(b"").is_err());
            let twice = |fault: &crate::Fault| fault.kind == FaultKind::DoubleUse && fault.detail.contains("two words");
            assert!(desk.check().iter().any(twice));
        });
        walks.unwrap().join().unwrap();
    }
}
