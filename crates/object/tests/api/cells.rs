//! Cells, locks, vectors and text: their rules, roll-backs in the middle, and what reopening
//! resets.

use crate::common::store;
use everbyte_object::{
    Error, MemPool, PCell, PMutex, POnceCell, PRefCell, PRwLock, PSafe, PString, PVec, Pool, VCell, pool,
};
use proptest::prelude::*;
use std::sync::Barrier;

#[test]
fn borrow_rules_panic_and_roll_back() {
    pool!(P);
    let store = store();
    let cell = P::create::<PRefCell<u64, P>>(&store, "cell", |_| PRefCell::new(1)).unwrap();
    let outcome = cell.tx(|j, cell| {
        let mut one = cell.borrow_mut(j);
        *one = 2;
        drop(cell.borrow());
    });
    assert!(matches!(outcome, Err(Error::Panicked { .. })), "{outcome:?}");
    let outcome = cell.tx(|j, cell| {
        let _one = cell.borrow();
        drop(cell.borrow_mut(j));
    });
    assert!(matches!(outcome, Err(Error::Panicked { .. })));
    let outside = cell.borrow();
    let outcome = cell.tx(|j, cell| *cell.borrow_mut(j) = 2);
    assert!(matches!(outcome, Err(Error::Panicked { .. })), "borrowed outside of the transaction");
    assert_eq!(*outside, 1);
    drop(outside);
    cell.tx(|j, cell| *cell.borrow_mut(j) = 2).unwrap();
    assert_eq!(*cell.borrow(), 2);
}

/// A pool type without borrow flags lets every borrow be, logs as the other does, and opens the
/// same pools.
#[test]
fn a_pool_type_without_borrow_flags_checks_no_borrows() {
    pool!(
        Checked,
        #[persist(unsafe(unchecked_borrows))]
        Unchecked
    );
    let store = store();
    drop(Checked::create::<PRefCell<u64, Checked>>(&store, "cell", |_| PRefCell::new(1)).unwrap());
    let cell = Unchecked::open::<PRefCell<u64, Unchecked>>(&store, "cell").unwrap();
    let outcome = cell.try_tx(|j, cell| {
        let shared = cell.borrow();
        let mut one = cell.try_borrow_mut(j).expect("no flag forbids it"); // nothing reads `shared`
        assert!(cell.try_borrow_mut(j).is_some() && cell.try_borrow().is_some());
        drop(shared);
        *one = 2;
        Err::<(), &str>("rolled back")
    });
    assert!(outcome.is_err());
    assert_eq!(*cell.borrow(), 1);
    cell.tx(|j, cell| *cell.borrow_mut(j) = 3).unwrap();
    drop(cell);
    let cell = Checked::open::<PRefCell<u64, Checked>>(&store, "cell").unwrap();
    assert_eq!(*cell.borrow(), 3);
    cell.tx(|j, cell| {
        let _shared = cell.borrow();
        assert!(cell.try_borrow_mut(j).is_none(), "the other type has its flags");
    })
    .unwrap();
}

/// A cell at the very start of a cell is another cell.
#[test]
fn cells_in_cells_are_told_apart() {
    pool!(P);
    let store = store();
    type Nested = PRefCell<PRefCell<PRefCell<u64, P>, P>, P>;
    let cell = P::create::<Nested>(&store, "cell", |_| PRefCell::new(PRefCell::new(PRefCell::new(1)))).unwrap();
    cell.tx(|j, cell| {
        let outer = cell.borrow();
        let middle = outer.borrow();
        *middle.borrow_mut(j) = 2;
        assert!(outer.try_borrow_mut(j).is_none());
        assert!(middle.try_borrow_mut(j).is_some());
    })
    .unwrap();
    assert_eq!(*cell.borrow().borrow().borrow(), 2);
}

