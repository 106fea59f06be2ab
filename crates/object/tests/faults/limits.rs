//! Limits: capacities beyond all memory, pools that fill up in the middle of an operation, small
//! stacks, and comparisons that change what they compare.

use crate::common::store;
use everbyte_media::{Media, Options};
use everbyte_object::{
    Error, Journal, MemPool, PBTreeMap, PBinaryHeap, PCell, PHashMap, PHashSet, PRefCell, PSafe, PString, PVec,
    PVecDeque, Pbox, Pool, Prc, pool,
};
use everbyte_store::{FormatOptions, Store};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A store of so many MiB.
fn store_of(mebibytes: u64) -> Store {
    Store::format(Media::anonymous(mebibytes << 20, &Options::default()).unwrap(), &FormatOptions::default()).unwrap()
}

#[derive(PSafe, Default)]
#[repr(C)]
struct All<P: MemPool> {
    bytes: PVec<u8, P>,
    vector: PVec<Pbox<u64, P>, P>,
    deque: PVecDeque<Pbox<u64, P>, P>,
    heap: PBinaryHeap<Pbox<u64, P>, P>,
    hash: PHashMap<u64, Pbox<u64, P>, P>,
    tree: PBTreeMap<u64, Pbox<u64, P>, P>,
    text: PString<P>,
}

impl<P: MemPool> All<P> {
    fn filled(j: &Journal<P>) -> All<P> {
        let boxes = || (0..40).map(|number| Pbox::new(number, j));
        All {
            bytes: PVec::from_iter(0..40, j),
            vector: PVec::from_iter(boxes(), j),
            deque: PVecDeque::from_iter(boxes(), j),
            heap: PBinaryHeap::from_iter(boxes(), j),
            hash: PHashMap::from_iter((0..40).zip(boxes()), j),
            tree: PBTreeMap::from_iter((0..40).zip(boxes()), j),
            text: PString::from("forty", j),
        }
    }

    /// Lengths and sums.
    fn summary(&self) -> [u64; 13] {
        let sum = |all: &mut dyn Iterator<Item = &Pbox<u64, P>>| all.map(|item| **item).sum::<u64>();
        [
            self.bytes.len() as u64,
            self.bytes.iter().map(|byte| u64::from(*byte)).sum(),
            self.vector.len() as u64,
            sum(&mut self.vector.iter()),
            self.deque.len() as u64,
            sum(&mut self.deque.iter()),
            self.heap.len() as u64,
            sum(&mut self.heap.iter()),
            self.hash.len() as u64,
            sum(&mut self.hash.values()),
            self.tree.len() as u64,
            sum(&mut self.tree.values()),
            self.text.len() as u64,
        ]
    }
}

/// A request for more room than there are addresses panics, and for more than the pool has ends the
/// transaction with the engine's error. Neither changes anything.
#[test]
fn capacities_beyond_all_memory_are_refused() {
    pool!(P);
    let store = store_of(4);
    let root = P::create::<PRefCell<All<P>, P>>(&store, "all", |j| PRefCell::new(All::filled(j))).unwrap();
    let before = root.borrow().summary();
    let counts = (24..64).map(|shift| 1_usize << shift).flat_map(|count| [count - 1, count]);
    for count in counts.chain([usize::MAX - 40, usize::MAX - 1, usize::MAX]) {
        for operation in 0..9 {
            let outcome = root.tx(|j, all| {
                let mut all = all.borrow_mut(j);
                match operation {
                    0 => all.bytes.reserve(count, j),
                    1 => all.vector.reserve(count, j),
                    2 => all.deque.reserve(count, j),
                    3 => all.hash.reserve(count, j),
                    4 => drop(PVec::<u8, _>::with_capacity(count, j)),
                    5 => drop(PVec::<[u64; 9], _>::with_capacity(count, j)),
                    6 => drop(PVecDeque::<[u64; 9], _>::with_capacity(count, j)),
                    7 => drop(PHashMap::<u64, [u64; 9], _>::with_capacity(count, j)),
                    _ => drop(PHashSet::<u64, _>::with_capacity(count, j)),
                }
            });
            match outcome {
                Err(Error::Panicked { message }) => assert!(message.contains("than") || message.contains("beyond")),
                Err(Error::Tx(_)) => {}
                other => panic!("operation {operation} for {count}: {other:?}"),
            }
            assert_eq!(root.borrow().summary(), before, "operation {operation} for {count}");
        }
        // Caught by the body: refused all the same, and the transaction goes on.
        if count > 1 << 62 {
            root.tx(|j, all| {
                let mut all = all.borrow_mut(j);
                assert!(catch_unwind(AssertUnwindSafe(|| all.vector.reserve(count, j))).is_err());
                assert!(catch_unwind(AssertUnwindSafe(|| all.deque.reserve(count, j))).is_err());
                assert!(catch_unwind(AssertUnwindSafe(|| all.hash.reserve(count, j))).is_err());
            })
            .unwrap();
        }
    }
    assert_eq!(root.borrow().summary(), before);
    assert_eq!(root.check().unwrap(), []);
}

