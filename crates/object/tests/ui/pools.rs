//! Nothing in one pool points into another, and a transaction changes its own pool alone (rows
//! CR16, CR17).
#[path = "common.rs"]
mod common;
use common::*;

//@ a_box_of_another_pool: E0308
fn a_box_of_another_pool() {
    P1::transaction(|j1| {
        let cell = PRefCell::new(Pbox::new(1, j1));
        P2::transaction(|j2| *cell.borrow_mut(j1) = Pbox::new(1, j2)).unwrap();
    })
    .unwrap();
}
//@ the_wrong_journal: E0308
fn the_wrong_journal() {
    P2::transaction(|j2| drop(Pbox::<u32, P1>::new(1, j2))).unwrap();
}
//@ a_box_in_a_box_of_another_pool: E0308
fn a_box_in_a_box_of_another_pool() {
    P1::transaction(|j1| {
        let first = Pbox::new(1u32, j1);
        P2::transaction(move |j2| drop(Pbox::new(first, j2))).unwrap();
    })
    .unwrap();
}
//@ a_root_with_boxes_of_another_pool: E0277
fn a_root_with_boxes_of_another_pool(store: &everbyte_store::Store) {
    let _ = P2::open::<PRefCell<Option<Pbox<u32, P1>>, P1>>(store, "x");
}
//@ a_box_within_boxes_of_another_pool: E0277
fn a_box_within_boxes_of_another_pool(store: &everbyte_store::Store) {
    let _ = P2::open::<PRefCell<Option<Pbox<Pbox<u32, P1>, P2>>, P2>>(store, "x");
}
//@ a_cell_of_another_pool: E0277
fn a_cell_of_another_pool(store: &everbyte_store::Store) {
    let _ = P2::open::<PMutex<PCell<u32, P1>, P2>>(store, "x");
}
//@ a_list_of_another_pool: E0277
fn a_list_of_another_pool(store: &everbyte_store::Store) {
    let _ = P2::open::<List>(store, "x");
}
//@ a_vector_of_another_pool: E0277
fn a_vector_of_another_pool(store: &everbyte_store::Store) {
    let _ = P2::open::<PVec<PString<P1>, P2>>(store, "x");
}
//@ a_weak_pointer_of_another_pool: E0277
fn a_weak_pointer_of_another_pool(store: &everbyte_store::Store) {
    let _ = P2::open::<PRefCell<Option<parc::PWeak<u32, P1>>, P2>>(store, "x");
}
//@ a_reference_into_another_pool_entered: E0277
fn a_reference_into_another_pool_entered(r: &Root<List, P1>) {
    P2::transaction(|j2| append(j2.enter(&**r), 1, j2)).unwrap();
}
//@ a_weak_pointer_of_another_pool_promoted: E0308
fn a_weak_pointer_of_another_pool_promoted(weak: &parc::VWeak<u32, P1>) {
    P2::transaction(|j2| weak.promote(j2).is_some()).unwrap();
}
//@ a_mutex_of_another_pool_locked: E0308
fn a_mutex_of_another_pool_locked(r: &Root<Slot, P1>) {
    P2::transaction(|j2| *r.lock(j2) = None).unwrap();
}
//@ two_pools_as_one_parameter: E0308
fn both<P: MemPool>(a: &Node<i32, P>, b: &Node<i32, P>, j: &Journal<P>) {
    append(a, b.val, j);
}
fn two_pools_as_one_parameter(a: &Root<List, P1>, b: &Root<Node<i32, P2>, P2>) {
    a.tx(|j1, a| b.tx(|_, b| both(a, b, j1)).unwrap()).unwrap();
}
//@ an_outer_box_in_an_inner_transaction: E0521 lifetime
fn an_outer_box_in_an_inner_transaction(r: &Root<List, P1>) {
    P1::transaction(|j1| {
        let new = Pbox::new(node(1), j1);
        r.tx(move |j2, root| *root.next.borrow_mut(j2) = Some(new)).unwrap();
    })
    .unwrap();
}
//@ an_inner_box_in_an_outer_variable: E0521 lifetime
fn an_inner_box_in_an_outer_variable() {
    P1::transaction(|j1| {
        let mut out = Some(Pbox::new(1u32, j1));
        P1::transaction(|j2| out = Some(Pbox::new(2u32, j2))).unwrap();
        drop(out);
    })
    .unwrap();
}
//@ the_outer_journal_in_an_inner_transaction: E0521 lifetime
fn the_outer_journal_in_an_inner_transaction(r: &Root<List, P1>) {
    P1::transaction(|j1| r.tx(|_, root| append(root, 1, j1)).unwrap()).unwrap();
}
//@ the_pool_by_its_own_name: E0308 E0521
fn by_name(list: &List, j: &Journal<P1>) {
    append(list, 1, j);
}
fn the_pool_by_its_own_name(r: &Root<List, P1>) {
    r.tx(|j, list| by_name(list, j)).unwrap();
}
