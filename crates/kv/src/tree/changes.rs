//! The difference of two versions, in key order.
//!
//! An entry keeps its `start` when its node is replaced: so a key has changed between two versions
//! if and only if one of them does not see it or they see other starts. No value is compared. A
//! leaf that both versions reach, and that has no stamp between the two, is passed over as a whole:
//! the cost is that of looking at the stamps of every leaf in the range, and of reading what has
//! changed.

use crate::error::Result;
use crate::tree::cursor::Cursor;
use crate::tree::number::Version;
use crate::tree::{TableNumber, TreeSnapshot};
use std::cmp::Ordering;

/// A key that differs between two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeChange {
    pub table: TableNumber,
    pub key: Vec<u8>,
    /// Its value in the older version.
    pub before: Option<Vec<u8>>,
    /// Its value in the newer version.
    pub after: Option<Vec<u8>>,
}

/// The changes between two versions of one tree, within a range of full keys.
pub(crate) struct TreeChanges {
    sides: [Side; 2],
    /// The older of both and the newer.
    versions: [Version; 2],
    high: Vec<u8>,
    /// The leaf that was looked at last.
    looked_at: Option<u64>,
}

/// One of the versions.
struct Side {
    cursor: Cursor<'static>,
    /// The entry that the cursor has handed out and that is still to be compared: its full key and
    /// its start.
    next: Option<(Vec<u8>, Version)>,
    done: bool,
}

impl TreeChanges {
    /// From `before` to `after`, which may be the older one: then time goes backwards.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn new(before: &TreeSnapshot, after: &TreeSnapshot, low: &[u8], high: &[u8]) -> Result<TreeChanges> {
        let side = |snapshot: &TreeSnapshot| -> Result<Side> {
            let mut cursor = snapshot.cursor();
            cursor.seek(low)?;
            Ok(Side { cursor, next: None, done: false })
        };
        let mut versions = [before.version(), after.version()];
        versions.sort();
        Ok(TreeChanges { sides: [side(before)?, side(after)?], versions, high: high.to_vec(), looked_at: None })
    }

    /// The next key that differs.
    ///
    /// # Errors
    /// Damage. The walk ends then.
    pub(crate) fn next(&mut self) -> Result<Option<TreeChange>> {
        loop {
            self.pass_shared_leaves()?;
            let [before, after] = &mut self.sides;
            before.fetch(&self.high)?;
            after.fetch(&self.high)?;
            let order = match (&before.next, &after.next) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(before), Some(after)) => before.0.cmp(&after.0),
            };
            let old = if order.is_le() { before.next.take() } else { None };
            let new = if order.is_ge() { after.next.take() } else { None };
            let (full, same) = match (old.clone(), new.clone()) {
                (Some((full, old)), Some((_, new))) => (full, old == new),
                (Some((full, _)), None) | (None, Some((full, _))) => (full, false),
                (None, None) => continue,
            };
            if same {
                continue;
            }
            let Some((table, key)) = full.split_first_chunk() else {
                return crate::error::damaged(0, "a key without a table");
            };
            return Ok(Some(TreeChange {
                table: TableNumber(u32::from_be_bytes(*table)),
                key: key.to_vec(),
                before: if old.is_some() { Some(before.cursor.last_value()?) } else { None },
                after: if new.is_some() { Some(after.cursor.last_value()?) } else { None },
            }));
        }
    }

    /// Goes on behind leaves that both sides stand before and that have not changed.
    fn pass_shared_leaves(&mut self) -> Result<()> {
        let [older, newer] = self.versions;
        let [before, after] = &mut self.sides;
        while before.next.is_none() && after.next.is_none() && !before.done && !after.done {
            let leaf = before.cursor.leaf_at();
            let is_new = std::mem::replace(&mut self.looked_at, leaf) != leaf;
            if !is_new || leaf != after.cursor.leaf_at() || before.cursor.leaf_changed(older, newer)? {
                break;
            }
            before.done = !before.cursor.pass_leaf()?;
            after.done = !after.cursor.pass_leaf()?;
        }
        Ok(())
    }
}

impl Side {
    /// Takes the next entry, unless one is still to be compared.
    fn fetch(&mut self, high: &[u8]) -> Result<()> {
        if self.next.is_some() || self.done {
            return Ok(());
        }
        let start = match self.cursor.next()? {
            Some(entry) if entry.compare(high)?.is_lt() => entry.start(),
            _ => {
                self.done = true;
                return Ok(());
            }
        };
        self.next = self.cursor.last_key()?.map(|full| (full, start));
        Ok(())
    }
}