/// An iterator whose lower bound lies is refused as a capacity is.
#[test]
fn an_iterator_that_promises_too_much_is_refused() {
    struct Liar(u64);
    impl Iterator for Liar {
        type Item = u64;
        fn next(&mut self) -> Option<u64> {
            self.0 += 1;
            (self.0 < 9).then_some(self.0)
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (usize::MAX, None)
        }
    }
    pool!(P);
    let store = store_of(4);
    let root = P::create::<PRefCell<All<P>, P>>(&store, "all", |j| PRefCell::new(All::filled(j))).unwrap();
    let before = root.borrow().summary();
    for operation in 0..3 {
        let outcome = root.tx(|j, all| {
            let mut all = all.borrow_mut(j);
            match operation {
                0 => all.vector.extend(Liar(0).map(|number| Pbox::new(number, j)), j),
                1 => all.deque.extend(Liar(0).map(|number| Pbox::new(number, j)), j),
                _ => all.hash.extend(Liar(0).map(|number| (number + 40, Pbox::new(number, j))), j),
            }
        });
        assert!(matches!(outcome, Err(Error::Panicked { .. })), "operation {operation}: {outcome:?}");
        assert_eq!(root.borrow().summary(), before);
    }
    root.tx(|j, all| all.borrow_mut(j).tree.extend(Liar(0).map(|number| (number, Pbox::new(number, j))), j)).unwrap();
    assert_eq!(root.borrow().tree.len(), 40, "an ordered map reserves nothing");
    assert_eq!(root.check().unwrap(), []);
}

/// More keys than a pool of a test can hold.
const MANY: u64 = 100_000_000;

/// One operation that needs ever more room, in a pool that has little.
fn fill<P: MemPool>(operation: usize, all: &mut All<P>, j: &Journal<P>) {
    let boxes = || (0..).map_while(|number| Some(Pbox::new(number, j))); // promises no length
    match operation {
        0 => all.vector.extend(boxes(), j),
        1 => all.deque.extend(boxes(), j),
        2 => all.heap.extend(boxes(), j),
        3 => all.hash.extend((0..).zip(boxes()), j),
        4 => all.tree.extend((0..).zip(boxes()), j),
        5 => (0..MANY).for_each(|byte| all.bytes.push(byte as u8, j)),
        6 => (0..MANY).for_each(|_| all.text.push_str("more and more ", j)),
        7 => loop {
            let mut other = PVec::from_iter(boxes().take(all.vector.len()), j);
            all.vector.append(&mut other, j);
        },
        8 => loop {
            let mut other = PVecDeque::from_iter(boxes().take(all.deque.len()), j);
            all.deque.append(&mut other, j);
        },
        9 => (0..MANY).for_each(|key| *all.hash.entry(key, j).or_insert_with(|| Pbox::new(key, j)).as_mut(j) += 1),
        10 => (0..MANY).for_each(|key| *all.tree.entry(key, j).or_insert_with(|| Pbox::new(key, j)).as_mut(j) += 1),
        11 => loop {
            all.vector.insert(all.vector.len() - 7, Pbox::new(7, j), j);
        },
        _ => loop {
            // all places are moved to a larger table
            let more = all.hash.capacity();
            all.hash.reserve(more + 1, j);
        },
    }
}

/// A pool that fills up in the middle: the engine's error, also if the body catches it on its way;
/// everything is as it was, nothing leaks, and the pool goes on.
#[test]
fn a_pool_that_fills_up_in_the_middle_of_anything_is_as_it_was() {
    pool!(P);
    let store = store_of(4);
    let root = P::create::<PRefCell<All<P>, P>>(&store, "all", |j| PRefCell::new(All::filled(j))).unwrap();
    let before = root.borrow().summary();
    for operation in 0..13 {
        for caught in [false, true] {
            let outcome = root.tx(|j, all| {
                let mut all = all.borrow_mut(j);
                match caught {
                    false => fill(operation, &mut all, j),
                    true => {
                        assert!(catch_unwind(AssertUnwindSafe(|| fill(operation, &mut all, j))).is_err());
                        all.vector.truncate(3, j); // the body goes on
                    }
                }
            });
            assert!(matches!(outcome, Err(Error::Tx(_))), "operation {operation}: {outcome:?}");
            assert_eq!(root.borrow().summary(), before, "operation {operation}");
            assert_eq!(root.check().unwrap(), [], "operation {operation}");
        }
        root.tx(|j, all| all.borrow_mut(j).vector.push(Pbox::new(1, j), j)).unwrap();
        root.tx(|j, all| drop(all.borrow_mut(j).vector.pop(j))).unwrap();
    }
}

