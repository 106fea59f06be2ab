//! Names in order, all or those with a prefix.

use super::layout::{Block, Kind};
use super::trie::{Trie, child_at};
use crate::Result;

impl Trie {
    /// The records whose names begin with `prefix`, ordered by name.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`].
    pub(crate) fn list(&self, prefix: &[u8]) -> Result<Vec<u64>> {
        let mut found = Vec::new();
        // Bounds the blocks visited: damage may lead in circles.
        let mut left = (self.backed - self.entry.span.at()) / 64;
        // What is still to be visited, the first in order last, each with the way to it. A list
        // rather than calls: media decide how deep the trie is.
        let root = self.child(self.root_word())?;
        let mut next: Vec<(Block, Vec<u8>)> = root.into_iter().map(|root| (root, Vec::new())).collect();
        while let Some((block, way)) = next.pop() {
            left = left.checked_sub(1).ok_or_else(|| self.damaged(block.at, "the trie leads in circles".into()))?;
            match block.kind {
                Kind::Container => self.list_container(block.at, prefix, &mut found)?,
                _ => self.children_below(block.at, way, prefix, &mut next)?,
            }
        }
        Ok(found)
    }

    fn list_container(&self, container: u64, prefix: &[u8], found: &mut Vec<u64>) -> Result<()> {
        let mut names = self.names_in(container)?;
        names.retain(|(_, name)| name.starts_with(prefix));
        names.sort_by(|(_, one), (_, other)| one.cmp(other));
        found.extend(names.into_iter().map(|(record, _)| record));
        Ok(())
    }

    /// Adds the children of a node that may lead to names with `prefix`, last first.
    fn children_below(&self, node: u64, way: Vec<u8>, prefix: &[u8], next: &mut Vec<(Block, Vec<u8>)>) -> Result<()> {
        let (head, mut way) = (self.node_head(node)?, way);
        way.extend(&head.skip[..head.skip_len as usize]);
        // Where the way is shorter than the prefix only one child can lead to names that have it.
        if way.iter().zip(prefix).any(|(one, other)| one != other) {
            return Ok(());
        }
        let bytes = match prefix.get(way.len()) {
            Some(&byte) => byte..=byte,
            None => 0..=255,
        };
        for byte in bytes.rev() {
            if let Some(child) = self.child(child_at(node, byte))? {
                if way.len() > crate::NAME_MAX {
                    return Err(self.damaged(node, "the trie is deeper than names are long".into()));
                }
                next.push((child, [&way[..], &[byte]].concat()));
            }
        }
        Ok(())
    }
}
