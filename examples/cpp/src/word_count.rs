//! How often each word came: threads count apart, and add their counts in one transaction.

use everbyte_bridge::{Extern, export};
use everbyte_object::{Journal, MemPool, PBTreeMap, PMutex, PSafe, PString};

/// Counts of words; threads may share it, since its field is behind a lock.
#[derive(PSafe, Extern)]
#[repr(C)]
pub struct WordCount<P: MemPool> {
    counts: PMutex<PBTreeMap<PString<P>, u64, P>, P>,
}

#[export]
impl<P: MemPool> WordCount<P> {
    /// No words yet.
    pub fn new(_: &Journal<P>) -> Self {
        WordCount { counts: PMutex::new(PBTreeMap::new()) }
    }

    /// Adds to the count of a word.
    pub fn add(&self, j: &Journal<P>, word: &str, count: u64) {
        let mut counts = self.counts.lock(j);
        match counts.get_mut(word, j) {
            Some(known) => *known += count,
            None => drop(counts.insert(PString::from(word, j), count, j)),
        }
    }

    /// The count of a word.
    pub fn count(&self, j: &Journal<P>, word: &str) -> u64 {
        self.counts.lock(j).get(word).copied().unwrap_or(0)
    }

    /// How many words there are, each counted once.
    pub fn size(&self, j: &Journal<P>) -> usize {
        self.counts.lock(j).len()
    }
}