/// An addition to a text for which the log finds no room, and which the body outlives: the text is
/// whole characters.
#[test]
fn a_text_is_whole_characters_also_in_a_full_pool() {
    pool!(P);
    type Texts = (PRefCell<PString<P>, P>, PRefCell<PVec<PVec<u8, P>, P>, P>);
    for (ahead, letter) in [("", "é"), ("x", "é"), ("", "€"), ("x", "€"), ("xy", "€")] {
        let long = ahead.to_string() + &letter.repeat(100_000);
        let store = store_of(4);
        let texts = P::create::<Texts>(&store, "texts", |j| {
            (PRefCell::new(PString::from_str(&long, j)), PRefCell::new(PVec::with_capacity(2000, j)))
        });
        let texts = texts.unwrap();
        for bytes in [64 << 10, 2 << 10] {
            let more = || texts.tx(|j, texts| texts.1.borrow_mut(j).push(PVec::with_capacity(bytes, j), j));
            while more().is_ok() {}
        }
        let outcome = texts.tx(|j, texts| {
            let mut text = texts.0.borrow_mut(j);
            text.clear(j);
            for caught in [false, true] {
                let is_added = match caught {
                    false => j.nested(|j| text.push_str(&long, j)).is_ok(),
                    true => catch_unwind(AssertUnwindSafe(|| text.push_str(&long, j))).is_ok(),
                };
                assert!(!is_added, "there is room");
                assert!(std::str::from_utf8(text.as_bytes()).is_ok(), "{ahead:?}, {letter}: {}", text.len());
            }
        });
        assert!(matches!(outcome, Err(Error::Tx(_) | Error::Doomed)), "{outcome:?}");
    }
}

/// One link of a chain that leads through a collection.
#[derive(PSafe)]
#[repr(u32)]
enum Link<P: MemPool> {
    End,
    Box(Pbox<Link<P>, P>),
    Vector(PVec<Link<P>, P>),
    Deque(PVecDeque<Link<P>, P>),
    Hash(PHashMap<u32, Link<P>, P>),
    Tree(PBTreeMap<u32, Link<P>, P>),
    Counted(Prc<Link<P>, P>),
}

impl<P: MemPool> Link<P> {
    /// A link of that kind that leads to `rest`.
    fn around(kind: u64, rest: Link<P>, j: &Journal<P>) -> Link<P> {
        match kind {
            0 => Link::Box(Pbox::new(rest, j)),
            1 => Link::Vector(PVec::from([rest], j)),
            2 => Link::Deque(PVecDeque::from([rest], j)),
            3 => Link::Hash(PHashMap::from_iter([(1, rest)], j)),
            4 => Link::Tree(PBTreeMap::from_iter([(1, rest)], j)),
            _ => Link::Counted(Prc::new(rest, j)),
        }
    }
}