#[test]
fn a_swap_inside_a_transaction_leaves_borrows_with_their_cells() {
    pool!(P);
    #[derive(PSafe)]
    #[repr(C)]
    struct Two<P: MemPool> {
        one: PRefCell<PMutex<u64, P>, P>,
        two: PRefCell<PMutex<u64, P>, P>,
    }
    let store = store();
    let two = P::create::<Two<P>>(&store, "two", |_| Two {
        one: PRefCell::new(PMutex::new(1)),
        two: PRefCell::new(PMutex::new(2)),
    });
    let two = two.unwrap();
    two.tx(|j, two| {
        *two.one.borrow().lock(j) += 10; // held to the end
        std::mem::swap(&mut *two.one.borrow_mut(j), &mut *two.two.borrow_mut(j));
        *two.one.borrow().lock(j) += 100;
    })
    .unwrap();
    let now = two.tx(|j, two| (*two.one.borrow().lock(j), *two.two.borrow().lock(j)));
    assert_eq!(now.unwrap(), (102, 11));
}

#[test]
fn a_mutex_is_held_to_the_end_and_never_poisoned() {
    pool!(P);
    let store = store();
    let mutex = P::create::<PMutex<u64, P>>(&store, "mutex", |_| PMutex::new(0)).unwrap();
    let outcome = mutex.tx(|j, mutex| {
        let _one = mutex.lock(j);
        drop(mutex.lock(j));
    });
    assert!(matches!(outcome, Err(Error::Panicked { .. })), "a second guard in one transaction");
    let (locked, tried) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            mutex
                .tx(|j, mutex| {
                    *mutex.lock(j) = 1; // the guard is gone, the lock is not
                    locked.wait();
                    tried.wait();
                })
                .unwrap();
        });
        locked.wait();
        assert!(mutex.tx(|j, mutex| mutex.try_lock(j).is_none()).unwrap());
        tried.wait();
        mutex.tx(|j, mutex| *mutex.lock(j) += 1).unwrap(); // waits for the other's end
    });
    let outcome = std::thread::scope(|scope| {
        let dies = scope.spawn(|| {
            let _ = mutex.tx(|j, mutex| {
                *mutex.lock(j) = 100;
                panic!("with the lock held");
            });
            panic!("and the thread dies, too");
        });
        dies.join()
    });
    assert!(outcome.is_err());
    assert_eq!(mutex.tx(|j, mutex| *mutex.lock(j)).unwrap(), 2);
}

/// Two accounts, many threads: every reader sees the right sum.
#[test]
fn nobody_sees_what_is_not_committed() {
    pool!(P);
    let store = store();
    type Accounts = [PMutex<i64, P>; 2];
    let accounts = P::create::<Accounts>(&store, "accounts", |_| [PMutex::new(500), PMutex::new(500)]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let accounts = &accounts;
            scope.spawn(move || {
                for turn in 0..200 {
                    let outcome = accounts.try_tx(|j, [one, two]| {
                        let mut one = one.lock(j);
                        let mut two = two.lock(j);
                        assert_eq!(*one + *two, 1000);
                        *one -= turn;
                        *two += turn;
                        if turn % 3 == thread % 3 { Err(()) } else { Ok(()) }
                    });
                    assert!(outcome.is_ok() || turn % 3 == thread % 3, "{outcome:?}");
                }
            });
        }
    });
    let sum = accounts.tx(|j, [one, two]| *one.lock(j) + *two.lock(j)).unwrap();
    assert_eq!(sum, 1000);
}

