//! Finding the leaves of a damaged tree. Reads only; never panics on what it finds.
//!
//! Step by step:
//!   1. the walk from the root: leaves below nodes without a fault are *found*, each with its range
//!   2. below a node with a fault no range and no stamp is believed: visible leaves are *loose*,
//!      ended ones *dead*
//!   3. on demand, the scan of the heap: leaves that no walk has reached are loose, unless another
//!      inner node says that they have ended
//!
//! Invariants
//!   SALVAGE-1  An entry is handed out only if its record's sums hold, its value's too.
//!   SALVAGE-2  A leaf in which any sum holds is found, loose or dead, whatever happened to the
//!              nodes above it.
//!   SALVAGE-3  A walk ends: levels fall at each step, and a node is entered once.

use crate::error::Result;
use crate::tree::handle::Tree;
use crate::tree::hash::OffsetSet;
use crate::tree::key::{TABLE_LEN, TableNumber};
use crate::tree::layout::*;
use crate::tree::node::{Node, head_of};
use crate::tree::number::Version;
use crate::tree::pins::Published;
use crate::tree::sum::Sum;
use crate::tree::version::{Held, View, Voids};
use crate::tree::voids::load_voids;
use everbyte_heap::Heap;
use everbyte_media::{Checked, ErrorInfo, LINE, Media};
use everbyte_store::Object;
use std::rc::Rc;
use std::sync::Arc;

/// A border of a range of full keys; `None`: there is none.
pub(crate) type Border = Option<Rc<[u8]>>;

/// A child's separator, and its offset.
type Below = (Rc<[u8]>, u64);

/// A range of full keys in which entries may be lost, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct TreeLoss {
    pub at: u64,
    pub low: Border,
    pub high: Border,
    pub detail: String,
}

/// A leaf, and the range of full keys that its parents give it.
#[derive(Clone)]
pub(crate) struct LeafPlace {
    pub at: u64,
    pub birth: Version,
    low: Border,
    high: Border,
}

/// An entry of a leaf. Its key has been verified.
pub(crate) struct LeafEntry {
    pub table: TableNumber,
    pub key: Vec<u8>,
    slot: Slot,
}

/// A tree of which parts may be damaged.
pub(crate) struct Wreck {
    object: Object,
    media: Media,
    view: View,
    /// The newest committed version, if a state says so.
    pub newest: Option<Published>,
    /// Keeps the tree open, if it could be opened.
    tree: Option<Tree>,
    /// In the order of keys.
    pub found: Vec<LeafPlace>,
    pub loose: Vec<LeafPlace>,
    pub dead: Vec<LeafPlace>,
    pub losses: Vec<TreeLoss>,
    seen: OffsetSet,
    /// Children that an inner node calls ended.
    ended: OffsetSet,
}

impl Wreck {
    /// Opens the tree of `object` as far as that is possible.
    pub(crate) fn open(object: &Object) -> Wreck {
        let media = object.media().clone();
        let (mut losses, mut tree) = (Vec::new(), None);
        let (newest, voids) = match Tree::open(object.clone()) {
            Ok(opened) => {
                let newest = opened.shared.writer.lock().committed;
                let voids = Voids::clone(&opened.shared.voids.load());
                tree = Some(opened);
                (Some(newest), voids)
            }
            Err(error) => {
                let at = error.damage().and_then(|damage| damage.offset).unwrap_or(object.prime().get());
                losses.push(TreeLoss { at, low: None, high: None, detail: error.to_string() });
                let newest = newest_state(object);
                let header: TreeHeader = media.get(object.prime() + crate::tree::format::HEADER_AT);
                let version = newest.map_or(Version::NONE, |newest| newest.version);
                let area = Some(header.area).filter(|area| area.is_aligned(8) && media.holds(*area, AREA));
                let voids = area.and_then(|area| load_voids(&media, area.get(), version).ok());
                (newest, voids.unwrap_or_default())
            }
        };
        // Without a state every entry that has begun and has not ended counts.
        let version = newest.map_or(Version::new((1 << 62) - 1), |newest| newest.version);
        let view = View::new(version, Held::Owned(Arc::new(voids)));
        let mut wreck = Wreck {
            object: object.clone(),
            media,
            view,
            newest,
            tree,
            found: Vec::new(),
            loose: Vec::new(),
            dead: Vec::new(),
            losses,
            seen: OffsetSet::default(),
            ended: OffsetSet::default(),
        };
        if let Some(root) = newest.map(|newest| newest.root) {
            wreck.descend(root, None, None, None);
        }
        wreck
    }

