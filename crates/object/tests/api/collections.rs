//! Queues, sets, heaps and vectors beside those of the standard library: random transactions, of
//! which some abort, the pool checked and opened again in between.

use crate::common::store;
use everbyte_object::{
    Journal, MemPool, PBTreeSet, PBinaryHeap, PHashSet, PRefCell, PSafe, PString, PVec, PVecDeque, Pbox, Pool, pool,
};
use everbyte_workload::{Random, programs};
use std::collections::{BTreeSet, BinaryHeap, HashSet, VecDeque};

pool!(P1, P2, P3, P4, P5, P6);

/// Elements are blocks of their own, so that a check of the pool finds each that is lost or has two
/// owners.
#[derive(PSafe, Default)]
#[repr(C)]
struct All<P: MemPool> {
    deque: PVecDeque<Pbox<u64, P>, P>,
    vector: PVec<Pbox<u64, P>, P>,
    heap: PBinaryHeap<Pbox<u64, P>, P>,
    hashed: PHashSet<Pbox<u64, P>, P>,
    ordered: PBTreeSet<Pbox<u64, P>, P>,
    plain: PVecDeque<u64, P>,
}

#[derive(Clone, Default)]
struct Model {
    deque: VecDeque<u64>,
    vector: Vec<u64>,
    heap: BinaryHeap<u64>,
    hashed: HashSet<u64>,
    ordered: BTreeSet<u64>,
    plain: VecDeque<u64>,
}

impl Model {
    fn matches<P: MemPool>(&self, all: &All<P>) {
        assert!(all.deque.iter().map(|item| **item).eq(self.deque.iter().copied()));
        assert!(all.deque.iter().rev().map(|item| **item).eq(self.deque.iter().rev().copied()));
        assert!(all.vector.iter().map(|item| **item).eq(self.vector.iter().copied()));
        assert_eq!(all.heap.peek().map(|item| **item), self.heap.peek().copied());
        assert_eq!(all.heap.len(), self.heap.len());
        assert_eq!(all.hashed.iter().map(|item| **item).collect::<HashSet<_>>(), self.hashed);
        assert_eq!(all.hashed.len(), self.hashed.len());
        assert!(all.ordered.iter().map(|item| **item).eq(self.ordered.iter().copied()));
        assert!(all.plain.iter().eq(&self.plain));
    }
}

fn queue<P: MemPool>(all: &mut All<P>, model: &mut Model, random: &mut Random, j: &Journal<P>) {
    let value = random.below(100);
    let some = random.below(model.deque.len() as u64 + 1) as usize;
    match random.below(14) {
        0..=2 => {
            all.deque.push_back(Pbox::new(value, j), j);
            model.deque.push_back(value);
        }
        3 | 4 => {
            all.deque.push_front(Pbox::new(value, j), j);
            model.deque.push_front(value);
        }
        5 => assert_eq!(all.deque.pop_front(j).map(|item| *item), model.deque.pop_front()),
        6 => assert_eq!(all.deque.pop_back(j).map(|item| *item), model.deque.pop_back()),
        7 if some < model.deque.len() => {
            *all.deque.get_mut(some, j).unwrap().as_mut(j) += 0;
            all.deque.swap(some, 0, j);
            model.deque.swap(some, 0);
        }
        8 => {
            all.deque.retain(|item| **item % 3 > 0, j);
            model.deque.retain(|item| item % 3 > 0);
        }
        9 => {
            let mut rest = all.deque.split_off(some, j);
            let mut other = model.deque.split_off(some);
            rest.append(&mut all.deque, j);
            other.append(&mut model.deque);
            (all.deque, model.deque) = (rest, other);
        }
        10 => {
            all.plain.push_back(value, j);
            all.plain.push_front(value, j);
            model.plain.push_back(value);
            model.plain.push_front(value);
        }
        11 => {
            let from = some - random.below(some as u64 + 1) as usize;
            let gone: Vec<u64> = all.deque.drain(from..some, j).into_iter().map(|item| *item).collect();
            assert_eq!(gone, model.deque.drain(from..some).collect::<Vec<_>>());
        }
        12 => {
            let end = random.below(model.plain.len() as u64 + 1) as usize;
            let start = random.below(end as u64 + 1) as usize;
            let gone = all.plain.drain(start..end, j);
            assert_eq!(gone, model.plain.drain(start..end).collect::<Vec<_>>());
        }
        _ => {
            assert_eq!(all.plain.pop_front(j), model.plain.pop_front());
            all.deque.truncate(some + 3, j);
            model.deque.truncate(some + 3);
        }
    }
}

