//! The trie of names: looking one up, and walking to where a change is to be made.
//!
//! A name is followed byte by byte, and ends with a zero, which no name holds. A *node* has a child
//! for each byte, behind a *skip* that all names below share; a *container* has up to sixteen
//! entries in no order, each a record's place and a tag of its name. The names themselves stand in
//! the records.
//!
//! Invariants
//!   NAMES-1  What a word leads to was written, and its block marked as taken, behind a fence
//!            before the word was stored; it is freed behind a fence after the word was.
//!   NAMES-2  An entry's record is in use, or in flight (`doubt`), and has the name that leads to
//!            the entry.
//!
//! Threads: under the lock of the object table.

use super::burst_policy::Heats;
use super::layout::{Block, CONTAINER, Head, Kind, NODE_HEAD, NodeHead, head, may_have_tag, of_entry_word, tag};
use super::slab::Slabs;
use crate::catalogue::{self, Entry};
use crate::{CLUSTER, Error, Result, object};
use everbyte_media::Media;
use everbyte_media::sums_agree;
use std::mem::offset_of;
use std::ops::Range;

/// The name space on media, as this process knows it.
pub(crate) struct Trie {
    pub(super) media: Media,
    /// The object that holds it.
    pub(crate) entry: Entry,
    /// One past its last cluster.
    pub(crate) backed: u64,
    /// The records that every store has, outside of the object.
    pub(super) table: Range<u64>,
    /// Free blocks, once they are asked for.
    pub(super) slabs: Option<Slabs>,
    /// How containers are found.
    pub(super) heats: Heats,
    /// Flight words in use, as a mask.
    pub(super) flights: u64,
    /// Whether an earlier process died: what is read is flushed before anything is built on it
    /// (STORE-8).
    pub(super) adopting: bool,
}

/// The way that a name leads.
pub(super) struct Walk {
    /// The nodes passed, each with the word that led to it.
    pub above: Vec<(u64, u64)>,
    /// The word behind the last of them.
    pub word: u64,
    /// Bytes of the name that are spent.
    pub depth: usize,
    pub end: End,
}

/// Where a way ends.
pub(super) enum End {
    Empty,
    Container(u64),
    /// A node whose skip has only so many bytes in common with the name.
    Apart(u64, NodeHead, usize),
}

/// The byte of a name at a depth; behind its end a zero.
pub(super) fn byte(name: &[u8], depth: usize) -> u8 {
    name.get(depth).copied().unwrap_or(0)
}

impl Trie {
    pub(crate) fn new(media: Media, entry: Entry, backed: u64, table: Range<u64>, adopting: bool) -> Trie {
        Trie { media, entry, backed, table, slabs: None, heats: Heats::default(), flights: 0, adopting }
    }

    /// The name space that the object `entry` holds.
    ///
    /// # Errors
    /// Where it is damaged, and how.
    pub(crate) fn open(media: Media, entry: Entry, table: Range<u64>, adopting: bool) -> Result<Trie, (u64, String)> {
        let extent = object::read_header(&media, &entry)?;
        let at = entry.span.at() + head::AT;
        if !media.holds(entry.span.at(), extent.backed - entry.span.at()) {
            return Err((at, format!("the file ends at {:#x}, before it does", media.len())));
        }
        let found: Head = media.get(at);
        if found != Head::new() {
            return Err((at, "its head is none of this format".into()));
        }
        Ok(Trie::new(media, entry, extent.backed, table, adopting))
    }

    /// Whether an earlier process died.
    pub(crate) fn is_adopting(&self) -> bool {
        self.adopting
    }

    pub(super) fn root_word(&self) -> u64 {
        self.entry.span.at() + head::ROOT
    }

