//! Keys of maps: code of keys that misbehaves, and lookups.

use crate::common::store;
use everbyte_object::{Journal, MemPool, PBTreeMap, PCell, PHashMap, PRefCell, PSafe, PString, PVec, Pbox, Pool, pool};
use std::cell::Cell;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

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

impl<P: MemPool> PartialOrd for Fused<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P: MemPool> Ord for Fused<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.burn().cmp(&other.text)
    }
}

/// Calls `change` with a fuse that burns through after 0, 1, 2 .. calls, until it does not;
/// after any caught panic the map is whole, the transaction commits, and nothing leaks.
macro_rules! burnt {
    ($root:ident, |$map:ident, $j:ident| $change:expr) => {
        for fuse in 0.. {
            let panicked = $root.tx(|$j, map| {
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

/// Operations of both maps, with a fuse.
macro_rules! burn_all {
    ($Map:ident, $map:ident) => {
        burnt!($map, |map, j| map.extend((0..20).map(|key| (Fused::new(key, j), key)), j));
        assert_eq!($map.borrow().len(), 20);
        burnt!($map, |map, j| assert_eq!(map.insert(Fused::new(20, j), 20, j), None));
        burnt!($map, |map, j| assert_eq!(map.insert(Fused::new(20, j), 20, j), Some(20)));
        burnt!($map, |map, j| map.remove(&Fused::new(7, j), j));
        burnt!($map, |map, j| assert_ne!($Map::from_iter((0..9).map(|key| (Fused::new(key, j), key)), j), *map));
        burnt!($map, |map, j| *map.get_or_insert_with(Fused::new(30, j), burnt_value, j) += 1);
        burnt!($map, |map, j| map.retain(|key, value| key.burn() == "3" || *value > 5, j));
        assert_eq!($map.borrow().len(), 16);
    };
}

fn burnt_value() -> u32 {
    burn();
    30
}

#[test]
fn a_panic_in_the_code_of_keys_leaves_a_hash_map_whole() {
    pool!(P);
    let store = store();
    type Map = PRefCell<PHashMap<Fused<P>, u32, P>, P>;
    let map = P::create::<Map>(&store, "map", |_| PRefCell::default()).unwrap();
    burn_all!(PHashMap, map);
    burnt!(map, |map, j| map.reserve(100, j));
}

#[test]
fn a_panic_in_the_code_of_keys_leaves_an_ordered_map_whole() {
    pool!(P);
    let store = store();
    type Map = PRefCell<PBTreeMap<Fused<P>, u32, P>, P>;
    let map = P::create::<Map>(&store, "map", |_| PRefCell::default()).unwrap();
    burn_all!(PBTreeMap, map);
    burnt!(map, |map, j| map.range_mut(Fused::new(1, j).., j).for_each(|(_, value)| *value += 1));
}

/// A key with a cell inside of it.
#[derive(PSafe, Debug)]
#[repr(C)]
struct Loose<P: MemPool>(PCell<u32, P>);

impl<P: MemPool> Loose<P> {
    fn new(key: u32) -> Loose<P> {
        Loose(PCell::new(key))
    }
}

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

impl<P: MemPool> PartialOrd for Loose<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P: MemPool> Ord for Loose<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.get().cmp(&other.0.get())
    }
}

/// A key changed through a cell inside of it is not found any more; that is all that happens.
#[test]
fn a_key_changed_through_a_cell_is_lost_to_lookups_alone() {
    pool!(P);
    let store = store();
    type Map = PRefCell<PHashMap<Loose<P>, Pbox<u32, P>, P>, P>;
    let map = P::create::<Map>(&store, "map", |_| PRefCell::default()).unwrap();
    map.tx(|j, map| {
        map.borrow_mut(j).extend((0..50).map(|key| (Loose::new(key), Pbox::new(key, j))), j);
        map.borrow().keys().for_each(|key| key.0.set(key.0.get() + 1000, j));
    })
    .unwrap();
    assert_eq!(map.check().unwrap(), []);
    assert_eq!(map.borrow().iter().count(), 50);
    assert!((0..50).all(|key| !map.borrow().contains_key(&Loose::new(key))));
    // places all keys by their present values
    map.tx(|j, map| map.borrow_mut(j).reserve(100, j)).unwrap();
    assert!((1000..1050).all(|key| map.borrow().contains_key(&Loose::new(key))));
    map.tx(|j, map| map.borrow_mut(j).clear(j)).unwrap();
    assert_eq!(map.check().unwrap(), []);
}

/// The same with keys that lose their order: what comes and goes then comes and goes somewhere,
/// once.
#[test]
fn an_order_that_changes_loses_nothing_but_lookups() {
    pool!(P);
    let store = store();
    type Map = PRefCell<PBTreeMap<Loose<P>, Pbox<u32, P>, P>, P>;
    let map = P::create::<Map>(&store, "map", |_| PRefCell::default()).unwrap();
    let outcome = map.tx(|j, map| {
        let mut map = map.borrow_mut(j);
        map.extend((0..200).map(|key| (Loose::new(key), Pbox::new(key, j))), j);
        map.keys().for_each(|key| key.0.set(key.0.get().wrapping_mul(0x9e37_79b9) >> 20, j));
        let (mut come, mut gone) = (200, 0);
        for key in 0..2000 {
            gone += usize::from(map.remove(&Loose::new(key), j).is_some());
            come += usize::from(map.insert(Loose::new(key * 3), Pbox::new(key, j), j).is_none());
        }
        map.retain(|key, _| key.0.get() % 5 != 0, j);
        assert!(map.len() < come - gone);
        assert_eq!((map.iter().count(), map.iter().rev().count()), (map.len(), map.len()));
        map.len()
    });
    assert_eq!(map.borrow().len(), outcome.unwrap());
    assert_eq!(map.check().unwrap(), []);
    // A range whose ends lie the wrong way round for the keys as they are is refused, not lent out
    // twice.
    let ends = (0..500).map(|start| {
        catch_unwind(AssertUnwindSafe(|| {
            map.tx(|j, map| {
                let mut map = map.borrow_mut(j);
                let all: Vec<&mut Pbox<u32, _>> =
                    map.range_mut(Loose::new(start)..Loose::new(start + 100), j).map(|(_, value)| value).collect();
                let mut places: Vec<u64> = all.iter().map(|value| value.offset()).collect();
                places.sort_unstable();
                assert!(places.windows(2).all(|pair| pair[0] != pair[1]));
            })
            .is_ok()
        }))
    });
    assert!(ends.into_iter().any(|outcome| outcome.is_ok_and(|fine| fine)));
    map.tx(|j, map| map.borrow_mut(j).clear(j)).unwrap();
    assert_eq!(map.check().unwrap(), []);
}

/// Types of a program as keys, in functions for any pool: what a derive needs of a pool type, it
/// has.
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
    type Places<P> = (PHashMap<Place<P>, u64, P>, PBTreeMap<Place<P>, u64, P>);
    fn place<P: MemPool>(number: u32, j: &Journal<P>) -> Place<P> {
        let kind = if number < 50 { Kind::House } else { Kind::Shop { floors: number as u8 } };
        Place { street: PString::from_str("Analytical Row", j), number, kind }
    }
    fn fill<P: MemPool>(places: &mut Places<P>, j: &Journal<P>) {
        places.0.extend((0..100).map(|number| (place(number, j), number.into())), j);
        places.1.extend((0..100).rev().map(|number| (place(number, j), number.into())), j);
    }
    let store = store();
    let places = P::create::<PRefCell<Places<P>, P>>(&store, "places", |_| PRefCell::default()).unwrap();
    let sum = places.tx(|j, places| {
        let mut places = places.borrow_mut(j);
        fill(&mut places, j);
        (0..100).map(|number| places.0[&place(number, j)] + places.1[&place(number, j)]).sum::<u64>()
    });
    assert_eq!(sum.unwrap(), 2 * 4950);
    assert!(places.borrow().1.values().copied().eq(0..100));
    assert_eq!(places.check().unwrap(), []);
}

/// Lookups by borrowed forms of keys: text by `str`, vectors by slices, boxes by their values.
#[test]
fn keys_are_found_by_what_they_borrow() {
    pool!(P);
    type Maps<P> = (
        PRefCell<PHashMap<PString<P>, u32, P>, P>,
        PRefCell<PHashMap<PVec<u8, P>, u32, P>, P>,
        PRefCell<PHashMap<Pbox<u64, P>, u32, P>, P>,
        PRefCell<PBTreeMap<PVec<PString<P>, P>, u32, P>, P>,
    );
    let store = store();
    let maps = P::create::<Maps<P>>(&store, "maps", |_| Maps::default()).unwrap();
    maps.tx(|j, (texts, bytes, boxes, paths)| {
        texts.borrow_mut(j).insert(PString::from_str("seven", j), 7, j);
        bytes.borrow_mut(j).insert(PVec::from_slice(&[7, 7], j), 7, j);
        boxes.borrow_mut(j).insert(Pbox::new(77, j), 7, j);
        paths.borrow_mut(j).insert(PVec::from_iter(["usr", "bin"].map(|part| PString::from_str(part, j)), j), 7, j);
    })
    .unwrap();
    let (texts, bytes, boxes, paths) = &*maps;
    assert_eq!((texts.borrow().get("seven"), texts.borrow().get("eight")), (Some(&7), None));
    assert_eq!((bytes.borrow().get(&[7, 7][..]), bytes.borrow().get(&[7][..])), (Some(&7), None));
    assert_eq!((boxes.borrow().get(&77), boxes.borrow().get(&7)), (Some(&7), None));
    let (first, _) = paths.borrow().first_key_value().map(|(path, value)| (path.len(), *value)).unwrap();
    assert_eq!((first, paths.borrow().get(&[][..])), (2, None));
    assert_eq!(format!("{:?}", texts.borrow()), r#"{"seven": 7}"#);
}