fn vector<P: MemPool>(all: &mut All<P>, model: &mut Model, random: &mut Random, j: &Journal<P>) {
    let value = random.below(20);
    let some = random.below(model.vector.len() as u64 + 1) as usize;
    match random.below(14) {
        0..=4 => {
            all.vector.insert(some, Pbox::new(value, j), j);
            model.vector.insert(some, value);
        }
        5 => {
            all.vector.sort(j);
            model.vector.sort_unstable();
        }
        6 => {
            all.vector.sort_unstable_by_key(|item| std::cmp::Reverse(**item), j);
            model.vector.sort_unstable_by_key(|item| std::cmp::Reverse(*item));
        }
        7 => {
            all.vector.dedup(j);
            model.vector.dedup();
        }
        8 => {
            let mut rest = all.vector.split_off(some, j);
            let mut other = model.vector.split_off(some);
            rest.append(&mut all.vector, j);
            other.append(&mut model.vector);
            all.vector.append(&mut rest, j);
            model.vector.append(&mut other);
        }
        9 => {
            all.vector.reverse(j);
            model.vector.reverse();
            all.vector.rotate_left(some, j);
            model.vector.rotate_left(some);
        }
        10 if some < model.vector.len() => {
            all.vector[some] = Pbox::new(value, j);
            model.vector[some] = value;
            all.vector[..some].iter_mut().for_each(|item| *item.as_mut(j) += 0);
            all.vector.swap(0, some, j);
            model.vector.swap(0, some);
        }
        11 => {
            let gone: Vec<u64> = all.vector.drain(some / 2..some, j).into_iter().map(|item| *item).collect();
            assert_eq!(gone, model.vector.drain(some / 2..some).collect::<Vec<_>>());
            all.vector.shrink_to_fit(j);
        }
        12 => {
            all.vector.resize_with(some, || Pbox::new(1, j), j);
            model.vector.resize(some, 1);
        }
        _ => {
            let items = std::mem::take(&mut all.vector);
            all.vector = PVec::from(items.into_iter().filter(|item| **item != 7), j);
            model.vector.retain(|item| *item != 7);
        }
    }
}

fn sets<P: MemPool>(all: &mut All<P>, model: &mut Model, random: &mut Random, j: &Journal<P>) {
    let value = random.below(30);
    match random.below(12) {
        0..=2 => assert_eq!(all.hashed.insert(Pbox::new(value, j), j), model.hashed.insert(value)),
        3 => assert_eq!(all.hashed.remove(&value, j), model.hashed.remove(&value)),
        4 | 5 => assert_eq!(all.ordered.insert(Pbox::new(value, j), j), model.ordered.insert(value)),
        6 => assert_eq!(all.ordered.take(&value, j).map(|item| *item), model.ordered.take(&value)),
        7 => {
            assert_eq!(all.ordered.pop_first(j).map(|item| *item), model.ordered.pop_first());
            all.hashed.retain(|item| **item % 4 > 0, j);
            model.hashed.retain(|item| item % 4 > 0);
        }
        8 | 9 => {
            all.heap.push(Pbox::new(value, j), j);
            model.heap.push(value);
        }
        10 => assert_eq!(all.heap.pop(j).map(|item| *item), model.heap.pop()),
        _ => {
            let rest = all.ordered.split_off(&value, j);
            let other = model.ordered.split_off(&value);
            assert!(rest.is_disjoint(&all.ordered));
            all.heap.extend(rest, j);
            model.heap.extend(other);
            all.heap.retain(|item| **item != 5, j);
            model.heap.retain(|item| *item != 5);
        }
    }
}

