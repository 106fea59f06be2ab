//! The lint: a transaction's body does not capture volatile state that it could change (rows CR12,
//! CR13).
#[path = "common.rs"]
mod common;
use common::*;

//@ assigns_a_flag: E0277 "captures volatile state that it could change" "return the new value instead" "use `tx`"
fn assigns_a_flag() {
    let mut done = false;
    P1::transaction_pure(|j| {
        Pbox::new(1, j);
        done = true;
    })
    .unwrap();
    println!("{done}");
}
//@ pushes_on_a_vec: E0277 "captures volatile state that it could change"
fn pushes_on_a_vec() {
    let mut seen = Vec::new();
    list().tx_pure(|_, root| seen.push(root.val)).unwrap();
}
//@ asserted_as_a_whole: E0277
fn asserted_as_a_whole() {
    let mut n = 0;
    P1::transaction_pure(AssertUnwindSafe(|j| {
        Pbox::new(1u32, j);
        n += 1;
    }))
    .unwrap();
}
//@ sets_a_cell: E0277 "captures volatile state that it could change"
fn sets_a_cell() {
    let cell = Cell::new(1);
    P1::transaction_pure(|_| cell.set(2)).unwrap();
}
//@ pushes_in_a_refcell: E0277 "captures volatile state that it could change"
fn pushes_in_a_refcell() {
    let cell = RefCell::new(vec![1]);
    P1::transaction_pure(|_| cell.borrow_mut().push(2)).unwrap();
}
//@ pushes_in_a_shared_refcell: E0277 "captures volatile state that it could change"
fn pushes_in_a_shared_refcell() {
    let cell = Rc::new(RefCell::new(vec![1]));
    P1::transaction_pure(move |_| cell.borrow_mut().push(2)).unwrap();
}
//@ a_lock_that_is_not_std: E0277 "captures volatile state that it could change"
struct Lock<T>(UnsafeCell<T>);
unsafe impl<T: Send> Sync for Lock<T> {}
impl<T> Lock<T> {
    fn put(&self, _: T) {}
}
fn a_lock_that_is_not_std() {
    let lock = Lock(UnsafeCell::new(1));
    P1::transaction_pure(|_| lock.put(1)).unwrap();
}
//@ calls_a_mutable_closure: E0277 "captures volatile state that it could change"
fn calls_a_mutable_closure(f: &mut dyn FnMut()) {
    P1::transaction_pure(|_| f()).unwrap();
}
//@ a_body_with_an_error: E0277 "captures volatile state that it could change"
fn a_body_with_an_error() {
    let mut n = 0;
    let _ = list().try_tx_pure(|_, _| {
        n += 1;
        Err::<(), ()>(())
    });
}
//@ the_journal_of_another_pool: E0277
fn the_journal_of_another_pool() {
    P1::transaction_pure(|j1| {
        let cell = PRefCell::new(Pbox::new(1, j1));
        P2::transaction_pure(|_| *cell.borrow_mut(j1) = Pbox::new(2, j1)).unwrap();
    })
    .unwrap();
}
