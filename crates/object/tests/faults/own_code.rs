//! Code of the program that the collections call: comparisons, hashes, clones and closures that
//! panic or contradict themselves.
//!
//! A panic that leaves the body rolls everything back. A panic that the body catches, and an order
//! that contradicts itself, leave each collection whole: every element is in one place, none is
//! lost, and nothing leaks. A panic that ends a nested transaction ends the outer one, too.

use crate::common::store;
use everbyte_object::{
    Error, Journal, MemPool, PBTreeMap, PBTreeSet, PBinaryHeap, PHashMap, PHashSet, PRefCell, PSafe, PVec, PVecDeque,
    Pbox, Pool, Root, pool,
};
use everbyte_workload::Random;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// How the code of the program behaves.
enum Mood {
    Calm,
    /// So many calls are left; none to go: a panic.
    Fuse(u32),
    /// Comparisons and hashes are random.
    Chaos(Random),
}

thread_local! {
    static MOOD: RefCell<Mood> = const { RefCell::new(Mood::Calm) };
}

fn set(mood: Mood) {
    MOOD.with(|current| *current.borrow_mut() = mood);
}

/// One call of the program's code: a random number in chaos.
fn called() -> Option<u64> {
    let burnt = MOOD.with(|mood| match &mut *mood.borrow_mut() {
        Mood::Calm => Ok(None),
        Mood::Fuse(0) => Err(()),
        Mood::Fuse(left) => {
            *left -= 1;
            Ok(None)
        }
        Mood::Chaos(random) => Ok(Some(random.below(1 << 20))),
    });
    burnt.unwrap_or_else(|()| {
        set(Mood::Calm); // once
        resume_unwind(Box::new("burnt")) // without a message
    })
}

/// An element with a block of its own, so that one lost or in two places is found.
#[derive(PSafe, Debug)]
#[repr(C)]
struct Item<P: MemPool> {
    key: Pbox<u32, P>,
}

impl<P: MemPool> Item<P> {
    fn new(key: u32, j: &Journal<P>) -> Item<P> {
        Item { key: Pbox::new(key, j) }
    }

    fn some(keys: std::ops::Range<u32>, j: &Journal<P>) -> impl Iterator<Item = Item<P>> {
        // in no order
        let len = keys.len() as u32;
        keys.clone().map(move |key| Item::new(keys.start + key * 7 % len, j))
    }
}

impl<P: MemPool> PartialEq for Item<P> {
    fn eq(&self, other: &Self) -> bool {
        called().map_or_else(|| *self.key == *other.key, |random| random % 4 == 0)
    }
}

impl<P: MemPool> Eq for Item<P> {}

impl<P: MemPool> PartialOrd for Item<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P: MemPool> Ord for Item<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        called().map_or_else(|| self.key.cmp(&other.key), |random| (random % 5).cmp(&2))
    }
}

impl<P: MemPool> Hash for Item<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        called().map_or(u64::from(*self.key), |random| random % 16).hash(state);
    }
}

/// A plain value whose `clone` is code of the program.
#[derive(PSafe, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
struct Plain(u32);

#[allow(clippy::non_canonical_clone_impl)]
impl Clone for Plain {
    fn clone(&self) -> Plain {
        called();
        Plain(self.0)
    }
}

#[derive(PSafe, Debug, Default)]
#[repr(C)]
struct All<P: MemPool> {
    vector: PVec<Item<P>, P>,
    deque: PVecDeque<Item<P>, P>,
    heap: PBinaryHeap<Item<P>, P>,
    hash: PHashMap<Item<P>, Item<P>, P>,
    tree: PBTreeMap<Item<P>, Item<P>, P>,
    hash_set: PHashSet<Item<P>, P>,
    tree_set: PBTreeSet<Item<P>, P>,
    plain: PVec<Plain, P>,
}

impl<P: MemPool> All<P> {
    fn filled(j: &Journal<P>) -> All<P> {
        let pairs = || Item::some(0..32, j).zip(Item::some(0..32, j));
        All {
            vector: PVec::from_iter(Item::some(0..32, j).chain(Item::some(20..24, j)), j),
            deque: PVecDeque::from_iter(Item::some(0..32, j), j),
            heap: PBinaryHeap::from_iter(Item::some(0..32, j), j),
            hash: PHashMap::from_iter(pairs(), j),
            tree: PBTreeMap::from_iter(pairs(), j),
            hash_set: PHashSet::from_iter(Item::some(0..32, j), j),
            tree_set: PBTreeSet::from_iter(Item::some(0..32, j), j),
            plain: PVec::from_iter((0..32).map(Plain), j),
        }
    }

