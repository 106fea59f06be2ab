//! `check` of the name space: the trie is walked and every record looked up, so each is compared
//! with the other.

use super::layout::{Block, Kind, head};
use super::trie::{Trie, child_at, places};
use crate::catalogue::{self, Slot};
use crate::{FindingKind, NAME_MAX};
use everbyte_media::seeded;
use std::collections::HashSet;

/// What does not fit: what kind of fault, where, and what is wrong.
pub(crate) type Fault = (FindingKind, u64, String);

/// What a walk over the whole trie has met.
#[derive(Default)]
struct Met {
    blocks: HashSet<Block>,
    faults: Vec<Fault>,
}

impl Trie {
    /// Checks the trie against itself, its blocks, and `slots`, all records that are not free.
    pub(crate) fn check(&self, slots: &[(u64, Slot)]) -> Vec<Fault> {
        let mut met = Met::default();
        self.check_below(self.root_word(), &mut met);
        self.check_blocks(&mut met);
        for (at, slot) in slots {
            let Slot::Live(entry) = slot else { continue };
            if entry.name.is_empty()
                || self
                    .find_entry(entry.name.as_bytes())
                    .is_ok_and(|found| found.is_some_and(|(_, record)| record == *at))
            {
                continue;
            }
            met.fault(*at, format!("the trie does not lead to `{}`, whose record is here", entry.name));
        }
        if !self.doubts_nothing() && !seeded("names-doubt-unseen") {
            let at = self.entry.span.at() + head::DOUBT;
            met.fault(at, "the list of a change of form is not empty, and no change is under way".into());
        }
        for slot in 0..head::FLIGHT_WORDS {
            let at = self.entry.span.at() + head::FLIGHT + slot * 8;
            let word = self.media.load(at);
            if word != 0 && super::layout::of_record_word(word).is_none() {
                met.fault(at, "a word of the flight list fails its check bits".into());
            }
        }
        met.faults
    }

    /// Walks what the word leads to. A list of what is still to be visited rather than calls: media
    /// decide how deep the trie is.
    fn check_below(&self, root: u64, met: &mut Met) {
        let mut next = vec![(root, 0)];
        while let Some((word, depth)) = next.pop() {
            let block = match self.child(word) {
                Ok(None) => continue,
                Ok(Some(block)) => block,
                Err(error) => {
                    met.fault(word, error.to_string());
                    continue;
                }
            };
            if !met.blocks.insert(block) {
                let detail = format!("two words lead to this {:?}", block.kind);
                met.faults.push((FindingKind::DoubleUse, block.at, detail));
                continue;
            }
            if block.kind == Kind::Container {
                places(block.at).for_each(|place| self.check_entry(place, met));
                continue;
            }
            match self.node_head(block.at) {
                Ok(_) if depth > NAME_MAX => met.fault(block.at, "a node deeper than names are long".into()),
                Ok(_) => next.extend((0..=255).rev().map(|byte| (child_at(block.at, byte), depth + 1))),
                Err(error) => met.fault(block.at, error.to_string()),
            }
        }
    }

    fn check_entry(&self, place: u64, met: &mut Met) {
        let record = match self.entry_at(place) {
            Ok(None) => return,
            Ok(Some((record, _))) => record,
            Err(error) => return met.fault(place, error.to_string()),
        };
        let Some(name) = catalogue::name_of(&self.media, record) else {
            return met.fault(place, format!("an entry leads to the damaged record at {record:#x}"));
        };
        let text = String::from_utf8_lossy(&name);
        if self.media.load(record) == crate::layout::STATE_FREE {
            met.fault(place, format!("an entry for `{text}` leads to the record at {record:#x}, which is free"));
        } else if !self.find_entry(&name).is_ok_and(|found| found == Some((place, record))) {
            met.fault(place, format!("an entry for `{text}` lies where that name does not lead"));
        }
    }

    fn check_blocks(&self, met: &mut Met) {
        for cluster in self.clusters() {
            match self.slab(cluster) {
                Err(error) => met.fault(cluster, error.to_string()),
                Ok(None) => {}
                Ok(Some(slab)) if slab.kind == Kind::Record => {}
                Ok(Some(slab)) => {
                    for at in slab.blocks() {
                        let reached = met.blocks.contains(&Block { kind: slab.kind, at });
                        match slab.is_taken(&self.media, at) {
                            Ok(taken) if taken == reached => {}
                            Ok(true) => {
                                let detail = format!("a {:?} is marked as taken and nothing leads to it", slab.kind);
                                met.faults.push((FindingKind::Leak, at, detail));
                            }
                            Ok(false) => met.fault(at, format!("a {:?} is in use and not marked as taken", slab.kind)),
                            Err(word) => {
                                met.fault(word, "a word of the bits of blocks fails its check bits".into());
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Met {
    fn fault(&mut self, at: u64, detail: String) {
        self.faults.push((FindingKind::Damage, at, detail));
    }
}
