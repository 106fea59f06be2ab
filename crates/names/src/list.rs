//! Names in order: all, or those with a prefix.

use crate::layout::{Block, BlockKind};
use crate::trie::{Trie, child_at};
use crate::{NAME_MAX, Records, Result};

impl<R: Records> Trie<R> {
    /// The records whose names begin with `prefix`, ordered by name.
    ///
    /// # Errors
    /// [`crate::Damaged`].
    pub fn list(&self, prefix: &[u8]) -> Result<Vec<u64>> {
        let mut found = Vec::new();
        // A bound on the visited blocks: damage may lead in circles.
        let mut left = (self.backed - self.start) / 64;
        // The blocks that are still to be visited, the first in order last, each with the bytes
        // that lead to it. A list instead of calls: damage decides how deep the trie is.
        let root = self.child(self.root_word())?;
        let mut next: Vec<(Block, Vec<u8>)> = root.into_iter().map(|root| (root, Vec::new())).collect();
        while let Some((block, path)) = next.pop() {
            left = left.checked_sub(1).ok_or_else(|| self.damaged(block.at, "the trie leads in circles".into()))?;
            match block.kind {
                BlockKind::Container => self.list_container(block.at, prefix, &mut found)?,
                _ => self.children_below(block.at, path, prefix, &mut next)?,
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

    /// Adds the children of a node that may lead to names with `prefix`, the last first.
    fn children_below(&self, node: u64, path: Vec<u8>, prefix: &[u8], next: &mut Vec<(Block, Vec<u8>)>) -> Result<()> {
        let (head, mut path) = (self.node_head(node)?, path);
        path.extend(&head.skip[..head.skip_len as usize]);
        // A path that is shorter than the prefix has one child that leads to names with the prefix.
        if path.iter().zip(prefix).any(|(one, other)| one != other) {
            return Ok(());
        }
        let bytes = match prefix.get(path.len()) {
            Some(&byte) => byte..=byte,
            None => 0..=255,
        };
        for byte in bytes.rev() {
            if let Some(child) = self.child(child_at(node, byte))? {
                if path.len() > NAME_MAX {
                    return Err(self.damaged(node, "the trie is deeper than names are long".into()));
                }
                next.push((child, [&path[..], &[byte]].concat()));
            }
        }
        Ok(())
    }
}
