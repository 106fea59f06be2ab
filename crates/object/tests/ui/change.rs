//! A pool changes only in a transaction, logged (rows CR15, CR34; goals Tx-Are-Atomic,
//! Mutable-In-Tx-Only), and nothing is read from a pool that is closed (goal Ptrs-Are-Safe).
#[path = "common.rs"]
mod common;
use common::*;

//@ through_a_box: E0594
fn through_a_box() {
    P1::transaction(|j| {
        let mut new = Pbox::new(1u32, j);
        *new = 2;
    })
    .unwrap();
}
//@ through_a_counted_pointer: E0594
fn through_a_counted_pointer() {
    P1::transaction(|j| {
        let mut new = Parc::new(1u32, j);
        *new = 2;
    })
    .unwrap();
}
//@ through_the_root: E0594
fn through_the_root() {
    let mut r = list();
    r.val = 7;
}
//@ through_the_branded_root: E0594
fn through_the_branded_root() {
    list().tx(|_, root| root.val = 7).unwrap();
}
//@ a_cell_without_a_journal: E0061
fn a_cell_without_a_journal() {
    *list().next.borrow_mut() = None;
}
//@ a_cell_set_without_a_journal: E0061
fn a_cell_set_without_a_journal(r: &Root<PCell<u32, P1>, P1>) {
    r.set(1);
}
//@ through_a_shared_guard: E0594
fn through_a_shared_guard() {
    *list().next.borrow() = None;
}
//@ a_mutex_without_a_journal: E0061
fn a_mutex_without_a_journal(r: &Root<Slot, P1>) {
    *r.lock() = None;
}
//@ a_vector_in_the_root: E0596
fn a_vector_in_the_root(r: &Root<PVec<u32, P1>, P1>) {
    r.tx(|j, all| all.push(1, j)).unwrap();
}
//@ a_cell_of_the_root_as_mutable: E0596
fn a_cell_of_the_root_as_mutable() {
    let mut r = list();
    *r.next.get_mut() = None;
}
//@ a_box_outside: E0061
fn a_box_outside() {
    let _: Pbox<u32, P1> = Pbox::new(1);
}
//@ a_captured_root: E0308 E0521
fn a_captured_root(head: &Root<List, P1>, v: i32) {
    P1::transaction(|j| append(head, v, j)).unwrap();
}
//@ a_captured_reference: E0308 E0521
fn a_captured_reference(head: &List) {
    P1::transaction(|j| *head.next.borrow_mut(j) = None).unwrap();
}
//@ a_journal_constructed: E0624
fn a_journal_constructed() {
    let _ = Journal::<P1>::new(panic!());
}
//@ a_journal_cloned: E0277
fn a_journal_cloned() {
    P1::transaction(|j| drop(Journal::clone(j))).unwrap();
}
//@ used_after_closing: E0505
fn used_after_closing() {
    let r = list();
    let seen = &r.val;
    drop(r);
    println!("{seen}");
}
//@ a_guard_after_closing: E0505
fn a_guard_after_closing() {
    let r = list();
    let guard = r.next.borrow();
    drop(r);
    println!("{}", guard.is_some());
}
//@ a_reference_that_outlives_its_root: E0515
fn a_reference_that_outlives_its_root<'a>() -> &'a i32 {
    let r = list();
    &r.val
}
//@ closed_in_its_own_transaction: E0505
fn closed_in_its_own_transaction() {
    let r = list();
    r.tx(|_, root| {
        drop(r);
        println!("{}", root.val);
    })
    .unwrap();
}
//@ closed_under_a_reference: E0505
fn closed_under_a_reference() {
    let r = list();
    P1::transaction(move |j| {
        let seen = j.enter(&*r);
        drop(r);
        println!("{}", seen.val);
    })
    .unwrap();
}
