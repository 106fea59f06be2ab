//! Values that are there though no strong pointer leads to them: their owners were forgotten, and
//! only weak pointers lead there. Values that they hold lose their owners with them.

use crate::transaction::counts::ByPlace;
use crate::verify::deep::walk::{HeapWalk, Tally};
use std::collections::VecDeque;

/// The lost values of a walk, and those that are lost once these are gone, as offsets of the pool:
/// a value that holds another comes first. `single` walks through one of them alone, so the cost is
/// that of what they hold, however long their chains are.
pub(super) fn lost<'w, V: Copy>(met: &HeapWalk<'w, V>, single: impl Fn(u64, V) -> HeapWalk<'w, V>) -> Vec<u64> {
    let tally = |word: &u64| met.tallies.get(word).filter(|_| !met.is_perhaps(*word));
    let is_lost = |(word, _): &&(u64, V)| tally(word).is_some_and(|tally| tally.is_lost());
    let mut next: VecDeque<(u64, V)> = met.kept.iter().filter(is_lost).copied().collect();
    next.make_contiguous().sort_unstable_by_key(|(word, _)| *word);
    let mut all = Vec::new();
    // Strong pointers that lie in lost values, by the objects that they lead to.
    let mut gone = ByPlace::<u64, u64>::default();
    while let Some((word, what)) = next.pop_front() {
        all.push(word);
        let mut inside = single(word, what);
        inside.kept.sort_unstable_by_key(|(word, _)| *word);
        for (held, what) in inside.kept {
            let strong = inside.tallies.get(&held).map_or(0, |tally| tally.strong);
            let of_lost = gone.entry(held).or_default();
            *of_lost += strong;
            let has_others = |tally: &Tally| !tally.is_there() || tally.strong > *of_lost;
            if strong > 0 && tally(&held).is_some_and(|tally| !has_others(tally)) {
                next.push_back((held, what));
            }
        }
    }
    // Without a weak pointer a value is out of reach with its holders.
    all.retain(|word| tally(word).is_some_and(|tally| tally.weak > 0));
    all
}