#[test]
fn collections_agree_with_the_standard_library() {
    programs(12, |random, _| {
        let store = store();
        let mut root = P1::create::<PRefCell<All<P1>, P1>>(&store, "all", |_| PRefCell::default()).unwrap();
        let mut model = Model::default();
        for round in 0..60 {
            let (mut tried, aborts) = (model.clone(), random.chance(30));
            let outcome = root.try_tx(|j, all| {
                let mut all = all.borrow_mut(j);
                for _ in 0..=random.below(8) {
                    match random.below(3) {
                        0 => queue(&mut all, &mut tried, random, j),
                        1 => vector(&mut all, &mut tried, random, j),
                        _ => sets(&mut all, &mut tried, random, j),
                    }
                    tried.matches(&all);
                }
                if aborts { Err(()) } else { Ok(()) }
            });
            assert_eq!(outcome.is_err(), aborts, "{outcome:?}");
            if !aborts {
                model = tried;
            }
            model.matches(&root.borrow());
            if round % 10 == 9 {
                assert_eq!(root.check().unwrap(), []);
                drop(root);
                root = P1::open(&store, "all").unwrap();
            }
        }
        root.tx(|j, all| drop(all.take(j))).unwrap();
        assert_eq!(root.check().unwrap(), []);
    });
}

/// Elements without bytes, and elements whose destructors count.
#[test]
fn elements_without_bytes_are_counted_and_dropped() {
    let store = store();
    let root = P2::create::<PRefCell<PVecDeque<(), P2>, P2>>(&store, "units", |_| PRefCell::default()).unwrap();
    root.tx(|j, units| {
        let mut units = units.borrow_mut(j);
        units.push_back((), j);
        units.push_front((), j);
        assert_eq!((units.len(), units.pop_front(j), units.iter().count()), (2, Some(()), 1));
        units.extend([(); 5], j);
        assert_eq!((units.drain(1..=3, j), units.len()), (vec![(); 3], 3));
        assert_eq!(units.drain(1.., j).len(), 2);
    })
    .unwrap();
    assert_eq!((root.borrow().len(), root.check().unwrap()), (1, vec![]));
}

