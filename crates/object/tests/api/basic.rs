//! The first program of the manual: a list that outlives its pool, errors that name their cause,
//! transactions that nest.

use crate::common::{Node, append, pop, store, values};
use everbyte_object::raw::Raw as _;
use everbyte_object::{Error, MemPool, PCell, PRefCell, PSafe, Pbox, Pool, TryError, pool};

#[test]
fn a_list_outlives_its_pool() {
    pool!(P1);
    let store = store();
    let head = P1::create::<Node<i32, P1>>(&store, "list", |_| Node::new(0)).unwrap();
    for v in 0..5 {
        head.tx(|j, head| append(head, v, j)).unwrap();
    }
    assert_eq!(values(&head), [0, 1, 2, 3, 4]);
    drop(head);
    let head = P1::open::<Node<i32, P1>>(&store, "list").unwrap();
    assert_eq!(head.tx(|j, head| pop(head, j)).unwrap(), Some(0));
    assert_eq!(values(&head), [1, 2, 3, 4]);
    assert_eq!(head.generation(), 2);
}

#[test]
fn a_pointer_is_one_word_also_in_an_option() {
    pool!(P);
    assert_eq!(size_of::<Pbox<u64, P>>(), 8);
    assert_eq!(size_of::<Option<Pbox<u64, P>>>(), 8);
    assert_eq!(size_of::<PRefCell<Option<Pbox<u64, P>>, P>>(), 8);
}

#[test]
fn a_panic_an_error_and_a_caught_nested_failure_roll_back() {
    pool!(P);
    let store = store();
    let head = P::create::<Node<i32, P>>(&store, "list", |_| Node::new(0)).unwrap();
    head.tx(|j, head| append(head, 1, j)).unwrap();
    let used = || head.store().check().len();
    let _ = used;
    let outcome = head.tx(|j, head| {
        append(head, 2, j);
        pop(head, j);
        panic!("on {}", "purpose");
    });
    assert!(matches!(outcome, Err(Error::Panicked { ref message }) if message == "on purpose"), "{outcome:?}");
    assert_eq!(values(&head), [1]);
    let outcome = head.try_tx(|j, head| {
        append(head, 2, j);
        Err::<(), _>("no")
    });
    assert!(matches!(outcome, Err(TryError::Aborted("no"))));
    assert_eq!(values(&head), [1]);
    let outcome = head.tx(|j, head| {
        append(head, 2, j);
        assert!(P::transaction(|_| panic!("inside")).is_err());
    });
    assert!(matches!(outcome, Err(Error::Doomed)), "{outcome:?}");
    assert_eq!(values(&head), [1]);
    head.tx(|j, head| append(head, 2, j)).unwrap();
    assert_eq!(values(&head), [1, 2]);
}

#[test]
fn what_is_wrong_is_named() {
    pool!(P, Q);
    let store = store();
    let head = P::create::<Node<i32, P>>(&store, "list", |_| Node::new(0)).unwrap();
    assert!(matches!(P::open::<Node<i32, P>>(&store, "list"), Err(Error::Bound { .. })));
    assert!(matches!(
        Q::open::<Node<i32, Q>>(&store, "list"),
        Err(Error::Store(everbyte_store::Error::Claimed { .. }))
    ));
    assert!(matches!(Q::transaction(|_| ()), Err(Error::Closed { pool: "Q" })));
    drop(head);
    let error = Q::open::<Node<i64, Q>>(&store, "list").unwrap_err();
    assert!(error.to_string().contains("its root is `Node<i32>`, the program's is `Node<i64>`"), "{error}");
    assert!(Q::open::<Node<i32, Q>>(&store, "list").is_ok());
    assert!(matches!(P::create::<Node<i32, P>>(&store, "list", |_| Node::new(0)), Err(Error::Store(_))));
    let error = P::create::<Node<i32, P>>(&store, "other", |_| panic!("first")).unwrap_err();
    assert!(matches!(error, Error::Panicked { .. }), "{error}");
    assert!(store.object("other").is_err());
    assert!(P::create::<Node<i32, P>>(&store, "other", |_| Node::new(0)).is_ok());
}

#[test]
fn a_pool_closed_inside_its_transaction_closes_at_its_end() {
    pool!(P);
    let store = store();
    let count = P::create::<PCell<u64, P>>(&store, "count", |_| PCell::new(1)).unwrap();
    P::transaction(move |_| {
        drop(count);
        assert!(matches!(P::open::<PCell<u64, P>>(&store, "count"), Err(Error::Bound { .. })));
    })
    .unwrap();
    assert!(matches!(P::transaction(|_| ()), Err(Error::Closed { .. })));
}

#[test]
fn a_full_pool_ends_the_transaction_and_stays_usable() {
    pool!(P);
    let store = store();
    let options = everbyte_object::PoolOptions { span: Some((1 << 20).into()), ..Default::default() };
    let head = P::create_with::<Node<i32, P>>(&store, "list", &options, |_| Node::new(0)).unwrap();
    let outcome = head.tx(|j, _| {
        let _all: Vec<_> = (0..100_000u64).map(|n| Pbox::new([n; 8], j)).collect();
    });
    assert!(matches!(outcome, Err(Error::Tx(_) | Error::Store(_))), "{outcome:?}");
    head.tx(|j, head| append(head, 2, j)).unwrap();
    assert_eq!(values(&head), [2]);
}

