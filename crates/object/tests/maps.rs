//! Maps against their twins of the standard library: random programs, committed and rolled back; panics in the program's
//! own code; lookups by what keys borrow; files reopened.

mod common;

use common::store;
use everbyte_object::{Journal, MemPool, PCell, PHashMap, PRefCell, PSafe, PString, PVec, Pbox, Pool, pool};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

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

/// Whether both hold the same; every key is found by what it borrows, and others are not.
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

pool!(Twin);

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
            let outcome = all.try_tx_any(|j, all| {
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

thread_local! {
    /// How many calls of a key's own code are left; none to go: a panic.
    static FUSE: Cell<Option<u32>> = const { Cell::new(None) };
}

fn burn() {
    if let Some(left) = FUSE.get() {
        FUSE.set(left.checked_sub(1));
        if left == 0 {
            resume_unwind(Box::new("burnt")); // without a message
        }
    }
}

/// A key whose every method may panic.
#[derive(PSafe, Debug)]
#[repr(C)]
struct Fused<P: MemPool> {
    text: PString<P>,
}

impl<P: MemPool> Fused<P> {
    fn new(key: u32, j: &Journal<P>) -> Fused<P> {
        Fused { text: PString::from_str(&key.to_string(), j) }
    }

    fn burn(&self) -> &str {
        burn();
        &self.text
    }
}

impl<P: MemPool> PartialEq for Fused<P> {
    fn eq(&self, other: &Self) -> bool {
        self.burn() == &*other.text
    }
}

impl<P: MemPool> Eq for Fused<P> {}

impl<P: MemPool> Hash for Fused<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.burn().hash(state);
    }
}

/// Calls `change` with a fuse that burns through after 0, 1, 2 .. calls, until it does not; whatever was caught, the map is
/// whole, the transaction commits, and nothing leaks.
macro_rules! burnt {
    ($root:ident, |$map:ident, $j:ident| $change:expr) => {
        for fuse in 0.. {
            let panicked = $root.tx_any(|$j, map| {
                let mut guard = map.borrow_mut($j);
                let $map = &mut *guard;
                FUSE.set(Some(fuse));
                let panicked = catch_unwind(AssertUnwindSafe(|| $change)).is_err();
                FUSE.set(None);
                assert_eq!($map.iter().count(), $map.len());
                $map.iter().for_each(|(key, value)| assert_eq!($map.get(key), Some(value)));
                panicked
            });
            assert_eq!($root.check().unwrap(), []);
            if !panicked.unwrap() {
                assert!(fuse > 0, "nothing was called");
                break;
            }
        }
    };
}

#[test]
fn a_panic_in_the_code_of_keys_leaves_a_hash_map_whole() {
    pool!(P);
    let store = store();
    type Map = PRefCell<PHashMap<Fused<P>, u32, P>, P>;
    let map = P::create::<Map>(&store, "map", |_| PRefCell::default()).unwrap();
    burnt!(map, |map, j| map.extend((0..20).map(|key| (Fused::new(key, j), key)), j));
    assert_eq!(map.borrow().len(), 20);
    burnt!(map, |map, j| map.reserve(100, j));
    burnt!(map, |map, j| assert_eq!(map.insert(Fused::new(20, j), 20, j), None));
    burnt!(map, |map, j| assert_eq!(map.insert(Fused::new(20, j), 20, j), Some(20)));
    burnt!(map, |map, j| map.remove(&Fused::new(7, j), j));
    burnt!(map, |map, j| assert_ne!(PHashMap::from_iter((0..9).map(|key| (Fused::new(key, j), key)), j), *map));
    burnt!(map, |map, j| map.retain(|key, value| key.burn() == "3" || *value > 5, j));
    burnt!(map, |map, j| *map.get_or_insert_with(
        Fused::new(30, j),
        || {
            burn();
            30
        },
        j
    ) += 1);
    assert_eq!(map.borrow().len(), 16);
}