/// A million nested queues are dropped on a small stack, whichever part of the ring they lie in.
#[test]
fn a_chain_of_queues_is_dropped_on_a_small_stack() {
    #[derive(PSafe)]
    #[repr(C)]
    struct Link<P: MemPool>(PVecDeque<Link<P>, P>);
    let body = || {
        let store = crate::common::large_store();
        let root = P3::create::<PRefCell<Option<Link<P3>>, P3>>(&store, "chain", |_| PRefCell::new(None)).unwrap();
        root.tx(|j, chain| {
            let mut link = Link(PVecDeque::new());
            for depth in 0..100_000 {
                let mut around = PVecDeque::new();
                if depth % 2 == 0 {
                    around.push_back(link, j)
                } else {
                    around.push_front(link, j)
                }
                link = Link(around);
            }
            *chain.borrow_mut(j) = Some(link);
        })
        .unwrap();
        root.tx(|j, chain| drop(chain.take(j))).unwrap();
        assert_eq!(root.check().unwrap(), []);
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap().join().unwrap();
}

/// A comparison that panics rolls everything back; one that contradicts itself loses no element.
#[test]
fn orders_that_panic_or_contradict_themselves_lose_nothing() {
    let store = store();
    let root = P4::create::<PRefCell<All<P4>, P4>>(&store, "all", |_| PRefCell::default()).unwrap();
    root.tx(|j, all| {
        let mut all = all.borrow_mut(j);
        (0..50).for_each(|number| all.vector.push(Pbox::new(number * 37 % 50, j), j));
    })
    .unwrap();
    let before: Vec<u64> = root.borrow().vector.iter().map(|item| **item).collect();
    for stop_at in [1, 10, 60] {
        let mut compared = 0;
        let outcome = root.tx(|j, all| {
            all.borrow_mut(j).vector.sort_by(
                |one, other| {
                    compared += 1;
                    assert!(compared < stop_at, "on purpose");
                    one.cmp(other)
                },
                j,
            );
        });
        assert!(outcome.is_err());
        assert!(root.borrow().vector.iter().map(|item| **item).eq(before.iter().copied()));
    }
    let mut random = Random::new(5);
    let _ = root.tx(|j, all| {
        let mut all = all.borrow_mut(j);
        let body = std::panic::AssertUnwindSafe(|| {
            all.vector.sort_unstable_by(
                |_, _| if random.chance(50) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater },
                j,
            );
        });
        let _ = std::panic::catch_unwind(body); // the standard library may refuse such an order
    });
    let mut after: Vec<u64> = root.borrow().vector.iter().map(|item| **item).collect();
    after.sort_unstable();
    assert_eq!(after, (0..50).collect::<Vec<_>>());
    assert_eq!(root.check().unwrap(), []);
}

/// A pool that fills up in the middle of `extend` ends the transaction, and keeps what it had.
#[test]
fn a_pool_that_fills_up_in_the_middle_of_extend_loses_nothing() {
    let media = everbyte_media::Media::anonymous(2 << 20, &everbyte_media::Options::default()).unwrap();
    let store = everbyte_store::Store::format(media, &everbyte_store::FormatOptions::default()).unwrap();
    let root = P5::create::<PRefCell<All<P5>, P5>>(&store, "all", |_| PRefCell::default()).unwrap();
    root.tx(|j, all| all.borrow_mut(j).deque.extend((0..10).map(|number| Pbox::new(number, j)), j)).unwrap();
    let numbers = 0..10_000_000_u64;
    assert!(root.tx(|j, all| all.borrow_mut(j).deque.extend(numbers.clone().map(|n| Pbox::new(n, j)), j)).is_err());
    assert!(root.tx(|j, all| all.borrow_mut(j).ordered.extend(numbers.clone().map(|n| Pbox::new(n, j)), j)).is_err());
    assert!(root.tx(|j, all| all.borrow_mut(j).plain.extend(numbers.clone(), j)).is_err());
    assert!(root.tx(|j, all| all.borrow_mut(j).plain.reserve(usize::MAX, j)).is_err());
    assert_eq!((root.borrow().deque.len(), root.borrow().plain.len()), (10, 0));
    assert_eq!(root.check().unwrap(), []);
    root.tx(|j, all| all.borrow_mut(j).deque.push_back(Pbox::new(10, j), j)).unwrap();
}

