//! [`NodeShape`]: layout of the nodes of an ordered map, as descriptions give it.

use crate::description::described::{Described, bare};

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
    fn new(entries: u64, size: u64, most: u64, edges: u64) -> Option<NodeShape> {
        let shape = NodeShape { entries, size, most, edges };
        let fits = entries >= HEAD && (1..=MOST_CAP as u64).contains(&most) && shape.leaf() <= edges;
        fits.then_some(shape)
    }

    /// The layout that a description gives for the nodes of the ordered map called `map`.
    pub(crate) fn described(described: &Described, map: &str) -> Option<NodeShape> {
        let line = |part: &str| described.line(&format!("{}::{part}", bare(map)));
        let (entry, node) = (line("Entry")?, line("Node")?);
        let field = |label: &str| node.fields.iter().find(|field| field.label == label);
        let (entries, edges) = (field("entries")?, field("edges")?);
        let most = entries.of.strip_suffix(']')?.rsplit_once("; ")?.1.parse().ok()?;
        NodeShape::new(entries.offset as u64, entry.size as u64, most, edges.offset as u64)
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
