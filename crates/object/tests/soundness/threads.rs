//! Roots that move to other threads: such a thread reads committed values.

use crate::common::store;
use everbyte_object::{Error, PRefCell, Pool, pool};

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