#[test]
fn readers_share_and_one_reader_becomes_the_writer() {
    pool!(P);
    let store = store();
    let lock = P::create::<PRwLock<u64, P>>(&store, "lock", |_| PRwLock::new(1)).unwrap();
    let (reading, tried) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lock.tx(|j, lock| {
                assert_eq!(*lock.read(j), 1);
                reading.wait();
                tried.wait();
            })
            .unwrap();
        });
        reading.wait();
        assert_eq!(lock.tx(|j, lock| *lock.read(j)).unwrap(), 1);
        assert!(lock.tx(|j, lock| lock.try_write(j).is_none()).unwrap());
        let outcome = lock.tx(|j, lock| {
            assert_eq!(*lock.read(j), 1);
            *lock.write(j) = 2;
        });
        assert!(matches!(outcome, Err(Error::Panicked { .. })), "two that both waited would wait forever");
        tried.wait();
    });
    lock.tx(|j, lock| {
        let value = *lock.read(j);
        *lock.write(j) = value + 1;
        assert_eq!(*lock.read(j), 2);
    })
    .unwrap();
    assert_eq!(lock.tx(|j, lock| *lock.read(j)).unwrap(), 2);
}

#[test]
fn a_volatile_cell_is_forgotten_and_a_once_cell_is_kept() {
    pool!(P);
    #[derive(PSafe)]
    #[repr(C)]
    struct Cells<P: MemPool> {
        once: POnceCell<u64, P>,
        volatile: VCell<&'static str, P>,
        plain: PCell<u64, P>,
    }
    let store = store();
    let cells = P::create::<Cells<P>>(&store, "cells", |_| Cells {
        once: POnceCell::new(),
        volatile: VCell::new(),
        plain: PCell::new(0),
    });
    let cells = cells.unwrap();
    cells
        .tx(|j, cells| {
            assert_eq!(cells.volatile.get(), None);
            cells.volatile.set("of this run", j);
            assert_eq!(*cells.once.get_or_init(|| 5, j), 5);
            assert_eq!(cells.once.set(6, j), Err(6));
            cells.plain.update(|value| value + 1, j);
        })
        .unwrap();
    let _ = cells.try_tx(|j, cells| {
        cells.volatile.set("rolled back", j);
        Err::<(), ()>(())
    });
    assert_eq!(cells.volatile.get(), Some("of this run"));
    drop(cells);
    let cells = P::open::<Cells<P>>(&store, "cells").unwrap();
    assert_eq!((cells.once.get(), cells.volatile.get(), cells.plain.get()), (Some(&5), None, 1));
}

#[test]
fn text_grows_and_shrinks_by_characters() {
    pool!(P);
    let store = store();
    let text = P::create::<PRefCell<PString<P>, P>>(&store, "text", |j| PRefCell::new(PString::from_str("grün", j)));
    let text = text.unwrap();
    text.tx(|j, text| {
        let mut text = text.borrow_mut(j);
        assert_eq!(text.pop(j), Some('n'));
        assert_eq!(text.pop(j), Some('ü'));
        text.push_str("as", j);
        text.push('ß', j);
        assert_eq!(*text, "grasß");
    })
    .unwrap();
    assert!(text.tx(|j, text| text.borrow_mut(j).truncate(5, j)).is_err(), "inside a character");
    assert_eq!(text.borrow().as_str(), "grasß");
    assert_eq!(text.check().unwrap(), []);
}

#[derive(Clone, Debug)]
enum Step {
    Push(u32),
    Pop,
    Insert(usize, u32),
    Remove(usize),
    SwapRemove(usize),
    Set(usize, u32),
    Truncate(usize),
    Retain(u32),
    Extend(Vec<u32>),
    Double,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u32>().prop_map(Step::Push),
        3 => Just(Step::Pop),
        1 => (0..40usize, any::<u32>()).prop_map(|(index, value)| Step::Insert(index, value)),
        1 => (0..40usize).prop_map(Step::Remove),
        1 => (0..40usize).prop_map(Step::SwapRemove),
        1 => (0..40usize, any::<u32>()).prop_map(|(index, value)| Step::Set(index, value)),
        1 => (0..40usize).prop_map(Step::Truncate),
        1 => (2..5u32).prop_map(Step::Retain),
        1 => prop::collection::vec(any::<u32>(), 0..20).prop_map(Step::Extend),
        1 => Just(Step::Double),
    ]
}

