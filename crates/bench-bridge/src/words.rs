//! A word count whose threads count a chunk of text apart, then add the counts to those of all, in
//! a transaction for each group of shards.
//!
//! The counts of all lie in shards, each behind a lock; a transaction takes the locks of its group
//! in their order, and threads begin with different groups: with one transaction for all shards two
//! threads were slower than one, since each waited for the other's first lock. A thread's counts of
//! its chunk are persistent in [`WordCounts::count_chunk`]. C++ keeps them behind plain pointers
//! instead, and adds them by [`WordCounts::add`].

use everbyte_bridge::{Extern, export};
use everbyte_object::{Journal, MemPool, PCell, PMutex, PRefCell, PSafe, PVec, Pbox};

/// Bytes of a word, padded with zeros.
pub const WORD: usize = 24;
/// Shards, and buckets of each; buckets for each shard in a thread's counts.
const SHARDS: usize = 64;
const BUCKETS: usize = 256;
const OWN_BUCKETS: usize = 16;
/// Groups of shards; the counts of a chunk are added in a transaction for each.
pub const GROUPS: usize = 4;
/// Threads that may count at once.
pub const THREADS: usize = 8;

type Link<P> = PRefCell<Option<Pbox<Word<P>, P>>, P>;
type WordTable<P> = PMutex<PVec<Link<P>, P>, P>;

/// The counts of all, and of the chunk of each thread.
#[derive(PSafe, Extern)]
#[repr(C)]
pub struct WordCounts<P: MemPool> {
    shards: PVec<WordTable<P>, P>,
    own: PVec<WordTable<P>, P>,
}

/// A word and how often it came.
#[derive(PSafe)]
#[repr(C)]
pub struct Word<P: MemPool> {
    text: [u8; WORD],
    hash: u64,
    count: PCell<u64, P>,
    next: Link<P>,
}

#[export]
impl<P: MemPool> WordCounts<P> {
    /// No words yet.
    pub fn new(j: &Journal<P>) -> Self {
        let table = |buckets| PMutex::new(PVec::from_iter((0..buckets).map(|_| PRefCell::new(None)), j));
        WordCounts {
            shards: PVec::from_iter((0..SHARDS).map(|_| table(BUCKETS)), j),
            own: PVec::from_iter((0..THREADS).map(|_| table(SHARDS * OWN_BUCKETS)), j),
        }
    }

    /// Adds to the count of a word. A transaction adds words in the order of their shards.
    pub fn add(&self, word: &str, hash: u64, count: u64, j: &Journal<P>) {
        let mut text = [0; WORD];
        text[..word.len()].copy_from_slice(word.as_bytes());
        self.add_text(&text, hash, count, j);
    }

    /// The sum of all counts, each times the hash of its word.
    pub fn sum(&self, j: &Journal<P>) -> u64 {
        fn chain<P: MemPool>(link: &Link<P>) -> u64 {
            link.borrow()
                .as_ref()
                .map_or(0, |word| word.hash.wrapping_mul(word.count.get()).wrapping_add(chain(&word.next)))
        }
        let shard =
            |sum: u64, shard: &WordTable<P>| shard.lock(j).iter().fold(sum, |sum, link| sum.wrapping_add(chain(link)));
        self.shards.iter().fold(0, shard)
    }
}

impl<P: MemPool> WordCounts<P> {
    /// Counts the words of a chunk, by the thread of that number, apart.
    pub fn count_chunk<'w>(&self, thread: usize, words: impl Iterator<Item = (&'w [u8; WORD], u64)>, j: &Journal<P>) {
        let own = self.own[thread].lock(j);
        for (text, hash) in words {
            let bucket = hash as usize % SHARDS * OWN_BUCKETS + (hash >> 32) as usize % OWN_BUCKETS;
            add(&own[bucket], text, hash, 1, j);
        }
    }

    /// Adds the thread's counts in a group of shards to those of all.
    pub fn add_group(&self, thread: usize, group: usize, j: &Journal<P>) {
        let own = self.own[thread].lock(j);
        let len = own.len() / GROUPS;
        for bucket in &own[group * len..(group + 1) * len] {
            if bucket.borrow().is_none() {
                continue;
            }
            let mut next = bucket.take(j);
            while let Some(word) = next {
                let word = word.into_inner(j);
                self.add_text(&word.text, word.hash, word.count.get(), j);
                next = word.next.into_inner();
            }
        }
    }

    fn add_text(&self, text: &[u8; WORD], hash: u64, count: u64, j: &Journal<P>) {
        let shard = self.shards[hash as usize % SHARDS].lock(j);
        add(&shard[(hash >> 32) as usize % BUCKETS], text, hash, count, j);
    }
}

fn add<P: MemPool>(link: &Link<P>, text: &[u8; WORD], hash: u64, count: u64, j: &Journal<P>) {
    let mut here = link.borrow_mut(j);
    match &*here {
        Some(word) if word.text == *text => word.count.set(word.count.get() + count, j),
        Some(word) => add(&word.next, text, hash, count, j),
        None => {
            let word = Word { text: *text, hash, count: PCell::new(count), next: PRefCell::new(None) };
            *here = Some(Pbox::new(word, j));
        }
    }
}
