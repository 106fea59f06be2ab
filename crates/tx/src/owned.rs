//! The blocks that a transaction has allocated and not freed again: its own memory, stored to
//! unlogged.
//!
//! A handful is searched from the newest; more are kept in order too, so that a transaction that
//! builds a large structure does not look at all of it for each change.

use everbyte_heap::Block;
use everbyte_media::Length;
use std::collections::BTreeMap;

const FEW: usize = 16;

#[derive(Default)]
pub(crate) struct Owned {
    /// In the order of allocation; a block that was taken out has size 0.
    all: Vec<Block>,
    /// Start -> index in `all`; in use beyond [`FEW`].
    ordered: BTreeMap<u64, usize>,
    live: usize,
}

impl Owned {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    #[inline]
    pub(crate) fn push(&mut self, block: Block) {
        self.all.push(block);
        self.live += 1;
        if self.all.len() > FEW {
            self.index(block.at.get());
        }
    }

    #[cold]
    fn index(&mut self, at: u64) {
        if self.all.len() == FEW + 1 {
            self.ordered = self.all.iter().enumerate().map(|(index, block)| (block.at.get(), index)).collect();
            self.ordered.retain(|_, index| self.all[*index].size > 0);
        }
        self.ordered.insert(at, self.all.len() - 1);
    }

    /// Whether the range lies in one of the blocks.
    #[inline]
    pub(crate) fn holds(&self, at: u64, end: u64) -> bool {
        if self.all.len() <= FEW {
            return self.all.iter().rev().any(|block| block.at <= at && end <= block.end().get());
        }
        let before = self.ordered.range(..=at).next_back();
        before.is_some_and(|(_, &index)| end <= self.all[index].end().get())
    }

    /// Takes the block that starts at `at` out.
    #[inline]
    pub(crate) fn remove(&mut self, at: u64) -> Option<Block> {
        let index = match self.all.len() <= FEW {
            true => self.all.iter().rposition(|block| block.at == at && block.size > 0)?,
            false => self.ordered.remove(&at)?,
        };
        let block = self.all[index];
        if index + 1 == self.all.len() && self.all.len() <= FEW {
            self.all.pop();
        } else {
            self.all[index].size = Length::new(0);
        }
        self.live -= 1;
        Some(block)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Block> {
        self.all.iter().filter(|block| block.size > 0)
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.live = 0;
        if !self.ordered.is_empty() {
            self.ordered.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::{Length, Offset};
    use proptest::prelude::*;

    proptest! {
        /// The blocks held are those that were pushed and not removed.
        #[test]
        fn holds_what_was_pushed_and_not_removed(steps in prop::collection::vec((0u64..40, any::<bool>()), 1..120)) {
            let (mut owned, mut model) = (Owned::default(), std::collections::BTreeSet::new());
            for (at, push) in steps {
                let at = at * 64;
                if push && model.insert(at) {
                    owned.push(Block { at: Offset::new(at), size: Length::new(64) });
                } else if !push {
                    prop_assert_eq!(owned.remove(at).is_some(), model.remove(&at));
                }
                for probe in 0..40 {
                    prop_assert_eq!(owned.holds(probe * 64 + 8, probe * 64 + 64), model.contains(&(probe * 64)));
                }
                prop_assert!(!owned.holds(at + 32, at + 96));
                prop_assert_eq!(owned.is_empty(), model.is_empty());
                prop_assert!(owned.iter().map(|block| block.at.get()).collect::<std::collections::BTreeSet<_>>() == model);
            }
        }
    }
}
