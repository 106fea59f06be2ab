//! Cases of other files with a death between two generations: a process dies before one of its
//! stores and leaves words in the caches alone, another process opens the store on the same memory
//! and goes on, and then power fails. The second process must have flushed each word of the dead
//! one that its own changes rest on.
//!
//! In the cases whose names end in `-twice`, the second process dies, too, and a third one goes on:
//! it must have flushed the words of both.
//!
//! A further case needs no program of its own: one line in [`CASES`] names an existing case whose
//! program runs on any state that a crash leaves.

use crate::{Case, find, is_soak};
use everbyte_sim::{Explorer, Failure, Profile, Report};

pub(crate) const CASES: &[Case] = &[
    case("store-rename-dead", "store", "the death of a process that moves and makes objects", |explorer| {
        explore("store-names-rename", explorer, ALL, 60)
    }),
    case("store-names-dead", "store", "the death of a process in a name space that takes over", |explorer| {
        explore("store-names-begin", explorer, 40, 60)
    }),
    case("store-extend-dead", "store", "the death of a process whose object grows", |explorer| {
        explore("store-extend", explorer, ALL, 60)
    }),
    case("log-ring-dead", "log", "the death of a process that appends to a ring and truncates it", |explorer| {
        explore("log-ring-torn", explorer, ALL, 200)
    }),
    case("tx-redo-dead", "tx", "the death of a process between commits and truncations of its logs", |explorer| {
        explore("tx-redo-logs", explorer, 100, 60)
    }),
    case("heap-pages-dead", "heap", "the death of a process that allocates and frees runs of pages", |explorer| {
        explore("heap-pages", explorer, ALL, 200)
    }),
    case("kv-leaf-dead", "kv", "the death of a process that changes pairs of one leaf", |explorer| {
        explore("kv-one-leaf", explorer, 100, 100)
    }),
    case("heap-growth-dead", "heap", "the death of a process whose heap takes more clusters", |explorer| {
        explore("heap-growth", explorer, 40, 60)
    }),
    case("hkv-splits-dead", "hkv", "the death of a process that splits nodes of a tree", |explorer| {
        explore("hkv-tree-splits", explorer, ALL, 120)
    }),
    case("mnemosyne-regions-dead", "mnemosyne", "the death of a process that maps and unmaps regions", |explorer| {
        explore("mnemosyne-regions", explorer, 40, 60)
    }),
    case("store-cold-dead", "store", "the death of a process whose object has cold clusters", |explorer| {
        explore("store-cold", explorer, ALL, 200)
    }),
    case("store-limit-dead", "store", "the death of a process that limits the memory of an object", |explorer| {
        explore("store-cold-limit", explorer, 60, 60)
    }),
    case("store-trim-dead", "store", "the death of a process that trims an object", |explorer| {
        explore("store-trim", explorer, ALL, 60)
    }),
    case(
        "store-create-recovered",
        "store",
        "the death of a process that takes back a creation which lost power",
        |explorer| {
            let create = find("store-create").expect("a case of this crate");
            let explorer = explorer.once().total(150).recovery(1, 24).recoveries(u64::MAX).further_deaths(40);
            (create.program)(explorer.profiles(&[Profile::PMEM]))
        },
    ),
    case("store-names-twice", "store", "two deaths in a row of processes that make an object", |explorer| {
        explore_twice("store-names-second", explorer, ALL, 16)
    }),
    case("store-trim-twice", "store", "two deaths in a row of processes that trim an object", |explorer| {
        explore_twice("store-trim", explorer, 16, 3)
    }),
    case("store-limit-twice", "store", "two deaths in a row of processes that limit an object", |explorer| {
        explore_twice("store-cold-limit", explorer, 12, 2)
    }),
    case("log-ring-twice", "log", "two deaths in a row of processes that append to a ring", |explorer| {
        explore_twice("log-ring-torn", explorer, 24, 4)
    }),
    case("heap-pages-twice", "heap", "two deaths in a row of processes that allocate runs of pages", |explorer| {
        explore_twice("heap-pages", explorer, 16, 3)
    }),
    case("tx-redo-twice", "tx", "two deaths in a row of processes with redo logs", |explorer| {
        explore_twice("tx-redo-logs", explorer, 8, 2)
    }),
    case("hkv-splits-twice", "hkv", "two deaths in a row of processes that split nodes of a tree", |explorer| {
        explore_twice("hkv-tree-splits", explorer, 8, 3)
    }),
];

/// Images of power failures in the first generation: the case of that name tries them.
const FIRST: u64 = 40;

/// A death before each store.
const ALL: u64 = u64::MAX;

const fn case(
    name: &'static str,
    crate_name: &'static str,
    about: &'static str,
    program: fn(Explorer) -> Result<Report, Box<Failure>>,
) -> Case {
    Case { name, crate_name, about, total: FIRST, program }
}

/// The case `name` with so many deaths, and so many images of each second run.
fn explore(name: &str, explorer: Explorer, deaths: u64, images: u64) -> Result<Report, Box<Failure>> {
    let case = find(name).expect("a case of this crate");
    (case.program)(starts(explorer, deaths, images))
}

/// The case `name` with so many deaths, and so many further ones in each second run.
fn explore_twice(name: &str, explorer: Explorer, deaths: u64, further: u64) -> Result<Report, Box<Failure>> {
    let case = find(name).expect("a case of this crate");
    (case.program)(twice(explorer, deaths, further, 60))
}

/// As [`starts`], with so many further deaths in each second run; the soak tries more.
pub(crate) fn twice(explorer: Explorer, deaths: u64, further: u64, images: u64) -> Explorer {
    let further = if is_soak() && further > 0 { further.max(16) } else { further };
    starts(explorer, deaths, images).further_deaths(further)
}

/// Few images of a first run, and so many deaths in it. Memory outlives a process on `pmem` alone.
pub(crate) fn starts(explorer: Explorer, deaths: u64, images: u64) -> Explorer {
    let explorer = explorer.total(FIRST).floor(2).recovery(1 << 40, 1);
    explorer.after_deaths(deaths, images).further_deaths(0).profiles(&[Profile::PMEM])
}
