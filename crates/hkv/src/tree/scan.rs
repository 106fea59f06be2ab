//! Lists keys in their order, forward or backward, a leaf at a time: behind the end of a leaf a new
//! path begins.

use super::Tree;
use super::path::Goal;
use crate::Result;
use crate::record::Record;
use std::ops::Bound;

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the least key on.
    Forward,
    /// From the greatest key back.
    Backward,
}

type Limit<'k> = Bound<&'k [u8]>;

impl Tree {
    /// Calls `each` with every pair, in the order of keys, until it returns `false`. `each` must
    /// not use the store.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`], [`crate::Error::Media`].
    pub fn scan(&self, each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.range((Bound::Unbounded, Bound::Unbounded), Direction::Forward, each)
    }

    /// Calls `each` with the pairs whose keys begin with `prefix`, as [`Tree::range`] does.
    ///
    /// # Errors
    /// As [`Tree::scan`].
    pub fn prefix(&self, prefix: &[u8], way: Direction, each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        // The least key that is greater than all of them.
        let mut beyond = prefix.to_vec();
        while beyond.pop_if(|byte| *byte == 0xff).is_some() {}
        let to = beyond.last_mut().map(|byte| *byte += 1);
        let to = to.map_or(Bound::Unbounded, |()| Bound::Excluded(&beyond[..]));
        self.range((Bound::Included(prefix), to), way, each)
    }

    /// Calls `each` with the pairs whose keys lie between two bounds, in the order of keys or
    /// against it, until it returns `false`. `each` must not use the store.
    ///
    /// # Errors
    /// As [`Tree::scan`].
    pub fn range(
        &self,
        (from, to): (Limit<'_>, Limit<'_>),
        way: Direction,
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let state = self.state.read();
        self.base.settle(state.log.last)?;
        let (begin, end) = if way == Direction::Forward { (from, to) } else { (to, from) };
        let mut next = begin.map(<[u8]>::to_vec);
        loop {
            let goal = match (&next, way) {
                (Bound::Included(key) | Bound::Excluded(key), Direction::Forward) => Goal::At(key),
                (Bound::Included(key), Direction::Backward) => Goal::At(key),
                (Bound::Excluded(key), Direction::Backward) => Goal::Before(key),
                (Bound::Unbounded, Direction::Forward) => Goal::At(b""),
                (Bound::Unbounded, Direction::Backward) => Goal::Last,
            };
            let path = self.path(&state, goal)?;
            let (leaf, index) = (&path.leaf().node, path.leaf().index);
            // For a bound in the leaf itself: whether it is in or out.
            let is_there = index < leaf.count() && {
                let record = leaf.record(&self.base, index)?;
                matches!(&next, Bound::Included(key) | Bound::Excluded(key) if record.compare(self.heap(), key).is_eq())
            };
            let is_in = matches!(next, Bound::Included(_));
            let indices: Box<dyn Iterator<Item = usize>> = match way {
                Direction::Forward => Box::new(index + usize::from(is_there && !is_in)..leaf.count()),
                Direction::Backward => Box::new((0..index + usize::from(is_there && is_in)).rev()),
            };
            for index in indices {
                let record = leaf.record(&self.base, index)?;
                if self.is_beyond(&record, end, way) || !each(&record.key(self.heap()), &record.value(self.heap())) {
                    return self.base.require_readable();
                }
            }
            let bound = match way {
                Direction::Forward => self.high(&path, path.0.len() - 1, 0)?.map(Bound::Included),
                Direction::Backward => self.bound(leaf.low())?.map(Bound::Excluded),
            };
            match bound {
                Some(bound) if leads_on(&next, &bound, way) => next = bound,
                Some(_) => return Err(self.base.damaged(leaf.at, "a leaf that is not behind the one before")),
                None => return self.base.require_readable(),
            }
        }
    }

    /// Whether the record lies behind `end`, in the direction of the scan.
    fn is_beyond(&self, record: &Record, end: Limit<'_>, way: Direction) -> bool {
        let order = |key| match way {
            Direction::Forward => record.compare(self.heap(), key),
            Direction::Backward => record.compare(self.heap(), key).reverse(),
        };
        match end {
            Bound::Included(key) => order(key).is_gt(),
            Bound::Excluded(key) => order(key).is_ge(),
            Bound::Unbounded => false,
        }
    }
}

/// Whether the scan comes nearer to its end.
fn leads_on(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>, way: Direction) -> bool {
    let (Bound::Included(to) | Bound::Excluded(to)) = to else { return false };
    match (from, way) {
        (Bound::Unbounded, _) => true,
        (Bound::Included(from) | Bound::Excluded(from), Direction::Forward) => from < to,
        (Bound::Included(from), Direction::Backward) => to <= from,
        (Bound::Excluded(from), Direction::Backward) => to < from,
    }
}
