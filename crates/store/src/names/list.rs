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
        let mut left = (self.backed - self.entry.span.at()) / 64;
        if let Some(root) = self.child(self.root_word())? {
            self.list_below(root, &mut Vec::new(), prefix, &mut left, &mut found)?;
        }
        Ok(found)
    }

    /// `left` bounds the blocks visited: damage may lead in circles.
    fn list_below(
        &self,
        block: Block,
        way: &mut Vec<u8>,
        prefix: &[u8],
        left: &mut u64,
        found: &mut Vec<u64>,
    ) -> Result<()> {
        *left = left.checked_sub(1).ok_or_else(|| self.damaged(block.at, "the trie leads in circles".into()))?;
        if block.kind == Kind::Container {
            let mut names = self.names_in(block.at)?;
            names.retain(|(_, name)| name.starts_with(prefix));
            names.sort_by(|(_, one), (_, other)| one.cmp(other));
            found.extend(names.into_iter().map(|(record, _)| record));
            return Ok(());
        }
        let depth = way.len();
        let head = self.node_head(block.at)?;
        way.extend(&head.skip[..head.skip_len as usize]);
        // Where the way is shorter than the prefix only one child can lead to names that have it.
        let fits = way.iter().zip(prefix).all(|(one, other)| one == other);
        let bytes = match prefix.get(way.len()) {
            Some(&byte) => byte..=byte,
            None => 0..=255,
        };
        for byte in bytes.filter(|_| fits) {
            if let Some(child) = self.child(child_at(block.at, byte))? {
                way.push(byte);
                if way.len() > crate::NAME_MAX + 1 {
                    return Err(self.damaged(block.at, "the trie is deeper than names are long".into()));
                }
                self.list_below(child, way, prefix, left, found)?;
                way.pop();
            }
        }
        way.truncate(depth);
        Ok(())
    }
}
