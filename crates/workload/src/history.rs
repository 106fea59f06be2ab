//! Histories of loads and stores, and whether some order of the transactions explains them.
//!
//! Every store writes a value that no other does, to a word that its transaction has loaded before.
//! So the values of a word form one chain, and each transaction's place among the others follows
//! from its loads: behind the one whose value it loaded, before the one that replaced that value.
//! The history is serialisable if these places make no circle.

use std::collections::HashMap;

/// The loads and stores of one committed transaction.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Word, the value it loaded, and the one it stored, if it did.
    pub words: Vec<(u64, u64, Option<u64>)>,
}

/// Transactions in a circle, each before the next and the last before the first; `None`: there is
/// an order. The first value of every word is 0.
pub fn circle(history: &[Seen]) -> Option<Vec<usize>> {
    let mut writer = HashMap::new();
    let mut replacer = HashMap::new();
    for (index, seen) in history.iter().enumerate() {
        for &(word, loaded, stored) in seen.words.iter().filter(|(.., stored)| stored.is_some()) {
            writer.insert((word, stored), index);
            if let Some(other) = replacer.insert((word, loaded), index) {
                return Some(vec![other, index]); // both replaced one value: an update is lost
            }
        }
    }
    let mut after = vec![Vec::new(); history.len()];
    for (index, seen) in history.iter().enumerate() {
        for &(word, loaded, _) in &seen.words {
            if let Some(&before) = writer.get(&(word, Some(loaded))) {
                after[before].push(index);
            }
            if let Some(&next) = replacer.get(&(word, loaded))
                && next != index
            {
                after[index].push(next);
            }
        }
    }
    find_circle(&after)
}

/// A circle in a graph, by going as deep as it leads.
fn find_circle(after: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut done = vec![false; after.len()];
    let mut on_path = vec![false; after.len()];
    for start in 0..after.len() {
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.pop() {
            if done[node] {
                continue;
            }
            on_path[node] = true;
            match after[node].get(next) {
                Some(&to) if on_path[to] => {
                    let mut circle: Vec<usize> = path.iter().map(|&(node, _)| node).collect();
                    circle.push(node);
                    return Some(circle.split_off(circle.iter().position(|&node| node == to)?));
                }
                Some(&to) => path.extend([(node, next + 1), (to, 0)]),
                None => (done[node], on_path[node]) = (true, false),
            }
        }
    }
    None
}
