//! Changes of the trie: inserting an entry, removing an entry.
//!
//! If the container has a free entry, an insertion stores one word. Otherwise the form of the trie
//! changes, with a fence between the steps:
//!   1. the intent list names the record and every block that is made or given back
//!   2. the new blocks are written whole and marked as taken
//!   3. one word is stored: it leads to the new blocks, and past the old ones
//!   4. the old blocks are marked as free, and the intent list is emptied
//!
//! A full container *bursts*: a node takes its place. The node skips the bytes that its names share
//! and leads to containers by the next byte. None of these is full, since the names differ there.

use crate::layout::{Block, BlockKind, CONTAINER, NODE_HEAD, NodeHead, entry_word};
use crate::trie::{Descent, End, Trie, byte, child_at, places};
use crate::{Clusters, Records, Result};
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

/// Empty nodes that a removal frees along with a container; further ones stay and cost their bytes.
const FREED_ALONG: usize = 16;

/// A change of form: steps 1 to 4.
struct FormChange {
    /// The record whose name tells recovery where to look.
    record: u64,
    born: Vec<(Block, Vec<u8>)>,
    dying: Vec<Block>,
    /// The offset of the word that step 3 stores.
    word: u64,
    value: u64,
}

/// A record's offset and its name.
type Named = (u64, Vec<u8>);

impl<R: Records> Trie<R> {
    /// Reserves the blocks that one insertion may need.
    ///
    /// # Errors
    /// As [`Clusters::add_cluster`]; [`crate::Damaged`]. Nothing has changed.
    pub fn prepare<C: Clusters>(&mut self, clusters: &C) -> Result<(), C::Error> {
        self.reserve(clusters, BlockKind::Node, 2)?;
        self.reserve(clusters, BlockKind::Container, CONTAINER as usize + 1)
    }

    /// Adds the entry of a record with a new name; fenced on return. The caller has called
    /// [`Trie::prepare`].
    ///
    /// # Errors
    /// [`crate::Damaged`]: nothing has changed.
    pub fn insert(&mut self, record: u64, name: &[u8]) -> Result<()> {
        let descent = self.descend(name)?;
        let named = (record, name.to_vec());
        match descent.end {
            End::Container(at) => match places(at).find(|&place| self.media.load(place) == 0) {
                Some(place) => {
                    self.set_word(place, entry_word(record, name));
                    self.media.fence();
                    Ok(())
                }
                None => self.burst(&descent, at, Some(named)),
            },
            End::Empty => {
                let mut born = Vec::new();
                let container = self.container(&[named], &mut born);
                self.apply(FormChange { record, born, dying: vec![], word: descent.word, value: container.word() })
            }
            End::Apart(node, ref head, common) => self.split(&descent, node, head, common, named),
        }
    }

    /// A node takes the place of a container, for its names and one that may join them.
    pub(crate) fn burst(&mut self, descent: &Descent, container: u64, joins: Option<Named>) -> Result<()> {
        let mut all: Vec<Named> = self.names_in(container)?;
        all.extend(joins);
        let record = all.last().expect("a container that bursts is not empty").0;
        let rest = |(_, name): &Named| name[descent.depth.min(name.len())..].to_vec();
        let first = rest(&all[0]);
        let share = |named: &Named| first.iter().zip(&rest(named)).take_while(|(one, other)| one == other).count();
        let skip = all.iter().map(share).min().unwrap_or(0);
        let depth = descent.depth + skip;

        let mut apart: BTreeMap<u8, Vec<Named>> = BTreeMap::new();
        all.into_iter().for_each(|named| apart.entry(byte(&named.1, depth)).or_default().push(named));
        let mut born = Vec::new();
        let children = apart.into_iter().map(|(byte, some)| (byte, self.container(&some, &mut born).word()));
        let children: Vec<(u8, u64)> = children.collect();
        let node = self.node(&NodeHead::new(&first[..skip]), &children, &mut born);
        let dying = vec![Block { kind: BlockKind::Container, at: container }];
        self.apply(FormChange { record, born, dying, word: descent.word, value: node.word() })
    }

