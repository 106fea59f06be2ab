//! References that a body takes by a root it has captured: they would outlive a roll-back (POOL-3).

use crate::common::store;
use everbyte_object::{Error, MemPool, POnceCell, PRef, PRefCell, PSafe, PString, PVec, Pbox, Pool, TryError, pool};

#[derive(PSafe)]
#[repr(C)]
struct Place<T: PSafe<P>, P: MemPool> {
    a: PRefCell<Option<Pbox<T, P>>, P>,
}

fn is_refused<T, E>(outcome: Result<T, TryError<E>>) -> bool {
    matches!(outcome, Err(TryError::Failed(Error::Panicked { message })) if message.contains("the root that the body is given"))
}

#[test]
fn a_guard_taken_by_a_captured_root_does_not_outlive_a_roll_back() {
    pool!(P);
    let store = store();
    let root = P::create::<Place<[char; 8], P>>(&store, "x", |_| Place { a: PRefCell::new(None) }).unwrap();
    let outcome = root.try_tx(|j, r| {
        *r.a.borrow_mut(j) = Some(Pbox::new(['x'; 8], j));
        Err::<(), _>(PRef::map(root.a.borrow(), |a| &**a.as_ref().unwrap()))
    });
    assert!(is_refused(outcome), "the guard has left its transaction");
    let outcome = root.try_tx(|j, r| {
        *r.a.borrow_mut(j) = Some(Pbox::new(['x'; 8], j));
        Err::<(), _>(root.a.try_borrow())
    });
    assert!(is_refused(outcome), "the guard has left its transaction");
    assert!(root.a.borrow().is_none());
    assert_eq!(root.check().unwrap(), []);
}

#[test]
fn a_value_set_in_a_transaction_is_not_read_by_a_captured_root() {
    pool!(P);
    let store = store();
    let root = P::create::<POnceCell<PString<P>, P>>(&store, "x", |_| POnceCell::new()).unwrap();
    let outcome = root.try_tx(|j, r| {
        let _ = r.set(PString::from_str("hello", j), j);
        Err::<(), &PString<P>>(root.get().unwrap())
    });
    assert!(is_refused(outcome), "the text has left its transaction");
    assert!(root.get().is_none());
}

#[test]
fn unrooted_and_nested_transactions_refuse_a_captured_root_as_well() {
    pool!(P);
    let store = store();
    let root = P::create::<POnceCell<u64, P>>(&store, "x", |_| POnceCell::new()).unwrap();
    let outcome = P::try_transaction(|j| {
        root.tx(|j, r| r.set(7, j)).unwrap().unwrap();
        assert_eq!(root.at(j).get(), Some(&7), "the transaction's own brand sees it");
        Err::<(), _>(root.get())
    });
    assert!(is_refused(outcome), "the number has left its transaction");
}

#[test]
fn what_is_borrowed_before_a_transaction_stays_as_it_is() {
    pool!(P);
    let store = store();
    let root = P::create::<PRefCell<PVec<u64, P>, P>>(&store, "x", |j| PRefCell::new(PVec::from_slice(&[1, 2], j)));
    let root = root.unwrap();
    let before = root.borrow();
    assert!(root.tx(|j, r| r.borrow_mut(j).push(3, j)).is_err(), "borrowed outside");
    assert_eq!(root.tx(|_, r| r.borrow().len()).unwrap(), 2);
    assert_eq!(&before[..], [1, 2]);
}

#[test]
fn printing_a_captured_root_in_a_body_says_nothing_of_its_cells() {
    pool!(P);
    let store = store();
    type R<P> = (PRefCell<u64, P>, POnceCell<u64, P>);
    let root = P::create::<R<P>>(&store, "x", |_| (PRefCell::new(1), POnceCell::new())).unwrap();
    let shown = root.tx(|_, r| (format!("{:?}", root.0), format!("{:?}", root.1), format!("{:?}", r.0))).unwrap();
    let hidden = |cell| format!("{cell}(<of the running transaction>)");
    assert_eq!(shown, (hidden("PRefCell"), hidden("POnceCell"), "PRefCell(1)".into()));
}

#[test]
fn a_cell_outside_of_the_pool_is_read_in_a_body() {
    pool!(P);
    let store = store();
    let root = P::create::<u64>(&store, "x", |_| 0).unwrap();
    let outside = PRefCell::<u64, P>::new(5);
    assert_eq!(root.tx(|_, _| *outside.borrow()).unwrap(), 5);
}
