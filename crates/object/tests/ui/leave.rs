//! Nothing that points into a pool leaves a transaction by way of its result (rows CR14, CR15,
//! CR34).
#[path = "common.rs"]
mod common;
use common::*;

//@ returned_by_a_look: lifetime E0515 E0521
fn returned_by_a_look(r: &Root<Prc<u64, P1>, P1>, weak: &prc::PWeak<u64, P1>) {
    let gone = r.read(|reader, _| weak.get(reader)).unwrap();
    println!("{gone:?}");
}
//@ the_right_to_look_in_another_thread: E0277
fn the_right_to_look_in_another_thread(r: &Root<Prc<u64, P1>, P1>, weak: &parc::PWeak<u64, P1>) {
    r.read(|reader, _| thread::scope(|s| s.spawn(|| weak.get(reader).copied()).join().unwrap())).unwrap();
}
//@ returned_box: lifetime
fn returned_box() {
    let gone = P1::transaction(|j| Pbox::new(1, j)).unwrap();
    println!("{}", *gone);
}
//@ returned_box_named: E0308 lifetime
fn returned_box_named() {
    let gone: Pbox<u32, P1> = P1::transaction(|j| Pbox::new(1, j)).unwrap();
    drop(gone);
}
//@ returned_box_by_tx: lifetime
fn returned_box_by_tx() {
    let gone = list().tx(|j, _| Pbox::new(1, j)).unwrap();
    drop(gone);
}
//@ returned_box_buffered: lifetime
fn returned_box_buffered() {
    let gone = list().tx_buffered(|j, _| Pbox::new(1, j)).unwrap();
    drop(gone);
}
//@ returned_as_an_error: lifetime
fn returned_as_an_error() {
    let gone = list().try_tx(|j, _| Err::<(), _>(Pbox::new(1, j)));
    drop(gone);
}
//@ returned_in_a_struct: lifetime
struct Held<P: MemPool> {
    held: Pbox<u32, P>,
}
fn returned_in_a_struct() {
    let gone = P1::transaction(|j| Held { held: Pbox::new(1, j) }).unwrap();
    println!("{}", *gone.held);
}
//@ returned_in_a_struct_of_the_pool: E0308 E0521
struct HeldFor {
    held: Pbox<u32, P1>,
}
fn returned_in_a_struct_of_the_pool() {
    let gone = P1::transaction(|j| HeldFor { held: Pbox::new(1, j) }).unwrap();
    println!("{}", *gone.held);
}
//@ returned_reference: E0515 lifetime
fn returned_reference() {
    let gone: &u32 = P1::transaction(|j| {
        let new = Pbox::new(1, j);
        &*new
    })
    .unwrap();
    println!("{gone}");
}
//@ returned_leaked_reference: E0308 lifetime
fn returned_leaked_reference() {
    let gone: &'static Pbox<u32, P1> = P1::transaction(|j| &*Box::leak(Box::new(Pbox::new(1, j)))).unwrap();
    println!("{}", **gone);
}
//@ returned_in_a_ferry: lifetime
fn returned_in_a_ferry() {
    let gone = P1::transaction(|j| Ferry::new(Pbox::new(1u32, j))).unwrap();
    println!("{}", **gone.get());
}
//@ returned_in_a_closure: lifetime
fn returned_in_a_closure() {
    let gone = P1::transaction(|j| {
        let new = Pbox::new(1u32, j);
        move || *new
    })
    .unwrap();
    println!("{}", gone());
}
//@ returned_in_a_dyn_closure: lifetime
fn returned_in_a_dyn_closure() {
    let gone: Box<dyn Fn() -> u32> = P1::transaction(|j| {
        let new = Pbox::new(1u32, j);
        Box::new(move || *new) as Box<dyn Fn() -> u32>
    })
    .unwrap();
    println!("{}", gone());
}
//@ returned_as_any: lifetime E0521
fn returned_as_any() {
    let gone: Box<dyn Any> = P1::transaction(|j| Box::new(Pbox::new(1u32, j)) as Box<dyn Any>).unwrap();
    drop(gone);
}
//@ returned_in_an_rc: lifetime
fn returned_in_an_rc() {
    let gone = P1::transaction(|j| Rc::new(Pbox::new(1u32, j))).unwrap();
    drop(gone);
}
//@ returned_in_a_vec: lifetime
fn returned_in_a_vec() {
    let gone = P1::transaction(|j| vec![Some(Pbox::new(1u32, j))]).unwrap();
    drop(gone);
}
//@ returned_prc: lifetime
fn returned_prc() {
    let gone = P1::transaction(|j| Prc::new(1u32, j)).unwrap();
    drop(gone);
}
//@ returned_parc: lifetime
fn returned_parc() {
    let gone = P1::transaction(|j| Parc::new(1u32, j)).unwrap();
    drop(gone);
}
//@ returned_persistent_weak: lifetime
fn returned_persistent_weak() {
    let gone = P1::transaction(|j| Parc::new(1u32, j).downgrade(j)).unwrap();
    drop(gone);
}
//@ returned_beside_a_volatile_weak: lifetime
fn returned_beside_a_volatile_weak() {
    let gone = P1::transaction(|j| {
        let new = Parc::new(1u32, j);
        (new.demote(j), new)
    })
    .unwrap();
    drop(gone);
}
//@ returned_vector: lifetime
fn returned_vector() {
    let gone = P1::transaction(|j| PVec::from_slice(&[1u8, 2], j)).unwrap();
    drop(gone);
}
//@ returned_text: lifetime
fn returned_text() {
    let gone = P1::transaction(|j| PString::from_str("text", j)).unwrap();
    drop(gone);
}
//@ returned_drained_boxes: lifetime
fn returned_drained_boxes(r: &Root<PRefCell<PVec<Pbox<u32, P1>, P1>, P1>, P1>) {
    let gone = r.tx(|j, v| v.borrow_mut(j).drain(.., j)).unwrap();
    drop(gone);
}
//@ returned_reference_of_the_root: lifetime
fn returned_reference_of_the_root() {
    let r = list();
    let gone: &i32 = r.tx(|_, root| &root.val).unwrap();
    println!("{gone}");
}
//@ returned_entered_reference: lifetime
fn returned_entered_reference() {
    let r = list();
    let seen: &List = &r;
    let gone: &i32 = P1::transaction(move |j| &j.enter(seen).val).unwrap();
    println!("{gone}");
}
//@ returned_guard: lifetime
fn returned_guard() {
    let gone = list().tx(|j, root| root.next.borrow_mut(j)).unwrap();
    drop(gone);
}
//@ returned_shared_guard: lifetime
fn returned_shared_guard() {
    let gone = list().tx(|_, root| root.next.borrow()).unwrap();
    drop(gone);
}
//@ returned_mutex_guard: lifetime
fn returned_mutex_guard(r: &Root<Slot, P1>) {
    let gone = r.tx(|j, slot| slot.lock(j)).unwrap();
    drop(gone);
}
//@ returned_read_guard: lifetime
fn returned_read_guard(r: &Root<PRwLock<u32, P1>, P1>) {
    let gone = r.tx(|j, lock| lock.read(j)).unwrap();
    drop(gone);
}
//@ returned_journal: lifetime
fn returned_journal() {
    let gone = P1::transaction(|j| j).unwrap();
    let _ = gone;
}
//@ taken_out_of_the_root: lifetime
fn taken_out_of_the_root() {
    let gone = list().tx(|j, root| root.next.borrow_mut(j).take()).unwrap();
    drop(gone);
}
//@ nested_result_returned: lifetime
fn nested_result_returned() {
    let gone = P1::transaction(|j| j.nested(|j| Pbox::new(1u32, j)).unwrap()).unwrap();
    drop(gone);
}
//@ returned_from_creation: E0308 E0521
fn returned_from_creation(store: &everbyte_store::Store) {
    let _ = P1::create::<Slot>(store, "x", |j| PMutex::new(Some(Pbox::<u32, P1>::new(1, j))));
}
