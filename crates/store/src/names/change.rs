//! Changing the trie: an entry comes, an entry goes.
//!
//! Where there is room an entry is one word. Otherwise the form changes, a fence between the lines:
//!   1. the doubt list names the record and every block that is made or given back
//!   2. the new blocks are written whole and marked as taken
//!   3. one word is stored: it leads to them, and past the old ones
//!   4. the old blocks are marked as free, and the doubt list is emptied
//!
//! A full container *bursts*: a node takes its place, which skips what its names share and sends
//! them to containers by their next byte. Those all have room, since the names differ there.

use super::layout::{Block, CONTAINER, Kind, NODE_HEAD, NodeHead, entry_word};
use super::trie::{End, Trie, Walk, byte, child_at, places};
use crate::store::Inner;
use crate::{Result, catalogue};
use everbyte_media::seeded;
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

/// Empty nodes that a removal takes along; others stay, and cost their room alone.
const TAKEN_ALONG: usize = 16;

/// A change of form: steps 1 to 4.
struct Change {
    /// Its name tells recovery where to look.
    record: u64,
    born: Vec<(Block, Vec<u8>)>,
    dying: Vec<Block>,
    /// The word that is stored, and what.
    word: u64,
    value: u64,
}

/// An entry to be: its record's place and its name.
type Named = (u64, Vec<u8>);

impl Trie {
    /// Sees to it that an insertion will not ask for room.
    ///
    /// # Errors
    /// As [`Trie::reserve`].
    pub(crate) fn prepare(&mut self, store: &Inner) -> Result<()> {
        self.reserve(store, Kind::Node, 2)?;
        self.reserve(store, Kind::Container, CONTAINER as usize + 1)
    }

    /// Adds the entry of a record whose name is not there; fenced on return. `prepare` was called.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`]: nothing has changed.
    pub(crate) fn insert(&mut self, record: u64, name: &[u8]) -> Result<()> {
        let walk = self.walk(name)?;
        let named = (record, name.to_vec());
        match walk.end {
            End::Container(at) => match places(at).find(|&place| self.media.load(place) == 0) {
                Some(place) => {
                    self.set_word(place, entry_word(record, name));
                    self.media.fence();
                    Ok(())
                }
                None => self.burst(&walk, at, Some(named)),
            },
            End::Empty => {
                let mut born = Vec::new();
                let container = self.container(&[named], &mut born);
                self.apply(Change { record, born, dying: vec![], word: walk.word, value: container.word() })
            }
            End::Apart(node, ref head, common) => self.split(&walk, node, head, common, named),
        }
    }

    /// A node takes the place of a container, and of the names in it and one that is to join them.
    pub(super) fn burst(&mut self, walk: &Walk, container: u64, joins: Option<Named>) -> Result<()> {
        let mut all: Vec<Named> = self.names_in(container)?;
        all.extend(joins);
        let record = all.last().expect("a container that bursts is not empty").0;
        let rest = |(_, name): &Named| name[walk.depth.min(name.len())..].to_vec();
        let first = rest(&all[0]);
        let share = |named: &Named| first.iter().zip(&rest(named)).take_while(|(one, other)| one == other).count();
        let skip = all.iter().map(share).min().unwrap_or(0);
        let depth = walk.depth + skip;

        let mut apart: BTreeMap<u8, Vec<Named>> = BTreeMap::new();
        all.into_iter().for_each(|named| apart.entry(byte(&named.1, depth)).or_default().push(named));
        let mut born = Vec::new();
        let children = apart.into_iter().map(|(byte, some)| (byte, self.container(&some, &mut born).word()));
        let children: Vec<(u8, u64)> = children.collect();
        let node = self.node(&NodeHead::new(&first[..skip]), &children, &mut born);
        let dying = vec![Block { kind: Kind::Container, at: container }];
        self.apply(Change { record, born, dying, word: walk.word, value: node.word() })
    }