    /// The blocks of all elements; each collection has as many as it says.
    fn places(&self) -> Vec<u64> {
        let lens = [self.vector.len(), self.deque.len(), self.heap.len(), self.hash.len(), self.tree.len()];
        let pairs = |(key, value): (&Item<P>, &Item<P>)| [key.key.offset(), value.key.offset()];
        let mut all: Vec<u64> = self.vector.iter().map(|item| item.key.offset()).collect();
        all.extend(self.deque.iter().map(|item| item.key.offset()));
        all.extend(self.heap.iter().map(|item| item.key.offset()));
        all.extend(self.hash.iter().flat_map(pairs));
        all.extend(self.tree.iter().flat_map(pairs));
        all.extend(self.hash_set.iter().map(|item| item.key.offset()));
        all.extend(self.tree_set.iter().rev().map(|item| item.key.offset()));
        let sets = self.hash_set.len() + self.tree_set.len();
        assert_eq!(all.len(), lens.iter().sum::<usize>() + lens[3] + lens[4] + sets);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "an element in two places");
        all
    }
}

/// A closure's answer, by the program's code.
fn odd<P: MemPool>(item: &Item<P>) -> bool {
    called().map_or(*item.key % 2 == 1, |random| random % 2 == 1)
}

/// Operations below this number neither make nor drop elements.
const MOVING: usize = 12;
const OPERATIONS: usize = 50;

/// One operation.
fn operate<P: MemPool>(operation: usize, all: &mut All<P>, j: &Journal<P>) {
    match operation {
        0 => all.vector.sort(j),
        1 => all.vector.sort_unstable(j),
        2 => all.vector.sort_by(|one, other| other.cmp(one), j),
        3 => all.vector.sort_unstable_by(|one, other| other.cmp(one), j),
        4 => all.vector.sort_by_key(|item| odd(item), j),
        5 => all.vector.sort_by_cached_key(|item| odd(item), j),
        6 => _ = all.vector.binary_search(&Item::new(9, j)),
        7 => all.vector.sort_unstable_by_key(|item| odd(item), j),
        8 => _ = all.heap.iter().max(),
        9 => _ = all.deque.iter().min(),
        10 => all.tree.range_mut(Item::new(3, j).., j).for_each(|(_, value)| *value.key.as_mut(j) += 1),
        11 => all.tree.iter().zip(all.hash.iter()).for_each(|((one, _), (other, _))| _ = one.cmp(other)),
        12 => all.vector.dedup(j),
        13 => all.vector.dedup_by_key(|item| odd(item), j),
        14 => all.vector.dedup_by(|one, other| odd(one) == odd(other), j),
        15 => all.vector.retain(odd, j),
        16 => all.deque.retain(odd, j),
        17 => all.heap.retain(odd, j),
        18 => all.hash.retain(|key, value| odd(key) && odd(value), j),
        19 => all.tree.retain(|key, value| odd(key) && odd(value), j),
        20 => all.hash_set.retain(odd, j),
        21 => all.tree_set.retain(odd, j),
        22 => all.vector.drain(2..9, j).iter().for_each(|item| _ = odd(item)),
        23 => all.deque.drain(.., j).into_iter().for_each(|item| _ = odd(&item)),
        24 => all.hash.drain(j).for_each(|(key, _)| _ = odd(&key)),
        25 => all.tree.drain(j).for_each(|(key, _)| _ = odd(&key)),
        26 => {
            let mut rest = all.vector.split_off(10, j);
            rest.sort(j);
            all.vector.append(&mut rest, j);
        }
        27 => {
            let mut rest = all.deque.split_off(10, j);
            rest.retain(odd, j);
            all.deque.append(&mut rest, j);
        }
        28 => all.heap.push(Item::new(17, j), j),
        29 => _ = all.heap.pop(j),
        30 => all.heap.extend(Item::some(30..40, j), j),
        31 => _ = std::mem::take(&mut all.heap).into_sorted_vec(j),
        32 => all.hash.append(&mut PHashMap::from_iter(Item::some(20..44, j).zip(Item::some(0..24, j)), j), j),
        33 => all.tree.append(&mut PBTreeMap::from_iter(Item::some(20..44, j).zip(Item::some(0..24, j)), j), j),
        34 => *all.hash.entry(Item::new(50, j), j).or_insert_with(|| make(50, j)).key.as_mut(j) += 1,
        35 => *all.tree.entry(Item::new(50, j), j).or_insert_with(|| make(50, j)).key.as_mut(j) += 1,
        36 => _ = all.hash.entry(Item::new(5, j), j).and_modify(|value| *value = make(6, j)).or_insert(Item::new(1, j)),
        37 => _ = all.tree.entry(Item::new(5, j), j).and_modify(|value| *value = make(6, j)).or_insert(Item::new(1, j)),
        38 => _ = all.hash.remove_entry(&Item::new(4, j), j),
        39 => _ = all.tree.remove_entry(&Item::new(4, j), j),
        40 => _ = all.hash_set.replace(Item::new(4, j), j),
        41 => _ = all.tree_set.replace(Item::new(4, j), j),
        42 => all.hash_set.extend(Item::some(24..44, j), j),
        43 => all.tree_set.append(&mut PBTreeSet::from_iter(Item::some(24..44, j), j), j),
        44 => _ = all.tree_set.split_off(&Item::new(9, j), j),
        48 => _ = all.tree.split_off(&Item::new(9, j), j),
        49 => all.heap.append(&mut PBinaryHeap::from_iter(Item::some(20..44, j), j), j),
        45 => all.plain.extend(all.plain.pclone(j), j),
        46 => all.plain.resize(99, &Plain(3), j),
        _ => all.hash.reserve(200, j),
    }
}