pool!(Twin);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A vector of boxes against a plain one: transactions of several steps, some rolled back, the
    /// heap checked.
    #[test]
    fn a_vector_is_its_twin(program in prop::collection::vec((prop::collection::vec(step(), 1..12), any::<bool>()), 1..12)) {
        use everbyte_object::Pbox;
        let store = store();
        type Boxes = PRefCell<PVec<Pbox<u32, Twin>, Twin>, Twin>;
        let all = Twin::create::<Boxes>(&store, "all", |_| PRefCell::new(PVec::new())).unwrap();
        let mut twin = Vec::<u32>::new();
        for (steps, commit) in program {
            let mut next = twin.clone();
            let outcome = all.try_tx(|j, all| {
                let mut all = all.borrow_mut(j);
                for step in &steps {
                    match *step {
                        Step::Push(value) => { all.push(Pbox::new(value, j), j); next.push(value) }
                        Step::Pop => assert_eq!(all.pop(j).map(|value| *value), next.pop()),
                        Step::Insert(index, value) if index <= next.len() => {
                            all.insert(index, Pbox::new(value, j), j);
                            next.insert(index, value);
                        }
                        Step::Remove(index) if index < next.len() => {
                            assert_eq!(*all.remove(index, j), next.remove(index));
                        }
                        Step::SwapRemove(index) if index < next.len() => {
                            assert_eq!(*all.swap_remove(index, j), next.swap_remove(index));
                        }
                        Step::Set(index, value) if index < next.len() => {
                            all.set(index, Pbox::new(value, j), j);
                            next[index] = value;
                        }
                        Step::Truncate(len) => { all.truncate(len, j); next.truncate(len) }
                        Step::Retain(of) => { all.retain(|value| **value % of != 0, j); next.retain(|value| value % of != 0) }
                        Step::Extend(ref values) => {
                            all.extend(values.iter().map(|value| Pbox::new(*value, j)), j);
                            next.extend(values);
                        }
                        Step::Double => {
                            all.iter_mut(j).for_each(|value| { let value = value.as_mut(j); *value = value.wrapping_mul(2); });
                            next.iter_mut().for_each(|value| *value = value.wrapping_mul(2));
                        }
                        _ => {}
                    }
                    assert!(all.iter().map(|value| **value).eq(next.iter().copied()));
                }
                if commit { Ok(()) } else { Err(()) }
            });
            prop_assert_eq!(outcome.is_ok(), commit, "{:?}", outcome);
            if commit { twin = next }
            prop_assert!(all.borrow().iter().map(|value| **value).eq(twin.iter().copied()));
            prop_assert_eq!(all.check().unwrap(), []);
        }
    }
}

#[test]
fn more_threads_than_lanes_take_turns() {
    pool!(P);
    let store = store();
    let options = everbyte_object::PoolOptions { lanes: Some(2), ..Default::default() };
    type Counters = [PMutex<u64, P>; 8];
    let counters = P::create_with::<Counters>(&store, "counters", &options, |_| Default::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let counters = &counters;
            scope.spawn(move || {
                (0..100).for_each(|_| counters.tx(|j, counters| *counters[thread].lock(j) += 1).unwrap());
            });
        }
    });
    let all = counters.tx(|j, counters| counters.each_ref().map(|one| *one.lock(j))).unwrap();
    assert_eq!(all, [100; 8]);
}

/// Cells without bytes lie where their neighbours do, and are others all the same.
#[test]
fn cells_without_bytes_are_told_apart_from_their_neighbours() {
    pool!(P);
    #[derive(PSafe)]
    #[repr(C)]
    struct Guarded<P: MemPool> {
        door: PMutex<(), P>,
        room: PMutex<u64, P>,
        bell: PRefCell<(), P>,
        book: PRefCell<u64, P>,
    }
    let store = store();
    let guarded = P::create::<Guarded<P>>(&store, "guarded", |_| Guarded {
        door: PMutex::default(),
        room: PMutex::default(),
        bell: PRefCell::default(),
        book: PRefCell::default(),
    });
    guarded
        .unwrap()
        .tx(|j, guarded| {
            let _door = guarded.door.lock(j);
            *guarded.room.lock(j) += 1;
            let _bell = guarded.bell.borrow_mut(j);
            *guarded.book.borrow_mut(j) += 1;
        })
        .unwrap();
}

