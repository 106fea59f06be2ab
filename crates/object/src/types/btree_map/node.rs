//! [`Node`]: a block of a B-tree, as addresses. Format: docs/formats/object.md.
//!
//! A node holds entries in the order of their keys, at least one. Above the leaves it also holds
//! edges, one more than entries: edge `i` leads to the node whose keys lie before entry `i`, the
//! last one to that whose keys lie behind all. Small changes shift the entries behind them; large
//! ones unload a node, deal its contents out, and load nodes again.
//!
//! Invariants
//!   BMAP-1  A place of a node that held an entry or an edge before the transaction and holds none
//!           now is logged. So a place behind the last one can be stored to unlogged.

use crate::description::node_shape::{MOST_CAP, NodeShape};
use crate::transaction::running::Running;
use crate::types::entry::MapEntry;
use crate::{MemPool, PSafe, transaction::pool};
use everbyte_media::seeded;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr;

/// Cache lines that a leaf may fill, unless that is too little for [`LEAST_CAP`] entries.
const LINES: usize = 4;
const LEAST_CAP: usize = 5;

/// A node of a map. Its holder has borrowed the map: to read, or mutably if it changes the node.
pub(super) struct Node<K, V, P> {
    at: *mut u8,
    marker: PhantomData<(*mut MapEntry<K, V>, P)>,
}

impl<K, V, P> Clone for Node<K, V, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V, P> Copy for Node<K, V, P> {}

impl<K, V, P> PartialEq for Node<K, V, P> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

/// The first word of a node.
#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    len: u32,
    /// 0 in leaves, one more in each level above.
    level: u32,
}

/// Entries and edges taken out of nodes, to be put into others.
pub(super) struct Contents<K, V> {
    pub entries: Vec<MapEntry<K, V>>,
    /// None in leaves, else one more than there are entries.
    pub edges: Vec<u64>,
}