/// An item made by code of the program.
fn make<P: MemPool>(key: u32, j: &Journal<P>) -> Item<P> {
    called();
    Item::new(key, j)
}

/// The contents, in orders that do not depend on the secret keys of hash maps.
fn all<P: Pool>(root: &Root<PRefCell<All<P>, P>, P>) -> String {
    let all = root.borrow();
    let (mut hash, mut hash_set): (Vec<_>, Vec<_>) = (all.hash.iter().collect(), all.hash_set.iter().collect());
    hash.sort_by_key(|(key, _)| *key.key);
    hash_set.sort_by_key(|item| *item.key);
    let lists = format!("{:?} {:?} {:?} {:?}", all.vector, all.deque, all.heap, all.plain);
    format!("{lists} {hash:?} {hash_set:?} {:?} {:?}", all.tree, all.tree_set)
}

pool!(P1);
pool!(P2);
pool!(P3);
pool!(P4);
pool!(P5);

/// A panic at any call of the program's code ends the transaction, and nothing has happened.
#[test]
fn a_panic_that_leaves_the_body_rolls_everything_back() {
    let store = store();
    let root = P1::create::<PRefCell<All<P1>, P1>>(&store, "all", |j| PRefCell::new(All::filled(j))).unwrap();
    let before = all(&root);
    for operation in 0..OPERATIONS {
        for fuse in 0.. {
            let outcome = root.tx(|j, all| {
                let mut all = all.borrow_mut(j);
                set(Mood::Fuse(fuse));
                operate(operation, &mut all, j);
                set(Mood::Calm);
            });
            set(Mood::Calm);
            assert_eq!(root.check().unwrap(), [], "operation {operation}, call {fuse}");
            match outcome {
                Ok(()) => break,
                Err(error) => assert!(matches!(error, Error::Panicked { .. }), "operation {operation}: {error}"),
            }
            assert_eq!(all(&root), before, "operation {operation}, call {fuse}");
        }
        root.tx(|j, all| *all.borrow_mut(j) = All::filled(j)).unwrap();
        assert_eq!(all(&root), before);
    }
}

/// A panic that the body catches leaves collections whole; the transaction may commit.
#[test]
fn a_panic_that_the_body_catches_leaves_every_element_once() {
    let store = store();
    let root = P2::create::<PRefCell<All<P2>, P2>>(&store, "all", |j| PRefCell::new(All::filled(j))).unwrap();
    for operation in 0..OPERATIONS {
        for fuse in 0.. {
            let caught = root.tx(|j, all| {
                let mut all = all.borrow_mut(j);
                let before = all.places();
                set(Mood::Fuse(fuse));
                let caught = catch_unwind(AssertUnwindSafe(|| operate(operation, &mut all, j))).is_err();
                set(Mood::Calm);
                let after = all.places();
                assert!(operation >= MOVING || after == before, "operation {operation}, call {fuse}");
                caught
            });
            assert_eq!(root.check().unwrap(), [], "operation {operation}, call {fuse}");
            root.tx(|j, all| *all.borrow_mut(j) = All::filled(j)).unwrap();
            if !caught.unwrap() {
                break;
            }
        }
    }
    assert_eq!(root.check().unwrap(), []);
}

