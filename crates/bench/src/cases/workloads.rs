//! `workloads`: structures of typed objects against the same algorithms in C on libpmemobj
//! (crates/bench-rivals/c).
//!
//! Both sides run the same operations on the same keys and must find the same; every put and
//! removal is a transaction, settled on return, and gets run outside of transactions. The text of
//! the word count is made from a vocabulary whose words come as often as Zipf has it; threads take
//! chunks of it in turn.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::host;
use crate::ours::NAME;
use crate::structures::words::{self, Counts, Words};
use crate::structures::{self, Maps, Top};
use everbyte_bench_rivals::{Pmemobj, Structure, WORD, WorkKind};
use everbyte_media::Options;
use everbyte_object::raw::Raw as _;
use everbyte_object::{Pool, Root};
use everbyte_store::{CreateOptions, Store};
use everbyte_workload::{Random, mix};
use std::sync::atomic::{AtomicUsize, Ordering};

const STRUCTURES: [(&str, Structure); 3] =
    [("bst", Structure::Bst), ("kvstore", Structure::KvStore), ("btree8", Structure::Btree8)];
/// Shards and buckets of the word count, and words that a thread takes at once.
pub(super) const SHARDS: usize = 64;
const BUCKETS: usize = 256;
const CHUNK: usize = 64;

/// Words and their hashes.
pub(super) struct Text {
    pub(super) words: Vec<[u8; WORD]>,
    pub(super) hashes: Vec<u64>,
}

impl Text {
    pub(super) fn new(len: usize, vocabulary: usize) -> Text {
        let mut random = Random::new(11);
        let all: Vec<[u8; WORD]> = (0..vocabulary)
            .map(|_| {
                let mut word = [0; WORD];
                let letters = 8 + random.below(12) as usize;
                word[..letters].iter_mut().for_each(|letter| *letter = b'a' + random.below(26) as u8);
                word
            })
            .collect();
        // The inverse of Zipf's distribution function with exponent one, near enough.
        let rank = |share: f64| ((vocabulary as f64).powf(share) as usize - 1).min(vocabulary - 1);
        let words: Vec<_> = (0..len).map(|_| all[rank(random.below(1 << 30) as f64 / (1u64 << 30) as f64)]).collect();
        let hash = |word: &[u8; WORD]| {
            let parts = word.chunks_exact(8).map(|part| u64::from_le_bytes(part.try_into().expect("eight bytes")));
            parts.fold(0, |hash: u64, part| mix(hash ^ part).wrapping_add(part))
        };
        let hashes = words.iter().map(hash).collect();
        Text { words, hashes }
    }

    /// Calls `count` with chunks of `total` words, in as many threads.
    fn feed(&self, threads: usize, total: u64, count: impl Fn(&[[u8; WORD]], &[u64]) + Sync) {
        let chunks = (total as usize).div_ceil(CHUNK);
        let taken = AtomicUsize::new(0);
        let work = || {
            loop {
                let chunk = taken.fetch_add(1, Ordering::Relaxed);
                if chunk >= chunks {
                    return;
                }
                let len = CHUNK.min(total as usize - chunk * CHUNK);
                let start = chunk * CHUNK % (self.words.len() - CHUNK);
                count(&self.words[start..start + len], &self.hashes[start..start + len]);
            }
        };
        if threads == 1 {
            return work();
        }
        host::unpin();
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        host::pin(0);
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let create = CreateOptions { media: Options::default(), max: 16 << 30, ..CreateOptions::default() };
    let store = Store::create(&folder.path().join("everbyte"), &create)?;
    let size = bench.plan.pick(1 << 30, 512 << 20, 32 << 20);
    let rival = Pmemobj::create(&folder.path().join("pmemobj"), size)?;
    let keys = bench.plan.pick(200_000, 50_000, 200);
    if let Some(rival) = &rival {
        rival.tables(keys, SHARDS as u64, BUCKETS as u64);
    } else {
        bench.skipped("libpmemobj", "it was not installed when this was built; `cargo xtask rivals` does that");
    }
    bench.on(store.media());
    let top = Maps::create::<Top<Maps>>(&store, "maps", |j| Top::new(keys as usize, j))?;
    for (name, structure) in STRUCTURES {
        compare(bench, &top, rival.as_ref(), name, structure, keys);
    }
    drop(top);
    let counts = Words::create::<Counts<Words>>(&store, "words", |j| Counts::new(SHARDS, BUCKETS, j))?;
    count_words(bench, &counts, rival.as_ref());
    Ok(())
}

/// One structure: the same on both sides first, then in turn.
fn compare(
    bench: &mut Bench<'_>,
    top: &Root<Top<Maps>, Maps>,
    rival: Option<&Pmemobj>,
    name: &str,
    structure: Structure,
    keys: u64,
) {
    if !bench.wants(&format!("{name}_get")) {
        return;
    }
    for (kind, count) in [(WorkKind::Load, 0), (WorkKind::Mix, keys / 4), (WorkKind::Get, 100)] {
        let mine = structures::run(top, structure, kind, &mut 5, keys, count);
        if let Some(rival) = rival {
            assert_eq!(mine, rival.run(structure, kind, &mut 5, keys, count), "{name}: both sides find the same");
        }
    }
    for (metric, kind) in [(name.to_string(), WorkKind::Mix), (format!("{name}_get"), WorkKind::Get)] {
        let (mut mine, mut theirs) = (7, 7);
        let ours = Runner::new(NAME, |count| {
            structures::run(top, structure, kind, &mut mine, keys, count);
        });
        let mut runners = vec![ours.counting(top.store().media())];
        runners.extend(rival.map(|rival| {
            Runner::new("libpmemobj", |count| {
                rival.run(structure, kind, &mut theirs, keys, count);
            })
        }));
        bench.metric(&metric, Unit::Nanoseconds, 0, runners);
    }
}

fn count_words(bench: &mut Bench<'_>, counts: &Root<Counts<Words>, Words>, rival: Option<&Pmemobj>) {
    let text = &Text::new(bench.plan.pick(1 << 20, 1 << 18, 1 << 9), bench.plan.pick(20_000, 20_000, 50));
    let mine = |words: &[_], hashes: &[_]| words::count(counts, words, hashes);
    let all = text.words.len() as u64 / 2;
    text.feed(1, all, mine);
    if let Some(rival) = rival {
        text.feed(1, all, |words, hashes| rival.count_words(words, hashes));
        assert_eq!(words::sum(counts), rival.words_sum(), "both sides count the same");
    }
    let mut threads = 1;
    while threads <= host::cpus().len().clamp(2, 64) {
        let mut runners =
            vec![Runner::new(NAME, |total| text.feed(threads, total, mine)).counting(counts.store().media())];
        runners.extend(rival.map(|rival| {
            let theirs = |words: &[_], hashes: &[_]| rival.count_words(words, hashes);
            Runner::new("libpmemobj", move |total| text.feed(threads, total, theirs))
        }));
        let metric = if threads == 1 { "wordcount".into() } else { format!("wordcount_{threads}") };
        bench.metric(&metric, Unit::PerSecond, 0, runners);
        threads *= 2;
    }
}