#[test]
fn a_long_list_is_dropped_without_overflowing_the_stack() {
    pool!(P);
    #[derive(PSafe)]
    #[repr(C)]
    struct Stack<P: everbyte_object::MemPool> {
        top: PRefCell<Option<Pbox<Item<P>, P>>, P>,
    }
    #[derive(PSafe)]
    #[repr(C)]
    struct Item<P: everbyte_object::MemPool> {
        below: Option<Pbox<Item<P>, P>>,
    }
    let store = store();
    let stack = P::create::<Stack<P>>(&store, "stack", |_| Stack { top: PRefCell::new(None) }).unwrap();
    stack
        .tx(|j, stack| {
            let mut top = stack.top.borrow_mut(j);
            for _ in 0..100_000 {
                *top = Some(Pbox::new(Item { below: top.take() }, j));
            }
        })
        .unwrap();
    stack.tx(|j, stack| *stack.top.borrow_mut(j) = None).unwrap();
    assert!(stack.top.borrow().is_none());
}

#[test]
fn two_pools_are_open_at_once_and_independent() {
    pool!(P, pub(crate) Q);
    let store = store();
    let one = P::create::<PCell<u64, P>>(&store, "one", |_| PCell::new(1)).unwrap();
    let two = Q::create::<PCell<u64, Q>>(&store, "two", |_| PCell::new(2)).unwrap();
    // The inner transaction commits although the outer one rolls back: it is of another pool.
    let outcome = one.try_tx(|j, one| {
        one.set(10, j);
        two.tx(|j, two| two.set(20, j)).unwrap();
        Err::<(), ()>(())
    });
    assert!(outcome.is_err());
    assert_eq!((one.get(), two.get()), (1, 20));
    drop(one);
    assert_eq!(two.tx(|_, two| two.get()).unwrap(), 20);
}

#[test]
fn copies_are_deep() {
    pool!(P);
    let store = store();
    type Slots = [PRefCell<Option<Pbox<u64, P>>, P>; 2];
    let slots = P::create::<Slots>(&store, "slots", |j| [PRefCell::new(Some(Pbox::new(1, j))), PRefCell::new(None)]);
    let slots = slots.unwrap();
    slots
        .tx(|j, [one, two]| {
            *two.borrow_mut(j) = one.borrow().as_ref().map(|one| one.pclone(j));
            *one.borrow_mut(j).as_mut().unwrap().as_mut(j) = 2;
        })
        .unwrap();
    let values = slots.each_ref().map(|slot| **slot.borrow().as_ref().unwrap());
    assert_eq!(values, [2, 1]);
    assert_eq!(slots.check().unwrap(), []);
}

/// A part of an object, borrowed before the transaction, is entered; a reference elsewhere is
/// not.
#[test]
fn references_into_the_pool_enter_a_transaction() {
    pool!(P);
    let store = store();
    let cells = P::create::<[PCell<u64, P>; 2]>(&store, "cells", |_| [PCell::new(1), PCell::new(2)]).unwrap();
    let second = &cells[1];
    P::transaction(|j| j.enter(second).set(3, j)).unwrap();
    assert_eq!(cells[1].get(), 3);
    let outside = PCell::<u64, P>::new(5);
    assert!(matches!(P::transaction(|j| j.enter(&outside).set(6, j)), Err(Error::Panicked { .. })));
    assert_eq!(outside.get(), 5);
}

/// A look at the whole pool refuses transactions of its thread and waits for those of others.
#[test]
fn reading_keeps_transactions_out() {
    use everbyte_object::{PMutex, PRwLock, PWriteGuard, Parc, parc::PWeak};
    pool!(Looked);

    #[derive(PSafe)]
    #[repr(C)]
    struct Graph<P: MemPool> {
        node: PMutex<Option<Parc<u64, P>>, P>,
        back: PMutex<Option<PWeak<u64, P>>, P>,
        number: PRwLock<u64, P>,
    }

    let store = store();
    let graph = Looked::create::<Graph<Looked>>(&store, "graph", |j| {
        let node = Parc::new(7, j);
        let back = PMutex::new(Some(node.downgrade(j)));
        Graph { node: PMutex::new(Some(node)), back, number: PRwLock::new(1) }
    })
    .unwrap();
    let seen = graph.read(|reader, graph| {
        let back = graph.back.get(reader).as_ref().unwrap();
        assert_eq!((back.get(reader), *graph.number.get(reader)), (Some(&7), 1));
        let busy = Looked::transaction(|j| drop(Parc::new(1u64, j)));
        assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
        // a transaction of another thread that changes nothing need not wait
        std::thread::spawn(|| Looked::transaction(|_| 5).unwrap()).join().unwrap()
    });
    assert_eq!(seen.unwrap(), 5);
    assert!(matches!(graph.tx(|_, _| graph.read(|_, _| ()).unwrap_err()), Ok(Error::Busy { .. })));
    graph
        .tx(|j, graph| {
            drop(graph.node.lock(j).take());
            let mut number: PWriteGuard<'_, _, _> = graph.number.write(j);
            *number = 2;
        })
        .unwrap();
    let gone = graph.read(|reader, graph| graph.back.get(reader).as_ref().unwrap().get(reader).is_none());
    assert!(gone.unwrap());
    assert!(matches!(graph.read(|_, _| panic!("on purpose")), Err(Error::Panicked { .. })));
    assert_eq!(graph.check().unwrap(), []);
}
