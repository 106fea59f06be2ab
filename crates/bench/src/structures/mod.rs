//! The persistent structures of the `workloads` case (those of crates/bench-bridge, and the word
//! count), written as a program would write them: the same algorithms as in
//! crates/bench-rivals/c/workloads.c, a transaction for each operation; and the tree of `rbtree`.

pub mod plain;
pub mod rbtree;
pub mod words;

use everbyte_bench_bridge::{bst, btree8, kvstore};
use everbyte_bench_rivals::{Structure, WorkKind};
use everbyte_object::{PSafe, Root, pool};
use everbyte_workload::{mix, step};

pool!(
    /// Of the three maps.
    pub Maps
);

/// The root of a pool with one of each.
#[derive(PSafe)]
#[repr(C)]
pub struct Top<P: everbyte_object::MemPool> {
    bst: bst::Link<P>,
    kvstore: kvstore::RecordTable<P>,
    btree8: btree8::Tree<P>,
}

impl<P: everbyte_object::MemPool> Top<P> {
    /// Empty maps; the hash table has so many buckets.
    pub fn new(buckets: usize, j: &everbyte_object::Journal<P>) -> Top<P> {
        Top { bst: Default::default(), kvstore: kvstore::new(buckets, j), btree8: Default::default() }
    }
}

/// `get` and `remove` of a structure, by key.
type Find = fn(&Root<Top<Maps>, Maps>, u64) -> u64;
/// `put` of a structure: key and value.
type Change = fn(&Root<Top<Maps>, Maps>, u64, u64) -> u64;

/// Runs operations on one of `keys` keys each; answers a sum of what they found.
pub fn run(
    top: &Root<Top<Maps>, Maps>,
    structure: Structure,
    kind: WorkKind,
    random: &mut u64,
    keys: u64,
    count: u64,
) -> u64 {
    let (get, put, remove): (Find, Change, Find) = match structure {
        Structure::Bst => (
            |top, key| bst::get(&top.bst, key),
            |top, key, value| done(top.tx(|j, top| bst::put(&top.bst, key, value, j))),
            |top, key| done(top.tx(|j, top| bst::remove(&top.bst, key, j))),
        ),
        Structure::KvStore => (
            |top, key| kvstore::get(&top.kvstore, key),
            |top, key, value| done(top.tx(|j, top| kvstore::put(&top.kvstore, key, value, j))),
            |top, key| done(top.tx(|j, top| kvstore::remove(&top.kvstore, key, j))),
        ),
        Structure::Btree8 => (
            |top, key| btree8::get(&top.btree8, key),
            |top, key, value| done(top.tx(|j, top| btree8::put(&top.btree8, key, value, j))),
            |top, key| done(top.tx(|j, top| btree8::remove(&top.btree8, key, j))),
        ),
    };
    let mut sum = 0u64;
    if kind == WorkKind::Load {
        return (0..keys).step_by(2).map(|number| put(top, mix(number), number)).sum();
    }
    for _ in 0..count {
        let word = step(random);
        let key = mix(((word >> 32) * keys) >> 32);
        let found = match if kind == WorkKind::Get { 2 } else { word % 3 } {
            0 => put(top, key, word),
            1 => remove(top, key),
            _ => get(top, key),
        };
        sum = sum.wrapping_add(found);
    }
    sum
}

fn done(outcome: everbyte_object::Result<u64>) -> u64 {
    outcome.expect("a transaction that must succeed")
}