    /// A node's skip is cut where a name leaves it: a node above has the part before, a copy of the
    /// node the part behind.
    fn split(&mut self, walk: &Walk, node: u64, head: &NodeHead, common: usize, named: Named) -> Result<()> {
        let (record, depth) = (named.0, walk.depth + common);
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
        let dying = vec![Block { kind: Kind::Node, at: node }];
        self.apply(Change { record, born, dying, word: walk.word, value: above.word() })
    }

    /// Removes the entry of a record, if it is there, and what is empty without it; fenced on
    /// return.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`]: nothing has changed.
    pub(crate) fn remove(&mut self, record: u64, name: &[u8]) -> Result<()> {
        let walk = self.walk(name)?;
        let place = match walk.end {
            End::Container(at) => {
                if self.adopting {
                    // a dead process may have removed it in the caches alone
                    self.media.adopt(at, Kind::Container.size());
                }
                places(at).find(|&place| self.media.load(place) == entry_word(record, name)).map(|place| (at, place))
            }
            End::Empty | End::Apart(..) => None,
        };
        let Some((container, place)) = place else {
            self.media.fence(); // STORE-8
            return Ok(());
        };
        if places(container).any(|other| other != place && self.media.load(other) != 0) {
            self.set_word(place, 0);
            self.media.fence();
            return Ok(());
        }
        let mut dying = vec![Block { kind: Kind::Container, at: container }];
        let mut word = walk.word;
        for &(node, above) in walk.above.iter().rev().take(TAKEN_ALONG) {
            if (0..=255).any(|byte| child_at(node, byte) != word && self.media.load(child_at(node, byte)) != 0) {
                break;
            }
            dying.push(Block { kind: Kind::Node, at: node });
            word = above;
        }
        self.apply(Change { record, born: vec![], dying, word, value: 0 })
    }

    /// A new container of these entries.
    fn container(&mut self, some: &[Named], born: &mut Vec<(Block, Vec<u8>)>) -> Block {
        let mut words = [0; CONTAINER as usize];
        words.iter_mut().zip(some).for_each(|(word, (record, name))| *word = entry_word(*record, name));
        let block = Block { kind: Kind::Container, at: self.take(Kind::Container) };
        born.push((block, words.as_bytes().to_vec()));
        block
    }

    /// A new node with these children.
    fn node(&mut self, head: &NodeHead, children: &[(u8, u64)], born: &mut Vec<(Block, Vec<u8>)>) -> Block {
        let mut bytes = vec![0; Kind::Node.size() as usize];
        bytes[..NODE_HEAD as usize].copy_from_slice(head.as_bytes());
        for &(byte, word) in children {
            let at = child_at(0, byte) as usize;
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let block = Block { kind: Kind::Node, at: self.take(Kind::Node) };
        born.push((block, bytes));
        block
    }

    /// The names in a container.
    pub(super) fn names_in(&self, container: u64) -> Result<Vec<Named>> {
        let mut all = Vec::new();
        for place in places(container) {
            let Some((record, _)) = self.entry_at(place)? else { continue };
            let name = catalogue::name_of(&self.media, record);
            let name = name.ok_or_else(|| self.damaged(place, format!("the record at {record:#x} has no name")))?;
            all.push((record, name));
        }
        Ok(all)
    }

    fn apply(&mut self, change: Change) -> Result<()> {
        let Change { record, born, dying, word, value } = change;
        let blocks: Vec<Block> = born.iter().map(|(block, _)| *block).collect();
        self.doubt(record, blocks.iter().chain(&dying).copied()); // 1
        if !seeded("names-doubt-unordered") {
            self.media.fence();
        }
        for (block, bytes) in &born {
            let _section = self.media.section(); // 2
            self.media.write(block.at, bytes);
            self.media.flush(block.at, bytes.len() as u64);
        }
        self.mark(&blocks, true)?;
        if !seeded("names-swing-unordered") {
            self.media.fence(); // NAMES-1
        }
        self.set_word(word, value); // 3
        self.media.fence();
        self.mark(&dying, false)?; // 4
        self.media.fence(); // NAMES-4
        self.doubt_nothing();
        self.media.fence();
        if self.slabs.is_some() {
            dying.iter().for_each(|block| self.give(block.kind, block.at));
        }
        Ok(())
    }
}
