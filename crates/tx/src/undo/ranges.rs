//! The ranges that a transaction has logged: to log each once, and to flush them at the commit.
//!
//! A handful is searched from the newest; more are kept in order too. A range that overlaps logged
//! ones without lying inside one is logged whole: undoing runs from the newest to the oldest, so
//! the oldest record decides.

use std::collections::BTreeMap;

const FEW: usize = 16;

#[derive(Default)]
pub(crate) struct Ranges {
    all: Vec<(u64, u64)>,
    /// Start -> end, disjoint and joined where they touch; in use beyond [`FEW`].
    ordered: BTreeMap<u64, u64>,
}

impl Ranges {
    #[inline]
    pub(crate) fn covers(&self, at: u64, end: u64) -> bool {
        if self.all.len() <= FEW {
            return self.all.iter().rev().any(|&(from, to)| from <= at && end <= to);
        }
        self.ordered.range(..=at).next_back().is_some_and(|(_, &to)| end <= to)
    }

    #[inline]
    pub(crate) fn push(&mut self, at: u64, end: u64) {
        self.all.push((at, end));
        if self.all.len() > FEW {
            self.index(at, end);
        }
    }

    #[cold]
    fn index(&mut self, at: u64, end: u64) {
        if self.all.len() == FEW + 1 {
            for index in 0..FEW {
                let (at, end) = self.all[index];
                self.join(at, end);
            }
        }
        self.join(at, end);
    }

    fn join(&mut self, mut at: u64, mut end: u64) {
        while let Some((&from, &to)) = self.ordered.range(..=end).next_back() {
            if to < at {
                break;
            }
            self.ordered.remove(&from);
            (at, end) = (at.min(from), end.max(to));
        }
        self.ordered.insert(at, end);
    }

    /// Calls `visit` with start and end of ranges that make up all there are.
    pub(crate) fn each(&self, mut visit: impl FnMut(u64, u64)) {
        if self.all.len() > FEW {
            return self.ordered.iter().for_each(|(&at, &end)| visit(at, end));
        }
        self.all.iter().for_each(|&(at, end)| visit(at, end));
    }

    pub(crate) fn clear(&mut self) {
        self.all.clear();
        if !self.ordered.is_empty() {
            self.ordered.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every range reported as covered is covered, and beyond a handful no covered range is
        /// logged again.
        #[test]
        fn covers_what_was_pushed(pushes in prop::collection::vec((0u64..300, 1u64..30), 1..60)) {
            let mut ranges = Ranges::default();
            let mut bytes = [false; 400];
            for (at, len) in pushes {
                let really = bytes[at as usize..(at + len) as usize].iter().all(|byte| *byte);
                prop_assert!(!ranges.covers(at, at + len) || really);
                prop_assert!(ranges.all.len() <= FEW || ranges.covers(at, at + len) == really);
                ranges.push(at, at + len);
                bytes[at as usize..(at + len) as usize].fill(true);
                prop_assert!(ranges.covers(at, at + len));
            }
        }
    }
}
