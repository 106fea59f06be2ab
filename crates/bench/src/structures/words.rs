//! A word count: a table in shards, each behind a lock; every word is a transaction of its own.

use everbyte_bench_rivals::WORD;
use everbyte_object::{Journal, MemPool, PCell, PMutex, PRefCell, PSafe, PVec, Pbox, Root, pool};
use everbyte_workload::mix;

pool!(
    /// Of the word count.
    pub Words
);

type Link<P> = PRefCell<Option<Pbox<Word<P>, P>>, P>;

/// The root: shards of buckets.
#[derive(PSafe)]
#[repr(C)]
pub struct Counts<P: MemPool> {
    shards: PVec<PMutex<PVec<Link<P>, P>, P>, P>,
}

/// A word and how often it came.
#[derive(PSafe)]
#[repr(C)]
pub struct Word<P: MemPool> {
    text: [u8; WORD],
    count: PCell<u64, P>,
    next: Link<P>,
}

impl<P: MemPool> Counts<P> {
    /// No words yet.
    pub fn new(shards: usize, buckets: usize, j: &Journal<P>) -> Counts<P> {
        let shard = |_| PMutex::new(PVec::from_iter((0..buckets).map(|_| PRefCell::new(None)), j));
        Counts { shards: PVec::from_iter((0..shards).map(shard), j) }
    }
}

/// Counts words; threads may do it at once. `hashes` are the words'.
pub fn count(counts: &Root<Counts<Words>, Words>, words: &[[u8; WORD]], hashes: &[u64]) {
    for (text, &hash) in words.iter().zip(hashes) {
        let counted = counts.tx(|j, counts| {
            let shard = counts.shards[(hash % counts.shards.len() as u64) as usize].lock(j);
            add(&shard[((hash >> 32) % shard.len() as u64) as usize], text, j);
        });
        counted.expect("a transaction that must succeed");
    }
}

fn add<P: MemPool>(link: &Link<P>, text: &[u8; WORD], j: &Journal<P>) {
    let mut here = link.borrow_mut(j);
    match &*here {
        Some(word) if word.text == *text => word.count.set(word.count.get() + 1, j),
        Some(word) => add(&word.next, text, j),
        None => {
            *here = Some(Pbox::new(Word { text: *text, count: PCell::new(1), next: PRefCell::new(None) }, j));
        }
    }
}

/// A sum over all words and their counts.
pub fn sum(counts: &Root<Counts<Words>, Words>) -> u64 {
    fn chain<P: MemPool>(link: &Link<P>) -> u64 {
        link.borrow().as_ref().map_or(0, |word| {
            let first = u64::from_le_bytes(word.text[..8].try_into().expect("eight bytes"));
            mix(first).wrapping_mul(word.count.get()).wrapping_add(chain(&word.next))
        })
    }
    let sum = counts.tx(|j, counts| {
        let shards = counts.shards.iter();
        shards.fold(0u64, |sum, shard| shard.lock(j).iter().fold(sum, |sum, link| sum.wrapping_add(chain(link))))
    });
    sum.expect("a transaction that must succeed")
}
