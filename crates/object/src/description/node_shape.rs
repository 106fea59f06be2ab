//! [`NodeShape`]: layout of the nodes of an ordered map, as descriptions give it.

/// The largest number of entries of a node.
pub(crate) const MOST_CAP: usize = 31;

/// Bytes of a node before its entries.
const HEAD: u64 = 8;

/// Layout of the nodes of an ordered map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeShape {
    /// Offset of the entries.
    pub entries: u64,
    /// Bytes of an entry.
    pub size: u64,
    /// Entries that have room.
    pub most: u64,
    /// Offset of the edges, in nodes that have some.
    pub edges: u64,
}

impl NodeShape {
    /// The layout that a description gives, if it is possible.
    pub(crate) fn new(entries: u64, size: u64, most: u64, edges: u64) -> Option<NodeShape> {
        let shape = NodeShape { entries, size, most, edges };
        let fits = entries >= HEAD && (1..=MOST_CAP as u64).contains(&most) && shape.leaf() <= edges;
        fits.then_some(shape)
    }

    /// Bytes of a leaf.
    pub(crate) fn leaf(&self) -> u64 {
        self.most.saturating_mul(self.size).saturating_add(self.entries)
    }

    /// Bytes of a node above the leaves.
    pub(crate) fn inner(&self) -> u64 {
        self.most.saturating_add(1).saturating_mul(8).saturating_add(self.edges)
    }
}