    /// The record of this name, in whatever state it is.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub(crate) fn find(&mut self, name: &[u8]) -> Result<Option<u64>> {
        // What the quick way finds is proved by the name in the record; what it does not find may
        // be damage.
        let found = match self.find_quickly(name).filter(|_| !self.adopting) {
            Some(found) => Some(found),
            None => self.find_entry(name)?,
        };
        if let Some((place, _)) = found {
            self.heats.note(place, name);
        }
        Ok(found.map(|(_, record)| record))
    }

    /// [`Trie::find_entry`] without a look at checks of nodes and their words, or at entries that
    /// cannot be it. What a lookup costs is waiting for memory: a node's child is not waited for
    /// behind its head where there is no skip between them.
    fn find_quickly(&self, name: &[u8]) -> Option<(u64, u64)> {
        let (mut word, mut depth) = (self.root_word(), 0);
        let wanted = tag(name);
        while depth <= name.len() {
            let block = Block::of_unchecked(self.media.load(word))?;
            if !self.holds(block.at, block.kind.size()) {
                return None;
            }
            let Block { kind: Kind::Node, at: node } = block else { return self.find_tagged(block.at, name, wanted) };
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
            catalogue::has_name(&self.media, record, name).then_some((place, record))
        };
        places(container).find_map(named)
    }

    /// The place of the entry of this name, and its record.
    pub(super) fn find_entry(&self, name: &[u8]) -> Result<Option<(u64, u64)>> {
        let End::Container(at) = self.walk(name)?.end else { return Ok(None) };
        self.find_in(at, name)
    }

    pub(super) fn find_in(&self, container: u64, name: &[u8]) -> Result<Option<(u64, u64)>> {
        let wanted = tag(name);
        for place in places(container) {
            let Some((record, tag)) = self.entry_at(place)? else { continue };
            if tag == wanted && catalogue::has_name(&self.media, record, name) {
                if self.adopting {
                    self.media.adopt(place, 8);
                }
                return Ok(Some((place, record)));
            }
        }
        Ok(None)
    }

    /// Follows a name as far as it leads.
    pub(super) fn walk(&self, name: &[u8]) -> Result<Walk> {
        let mut walk = Walk { above: Vec::new(), word: self.root_word(), depth: 0, end: End::Empty };
        loop {
            if self.adopting {
                self.media.adopt(walk.word, 8);
            }
            let node = match self.child(walk.word)? {
                None => return Ok(walk),
                Some(Block { kind: Kind::Node, at }) => at,
                Some(Block { at, .. }) => return Ok(Walk { end: End::Container(at), ..walk }),
            };
            if walk.depth > name.len() {
                return Err(self.damaged(walk.word, "a node behind the end of a name".into()));
            }
            let head = self.node_head(node)?;
            let skip = &head.skip[..head.skip_len as usize];
            let common = skip.iter().zip(&name[walk.depth..]).take_while(|(one, other)| one == other).count();
            if common < skip.len() {
                return Ok(Walk { end: End::Apart(node, head, common), ..walk });
            }
            walk.above.push((node, walk.word));
            walk.depth += common;
            walk.word = child_at(node, byte(name, walk.depth));
            walk.depth += 1;
        }
    }

    /// What the word of a child says.
    pub(super) fn child(&self, word: u64) -> Result<Option<Block>> {
        match self.media.load(word) {
            0 => Ok(None),
            found => match Block::of_word(found).filter(|block| self.holds(block.at, block.kind.size())) {
                Some(block) => Ok(Some(block)),
                None => Err(self.damaged(word, format!("{found:#018x} is no child"))),
            },
        }
    }

    /// The record and the tag that an entry speaks of; `None`: it is empty.
    pub(super) fn entry_at(&self, place: u64) -> Result<Option<(u64, u64)>> {
        match self.media.load(place) {
            0 => Ok(None),
            found => match of_entry_word(found).filter(|(record, _)| self.is_record(*record)) {
                Some(entry) => Ok(Some(entry)),
                None => Err(self.damaged(place, format!("{found:#018x} is no entry"))),
            },
        }
    }

    pub(super) fn node_head(&self, node: u64) -> Result<NodeHead> {
        let head: NodeHead = self.media.get(node);
        let good = sums_agree(head.checksum, head.sum()) && head.skip_len as usize <= head.skip.len();
        if good { Ok(head) } else { Err(self.damaged(node, "a node's checksum is wrong".into())) }
    }

    /// Stores a word and flushes it; no fence.
    pub(super) fn set_word(&self, at: u64, value: u64) {
        let _section = self.media.section();
        self.media.store(at, value);
        self.media.flush(at, 8);
    }

    /// Whether a block can lie there.
    fn holds(&self, at: u64, len: u64) -> bool {
        at >= self.entry.span.at() + 4096 && at.saturating_add(len) <= self.backed && self.media.holds(at, len)
    }

    /// Whether a record can lie there.
    pub(super) fn is_record(&self, at: u64) -> bool {
        let len = Kind::Record.size();
        at.is_multiple_of(len) && (self.table.contains(&at) && self.media.holds(at, len) || self.holds(at, len))
    }

    pub(super) fn damaged(&self, at: u64, detail: String) -> Error {
        Error::Damaged { path: self.media.path().into(), what: "the name space", at, detail }
    }

    /// The clusters that are there, in order.
    pub(super) fn clusters(&self) -> impl Iterator<Item = u64> + use<> {
        (self.entry.span.at()..self.backed).step_by(CLUSTER as usize)
    }
}

/// The places of a container's entries.
pub(super) fn places(container: u64) -> impl Iterator<Item = u64> {
    (0..CONTAINER).map(move |index| container + index * 8)
}

/// Where a node's child for `byte` lies.
pub(super) fn child_at(node: u64, byte: u8) -> u64 {
    node + NODE_HEAD + u64::from(byte) * 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CLUSTER;
    use crate::{FormatOptions, ObjectOptions, Store};
    use everbyte_media::Options;

    #[test]
    fn a_node_that_leads_to_itself_is_damage() {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
        store.index_names().unwrap();
        let options = ObjectOptions { span: Some(CLUSTER), ..ObjectOptions::default() };
        for name in (0..100).map(|number| format!("{number:02}")) {
            drop(store.create_small_object(&name, options, |_| Ok::<(), Error>(())).unwrap());
        }
        {
            let table = store.inner.table.lock();
            let trie = table.trie.as_ref().unwrap();
            let root = trie.root_word();
            let Some(Block { kind: Kind::Node, at }) = trie.child(root).unwrap() else { panic!("a hundred names") };
            [0, b'x'].iter().for_each(|&byte| media.store(child_at(at, byte), media.load(root)));
        }
        for name in ["x", "xxxxxxxx", "xx7"] {
            assert!(matches!(store.find_on_media(name), Err(Error::Damaged { .. }) | Ok(None)), "{name}");
        }
        assert!(store.find_on_media("07").unwrap().is_some());
        // Listing, checking, repairing and opening need no stack for the depth that media pretend.
        let walks = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
            assert!(matches!(store.names(""), Err(Error::Damaged { .. })));
            assert!(store.check().iter().any(|finding| finding.detail.contains("two words lead")));
            store.repair().unwrap(); // which the records alone decide
            drop(store);
            Store::attach(media).map(drop).unwrap();
        });
        walks.unwrap().join().unwrap();
    }
}
