//! Positions: which state of which history a server's keys are in.
//!
//! A *run* is the time from one opening of a store by a server to the next; each has a random id. A
//! position is a run and a version of the tree that this run committed. The versions of one store
//! grow, but a store that loses its newest writes (a power cut under a weaker durability, a backup
//! put back) gives their numbers again: the run tells the two apart.
//!
//! A [`ReplicaOrigin`] says where a replica's keys come from. Its bytes are the record `origin` of
//! the table of replication, and an argument of the request for a stream.
//!
//! Invariants
//!   REPL-2  A run's versions end where the next run began; a later one of its numbers is lost.
//!
//! Format: `docs/formats/replication.md`.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Bytes of a run's id.
pub(super) const RUN: usize = 20;
/// Bytes of a position.
pub(super) const POSITION: usize = RUN + 8;

/// The id of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId(pub [u8; RUN]);

impl RunId {
    /// A random one.
    pub(crate) fn random() -> RunId {
        let mut bytes = [0; RUN];
        for part in bytes.chunks_mut(8) {
            let random = RandomState::new().build_hasher().finish().to_le_bytes();
            part.copy_from_slice(&random[..part.len()]);
        }
        RunId(bytes)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The run that committed the version.
    pub run: RunId,
    /// The version.
    pub version: u64,
}

impl Position {
    /// Its bytes.
    pub(super) fn bytes(&self) -> [u8; POSITION] {
        let mut bytes = [0; POSITION];
        bytes[..RUN].copy_from_slice(&self.run.0);
        bytes[RUN..].copy_from_slice(&self.version.to_le_bytes());
        bytes
    }

    /// Reads one, and returns what follows.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Position, &[u8])> {
        let (run, rest) = bytes.split_first_chunk::<RUN>()?;
        let (version, rest) = rest.split_first_chunk::<8>()?;
        Some((Position { run: RunId(*run), version: u64::from_le_bytes(*version) }, rest))
    }
}

/// The source of a replica's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaOrigin {
    /// No primary: the keys are its own.
    Own,
    /// The keys are exactly those of a position of the primary.
    At(Position),
    /// The keys are on the way from one position to another: up to the cursor they are those of
    /// `target`, and behind it those of `base`, or any if there is none.
    Between {
        /// The later position.
        target: Position,
        /// The earlier one.
        base: Option<Position>,
        /// The last key that is as in `target`: a place and a key.
        cursor: Vec<u8>,
    },
}

impl ReplicaOrigin {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            ReplicaOrigin::Own => vec![0],
            ReplicaOrigin::At(position) => [&[1], &position.bytes()[..]].concat(),
            ReplicaOrigin::Between { target, base: None, cursor } => [&[2], &target.bytes()[..], cursor].concat(),
            ReplicaOrigin::Between { target, base: Some(base), cursor } => {
                [&[3], &target.bytes()[..], &base.bytes()[..], cursor].concat()
            }
        }
    }

    /// Reads one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<ReplicaOrigin> {
        let (kind, rest) = bytes.split_first()?;
        match (kind, rest.is_empty()) {
            (0, true) => return Some(ReplicaOrigin::Own),
            (1..=3, false) => {}
            _ => return None,
        }
        let (target, rest) = Position::parse(rest)?;
        match kind {
            1 if rest.is_empty() => Some(ReplicaOrigin::At(target)),
            2 => Some(ReplicaOrigin::Between { target, base: None, cursor: rest.to_vec() }),
            3 => {
                let (base, rest) = Position::parse(rest)?;
                Some(ReplicaOrigin::Between { target, base: Some(base), cursor: rest.to_vec() })
            }
            _ => None,
        }
    }

    /// Whether the keys are a mixture of two versions, which no client may see.
    pub(crate) fn is_between(&self) -> bool {
        matches!(self, ReplicaOrigin::Between { .. })
    }
}

/// The runs of a store, the oldest first, each with the version that it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History(pub Vec<(RunId, u64)>);

/// Runs that are remembered.
const RUNS_MAX: usize = 256;

/// The answer of a history about a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It is part of this history.
    Past,
    /// It is of a run of this history, and this store has lost it, or never had it.
    Diverged,
    /// It is of no run of this history.
    Unknown,
}

impl History {
    /// A run begins that has found `version`.
    pub(crate) fn add(&mut self, run: RunId, version: u64) {
        self.0.push((run, version));
        let first = self.0.len().saturating_sub(RUNS_MAX);
        self.0.drain(..first);
    }

    /// How a position relates to this history, whose newest version is `newest`.
    ///
    /// REPL-2: a run's versions end where the next run began; a later one of its numbers is lost.
    pub(crate) fn relation(&self, position: &Position, newest: u64) -> Relation {
        let Some(index) = self.0.iter().position(|(run, _)| *run == position.run) else { return Relation::Unknown };
        let end = self.0.get(index + 1).map_or(newest, |(_, found)| *found);
        match position.version <= end {
            true => Relation::Past,
            false => Relation::Diverged,
        }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(run, version)| Position { run: *run, version: *version }.bytes()).collect()
    }

    /// Reads one.
    pub(crate) fn parse(mut bytes: &[u8]) -> Option<History> {
        let mut history = History::default();
        while !bytes.is_empty() {
            let (Position { run, version }, rest) = Position::parse(bytes)?;
            history.0.push((run, version));
            bytes = rest;
        }
        Some(history)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(run: u8, version: u64) -> Position {
        Position { run: RunId([run; RUN]), version }
    }

    #[test]
    fn origins_and_histories_come_back_from_their_bytes() {
        let between = |base| ReplicaOrigin::Between { target: at(1, 7), base, cursor: b"\x01key".to_vec() };
        for origin in [ReplicaOrigin::Own, ReplicaOrigin::At(at(9, u64::MAX)), between(None), between(Some(at(2, 3)))] {
            let bytes = origin.bytes();
            assert_eq!(ReplicaOrigin::parse(&bytes), Some(origin.clone()));
            assert_ne!(ReplicaOrigin::parse(&bytes[..bytes.len() - 1]), Some(origin));
        }
        assert_eq!(ReplicaOrigin::parse(&[1; POSITION]), None);
        assert_eq!(ReplicaOrigin::parse(b"\x04"), None);
        let history = History(vec![(RunId([1; RUN]), 0), (RunId([2; RUN]), 40)]);
        assert_eq!(History::parse(&history.bytes()[1..]), None);
        assert_eq!(History::parse(&history.bytes()), Some(history));
    }

    #[test]
    fn numbers_that_a_crash_has_lost_are_not_part_of_the_history() {
        // Run 1 has given versions up to 50, and a power cut has left 40 of them.
        let history = History(vec![(RunId([1; RUN]), 0), (RunId([2; RUN]), 40)]);
        for (position, relation) in [
            (at(1, 40), Relation::Past),
            (at(1, 45), Relation::Diverged),
            (at(2, 45), Relation::Past),
            (at(2, 60), Relation::Past),
            (at(2, 61), Relation::Diverged),
            (at(3, 1), Relation::Unknown),
        ] {
            assert_eq!(history.relation(&position, 60), relation, "{position:?}");
        }
        let mut long = History::default();
        (0..300).for_each(|version| long.add(RunId::random(), version));
        assert_eq!(long.0.len(), RUNS_MAX);
    }
}
