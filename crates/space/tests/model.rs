//! Random operations on a space against one plain state for each cluster.

mod common;

use common::{FIRST, OWNED, back, space};
use everbyte_space::{CLUSTER, Space};
use proptest::prelude::*;
use std::ops::Range;

/// Clusters of the model; fewer than the bounds of kept and prepared bytes, so neither is reached.
const CLUSTERS: usize = 48;
/// One past the last cluster of a large page, which bounds a piece that is prepared.
const PREPARE_CLUSTERS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naive {
    Free,
    Backed,
    Released,
    Kept,
    Wanted,
    Zeroed,
    Prepared,
}

#[derive(Clone, Debug)]
enum Op {
    /// Backs the clusters of a range that are not backed.
    Back(Range<usize>),
    Release(Range<usize>),
    ReleaseAndKeep(Range<usize>),
    ZeroNext,
    Want(Range<usize>),
    Punch,
    GiveBack,
    /// Reserves the free clusters of a range, and gives them up.
    GiveUp(Range<usize>),
    ClearStates,
}

fn op() -> impl Strategy<Value = Op> {
    let range = (0..CLUSTERS, 1..12usize).prop_map(|(start, len)| start..(start + len).min(CLUSTERS));
    (0..16u32, range).prop_map(|(op, range)| match op {
        0..4 => Op::Back(range),
        4 => Op::Release(range),
        5..7 => Op::ReleaseAndKeep(range),
        7..12 => Op::ZeroNext,
        12 => Op::Want(range),
        13 => Op::GiveUp(range),
        14 => Op::Punch,
        _ if range.start % 4 == 0 => Op::ClearStates,
        _ => Op::GiveBack,
    })
}

fn offsets(range: &Range<usize>) -> Range<u64> {
    FIRST + range.start as u64 * CLUSTER..FIRST + range.end as u64 * CLUSTER
}

/// The runs of clusters within `range` for which `is` holds.
fn runs(plain: &[Naive], range: Range<usize>, is: impl Fn(Naive) -> bool) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for cluster in range.filter(|&cluster| is(plain[cluster])) {
        match runs.last_mut() {
            Some(last) if last.end == cluster => last.end += 1,
            _ => runs.push(cluster..cluster + 1),
        }
    }
    runs
}

fn apply(space: &Space, plain: &mut [Naive], op: &Op) {
    use Naive::{Backed, Free, Kept, Prepared, Released, Wanted, Zeroed};
    match op {
        Op::Back(range) => {
            for run in runs(plain, range.clone(), |state| state != Backed) {
                back(space, offsets(&run)); // which checks that they read as zeros
                plain[run].fill(Backed);
            }
        }
        Op::Release(range) => {
            space.release(&offsets(range));
            plain[range.clone()].fill(Released);
        }
        Op::ReleaseAndKeep(range) => {
            let kept = space.release_and_keep(&offsets(range));
            plain[range.clone()]
                .iter_mut()
                .filter(|state| [Free, Backed].contains(state))
                .for_each(|state| *state = Kept);
            assert_eq!(kept, plain.iter().filter(|state| **state == Kept).count() as u64 * CLUSTER);
        }
        Op::ZeroNext => {
            let first = |is: Naive| plain.iter().position(|state| *state == is);
            let kept = first(Kept);
            let wanted = first(Wanted);
            assert_eq!(space.zero_next(), kept.is_some() || wanted.is_some());
            match (kept, wanted) {
                (Some(cluster), _) => plain[cluster] = Zeroed,
                (None, Some(first)) => {
                    // The piece ends with its range or its large page, and its length is not part
                    // of the model: the cluster is prepared, and the rest of the piece with it.
                    let page = (offsets(&(first..first)).start / CLUSTER) as usize % PREPARE_CLUSTERS;
                    let most = (first + PREPARE_CLUSTERS - page).min(plain.len());
                    let piece = runs(plain, first..most, |state| state == Wanted)[0].clone();
                    let before =
                        plain.iter().filter(|state| [Released, Kept, Zeroed, Prepared].contains(state)).count();
                    let more = (space.waiting() / CLUSTER) as usize - before;
                    assert!((1..=piece.len()).contains(&more), "{more} clusters of {piece:?}");
                    plain[first..first + more].fill(Prepared);
                }
                (None, None) => {}
            }
        }
        Op::Want(range) => {
            let free = runs(plain, range.clone(), |state| state == Free);
            assert_eq!(space.want(&offsets(range)), !free.is_empty());
            free.into_iter().for_each(|run| plain[run].fill(Wanted));
        }
        Op::Punch => {
            let released = plain.iter().filter(|state| **state == Released).count() as u64;
            assert_eq!(space.punch(), released * CLUSTER);
            plain.iter_mut().filter(|state| **state == Released).for_each(|state| *state = Free);
        }
        Op::GiveBack => {
            let given = plain.iter().filter(|state| [Kept, Zeroed, Prepared].contains(state)).count() as u64;
            assert_eq!(space.give_back(), given * CLUSTER);
            let gone = |state: &&mut Naive| [Kept, Zeroed, Prepared, Wanted].contains(state);
            plain.iter_mut().filter(gone).for_each(|state| *state = Free);
        }
        Op::GiveUp(range) => {
            for run in runs(plain, range.clone(), |state| state != Backed) {
                let _ = space.reserve(&offsets(&run)).unwrap();
                space.give_up(&offsets(&run));
                for cluster in run {
                    let at = offsets(&(cluster..cluster + 1));
                    let used = !space.used().set_runs(space.media(), at).is_empty();
                    plain[cluster] = if used { Released } else { Free };
                }
            }
        }
        Op::ClearStates => {
            space.clear_states();
            plain.iter_mut().filter(|state| **state != Backed).for_each(|state| *state = Free);
        }
    }
}

proptest! {
    /// Every cluster handed out reads as zeros, every owner keeps its data, and the bytes that wait
    /// are those of the plain states.
    #[test]
    fn a_space_agrees_with_a_state_for_each_cluster(ops in prop::collection::vec(op(), 1..60)) {
        let (space, mut plain) = (space(), [Naive::Free; CLUSTERS]);
        for op in ops {
            apply(&space, &mut plain, &op);
            let waits = [Naive::Released, Naive::Kept, Naive::Zeroed, Naive::Prepared];
            let waiting = plain.iter().filter(|state| waits.contains(state)).count() as u64;
            prop_assert_eq!(space.waiting(), waiting * CLUSTER, "after {:?}", op);
            for (cluster, state) in plain.iter().enumerate() {
                let at = FIRST + cluster as u64 * CLUSTER;
                prop_assert_eq!(space.is_backed(at), *state == Naive::Backed, "cluster {} after {:?}", cluster, op);
                prop_assert!(*state != Naive::Backed || space.media().load(at) == OWNED);
            }
        }
    }
}
