//! Roots that move to other threads: such a thread reads committed values.

use crate::common::store;
use everbyte_object::{Error, MemPool, PMutex, PRefCell, PSafe, Parc, Pool, PoolOptions, pool};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

#[test]
fn a_root_is_not_detached_inside_a_transaction_of_its_pool() {
    pool!(P);
    let store = store();
    type R = PRefCell<u64, P>;
    let root = P::create::<R>(&store, "x", |_| PRefCell::new(1)).unwrap();
    // The body owns the root and changes its cell; the thread that the root is sent to would read
    // what is rolled back.
    let outcome = P::transaction(move |j| {
        *root.at(j).borrow_mut(j) = 2;
        let detached = root.detach();
        std::thread::spawn(move || *detached.attach().borrow()).join().unwrap()
    });
    let is_refused = |outcome: &Result<u64, Error>| matches!(outcome, Err(Error::Panicked { message }) if message.contains("not detached inside"));
    assert!(is_refused(&outcome), "{outcome:?}");
    // The root was dropped in the body: the pool is closed, and nothing has happened to it.
    let root = P::open::<R>(&store, "x").unwrap();
    assert_eq!(*root.borrow(), 1);
    assert_eq!(root.check().unwrap(), []);
    // A panic of `detach` that the body catches: the root is gone, and the body goes on and
    // commits.
    let outcome = P::transaction(move |j| {
        *root.at(j).borrow_mut(j) = 3;
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(root.detach())));
        assert!(caught.is_err());
    });
    outcome.unwrap();
    assert_eq!(*P::open::<R>(&store, "x").unwrap().borrow(), 3);
}

/// A root that was detached before is attached in the body, changed by it, and cannot go on to
/// another thread.
#[test]
fn a_root_attached_inside_a_transaction_stays_in_its_thread() {
    pool!(P);
    let store = store();
    type R = PRefCell<u64, P>;
    let detached = P::create::<R>(&store, "x", |_| PRefCell::new(1)).unwrap().detach();
    let outcome = P::transaction(move |j| {
        let root = detached.attach();
        *root.at(j).borrow_mut(j) = 2;
        drop(root.detach());
    });
    assert!(matches!(outcome, Err(Error::Panicked { .. })), "{outcome:?}");
    assert_eq!(*P::open::<R>(&store, "x").unwrap().borrow(), 1);
}

/// A detached root carries the committed state, with no borrow of the thread that it comes from.
#[test]
fn a_detached_root_is_the_whole_pool_in_its_new_thread() {
    pool!(P);
    let store = store();
    type R = PRefCell<u64, P>;
    let root = P::create::<R>(&store, "x", |_| PRefCell::new(1)).unwrap();
    root.tx(|j, root| *root.borrow_mut(j) += 1).unwrap();
    let detached = root.detach();
    // A transaction without a root, beside the pool on its way: it reaches nothing that it could
    // change.
    P::transaction(|_| {
        let back = std::thread::spawn(|| {
            let root = detached.attach();
            assert_eq!(*root.borrow(), 2);
            root.tx(|j, root| *root.borrow_mut(j) += 1).unwrap();
            assert_eq!(root.check().unwrap(), []);
            root.detach()
        });
        drop(back.join().unwrap());
    })
    .unwrap();
    assert_eq!(*P::open::<R>(&store, "x").unwrap().borrow(), 3);
}

#[derive(PSafe)]
#[repr(C)]
struct Shelf<P: MemPool> {
    number: PMutex<u64, P>,
    shared: PMutex<Parc<u64, P>, P>,
}

/// One thread has the only lane and then needs the lock on counts; another, which changes a count
/// and stores nothing besides, needs both as well. They do not take them in opposite orders.
#[test]
fn a_thread_that_changes_counts_does_not_wait_for_a_lane_with_their_lock() {
    const ROUNDS: u64 = 20;
    pool!(P);
    let store = store();
    let options = PoolOptions { lanes: Some(1), ..PoolOptions::default() };
    let shelf = P::create_with::<Shelf<P>>(&store, "x", &options, |j| Shelf {
        number: PMutex::new(0),
        shared: PMutex::new(Parc::new(7, j)),
    });
    let shelf = Arc::new(shelf.unwrap());
    let there = Arc::new(shelf.tx(|j, shelf| shelf.shared.lock(j).demote(j)).unwrap());
    let (told, hear) = mpsc::channel();
    let (turn, ended) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU64::new(0)));
    for has_lane in [true, false] {
        let (shelf, there, turn) = (shelf.clone(), there.clone(), turn.clone());
        let (ended, told) = (ended.clone(), told.clone());
        std::thread::spawn(move || {
            for round in 1..=ROUNDS {
                let outcome = shelf.tx(|j, shelf| {
                    if has_lane {
                        *shelf.number.lock(j) += 1;
                    }
                    let strong = there.promote(j).expect("there");
                    std::mem::forget(strong.pclone(j));
                    turn.wait();
                    if !has_lane {
                        ended.store(round, Ordering::Release);
                        return;
                    }
                    // The other one comes first to the lock on counts, most likely.
                    while ended.load(Ordering::Acquire) < round {
                        std::thread::yield_now();
                    }
                    (0..50_000).for_each(|_| std::hint::spin_loop());
                });
                outcome.unwrap();
                turn.wait(); // with no lane
            }
            told.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        hear.recv_timeout(Duration::from_secs(60)).expect("the threads wait for each other");
    }
    assert_eq!(shelf.tx(|j, shelf| shelf.shared.lock(j).counts(j)).unwrap().0, 1 + 2 * ROUNDS);
}