/// Every range of every ring of eight places, taken out by a transaction that is rolled back and by
/// one that commits; pushes of the same transaction reuse the places.
#[test]
fn every_range_of_a_ring_is_drained_as_of_the_model() {
    type Ring = PRefCell<PVecDeque<u64, P6>, P6>;
    let store = store();
    let root = P6::create::<Ring>(&store, "ring", |j| PRefCell::new(PVecDeque::with_capacity(8, j))).unwrap();
    assert_eq!(root.borrow().capacity(), 8);
    for (turn, len) in (0..8).flat_map(|turn| (0..=8_usize).map(move |len| (turn, len))) {
        for (start, end) in (0..=len).flat_map(|start| (start..=len).map(move |end| (start, end))) {
            let mut model: VecDeque<u64> = (0..len as u64).map(|index| 10 + index).collect();
            root.tx(|j, ring| {
                let mut ring = ring.borrow_mut(j);
                *ring = PVecDeque::with_capacity(8, j);
                // the first element lies at place `turn`
                (0..turn).for_each(|_| ring.push_back(0, j));
                (0..turn).for_each(|_| assert_eq!(ring.pop_front(j), Some(0)));
                ring.extend(model.iter().copied(), j);
            })
            .unwrap();
            let outcome = root.try_tx(|j, ring| {
                let mut ring = ring.borrow_mut(j);
                ring.drain(start..end, j);
                while ring.len() < 8 {
                    ring.push_back(77, j);
                    if ring.len() < 8 {
                        ring.push_front(78, j);
                    }
                }
                Err::<(), ()>(())
            });
            assert!(outcome.is_err());
            assert!(root.borrow().iter().eq(&model), "{turn} {len} {start}..{end}: {:?}", root.borrow());
            let gone = root.tx(|j, ring| ring.borrow_mut(j).drain(start..end, j)).unwrap();
            assert_eq!(gone, model.drain(start..end).collect::<Vec<_>>());
            assert!(root.borrow().iter().eq(&model), "{turn} {len} {start}..{end}: {:?}", root.borrow());
        }
    }
    assert!(root.tx(|j, ring| ring.borrow_mut(j).drain(9.., j)).is_err());
    assert!(root.tx(|j, ring| ring.borrow_mut(j).drain(0..=usize::MAX, j)).is_err());
    assert_eq!(root.check().unwrap(), []);
}

/// What programs reach for first: comparisons with volatile values, iterators that go backwards,
/// and elements in the middle of a queue.
#[test]
fn volatile_values_compare_and_queues_change_in_the_middle() {
    let store = store();
    pool!(P);
    let root = P::create::<PRefCell<PVecDeque<u32, P>, P>>(&store, "all", |_| PRefCell::default()).unwrap();
    root.tx(|j, all| {
        let vector = PVec::from(0..4_u32, j);
        assert!(vector == [0, 1, 2, 3] && vector == vec![0, 1, 2, 3] && vector == *vector.as_slice());
        assert!(vector != [0, 1, 2]);
        let slice: &[u32] = &[0, 1, 2, 3];
        assert!(vector == slice);
        let (text, word) = (PString::from("text", j), "text".to_string());
        assert!("text" == text && *"text" == text && word == text && "other" != text);

        let mut all = all.borrow_mut(j);
        all.extend([3, 4, 5], j);
        (0..3).rev().for_each(|number| all.push_front(number, j));
        all.iter_mut(j).rev().zip([50, 40]).for_each(|(item, value)| *item = value);
        assert_eq!(all.iter_mut(j).len(), 6);
    })
    .unwrap();
    let rolled_back = root.tx(|j, all| {
        let mut all = all.borrow_mut(j);
        all[2] += 20;
        all.insert(1, 9, j);
        assert_eq!(all.iter().copied().collect::<Vec<_>>(), [0, 9, 1, 22, 3, 40, 50]);
        assert_eq!((all.remove(5, j), all.remove(0, j), all.remove(5, j)), (Some(40), Some(0), None));
        assert!(all.contains(&22) && !all.contains(&40));
        assert_eq!(all.iter().copied().collect::<Vec<_>>(), [9, 1, 22, 3, 50]);
        all[5] = 1;
    });
    assert!(rolled_back.unwrap_err().to_string().contains("element 5 of 5"));
    assert_eq!(root.borrow().iter().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 40, 50]);
    root.tx(|j, all| {
        let mut all = all.borrow_mut(j);
        all[0] = 7;
        all.insert(6, 8, j);
        all.remove(1, j);
    })
    .unwrap();
    assert_eq!(root.borrow().iter().copied().collect::<Vec<_>>(), [7, 2, 3, 40, 50, 8]);
    assert_eq!(root.check().unwrap(), []);
}