/// Chains through every collection, and one through all of them, are dropped and checked on a stack
/// of 256 KiB.
#[test]
fn long_chains_of_every_kind_are_dropped_on_a_small_stack() {
    pool!(P);
    let body = || {
        let media = Media::anonymous(512 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let root = P::create::<PRefCell<Link<P>, P>>(&store, "chain", |_| PRefCell::new(Link::End)).unwrap();
        // all kinds, then one by one
        for kind in [None, Some(0), Some(1), Some(2), Some(3), Some(4), Some(5)] {
            let length = match kind {
                Some(0) => 1_000_000,
                Some(1) => 300_000,
                _ => 60_000,
            };
            root.tx(|j, chain| {
                let links =
                    (0..length).fold(Link::End, |rest, number| Link::around(kind.unwrap_or(number % 6), rest, j));
                *chain.borrow_mut(j) = links;
            })
            .unwrap();
            assert!(!matches!(*root.borrow(), Link::End));
            let dropped = root.tx(|j, chain| {
                *chain.borrow_mut(j) = Link::End;
                panic!("once more");
            });
            assert!(dropped.is_err() && !matches!(*root.borrow(), Link::End), "{kind:?}");
            root.tx(|j, chain| *chain.borrow_mut(j) = Link::End).unwrap();
            assert_eq!(root.check().unwrap(), [], "{kind:?}");
        }
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap().join().unwrap();
}

/// An element that its own comparison changes.
#[derive(PSafe, Debug)]
#[repr(C)]
struct Counting<P: MemPool> {
    key: Pbox<u64, P>,
    compared: PCell<u64, P>,
    notes: PRefCell<PVec<u64, P>, P>,
}

/// Comparisons that change cells and vectors inside of the elements: each change is in its element
/// or is not, no element is lost, and a roll-back takes all of them back.
#[test]
fn comparisons_may_change_cells_of_the_elements() {
    pool!(P);
    let store = store();
    let root = P::create::<PRefCell<PVec<Counting<P>, P>, P>>(&store, "all", |j| {
        let item = |number: u64| Counting {
            key: Pbox::new(number * 37 % 100, j),
            compared: PCell::new(0),
            notes: PRefCell::new(PVec::new()),
        };
        PRefCell::new(PVec::from_iter((0..100).map(item), j))
    })
    .unwrap();
    let before = format!("{:?}", root.borrow());
    for (round, stop_at) in [50, 300, u64::MAX, u64::MAX, u64::MAX].into_iter().enumerate() {
        let mut compared = 0;
        let outcome = root.tx(|j, all| {
            let compare = |one: &Counting<_>, other: &Counting<_>| {
                compared += 1;
                assert!(compared < stop_at, "on purpose");
                one.compared.set(one.compared.get() + 1, j);
                other.notes.borrow_mut(j).push(*one.key, j);
                let order = one.key.cmp(&other.key);
                if round == 3 { order.reverse() } else { order }
            };
            let mut all = all.borrow_mut(j);
            match round {
                4 => all.sort_unstable_by(compare, j),
                _ => all.sort_by(compare, j),
            }
        });
        assert_eq!(outcome.is_ok(), stop_at == u64::MAX, "{outcome:?}");
        assert!(outcome.is_ok() || format!("{:?}", root.borrow()) == before);
        let mut keys: Vec<u64> = root.borrow().iter().map(|item| *item.key).collect();
        keys.sort_unstable();
        assert_eq!(keys, (0..100).collect::<Vec<_>>());
        assert!(root.borrow().iter().map(|item| item.notes.borrow().len() as u64).sum::<u64>() <= compared + 10_000);
        assert_eq!(root.check().unwrap(), []);
    }
}

/// Drops that panic: values of a pool have no `Drop` of their own, but closures and iterators of
/// the program have. Such a panic comes after the elements were moved, and rolls everything back.
#[test]
fn a_closure_that_panics_when_it_is_dropped_rolls_back() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("dropped");
            }
        }
    }
    pool!(P);
    let store = store_of(4);
    let root = P::create::<PRefCell<All<P>, P>>(&store, "all", |j| PRefCell::new(All::filled(j))).unwrap();
    let before = root.borrow().summary();
    for operation in 0..8 {
        let outcome = root.tx(|j, all| {
            let mut all = all.borrow_mut(j);
            let bomb = Bomb;
            let odd = move |item: &Pbox<u64, _>| {
                let _armed = &bomb;
                **item % 2 == 1
            };
            let bomb = Bomb;
            let more = (0..9).map(move |number| {
                let _armed = &bomb;
                Pbox::new(number, j)
            });
            match operation {
                0 => (std::mem::forget(more), all.vector.retain(odd, j)).1,
                1 => (std::mem::forget(more), all.deque.retain(odd, j)).1,
                2 => (std::mem::forget(more), all.heap.retain(odd, j)).1,
                3 => (std::mem::forget(more), all.hash.retain(move |_, value| odd(value), j)).1,
                4 => (std::mem::forget(more), all.tree.retain(move |_, value| odd(value), j)).1,
                5 => (std::mem::forget(odd), all.vector.extend(more, j)).1,
                6 => (std::mem::forget(odd), all.deque.extend(more, j)).1,
                _ => (std::mem::forget(odd), all.tree.extend((60..).zip(more), j)).1,
            }
        });
        assert!(
            matches!(&outcome, Err(Error::Panicked { message }) if message == "dropped"),
            "{operation}: {outcome:?}"
        );
        assert_eq!(root.borrow().summary(), before, "operation {operation}");
        assert_eq!(root.check().unwrap(), [], "operation {operation}");
    }
}