/// A key changed through a cell inside of it is not found any more; that is all that happens.
#[test]
fn a_key_changed_through_a_cell_is_lost_to_lookups_alone() {
    pool!(P);
    #[derive(PSafe)]
    #[repr(C)]
    struct Loose<P: MemPool>(PCell<u32, P>);
    impl<P: MemPool> PartialEq for Loose<P> {
        fn eq(&self, other: &Self) -> bool {
            self.0.get() == other.0.get()
        }
    }
    impl<P: MemPool> Eq for Loose<P> {}
    impl<P: MemPool> Hash for Loose<P> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.get().hash(state);
        }
    }
    let store = store();
    type Map = PRefCell<PHashMap<Loose<P>, Pbox<u32, P>, P>, P>;
    let map = P::create::<Map>(&store, "map", |_| PRefCell::default()).unwrap();
    map.tx(|j, map| {
        map.borrow_mut(j).extend((0..50).map(|key| (Loose(PCell::new(key)), Pbox::new(key, j))), j);
        map.borrow().keys().for_each(|key| key.0.set(key.0.get() + 1000, j));
    })
    .unwrap();
    assert_eq!(map.check().unwrap(), []);
    assert_eq!(map.borrow().iter().count(), 50);
    assert!((0..50).all(|key| !map.borrow().contains_key(&Loose(PCell::new(key)))));
    map.tx(|j, map| map.borrow_mut(j).reserve(100, j)).unwrap(); // places all keys by what they are now
    assert!((1000..1050).all(|key| map.borrow().contains_key(&Loose(PCell::new(key)))));
    map.tx(|j, map| map.borrow_mut(j).clear(j)).unwrap();
    assert_eq!(map.check().unwrap(), []);
}

/// Types of a program as keys, in functions for any pool: what a derive needs of a pool type, it has.
#[test]
fn derived_keys_work_in_any_pool() {
    pool!(P);
    #[derive(PSafe, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(C)]
    struct Place<P: MemPool> {
        street: PString<P>,
        number: u32,
        kind: Kind,
    }
    #[derive(PSafe, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    enum Kind {
        House,
        Shop { floors: u8 },
    }
    type Places<P> = PHashMap<Place<P>, u64, P>;
    fn place<P: MemPool>(number: u32, j: &Journal<P>) -> Place<P> {
        let kind = if number < 50 { Kind::House } else { Kind::Shop { floors: number as u8 } };
        Place { street: PString::from_str("Analytical Row", j), number, kind }
    }
    fn fill<P: MemPool>(places: &mut Places<P>, j: &Journal<P>) {
        places.extend((0..100).map(|number| (place(number, j), number.into())), j);
    }
    let store = store();
    let places = P::create::<PRefCell<Places<P>, P>>(&store, "places", |_| PRefCell::default()).unwrap();
    let sum = places.tx(|j, places| {
        let mut places = places.borrow_mut(j);
        fill(&mut places, j);
        (0..100).map(|number| places[&place(number, j)]).sum::<u64>()
    });
    assert_eq!(sum.unwrap(), 4950);
    assert_eq!(places.check().unwrap(), []);
}

/// Lookups by what keys borrow: text by `str`, vectors by slices, boxes by what they hold.
#[test]
fn keys_are_found_by_what_they_borrow() {
    pool!(P);
    type Maps<P> = (
        PRefCell<PHashMap<PString<P>, u32, P>, P>,
        PRefCell<PHashMap<PVec<u8, P>, u32, P>, P>,
        PRefCell<PHashMap<Pbox<u64, P>, u32, P>, P>,
    );
    let store = store();
    let maps = P::create::<Maps<P>>(&store, "maps", |_| Maps::default()).unwrap();
    maps.tx(|j, (texts, bytes, boxes)| {
        texts.borrow_mut(j).insert(PString::from_str("seven", j), 7, j);
        bytes.borrow_mut(j).insert(PVec::from_slice(&[7, 7], j), 7, j);
        boxes.borrow_mut(j).insert(Pbox::new(77, j), 7, j);
    })
    .unwrap();
    let (texts, bytes, boxes) = &*maps;
    assert_eq!((texts.borrow().get("seven"), texts.borrow().get("eight")), (Some(&7), None));
    assert_eq!((bytes.borrow().get(&[7, 7][..]), bytes.borrow().get(&[7][..])), (Some(&7), None));
    assert_eq!((boxes.borrow().get(&77), boxes.borrow().get(&7)), (Some(&7), None));
    assert_eq!(format!("{:?}", texts.borrow()), r#"{"seven": 7}"#);
}
