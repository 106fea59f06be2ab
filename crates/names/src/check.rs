//! The check of a trie: it visits every block and every record and compares them with each other.

use crate::layout::{Block, BlockKind, head, of_record_word};
use crate::trie::{Trie, child_at, places};
use crate::{NAME_MAX, Records};
use everbyte_media::seeded;
use std::collections::HashSet;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Bytes contradict each other.
    Damage,
    /// A block is taken and no word leads to it.
    Leak,
    /// Two words lead to one block.
    DoubleUse,
}

/// One fault of a trie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// Its offset.
    pub at: u64,
    /// Its description.
    pub detail: String,
}

/// The blocks that the check has visited, and the faults so far.
#[derive(Default)]
struct Visited {
    blocks: HashSet<Block>,
    faults: Vec<Fault>,
}

impl<R: Records> Trie<R> {
    /// Checks the trie against itself, its blocks, and the names of all `live` records.
    pub fn check<'n>(&self, live: impl Iterator<Item = (u64, &'n str)>) -> Vec<Fault> {
        let mut visited = Visited::default();
        self.check_below(self.root_word(), &mut visited);
        self.check_blocks(&mut visited);
        for (at, name) in live {
            let found = self.find_entry(name.as_bytes());
            if !found.is_ok_and(|found| found.is_some_and(|(_, record)| record == at)) {
                visited.damage(at, format!("the trie does not lead to `{name}`, whose record is here"));
            }
        }
        if !self.has_no_intents() && !seeded("names-doubt-unseen") {
            let detail = "the list of a change of form is not empty, and no change is in progress";
            visited.damage(self.start + head::INTENT, detail.into());
        }
        for slot in 0..head::PENDING_WORDS {
            let at = self.start + head::PENDING + slot * 8;
            let word = self.media.load(at);
            if word != 0 && of_record_word(word).is_none() {
                visited.damage(at, "a word of the list of pending changes fails its check bits".into());
            }
        }
        visited.faults
    }

    /// Visits every block below a word. A list of blocks to visit instead of calls: damage decides
    /// how deep the trie is.
    fn check_below(&self, root: u64, visited: &mut Visited) {
        let mut next = vec![(root, 0)];
        while let Some((word, depth)) = next.pop() {
            let block = match self.child(word) {
                Ok(None) => continue,
                Ok(Some(block)) => block,
                Err(error) => {
                    visited.damage(word, error.to_string());
                    continue;
                }
            };
            if !visited.blocks.insert(block) {
                let detail = format!("two words lead to this {:?}", block.kind);
                visited.faults.push(Fault { kind: FaultKind::DoubleUse, at: block.at, detail });
                continue;
            }
            if block.kind == BlockKind::Container {
                places(block.at).for_each(|place| self.check_entry(place, visited));
                continue;
            }
            match self.node_head(block.at) {
                Ok(_) if depth > NAME_MAX => visited.damage(block.at, "a node deeper than names are long".into()),
                Ok(_) => next.extend((0..=255).rev().map(|byte| (child_at(block.at, byte), depth + 1))),
                Err(error) => visited.damage(block.at, error.to_string()),
            }
        }
    }

    fn check_entry(&self, place: u64, visited: &mut Visited) {
        let record = match self.entry_at(place) {
            Ok(None) => return,
            Ok(Some((record, _))) => record,
            Err(error) => return visited.damage(place, error.to_string()),
        };
        let Some(name) = self.records.name_of(&self.media, record) else {
            return visited.damage(place, format!("an entry leads to the damaged record at {record:#x}"));
        };
        let text = String::from_utf8_lossy(&name);
        if self.records.is_free(&self.media, record) {
            visited.damage(place, format!("an entry for `{text}` leads to the record at {record:#x}, which is free"));
        } else if !self.find_entry(&name).is_ok_and(|found| found == Some((place, record))) {
            visited.damage(place, format!("an entry for `{text}` lies where that name does not lead"));
        }
    }

    fn check_blocks(&self, visited: &mut Visited) {
        for cluster in self.clusters() {
            let slab = match self.slab(cluster) {
                Err(error) => {
                    visited.damage(cluster, error.to_string());
                    continue;
                }
                Ok(slab) => slab.filter(|slab| slab.kind != BlockKind::Record),
            };
            let Some(slab) = slab else { continue };
            for at in slab.blocks() {
                let reached = visited.blocks.contains(&Block { kind: slab.kind, at });
                match slab.is_taken(&self.media, at) {
                    Ok(taken) if taken == reached => {}
                    Ok(true) => {
                        let detail = format!("a {:?} is marked as taken and nothing leads to it", slab.kind);
                        visited.faults.push(Fault { kind: FaultKind::Leak, at, detail });
                    }
                    Ok(false) => visited.damage(at, format!("a {:?} is in use and not marked as taken", slab.kind)),
                    Err(word) => {
                        visited.damage(word, "a word of the bits of blocks fails its check bits".into());
                        break;
                    }
                }
            }
        }
    }
}

impl Visited {
    fn damage(&mut self, at: u64, detail: String) {
        self.faults.push(Fault { kind: FaultKind::Damage, at, detail });
    }
}
