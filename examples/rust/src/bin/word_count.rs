//! How often each word occurs in files: a producer reads them, consumers count, and a run that was
//! stopped goes on.
//!
//! `word_count STORE [--stop COUNT] [--consumers COUNT] [--most COUNT] FILE ..` prints the most
//! frequent words, ten if you do not say how many.
//!
//! A chunk of text is booked together with its counts, so it is counted once whatever happens.
//! Buckets are locked one at a time, in order: consumers meet only where words share a bucket.

#![forbid(unsafe_code)]

use everbyte::{Journal, MemPool, PHashMap, PMutex, PSafe, PString, Pool, pool};
use everbyte_examples::{Outcome, arguments, store};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, mpsc};
use std::{fs, thread};

const BUCKETS: usize = 64;
/// Bytes of text a transaction counts.
const CHUNK: usize = 4096;

pool!(Words);

/// The words behind one lock.
type Bucket<V, P> = PMutex<PHashMap<PString<P>, V, P>, P>;

#[derive(PSafe)]
#[repr(C)]
struct Counts<P: MemPool> {
    words: [Bucket<u64, P>; BUCKETS],
    /// Chunks that have been counted, as `file:number`, each in the bucket of its name.
    booked: [Bucket<(), P>; BUCKETS],
}

fn bucket(text: &str) -> usize {
    let mut hasher = DefaultHasher::new(); // the same in every run
    text.hash(&mut hasher);
    hasher.finish() as usize % BUCKETS
}

impl<P: MemPool> Counts<P> {
    fn new() -> Counts<P> {
        Counts { words: std::array::from_fn(|_| PMutex::default()), booked: std::array::from_fn(|_| PMutex::default()) }
    }

    /// Counts a chunk unless that has been done; the counts of its words come in the order of their
    /// buckets.
    fn count(&self, chunk: &str, counted: &BTreeMap<(usize, &str), u64>, j: &Journal<P>) -> bool {
        if self.booked[bucket(chunk)].lock(j).insert(PString::from_str(chunk, j), (), j).is_some() {
            return false;
        }
        for (&(bucket, word), &count) in counted {
            let mut words = self.words[bucket].lock(j);
            match words.get_mut(word, j) {
                Some(known) => *known += count,
                None => _ = words.insert(PString::from_str(word, j), count, j),
            }
        }
        true
    }

    fn all(&self, j: &Journal<P>) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        for bucket in &self.words {
            all.extend(bucket.lock(j).iter().map(|(word, count)| (*count, word.to_string())));
        }
        all.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        all
    }
}

/// The words of a text, in lower case.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Cuts `text` at white space, every [`CHUNK`] bytes or so.
fn chunks(mut text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    while text.len() > CHUNK {
        let from = (CHUNK..).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let cut = text[from..].find(char::is_whitespace).map_or(text.len(), |at| from + at);
        let (chunk, rest) = text.split_at(cut);
        all.push(chunk);
        text = rest;
    }
    all.push(text);
    all
}

fn main() -> Outcome {
    let (path, mut words) = arguments("word_count STORE [--stop COUNT] [--consumers COUNT] [--most COUNT] FILE ..")?;
    let mut option = |name: &str| -> Result<Option<usize>, Box<dyn std::error::Error>> {
        let Some(at) = words.iter().position(|word| word == name) else { return Ok(None) };
        let mut pair = words.drain(at..(at + 2).min(words.len())).skip(1);
        Ok(Some(pair.next().ok_or(format!("{name} takes a number"))?.parse()?))
    };
    let stop = option("--stop")?.unwrap_or(usize::MAX);
    let consumers = option("--consumers")?.unwrap_or(2);
    let most = option("--most")?.unwrap_or(10);
    let store = store(path)?;
    let counts = Words::open_or_create::<Counts<Words>>(&store, "words", |_| Counts::new())?;

    let (sender, receiver) = mpsc::sync_channel::<(String, String)>(16);
    let receiver = Mutex::new(receiver);
    let consume = || -> everbyte::Result<usize> {
        let mut new = 0;
        loop {
            let next = receiver.lock().expect("no consumer panics").recv();
            let Ok((chunk, text)) = next else { return Ok(new) };
            let mut counted = BTreeMap::new();
            let all: Vec<String> = self::words(&text).collect();
            all.iter().for_each(|word| *counted.entry((bucket(word), word.as_str())).or_insert(0) += 1);
            new += usize::from(counts.tx(|j, counts| counts.count(&chunk, &counted, j))?);
        }
    };
    let new = thread::scope(|s| -> Result<usize, Box<dyn std::error::Error>> {
        let running: Vec<_> = (0..consumers.max(1)).map(|_| s.spawn(consume)).collect();
        let mut sent = 0;
        'files: for file in &words {
            let text = fs::read(file)?;
            for (number, chunk) in chunks(&String::from_utf8_lossy(&text)).into_iter().enumerate() {
                if sent == stop || sender.send((format!("{file}:{number}"), chunk.to_string())).is_err() {
                    break 'files;
                }
                sent += 1;
            }
        }
        drop(sender); // the consumers end when the channel is empty
        let results = running.into_iter().map(|one| one.join().expect("no consumer panics"));
        Ok(results.sum::<everbyte::Result<usize>>()?)
    })?;
    let all = counts.tx(|j, counts| counts.all(j))?;
    for (count, word) in all.iter().take(most) {
        println!("{count:7} {word}");
    }
    let total: u64 = all.iter().map(|(count, _)| count).sum();
    println!("{new} chunks counted now; {} words, {total} in all", all.len());
    Ok(())
}
