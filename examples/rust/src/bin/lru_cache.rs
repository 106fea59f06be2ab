//! A least-recently-used cache that restarts warm: squares, which it pretends are expensive.
//!
//! `lru_cache STORE NUMBER ..` prints each square and whether it was a hit.
//!
//! Entries lie in a fixed table, where a map finds them; `older` and `newer` thread them by age.
//! Hits of this run are counted in a volatile cell, those of all runs in a persistent one.

#![forbid(unsafe_code)]

use everbyte::{Journal, MemPool, PCell, PHashMap, PRefCell, PSafe, Pool, VCell, pool};
use everbyte_examples::{Outcome, arguments, store};

const ROOM: usize = 8;
const NONE: u32 = u32::MAX;

pool!(Cache);

#[derive(PSafe, Clone, Copy)]
#[repr(C)]
struct Entry {
    key: u64,
    value: u64,
    older: u32,
    newer: u32,
}

#[derive(PSafe)]
#[repr(C)]
struct Lru<P: MemPool> {
    entries: [PCell<Entry, P>; ROOM],
    places: PRefCell<PHashMap<u64, u32, P>, P>,
    newest: PCell<u32, P>,
    oldest: PCell<u32, P>,
    hits: PCell<u64, P>,
    hits_now: VCell<u64, P>,
}

impl<P: MemPool> Lru<P> {
    fn new() -> Lru<P> {
        let empty = Entry { key: 0, value: 0, older: NONE, newer: NONE };
        Lru {
            entries: std::array::from_fn(|_| PCell::new(empty)),
            places: PRefCell::default(),
            newest: PCell::new(NONE),
            oldest: PCell::new(NONE),
            hits: PCell::new(0),
            hits_now: VCell::new(),
        }
    }

    fn entry(&self, at: u32) -> Entry {
        self.entries[at as usize].get()
    }

    fn change(&self, at: u32, change: impl FnOnce(&mut Entry), j: &Journal<P>) {
        let mut entry = self.entry(at);
        change(&mut entry);
        self.entries[at as usize].set(entry, j);
    }

    fn unlink(&self, at: u32, j: &Journal<P>) {
        let Entry { older, newer, .. } = self.entry(at);
        match newer {
            NONE => self.newest.set(older, j),
            newer => self.change(newer, |entry| entry.older = older, j),
        }
        match older {
            NONE => self.oldest.set(newer, j),
            older => self.change(older, |entry| entry.newer = newer, j),
        }
    }

    fn link(&self, at: u32, j: &Journal<P>) {
        let older = self.newest.get();
        self.change(at, |entry| (entry.older, entry.newer) = (older, NONE), j);
        match older {
            NONE => self.oldest.set(at, j),
            older => self.change(older, |entry| entry.newer = at, j),
        }
        self.newest.set(at, j);
    }

    fn hit(&self, at: u32, j: &Journal<P>) -> u64 {
        self.unlink(at, j);
        self.link(at, j);
        self.hits.update(|count| count + 1, j);
        self.hits_now.set(self.hits_now.get().unwrap_or(0) + 1, j);
        self.entry(at).value
    }

    fn put(&self, key: u64, value: u64, j: &Journal<P>) -> u64 {
        let mut places = self.places.borrow_mut(j);
        let mut at = places.len() as u32;
        if at as usize == ROOM {
            at = self.oldest.get();
            self.unlink(at, j);
            places.remove(&self.entry(at).key, j);
        }
        self.change(at, |entry| (entry.key, entry.value) = (key, value), j);
        self.link(at, j);
        places.insert(key, at, j);
        value
    }

    /// The square, and whether it was a hit.
    fn square(&self, key: u64, j: &Journal<P>) -> (u64, bool) {
        let place = self.places.borrow().get(&key).copied();
        match place {
            Some(at) => (self.hit(at, j), true),
            None => (self.put(key, key.wrapping_mul(key), j), false),
        }
    }
}

fn main() -> Outcome {
    let (path, words) = arguments("lru_cache STORE NUMBER ..")?;
    let store = store(path)?;
    let cache = Cache::open_or_create::<Lru<Cache>>(&store, "squares", |_| Lru::new())?;
    println!("warm: {} entries", cache.places.borrow().len());
    for word in words {
        let key: u64 = word.parse()?;
        let (value, hit) = cache.tx(|j, cache| cache.square(key, j))?;
        println!("{key}: {value} ({})", if hit { "hit" } else { "miss" });
    }
    println!("hits: {} now, {} ever", cache.hits_now.get().unwrap_or(0), cache.hits.get());
    Ok(())
}
