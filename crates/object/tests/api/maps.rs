//! Maps against their twins of the standard library: random programs, committed and rolled back,
//! and large ones.

use crate::common::store;
use everbyte_object::{
    MemPool, Out, PBTreeMap, PHashMap, PHashSet, PRefCell, PSafe, PString, Pbox, Pool, PoolTag, pool,
};
use everbyte_workload::Random;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u32),
    Remove(u16),
    Change(u16, u32),
    GetOrInsert(u16, u32),
    Retain(u32),
    Extend(Vec<(u16, u32)>),
    Double,
    Reserve(usize),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..60u16;
    prop_oneof![
        6 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        5 => key.clone().prop_map(Step::Remove),
        1 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Step::Change(key, value)),
        1 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Step::GetOrInsert(key, value)),
        1 => (2..5u32).prop_map(Step::Retain),
        1 => prop::collection::vec((key, any::<u32>()), 0..50).prop_map(Step::Extend),
        1 => Just(Step::Double),
        1 => (0..40usize).prop_map(Step::Reserve),
        1 => Just(Step::Clear),
    ]
}

/// Transactions of several steps, and whether each commits.
fn program() -> impl Strategy<Value = Vec<(Vec<Step>, bool)>> {
    prop::collection::vec((prop::collection::vec(step(), 1..16), any::<bool>()), 1..12)
}

/// One step of a map from text to boxes, beside that of its twin.
macro_rules! step {
    ($map:ident, $twin:ident, $step:expr, $j:ident, reserve: $reserve:expr) => {{
        let text = |key: u16| PString::from_str(&key.to_string(), $j);
        match $step {
            Step::Insert(key, value) => {
                let old = $map.insert(text(key), Pbox::new(value, $j), $j);
                assert_eq!(old.map(|old| *old), $twin.insert(key.to_string(), value));
            }
            Step::Remove(key) => {
                let old = $map.remove(key.to_string().as_str(), $j);
                assert_eq!(old.map(|old| *old), $twin.remove(&key.to_string()));
            }
            Step::Change(key, value) => {
                let found = $map.get_mut(key.to_string().as_str(), $j).map(|old| *old.as_mut($j) = value);
                assert_eq!(found, $twin.get_mut(&key.to_string()).map(|old| *old = value));
            }
            Step::GetOrInsert(key, value) => {
                let found = $map.get_or_insert_with(text(key), || Pbox::new(value, $j), $j).as_mut($j);
                let twin = $twin.entry(key.to_string()).or_insert(value);
                assert_eq!(*found, *twin);
                (*found, *twin) = (found.wrapping_add(1), twin.wrapping_add(1));
            }
            Step::Retain(of) => {
                $map.retain(|_, value| **value % of != 0, $j);
                $twin.retain(|_, value| *value % of != 0);
            }
            Step::Extend(ref items) => {
                $map.extend(items.iter().map(|(key, value)| (text(*key), Pbox::new(*value, $j))), $j);
                $twin.extend(items.iter().map(|(key, value)| (key.to_string(), *value)));
            }
            Step::Double => {
                for (_, value) in $map.iter_mut($j) {
                    let value = value.as_mut($j);
                    *value = value.wrapping_mul(2);
                }
                $twin.values_mut().for_each(|value| *value = value.wrapping_mul(2));
            }
            Step::Reserve(more) => $reserve(&mut $map, more),
            Step::Clear => {
                $map.clear($j);
                $twin.clear();
            }
        }
    }};
}

/// Whether both hold the same entries; every key is found by its borrowed form, and others are not.
macro_rules! same {
    ($map:expr, $twin:expr) => {{
        let (map, twin) = (&$map, &$twin);
        assert_eq!((map.len(), map.is_empty(), map.iter().len()), (twin.len(), twin.is_empty(), twin.len()));
        let mut all: Vec<_> = map.iter().map(|(key, value)| (key.to_string(), **value)).collect();
        let mut expected: Vec<_> = twin.iter().map(|(key, value)| (key.clone(), *value)).collect();
        all.sort();
        expected.sort();
        assert_eq!(all, expected);
        for key in 0..62u16 {
            let key = key.to_string();
            assert_eq!(map.get(key.as_str()).map(|value| **value), twin.get(&key).copied());
            assert_eq!(map.contains_key(key.as_str()), twin.contains_key(&key));
        }
        assert!(map.keys().all(|key| map[key.as_str()] == *map.get_key_value(key.as_str()).unwrap().1));
        assert_eq!(map.values().count(), twin.len());
    }};
}

