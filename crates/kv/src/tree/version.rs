//! Versions: which entries a version sees, and the versions that never happened.
//!
//! Invariants
//!   VER-1  A version number commits once. One whose commit a crash prevented joins the void list
//!          before a later version commits. One that was given up is used again, after all that
//!          carried it is taken back (BATCH-4).
//!   VER-2  A void version as a start means never; as an end it means still live.

use crate::tree::layout::{Slot, WHOLE};
use crate::tree::number::Version;
use arc_swap::Guard;
use std::sync::Arc;

/// Ranges of versions that never committed, ascending, disjoint. Nearly always empty or short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Voids(pub Vec<(Version, Version)>);

impl Voids {
    #[inline]
    pub(crate) fn contains(&self, version: Version) -> bool {
        // Void versions are old or few: most stamps are newer than all of them.
        if self.0.last().is_none_or(|last| version > last.1) {
            return false;
        }
        let after = self.0.partition_point(|&(first, _)| first <= version);
        after > 0 && version <= self.0[after - 1].1
    }
}

impl Voids {
    /// Adds a range behind all others, or joins it to the last one.
    pub(crate) fn add(&mut self, first: Version, last: Version) {
        match self.0.last_mut() {
            Some(newest) if newest.1.next() == first => newest.1 = last,
            _ => self.0.push((first, last)),
        }
    }
}

/// A void list in use: lent for one look, which no count shows, or owned.
#[derive(Debug)]
pub(crate) enum Held {
    Lent(Guard<Arc<Voids>>),
    Owned(Arc<Voids>),
}

impl Held {
    #[inline]
    fn list(&self) -> &Voids {
        match self {
            Held::Lent(voids) => voids,
            Held::Owned(voids) => voids,
        }
    }
}

impl Clone for Held {
    fn clone(&self) -> Held {
        match self {
            Held::Lent(voids) => Held::Owned(Arc::clone(voids)),
            Held::Owned(voids) => Held::Owned(Arc::clone(voids)),
        }
    }
}

/// The view of a reader or the writer: everything committed up to `version`.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub version: Version,
    voids: Held,
    /// The newest void version: most stamps are newer, which saves looking at the list.
    void_last: Version,
}

impl View {
    #[inline]
    pub(crate) fn new(version: Version, voids: Held) -> View {
        let void_last = voids.list().0.last().map_or(Version::NONE, |last| last.1);
        View { version, voids, void_last }
    }

    /// Whether this version never committed.
    #[inline]
    pub(crate) fn void(&self, version: Version) -> bool {
        version <= self.void_last && self.voids.list().contains(version)
    }

    /// Whether an entry with these stamps is there at this version (VER-2).
    #[inline]
    pub(crate) fn sees(&self, start: Version, end: Version) -> bool {
        self.born(start) && (end == 0 || end > self.version || self.void(end))
    }

    /// Whether an entry with this start exists at this version or existed before.
    #[inline]
    pub(crate) fn born(&self, start: Version) -> bool {
        start != 0 && start <= self.version && !self.void(start)
    }

    /// Whether an entry with this end was deleted or moved, at this version or before.
    #[inline]
    pub(crate) fn ended(&self, end: Version) -> bool {
        end != 0 && end <= self.version && !self.void(end)
    }
}

/// In what kind of node a walk over everything stands: who owns what an entry points to depends on
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Reachable at the newest version.
    Live,
    /// Replaced: its live entries have moved, and what they point to may be gone.
    Moved,
    /// Cleared away with everything below it.
    Whole,
}

impl Life {
    /// Whether an entry of a node in this life owns what it points to, and in which life that is.
    pub(crate) fn below(self, view: &View, slot: &Slot) -> Option<Life> {
        match (view.born(slot.start), view.ended(slot.end), self) {
            (false, ..) => None,
            (true, true, _) => Some(if slot.has(WHOLE) { Life::Whole } else { Life::Moved }),
            (true, false, Life::Moved) => None,
            (true, false, life) => Some(life),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn void_versions_never_start_and_never_end() {
        let void = [(3, 4), (8, 8)].map(|(first, last)| (Version::new(first), Version::new(last)));
        let view = View::new(Version::new(10), Held::Owned(Arc::new(Voids(void.to_vec()))));
        let sees = |start, end| view.sees(Version::new(start), Version::new(end));
        assert!(sees(1, 0) && sees(10, 0) && sees(5, 11));
        assert!(!sees(0, 0) && !sees(11, 0) && !sees(2, 7) && !sees(5, 10));
        assert!(!sees(3, 0) && !sees(4, 0) && !sees(8, 0), "a void start is never");
        assert!(sees(2, 3) && sees(2, 8), "a void end is still live");
    }
}