/// A guard that was forgotten blocks its cell until the pool is opened again, as a crash would have
/// it.
#[test]
fn a_forgotten_guard_ends_with_the_opening() {
    pool!(P);
    let store = store();
    let cell = P::create::<PRefCell<u64, P>>(&store, "cell", |_| PRefCell::new(1)).unwrap();
    std::mem::forget(cell.borrow());
    assert!(cell.tx(|j, cell| cell.try_borrow_mut(j).is_none()).unwrap());
    drop(cell);
    let cell = P::open::<PRefCell<u64, P>>(&store, "cell").unwrap();
    cell.tx(|j, cell| *cell.borrow_mut(j) += 1).unwrap();
    assert_eq!(*cell.borrow(), 2);
}

/// The number of an opening is never cut: no later opening takes an old guard for one of its own,
/// nor a new guard for an old.
#[test]
fn a_forgotten_guard_does_not_come_back_after_many_openings() {
    pool!(P);
    let store = store();
    type Cells = [PRefCell<u64, P>; 100]; // more than a thread's stack of borrows holds
    let cells = P::create::<Cells>(&store, "cells", |_| std::array::from_fn(|_| PRefCell::new(0))).unwrap();
    cells.iter().for_each(|cell| std::mem::forget(cell.borrow()));
    drop(cells);
    for opening in 1..=600 {
        let cells = P::open::<Cells>(&store, "cells").unwrap();
        let outcome = cells.tx(|j, cells| cells.iter().for_each(|cell| *cell.borrow_mut(j) += 1));
        assert!(outcome.is_ok(), "opening {opening}: {outcome:?}");
        let first = cells[0].borrow();
        assert!(cells.tx(|j, cells| cells[0].try_borrow_mut(j).is_none()).unwrap(), "borrowed in this opening");
        assert_eq!(*first, opening);
    }
}

/// Cells are distinguished by their addresses, which cells without bytes share.
#[test]
fn cells_without_bytes_at_one_place_are_one() {
    pool!(P);
    let store = store();
    let cells = P::create::<[PRefCell<(), P>; 2]>(&store, "cells", |_| Default::default()).unwrap();
    let others = cells.tx(|j, cells| {
        let _one = cells[0].borrow_mut(j);
        cells[1].try_borrow_mut(j).is_some()
    });
    assert!(!others.unwrap());
    assert!(cells.tx(|j, cells| cells[1].try_borrow_mut(j).is_some()).unwrap());
}

/// A cell that was never set holds nothing, also where no pool of its type was ever open.
#[test]
fn a_volatile_cell_of_a_pool_that_was_never_open_is_empty() {
    pool!(P);
    assert_eq!(VCell::<&'static str, P>::new().get(), None);
}

#[test]
fn a_range_behind_every_index_is_refused_and_a_drain_is_one_note() {
    use std::ops::Bound::{Excluded, Unbounded};
    pool!(P);
    let store = store();
    let root = P::create::<PRefCell<PVec<u64, P>, P>>(&store, "v", |j| PRefCell::new(PVec::from_iter(0..60_000, j)));
    let root = root.unwrap();
    assert!(root.tx(|j, r| r.borrow_mut(j).drain(0..=usize::MAX, j).len()).is_err());
    assert!(root.tx(|j, r| r.borrow_mut(j).drain((Excluded(usize::MAX), Unbounded), j).len()).is_err());
    let out = root.tx(|j, r| r.borrow_mut(j).drain(10..59_990, j)).unwrap();
    assert!(out.into_iter().eq(10..59_990));
    assert!(root.borrow().iter().copied().eq((0..10).chain(59_990..60_000)));
    assert_eq!(root.check().unwrap(), []);
}
