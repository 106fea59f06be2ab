//! The changes of the newest commits, in memory: most replicas have everything but these.
//!
//! A transfer of which every version's changes are here is sent from here, as one part. Any hole
//! (another program's commit, one with too many changes, one from before the first replica came)
//! means that the difference of the two versions is looked for (`transfer.rs`).
//!
//! Threads: the event loop and the feeds.

use super::frame::Item;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Bytes of changes that are kept.
const SIZE_MAX: usize = 8 << 20;
/// Bytes of one transfer from here: a patch of the replica holds it whole.
const TRANSFER_MAX: usize = 2 << 20;
/// Commits that are kept.
const COMMITS_MAX: usize = 65_536;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Recent {
    commits: Mutex<Commits>,
}

#[derive(Default)]
struct Commits {
    /// By version.
    items: BTreeMap<u64, Vec<Item>>,
    size: usize,
}

fn size_of(items: &[Item]) -> usize {
    items.iter().map(Item::size).sum::<usize>() + 64
}

impl Recent {
    /// Adds the changes of a commit.
    pub(crate) fn add(&self, version: u64, items: Vec<Item>) {
        let mut commits = self.commits.lock();
        commits.size += size_of(&items);
        if let Some(old) = commits.items.insert(version, items) {
            commits.size -= size_of(&old);
        }
        while commits.size > SIZE_MAX || commits.items.len() > COMMITS_MAX {
            let Some((_, old)) = commits.items.pop_first() else { return };
            commits.size -= size_of(&old);
        }
    }

    /// Whether nothing that replicas are sent has changed from one version to another.
    pub(super) fn is_nothing(&self, base: u64, target: u64) -> bool {
        self.between(base, target).is_some_and(|items| items.is_empty())
    }

    /// Everything that has changed from one version to another; `None`: it is not known, or too
    /// much.
    pub(super) fn between(&self, base: u64, target: u64) -> Option<Vec<Item>> {
        if target <= base {
            return (target == base).then(Vec::new);
        }
        let commits = self.commits.lock();
        let (mut all, mut size, mut next) = (Vec::new(), 0, base + 1);
        for (version, items) in commits.items.range(base + 1..=target) {
            size += size_of(items);
            if *version != next || size > TRANSFER_MAX {
                return None;
            }
            all.extend_from_slice(items);
            next += 1;
        }
        (next == target + 1).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_not_passed_over() {
        let recent = Recent::default();
        let item = |byte: u8| Item::Delete(vec![0, byte]);
        (3..=6).for_each(|version| recent.add(version, vec![item(version as u8)]));
        assert_eq!(recent.between(2, 4), Some(vec![item(3), item(4)]));
        assert_eq!(recent.between(6, 6), Some(vec![]));
        assert_eq!((recent.between(1, 4), recent.between(5, 7)), (None, None));
        recent.add(8, vec![]);
        assert_eq!(recent.between(5, 8), None);
        recent.add(7, vec![]);
        assert_eq!(recent.between(5, 8), Some(vec![item(6)]));
        // Old commits go, and a transfer that is too large is looked for.
        (9..30).for_each(|version| recent.add(version, vec![Item::Put(vec![0], vec![0; 1 << 20])]));
        assert_eq!((recent.between(2, 4), recent.between(26, 29)), (None, None));
        assert!(recent.between(28, 29).is_some());
    }
}