/// Comparisons and hashes that answer at random: each operation ends, in a refusal or not, and each
/// element lies in one place.
#[test]
fn an_order_without_order_loses_no_element() {
    let store = store();
    let root = P3::create::<PRefCell<All<P3>, P3>>(&store, "all", |j| PRefCell::new(All::filled(j))).unwrap();
    let mut random = Random::new(11);
    for round in 0..1500 {
        let operation = random.index(OPERATIONS);
        let chaos = Random::new(random.next());
        root.tx(|j, all| {
            let mut all = all.borrow_mut(j);
            let before = all.places();
            set(Mood::Chaos(chaos));
            // the standard library may refuse such an order
            let _ = catch_unwind(AssertUnwindSafe(|| operate(operation, &mut all, j)));
            set(Mood::Calm);
            let after = all.places();
            assert!(operation >= MOVING || after == before, "operation {operation}, round {round}");
            if round % 40 == 39 {
                *all = All::filled(j);
            }
        })
        .unwrap();
        assert_eq!(root.check().unwrap(), [], "operation {operation}, round {round}");
    }
    root.tx(|j, all| *all.borrow_mut(j) = All::default()).unwrap();
    assert_eq!(root.check().unwrap(), []);
}

/// A panic that ends a nested transaction ends the outer one, although the body goes on.
#[test]
fn a_panic_in_a_nested_transaction_dooms_the_outer_one() {
    let store = store();
    let root = P4::create::<PRefCell<All<P4>, P4>>(&store, "all", |j| PRefCell::new(All::filled(j))).unwrap();
    let before = all(&root);
    for operation in 0..OPERATIONS {
        let outcome = root.tx(|j, all| {
            let mut all = all.borrow_mut(j);
            set(Mood::Fuse(0));
            let inner = j.nested(|j| operate(operation, &mut all, j));
            set(Mood::Calm);
            all.vector.clear(j);
            assert!(matches!(inner, Err(Error::Panicked { .. })), "operation {operation}: {inner:?}");
        });
        assert!(matches!(outcome, Err(Error::Doomed)), "operation {operation}: {outcome:?}");
        assert_eq!(all(&root), before, "operation {operation}");
    }
    assert_eq!(root.check().unwrap(), []);
}

/// Operations that move elements between two collections drop none of them, wherever a comparison
/// panics and however it contradicts itself.
#[test]
fn elements_on_their_way_between_collections_are_not_dropped() {
    let store = store();
    let root = P5::create::<PRefCell<All<P5>, P5>>(&store, "all", |_| PRefCell::default()).unwrap();
    let moods = (0..200).map(Mood::Fuse).chain((0..100).map(|seed| Mood::Chaos(Random::new(seed))));
    for mood in moods {
        root.tx(|j, all| {
            let mut all = all.borrow_mut(j);
            *all = All::filled(j);
            let (mut heap, mut tree) = (PBinaryHeap::from_iter(Item::some(0..32, j), j), PBTreeMap::new());
            let (two, four) = (Item::new(2, j), Item::new(4, j));
            let all = &mut *all;
            set(mood);
            let _ = catch_unwind(AssertUnwindSafe(|| all.heap.append(&mut heap, j)));
            let _ = catch_unwind(AssertUnwindSafe(|| tree = all.tree.split_off(&two, j)));
            let _ = catch_unwind(AssertUnwindSafe(|| all.hash_set.replace(four, j)));
            let _ = catch_unwind(AssertUnwindSafe(|| all.tree_set.replace(two, j)));
            set(Mood::Calm);
            assert_eq!((all.heap.len() + heap.len(), all.tree.len() + tree.len()), (64, 32));
            assert!(all.hash_set.len() >= 32 && all.tree_set.len() >= 32);
        })
        .unwrap();
        assert_eq!(root.check().unwrap(), []);
    }
}