pool!(Twin, Ordered);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_hash_map_is_its_twin(program in program()) {
        let store = store();
        type Map = PRefCell<PHashMap<PString<Twin>, Pbox<u32, Twin>, Twin>, Twin>;
        let all = Twin::create::<Map>(&store, "all", |_| PRefCell::default()).unwrap();
        let mut twin = HashMap::<String, u32>::new();
        for (steps, commit) in program {
            let mut next = twin.clone();
            let outcome = all.try_tx(|j, all| {
                let mut all = all.borrow_mut(j);
                for step in &steps {
                    step!(all, next, *step, j, reserve: |all: &mut PHashMap<_, _, _>, more| {
                        all.reserve(more, j);
                        assert!(all.capacity() - all.len() >= more);
                    });
                    same!(*all, next);
                }
                if commit { Ok(()) } else { Err(()) }
            });
            prop_assert_eq!(outcome.is_ok(), commit, "{:?}", outcome);
            if commit { twin = next }
            same!(*all.borrow(), twin);
            prop_assert_eq!(all.check().unwrap(), []);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_ordered_map_is_its_twin(program in program(), ends in prop::collection::vec((0..62u16, 0..62u16), 8)) {
        let store = store();
        type Map = PRefCell<PBTreeMap<PString<Ordered>, Pbox<u32, Ordered>, Ordered>, Ordered>;
        let all = Ordered::create::<Map>(&store, "all", |_| PRefCell::default()).unwrap();
        let mut twin = BTreeMap::<String, u32>::new();
        for (steps, commit) in program {
            let mut next = twin.clone();
            let outcome = all.try_tx(|j, all| {
                let mut all = all.borrow_mut(j);
                for step in &steps {
                    step!(all, next, *step, j, reserve: |all: &mut PBTreeMap<PString<_>, Pbox<u32, _>, _>, most| {
                        // The ends go, alternately.
                        for turn in 0..most / 4 {
                            let (gone, twin) = match turn % 2 {
                                0 => (all.pop_first(j), next.pop_first()),
                                _ => (all.pop_last(j), next.pop_last()),
                            };
                            assert_eq!(gone.map(|(key, value)| (key.to_string(), *value)), twin);
                        }
                    });
                    same!(*all, next);
                    in_order(&all, &next);
                }
                if commit { Ok(()) } else { Err(()) }
            });
            prop_assert_eq!(outcome.is_ok(), commit, "{:?}", outcome);
            if commit { twin = next }
            same!(*all.borrow(), twin);
            in_order(&all.borrow(), &twin);
            ranges(&all.borrow(), &twin, &ends);
            prop_assert_eq!(all.check().unwrap(), []);
        }
    }
}

/// Entries of both, in the same order, from either end and from both at once.
fn in_order<P: MemPool>(map: &PBTreeMap<PString<P>, Pbox<u32, P>, P>, twin: &BTreeMap<String, u32>) {
    let plain = |(key, value): (&PString<P>, &Pbox<u32, P>)| (key.to_string(), **value);
    let twin: Vec<_> = twin.iter().map(|(key, value)| (key.clone(), *value)).collect();
    assert!(map.iter().map(plain).eq(twin.iter().cloned()));
    assert!(map.iter().rev().map(plain).eq(twin.iter().rev().cloned()));
    assert_eq!(map.first_key_value().map(plain), twin.first().cloned());
    assert_eq!(map.last_key_value().map(plain), twin.last().cloned());
    let (mut ours, mut theirs) = (map.iter(), twin.iter());
    while let Some(next) = ours.next() {
        assert_eq!(Some(plain(next)), theirs.next().cloned());
        assert_eq!(ours.next_back().map(plain), theirs.next_back().cloned());
        assert_eq!(ours.len(), theirs.len());
    }
    assert_eq!((theirs.next(), ours.next_back().is_none()), (None, true));
}

/// Ranges with ends of every kind; those that the standard library refuses are refused.
fn ranges<P: MemPool>(map: &PBTreeMap<PString<P>, Pbox<u32, P>, P>, twin: &BTreeMap<String, u32>, ends: &[(u16, u16)]) {
    for (start, end) in ends {
        let (start, end) = (start.to_string(), end.to_string());
        let bounds = |key| [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
        for (start, end) in bounds(&*start).into_iter().flat_map(|start| bounds(&*end).map(|end| (start, end))) {
            let refused = match (start, end) {
                (Bound::Excluded(start), Bound::Excluded(end)) => start >= end,
                (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
                (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => {
                    start > end
                }
            };
            if refused {
                continue; // `ranges_are_refused_as_those_of_the_standard_library`
            }
            let ours = map.range::<str, _>((start, end)).map(|(key, _)| key.as_str());
            let theirs = twin.range::<str, _>((start, end)).map(|(key, _)| key.as_str());
            assert!(ours.clone().eq(theirs.clone()), "{start:?} {end:?}");
            assert!(ours.rev().eq(theirs.rev()), "{start:?} {end:?}");
        }
    }
}

#[test]
fn ranges_are_refused_as_those_of_the_standard_library() {
    pool!(P);
    let store = store();
    let map = P::create::<PBTreeMap<u32, u32, P>>(&store, "map", |j| PBTreeMap::from_iter((0..9).map(|n| (n, n)), j));
    let map = map.unwrap();
    use Bound::{Excluded, Included};
    for range in [(Included(5), Excluded(4)), (Excluded(4), Excluded(4)), (Included(90), Included(80))] {
        assert!(catch_unwind(AssertUnwindSafe(|| map.range(range).count())).is_err(), "{range:?}");
    }
    assert_eq!(map.range((Included(4), Excluded(4))).count(), 0);
    assert_eq!(map.range(3..=5).map(|(key, _)| *key).collect::<Vec<_>>(), [3, 4, 5]);
}

/// Thousands of entries of a size, which come in order, go and come at random, and go from the
/// ends.
fn large<G: PoolTag, const W: usize>() {
    let store = store();
    type Map<const W: usize, P> = PRefCell<PBTreeMap<u64, [u64; W], P>, P>;
    let map = Out::<G>::create::<Map<W, Out<G>>>(&store, "map", |_| PRefCell::default()).unwrap();
    let mut twin: BTreeMap<u64, [u64; W]> = (0..2000).map(|key| (key, [key; W])).collect();
    let mut random = Random::new(W as u64);
    let mut steps: Vec<(u64, bool)> = (0..4000).map(|_| (random.below(3000), random.below(3) > 0)).collect();
    steps.extend((0..3000).filter(|key| key % 7 != 0).map(|key| (key, true)));
    map.tx(|j, map| {
        let mut map = map.borrow_mut(j);
        map.extend((0..2000).map(|key| (key, [key; W])), j);
        for (key, goes) in steps {
            match goes {
                true => assert_eq!(map.remove(&key, j), twin.remove(&key)),
                false => assert_eq!(map.insert(key, [key + 1; W], j), twin.insert(key, [key + 1; W])),
            }
        }
        assert!(map.iter().eq(twin.iter()));
        for turn in 0..100 {
            match turn % 2 {
                0 => assert_eq!(map.pop_first(j), twin.pop_first()),
                _ => assert_eq!(map.pop_last(j), twin.pop_last()),
            }
        }
        map.range_mut(1000..2000, j).rev().for_each(|(_, value)| value[0] = 7);
        twin.range_mut(1000..2000).for_each(|(_, value)| value[0] = 7);
    })
    .unwrap();
    assert!(map.borrow().iter().eq(twin.iter()));
    assert_eq!(map.check().unwrap(), []);
    map.tx(|j, map| map.borrow_mut(j).retain(|_, _| false, j)).unwrap();
    assert_eq!((map.borrow().len(), map.borrow().iter().count(), map.check().unwrap()), (0, 0, vec![]));
}

/// Nodes of many, of some and of few entries.
#[test]
fn large_ordered_maps_are_their_twins() {
    pool!(P);
    large::<PTag, 1>();
    large::<PTag, 4>();
    large::<PTag, 30>();
}

/// Maps in maps, as deep as a list is long: dropping them does not overflow the stack.
#[test]
fn nested_ordered_maps_are_dropped_without_overflowing_the_stack() {
    pool!(P);
    #[derive(PSafe)]
    #[repr(C)]
    struct Folder<P: MemPool> {
        below: PBTreeMap<u32, Folder<P>, P>,
    }
    let store = store();
    let top = P::create::<PRefCell<Folder<P>, P>>(&store, "top", |j| {
        let mut top = Folder { below: PBTreeMap::new() };
        (0..50_000).for_each(|number| {
            let below = std::mem::take(&mut top.below);
            top.below.insert(number, Folder { below }, j);
        });
        PRefCell::new(top)
    });
    let top = top.unwrap();
    assert_eq!(top.check().unwrap(), []);
    top.tx(|j, top| top.borrow_mut(j).below.clear(j)).unwrap();
    assert_eq!(top.check().unwrap(), []);
}

fn after<P: MemPool>(map: &PHashMap<u64, u64, P>, key: u64) -> Option<u64> {
    map.iter_after(&key).next().map(|(key, _)| *key)
}

/// The keys of a map, by steps that each begin with a key.
fn walked<P: MemPool>(map: &PHashMap<u64, u64, P>) -> Vec<u64> {
    let first = keys(map).first().copied();
    std::iter::successors(first, |key| after(map, *key)).collect()
}

fn keys<P: MemPool>(map: &PHashMap<u64, u64, P>) -> Vec<u64> {
    map.iter().map(|(key, _)| *key).collect()
}

/// A walk by keys meets what an iterator meets, also when other keys go between its steps; behind
/// an absent key there is nothing.
#[test]
fn a_hash_map_is_walked_by_its_keys() {
    pool!(P);
    let store = store();
    let map = P::create::<PRefCell<PHashMap<u64, u64, P>, P>>(&store, "map", |_| PRefCell::default()).unwrap();
    assert_eq!(map.borrow().iter_after(&1).count(), 0);
    map.tx(|j, map| {
        let mut map = map.borrow_mut(j);
        for key in 0..100 {
            map.insert(key, key + 1, j);
            assert_eq!(walked(&map), keys(&map)); // grown, too
        }
        let all = keys(&map);
        for (index, key) in all.iter().enumerate() {
            assert!(
                map.iter_after(key)
                    .map(|(key, value)| (*key, value - 1))
                    .eq(all[index + 1..].iter().map(|key| (*key, *key)))
            );
        }
        assert_eq!(map.iter_after(&100).count(), 0);
        let (mut at, mut met) = (all[0], vec![all[0]]);
        while let Some(next) = after(&map, at) {
            met.push(next);
            map.remove(&at, j);
            at = next;
        }
        assert_eq!(met, all);
        assert_eq!((keys(&map), map.iter_after(&all[0]).count()), (vec![at], 0));
        map.reserve(1000, j);
        (0..500).for_each(|key| drop(map.insert(key, 0, j)));
        assert_eq!((walked(&map), map.len()), (keys(&map), 500));
    })
    .unwrap();
}

/// The same of a set.
#[test]
fn a_hash_set_is_walked_by_its_items() {
    pool!(P);
    let store = store();
    let set = P::create::<PRefCell<PHashSet<PString<P>, P>, P>>(&store, "set", |_| PRefCell::default()).unwrap();
    assert_eq!(set.borrow().iter_after("a").count(), 0);
    set.tx(|j, set| {
        let mut set = set.borrow_mut(j);
        (0..40).for_each(|number: u32| assert!(set.insert(PString::from_str(&number.to_string(), j), j)));
        let all: Vec<String> = set.iter().map(|item| item.to_string()).collect();
        for (index, item) in all.iter().enumerate() {
            assert!(
                set.iter_after(item.as_str()).map(|item| item.as_str()).eq(all[index + 1..].iter().map(String::as_str))
            );
        }
        assert_eq!(set.iter_after("40").count(), 0);
    })
    .unwrap();
}