    fn lose(&mut self, at: u64, low: &Border, high: &Border, detail: impl Into<String>) {
        self.losses.push(TreeLoss { at, low: low.clone(), high: high.clone(), detail: detail.into() });
    }

    fn is_future(&self, stamp: Version) -> bool {
        stamp > self.view.version && !self.view.void(stamp)
    }

    /// Walks a subtree whose parents have no fault. `level`: that of the node; `None`: any.
    fn descend(&mut self, at: u64, level: Option<u8>, low: Border, high: Border) {
        if !self.seen.insert(at) {
            return self.lose(at, &low, &high, "two nodes lead to this one");
        }
        let heap = self.tree.as_ref().map(|tree| &tree.shared.heap);
        if heap.is_some_and(|heap| !heap.is_allocated(at, LINE)) {
            self.seen.remove(&at);
            return self.lose(at, &low, &high, "a child is no allocated block");
        }
        let media = self.media.clone();
        let node = match open(&media, at, level) {
            Ok(node) => node,
            Err(error) => {
                let place = error.damage().and_then(|damage| damage.offset).unwrap_or(at);
                return self.lose(place, &low, &high, error.to_string());
            }
        };
        if node.is_leaf() {
            let leaf = LeafPlace { at, birth: node.birth(), low, high };
            return self.found.push(leaf);
        }
        let below = match self.children(&node, &low, &high) {
            Ok(below) => below,
            Err(detail) => {
                self.lose(at, &low, &high, detail);
                return self.gather(&node, true);
            }
        };
        self.gather(&node, false);
        for (index, (key, child)) in below.iter().enumerate() {
            let low = if index == 0 { low.clone() } else { Some(Rc::clone(key)) };
            let high = below.get(index + 1).map(|next| Rc::clone(&next.0)).or_else(|| high.clone());
            self.descend(*child, Some(node.level - 1), low, high);
        }
    }

    /// The visible children of an inner node, by their separators; or its fault.
    fn children(&self, node: &Node<'_>, low: &Border, high: &Border) -> Result<Vec<Below>, String> {
        if !self.media.get::<NodeHeader>(node.at).checksum_agrees() {
            return Err("a node's header fails its checksum".into());
        }
        let prefix = node.prefix(&mut [0; PREFIX_MAX]).to_vec();
        let (mut below, mut named) = (Vec::new(), Vec::new());
        node.visible(&self.view, &mut named).map_err(|error| error.to_string())?;
        for index in 0..node.count() {
            let slot = node.slot(index);
            if self.is_future(slot.start) || self.is_future(slot.end) {
                return Err("the stamp of a child is in the future".into());
            }
            if !self.view.sees(slot.start, slot.end) {
                continue;
            }
            let mut key = Vec::new();
            node.key_into(&slot, &mut key).map_err(|error| error.to_string())?;
            let sum = node.record_sum(&slot).map_err(|error| error.to_string())?;
            if Sum::NONE.and(&key).value() != sum || node.head(index) != head_of(&key, &prefix) {
                return Err("a separator fails its checksum".into());
            }
            below.push((Rc::from(key), slot.value));
        }
        below.sort();
        let outside = |(index, (key, _)): (usize, &Below)| {
            (index > 0 && low.as_ref().is_some_and(|low| key < low)) || high.as_ref().is_some_and(|high| key >= high)
        };
        if below.is_empty() || named.len() != below.len() {
            return Err("children are missing from a node".into());
        }
        if below.windows(2).any(|two| two[0].0 == two[1].0) || below.iter().enumerate().any(outside) {
            return Err("separators contradict each other".into());
        }
        Ok(below)
    }

