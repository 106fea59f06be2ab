//! [`Starts`]: a set of blocks, a bit for each place where one can start.

use crate::transaction::counts::ByPlace;
use everbyte_heap::layout::CLUSTER;

/// Blocks start at multiples of this.
const STEP: u64 = 16;
const WORDS: usize = (CLUSTER / STEP / 64) as usize;

/// Blocks by where they start, as offsets of the pool. A cluster costs 512 bytes once a block in it
/// is met: a 128th of its bytes.
#[derive(Default)]
pub(crate) struct Starts {
    clusters: ByPlace<u64, Box<[u64; WORDS]>>,
}

impl Starts {
    /// Adds a block; `false`: it is there already.
    pub(crate) fn insert(&mut self, offset: u64) -> bool {
        let (word, bit) = place(offset);
        let word = &mut self.clusters.entry(offset / CLUSTER).or_insert_with(|| Box::new([0; WORDS]))[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Whether a block starts there: at any number, as media has it.
    pub(crate) fn contains(&self, offset: u64) -> bool {
        if !offset.is_multiple_of(STEP) {
            return false;
        }
        let (word, bit) = place(offset);
        self.clusters.get(&(offset / CLUSTER)).is_some_and(|words| words[word] & bit != 0)
    }
}

fn place(offset: u64) -> (usize, u64) {
    assert!(offset.is_multiple_of(STEP), "blocks are aligned");
    let index = offset % CLUSTER / STEP;
    ((index / 64) as usize, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_starts_is_a_set() {
        let all = [16, 32, CLUSTER - 16, CLUSTER, 1 << 40];
        let mut starts = Starts::default();
        assert!(all.iter().all(|&at| !starts.contains(at) && starts.insert(at)));
        assert!(all.iter().all(|&at| starts.contains(at) && !starts.insert(at)));
        assert!(!starts.contains(48) && !starts.contains(CLUSTER * 2));
        assert!(!starts.contains(17) && !starts.contains(u64::MAX));
        assert_eq!(starts.clusters.len(), 3);
    }
}