    /// Divides a node's skip where a name leaves it: a new node above has the part before, a copy
    /// of the node has the part behind.
    fn split(&mut self, descent: &Descent, node: u64, head: &NodeHead, common: usize, named: Named) -> Result<()> {
        let (record, depth) = (named.0, descent.depth + common);
        let own = byte(&named.1, depth);
        let skip = &head.skip[..head.skip_len as usize];
        let mut children = Vec::new();
        for byte in 0..=255 {
            if let Some(child) = self.child(child_at(node, byte))? {
                children.push((byte, child.word()));
            }
        }
        let mut born = Vec::new();
        let container = self.container(&[named], &mut born);
        let below = self.node(&NodeHead::new(&skip[common + 1..]), &children, &mut born);
        let both = [(skip[common], below.word()), (own, container.word())];
        let above = self.node(&NodeHead::new(&skip[..common]), &both, &mut born);
        let dying = vec![Block { kind: BlockKind::Node, at: node }];
        self.apply(FormChange { record, born, dying, word: descent.word, value: above.word() })
    }

    /// Removes the entry of a record, if the trie has it, and blocks that are empty without it;
    /// fenced on return.
    ///
    /// # Errors
    /// [`crate::Damaged`]: nothing has changed.
    pub fn remove(&mut self, record: u64, name: &[u8]) -> Result<()> {
        let descent = self.descend(name)?;
        let place = match descent.end {
            End::Container(at) => {
                if self.reflushes {
                    // a dead process may have removed the entry in the caches alone
                    self.media.reflush(at, BlockKind::Container.size());
                }
                places(at).find(|&place| self.media.load(place) == entry_word(record, name)).map(|place| (at, place))
            }
            End::Empty | End::Apart(..) => None,
        };
        let Some((container, place)) = place else {
            self.media.fence_unless("names-removal-unseen"); // STORE-8
            return Ok(());
        };
        if places(container).any(|other| other != place && self.media.load(other) != 0) {
            self.set_word(place, 0);
            self.media.fence();
            return Ok(());
        }
        let mut dying = vec![Block { kind: BlockKind::Container, at: container }];
        let mut word = descent.word;
        for &(node, above) in descent.above.iter().rev().take(FREED_ALONG) {
            if (0..=255).any(|byte| child_at(node, byte) != word && self.media.load(child_at(node, byte)) != 0) {
                break;
            }
            dying.push(Block { kind: BlockKind::Node, at: node });
            word = above;
        }
        self.apply(FormChange { record, born: vec![], dying, word, value: 0 })
    }

    /// A new container of these entries.
    fn container(&mut self, some: &[Named], born: &mut Vec<(Block, Vec<u8>)>) -> Block {
        let mut words = [0; CONTAINER as usize];
        words.iter_mut().zip(some).for_each(|(word, (record, name))| *word = entry_word(*record, name));
        let block = Block { kind: BlockKind::Container, at: self.take(BlockKind::Container) };
        born.push((block, words.as_bytes().to_vec()));
        block
    }

    /// A new node with these children.
    fn node(&mut self, head: &NodeHead, children: &[(u8, u64)], born: &mut Vec<(Block, Vec<u8>)>) -> Block {
        let mut bytes = vec![0; BlockKind::Node.size() as usize];
        bytes[..NODE_HEAD as usize].copy_from_slice(head.as_bytes());
        for &(byte, word) in children {
            let at = child_at(0, byte) as usize;
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let block = Block { kind: BlockKind::Node, at: self.take(BlockKind::Node) };
        born.push((block, bytes));
        block
    }

    /// The names in a container, with their records.
    pub(crate) fn names_in(&self, container: u64) -> Result<Vec<Named>> {
        let mut all = Vec::new();
        for place in places(container) {
            let Some((record, _)) = self.entry_at(place)? else { continue };
            let name = self.records.name_of(&self.media, record);
            let name = name.ok_or_else(|| self.damaged(place, format!("the record at {record:#x} has no name")))?;
            all.push((record, name));
        }
        Ok(all)
    }

    fn apply(&mut self, change: FormChange) -> Result<()> {
        let FormChange { record, born, dying, word, value } = change;
        let blocks: Vec<Block> = born.iter().map(|(block, _)| *block).collect();
        self.log_intents(record, blocks.iter().chain(&dying).copied()); // 1
        self.media.fence_unless("names-doubt-unordered");
        for (block, bytes) in &born {
            let _section = self.media.section(); // 2
            self.media.write(block.at, bytes);
            self.media.flush(block.at, bytes.len() as u64);
        }
        self.mark(&blocks, true)?;
        let ordered = self.media.fence_after_unless("names-swing-unordered", ()); // NAMES-1
        self.publish(word, value, &ordered); // 3
        self.media.fence();
        self.mark(&dying, false)?; // 4
        self.media.fence(); // NAMES-4
        self.clear_intents();
        self.media.fence();
        if self.free_blocks.is_some() {
            dying.iter().for_each(|block| self.give(block.kind, block.at));
        }
        Ok(())
    }
}