    /// Lists the leaves below a node of which no range is believed: below ended children, and with
    /// `all` below the others too.
    fn gather(&mut self, node: &Node<'_>, all: bool) {
        let media = self.media.clone();
        let first = node.at;
        let mut rest = vec![(first, false)];
        while let Some((at, is_dead)) = rest.pop() {
            let Ok(node) = Node::open(&media, at) else { continue };
            if node.is_leaf() {
                let leaf = LeafPlace { at, birth: node.birth(), low: None, high: None };
                if is_dead {
                    self.dead.push(leaf)
                } else {
                    self.loose.push(leaf)
                }
                continue;
            }
            let all = all || at != first;
            for slot in (0..node.count()).map(|index| node.slot(index)) {
                let ended = self.view.ended(slot.end);
                if !self.view.born(slot.start) || !(ended || is_dead || all) {
                    continue;
                }
                if ended {
                    self.ended.insert(slot.value);
                }
                let level = node.level - 1;
                if open(&media, slot.value, Some(level)).is_ok() && self.seen.insert(slot.value) {
                    rest.push((slot.value, is_dead || ended));
                }
            }
        }
    }

    /// Searches the heap for leaves that no walk has reached: those that have not ended are loose.
    pub(crate) fn scan(&mut self) {
        let media = self.media.clone();
        let mut blocks = Vec::new();
        let heap = match &self.tree {
            Some(tree) => Some(tree.shared.heap.clone()),
            None => Heap::open(self.object.clone()).ok(),
        };
        let listed = heap.as_ref().is_some_and(|heap| heap.blocks(|block| blocks.push(block.at.get())).is_ok());
        // Blocks that only damaged tables list are looked for line by line; freed nodes are among
        // them, which are older than those that replaced them.
        let is_whole = listed && self.tree.is_some();
        if !is_whole {
            let span = self.object.prime().get()..self.object.backed().get();
            blocks = span.step_by(LINE as usize).filter(|&at| media.holds(at, LINE)).collect();
        }
        let mut orphans = Vec::new();
        for at in blocks {
            let Ok(node) = Node::open(&media, at) else { continue };
            if !media.get::<NodeHeader>(at).checksum_agrees() || self.seen.contains(&at) {
                continue;
            }
            if node.is_leaf() {
                orphans.push(LeafPlace { at, birth: node.birth(), low: None, high: None });
                continue;
            }
            let slots = (0..node.count()).map(|index| node.slot(index));
            self.ended.extend(slots.filter(|slot| self.view.ended(slot.end)).map(|slot| slot.value));
        }
        for leaf in orphans {
            self.seen.insert(leaf.at);
            if self.ended.contains(&leaf.at) { self.dead.push(leaf) } else { self.loose.push(leaf) }
        }
    }