/// An entry, and the node whose keys lie between it and the next one; 0 in leaves.
pub(super) struct Pair<K, V> {
    pub entry: MapEntry<K, V>,
    pub edge: u64,
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Node<K, V, P> {
    /// Offset of the entries, behind the head.
    const ENTRIES: usize = if align_of::<MapEntry<K, V>>() > 8 { 16 } else { 8 };
    /// Entries that fit.
    pub(super) const CAP: usize = {
        let fit = (LINES * 64 - Self::ENTRIES) / (MapEntry::<K, V>::SIZE + (MapEntry::<K, V>::SIZE == 0) as usize);
        match fit {
            ..=LEAST_CAP => LEAST_CAP,
            MOST_CAP.. => MOST_CAP,
            _ => fit,
        }
    };
    /// With fewer entries it is filled up from its neighbour, or joined with it.
    pub(super) const POOR: usize = (Self::CAP - 1) / 2;
    /// Bytes of a leaf.
    const LEAF: usize = Self::ENTRIES + Self::CAP * MapEntry::<K, V>::SIZE;
    /// Offset of the edges.
    const EDGES: usize = Self::LEAF.next_multiple_of(8);
    /// Bytes of a node above the leaves.
    const INNER: usize = Self::EDGES + (Self::CAP + 1) * 8;
    /// Layout of a node.
    pub(super) const SHAPE: NodeShape = NodeShape {
        entries: Self::ENTRIES as u64,
        size: MapEntry::<K, V>::SIZE as u64,
        most: Self::CAP as u64,
        edges: Self::EDGES as u64,
    };

    /// The node at `offset` from the pool's base.
    #[inline(always)]
    pub(super) fn new(offset: u64) -> Self {
        Node::at(pool::base::<P>().wrapping_add(offset as usize))
    }

    /// The node at an address.
    #[inline(always)]
    pub(super) fn at(at: *mut u8) -> Self {
        Node { at, marker: PhantomData }
    }

    /// Offset of the node, from the pool's base.
    pub(super) fn offset(self) -> u64 {
        (self.at as usize).wrapping_sub(pool::base::<P>() as usize) as u64
    }

    /// A node without entries, of this transaction's own.
    pub(super) fn make(level: u32, running: &Running) -> Self {
        let node = Node::new(running.allocate_bytes(if level == 0 { Self::LEAF } else { Self::INNER }));
        // SAFETY: the first word of a new block.
        unsafe { node.head().write(Head { len: 0, level }) };
        node
    }

    /// A node without entries above this one, which becomes its only child.
    pub(super) fn above(self, running: &Running) -> Self {
        let above = Node::make(self.level() + 1, running);
        // SAFETY: an edge's place in a new block.
        unsafe { above.edge(0).write(self.offset()) };
        above
    }

    #[inline(always)]
    fn head(self) -> *mut Head {
        self.at.cast()
    }

    #[inline(always)]
    pub(super) fn level(self) -> u32 {
        // SAFETY: the first word of the block; a change of it borrows the map mutably.
        unsafe { (*self.head()).level }
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        // SAFETY: as in `level`.
        unsafe { (*self.head()).len as usize }
    }

    fn set_len(self, len: usize) {
        // SAFETY: as in `level`; the map is borrowed mutably.
        unsafe { (*self.head()).len = len as u32 };
    }

    /// Offset of an entry.
    #[inline(always)]
    pub(super) fn entry(self, index: usize) -> *mut MapEntry<K, V> {
        self.at.wrapping_add(Self::ENTRIES + index * MapEntry::<K, V>::SIZE).cast()
    }

    /// Offset of an edge.
    #[inline(always)]
    fn edge(self, index: usize) -> *mut u64 {
        self.at.wrapping_add(Self::EDGES + index * 8).cast()
    }

    /// The node under an edge of a node above the leaves.
    #[inline(always)]
    pub(super) fn child(self, index: usize) -> Self {
        // SAFETY: one of `len + 1` edges; a change of them borrows the map mutably.
        Node::new(unsafe { self.edge(index).read() })
    }

    /// Edges there are.
    pub(super) fn edges(self) -> usize {
        if self.level() == 0 { 0 } else { self.len() + 1 }
    }

    /// The entry that `order` calls equal, or where it would lie.
    #[inline]
    pub(super) fn search(self, order: impl Fn(&K) -> Ordering) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            // SAFETY: the key of an entry; a change of entries borrows the map mutably.
            match order(unsafe { &(*self.entry(middle)).key }) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// All bytes that are in use.
    pub(super) fn whole(self) -> [(*mut u8, usize); 2] {
        let entries = Self::ENTRIES + self.len() * MapEntry::<K, V>::SIZE;
        [(self.at, entries), (self.edge(0).cast(), self.edges() * 8)]
    }

    /// The head, and the bytes from entry `index` and from the edge behind it on.
    pub(super) fn from(self, index: usize) -> [(*mut u8, usize); 3] {
        let entries = if seeded("object-tree-shift-unnoted") { 0 } else { self.len() - index };
        let edges = self.edges().saturating_sub(index + 1);
        let entries = (self.entry(index).cast(), entries * MapEntry::<K, V>::SIZE);
        [(self.at, 8), entries, (self.edge(index + 1).cast(), edges * 8)]
    }

    /// Puts a pair before entry `index` of a node with free places. The caller has logged the bytes
    /// from there on.
    pub(super) fn put(self, index: usize, pair: Pair<K, V>, running: &Running) {
        let (len, edges) = (self.len(), self.edges());
        // BMAP-1
        running.overwrite(running.offset_of(self.entry(len)), MapEntry::<K, V>::SIZE as u64);
        if edges > 0 {
            running.overwrite(running.offset_of(self.edge(edges)), 8);
        }
        // SAFETY: entries, and the place behind the last one.
        unsafe { ptr::copy(self.entry(index), self.entry(index + 1), len - index) };
        // SAFETY: its entry has moved.
        unsafe { self.entry(index).write(pair.entry) };
        if edges > 0 {
            // SAFETY: edges, and the place behind the last one.
            unsafe { ptr::copy(self.edge(index + 1), self.edge(index + 2), len - index) };
            // SAFETY: its edge has moved.
            unsafe { self.edge(index + 1).write(pair.edge) };
        }
        self.set_len(len + 1);
    }

    /// Takes entry `index` and the edge behind it out. The caller has logged the bytes from there
    /// on.
    pub(super) fn take(self, index: usize) -> MapEntry<K, V> {
        let (len, edges) = (self.len(), self.edges());
        // SAFETY: an entry, which is not read there again.
        let entry = unsafe { self.entry(index).read() };
        // SAFETY: the entries behind it.
        unsafe { ptr::copy(self.entry(index + 1), self.entry(index), len - index - 1) };
        if edges > 0 {
            // SAFETY: the edges behind the one that goes.
            unsafe { ptr::copy(self.edge(index + 2), self.edge(index + 1), len - index - 1) };
        }
        self.set_len(len - 1);
        entry
    }

    /// Takes everything out; the node is to be loaded again, or to be freed.
    pub(super) fn unload(self) -> Contents<K, V> {
        // SAFETY: entries, which are not read there again.
        let entries = (0..self.len()).map(|index| unsafe { self.entry(index).read() });
        let edges = (0..self.edges()).map(|index| self.child(index).offset());
        Contents { entries: entries.collect(), edges: edges.collect() }
    }

    /// Puts `contents` into a node that is new, or logged whole and unloaded.
    pub(super) fn load(self, contents: Contents<K, V>, running: &Running) {
        let Contents { entries, edges } = contents;
        self.set_len(entries.len());
        running.overwrite(self.offset(), (Self::ENTRIES + entries.len() * MapEntry::<K, V>::SIZE) as u64);
        for (index, entry) in entries.into_iter().enumerate() {
            // SAFETY: a place of the node that holds nothing.
            unsafe { self.entry(index).write(entry) };
        }
        if !edges.is_empty() {
            running.overwrite(running.offset_of(self.edge(0)), edges.len() as u64 * 8);
        }
        for (index, edge) in edges.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { self.edge(index).write(edge) };
        }
    }
}

impl<K, V> Contents<K, V> {
    /// Puts a pair before entry `index`.
    pub(super) fn insert(&mut self, index: usize, pair: Pair<K, V>) {
        self.entries.insert(index, pair.entry);
        if pair.edge != 0 {
            self.edges.insert(index + 1, pair.edge);
        }
    }

    /// Adds an entry, and the contents behind it.
    pub(super) fn join(&mut self, between: MapEntry<K, V>, mut behind: Contents<K, V>) {
        self.entries.push(between);
        self.entries.append(&mut behind.entries);
        self.edges.append(&mut behind.edges);
    }

    /// Keeps `len` entries; answers the one behind them, and the rest.
    pub(super) fn split(&mut self, len: usize) -> (MapEntry<K, V>, Contents<K, V>) {
        let entries = self.entries.split_off(len + 1);
        let edges = self.edges.split_off((len + 1).min(self.edges.len()));
        let between = self.entries.pop().expect("an entry behind those that are kept");
        (between, Contents { entries, edges })
    }
}