    /// The entries of a leaf whose keys are sound, in their order, each key once. Others are
    /// losses, unless the leaf is dead. None, if a key lies outside the leaf's range: it is loose
    /// then.
    pub(crate) fn entries(&mut self, leaf: &LeafPlace, is_dead: bool) -> Vec<LeafEntry> {
        let media = self.media.clone();
        let LeafPlace { at, low, high, .. } = leaf;
        let Ok(node) = Node::open(&media, *at) else { return Vec::new() };
        if !is_dead && !media.get::<NodeHeader>(*at).checksum_agrees() {
            self.lose(*at, low, high, "a leaf's header fails its checksum");
        }
        let (mut entries, mut strays) = (Vec::new(), false);
        let prefix = node.prefix(&mut [0; PREFIX_MAX]).to_vec();
        for index in 0..node.count() {
            let slot = node.slot(index);
            if (self.is_future(slot.start) || self.is_future(slot.end)) && !is_dead {
                self.lose(node.slot_at(index), low, high, "the stamp of an entry is in the future");
            }
            if !self.view.sees(slot.start, slot.end) {
                continue;
            }
            let mut full = Vec::new();
            let read = node.full_key_into(&slot, &mut full).and_then(|()| {
                let table = slot.table();
                node.verify_head(&slot, Sum::of_table(table).and(full.get(TABLE_LEN..).unwrap_or_default()))
            });
            let outside =
                low.as_ref().is_some_and(|low| *full < **low) || high.as_ref().is_some_and(|high| *full >= **high);
            match read {
                Ok(()) if !outside => {
                    // A slot that leads to the record of another entry.
                    let print = Sum::of_table(slot.table()).and(&full[TABLE_LEN..]).value() as u8;
                    let is_own = node.fingerprint(index) == print && node.head(index) == head_of(&full, &prefix);
                    if !is_own && !is_dead {
                        self.lose(node.slot_at(index), low, high, "a head or fingerprint is not that of its key");
                    }
                    entries.push(LeafEntry { table: slot.table(), key: full.split_off(TABLE_LEN), slot });
                }
                _ if is_dead => {}
                Ok(()) => {
                    strays = true;
                    self.lose(node.slot_at(index), low, high, "a key lies outside its leaf's range");
                }
                Err(error) => self.lose(node.slot_at(index), low, high, error.to_string()),
            }
        }
        // The range is wrong, or the way that led here: an older leaf may have taken the place of a
        // newer one.
        if strays {
            self.loose.push(LeafPlace { low: None, high: None, ..leaf.clone() });
            return Vec::new();
        }
        // Of two entries of one key, which only a damaged stamp leaves, the newer one counts.
        entries.sort_by(|one, two| {
            (one.table, &one.key).cmp(&(two.table, &two.key)).then(two.slot.start.cmp(&one.slot.start))
        });
        entries.dedup_by(|later, first| (later.table, &later.key) == (first.table, &first.key));
        entries
    }

    /// The value of an entry, verified together with its key; an entry that fails is a loss, unless
    /// the leaf is dead.
    pub(crate) fn value(&mut self, leaf: &LeafPlace, entry: &LeafEntry, is_dead: bool) -> Option<Vec<u8>> {
        let media = self.media.clone();
        let mut bytes = Vec::new();
        let read = Node::open(&media, leaf.at).and_then(|node| {
            let (key_len, value_len) = node.entry_into(&entry.slot, &mut bytes)?;
            let value_at = key_len.next_multiple_of(8);
            bytes.truncate(value_at + value_len);
            bytes.drain(..value_at);
            node.require_readable()
        });
        match read {
            Ok(()) => Some(bytes),
            Err(error) => {
                if !is_dead {
                    let full = [&entry.table.bytes()[..], &entry.key].concat();
                    let behind = [&full[..], &[0]].concat();
                    let at = error.damage().and_then(|damage| damage.offset).unwrap_or(leaf.at);
                    self.lose(at, &Some(full.into()), &Some(behind.into()), error.to_string());
                }
                None
            }
        }
    }
}

/// Opens a node of this level.
fn open(media: &Media, at: u64, level: Option<u8>) -> Result<Node<'_>> {
    let node = Node::open(media, at)?;
    match level {
        Some(level) if level != node.level => crate::error::damaged(at, "a child has the wrong level"),
        _ => Ok(node),
    }
}

/// The newest committed version by the states whose sums hold, the one that the commit word chooses
/// before the other.
fn newest_state(object: &Object) -> Option<Published> {
    let (media, header) = (object.media(), object.prime() + crate::tree::format::HEADER_AT);
    let commit = media.load(header + COMMIT_AT);
    let states = [commit & 1, 1 - (commit & 1)].map(|chosen| media.get::<State>(header + STATES_AT[chosen as usize]));
    let is_sound = |state: &State| state.version != 0 && state.version.get() >> 62 == 0 && state.checksum_agrees();
    let state = states.into_iter().find(is_sound)?;
    let chosen = Version::new(commit >> 1);
    let is_plausible = chosen >= state.version && chosen.get() >> 62 == 0;
    let version = if is_plausible { chosen } else { state.version };
    let keys = crate::tree::pins::KeyCounts { all: state.keys, main: state.main_keys };
    Some(Published { version, root: state.root.get(), keys })
}
