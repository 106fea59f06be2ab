//! Only values that keep their meaning lie in a pool (rows CR09, CR10; goal
//! Only-Persistent-Objects).
#[path = "common.rs"]
mod common;
use common::*;

//@ boxed: E0277 "cannot live in a pool" "`Pbox`"
fn boxed() {
    P1::transaction(|j| drop(Pbox::new(Box::new(10), j))).unwrap();
}
//@ string: E0277 "`String` cannot live in a pool" "`PString`"
fn string() {
    P1::transaction(|j| drop(Pbox::new(String::new(), j))).unwrap();
}
//@ vec: E0277 "`Vec<{integer}>` cannot live in a pool" "`PVec`"
fn vec() {
    P1::transaction(|j| drop(Pbox::new(vec![1], j))).unwrap();
}
//@ hash_map: E0277 "cannot live in a pool"
fn hash_map() {
    P1::transaction(|j| drop(Pbox::new(HashMap::<u32, u32>::new(), j))).unwrap();
}
//@ raw_pointer: E0277 "cannot live in a pool"
fn raw_pointer() {
    P1::transaction(|j| drop(Pbox::new(&raw const *&1i32, j))).unwrap();
}
//@ text: E0277 "`&str` cannot live in a pool"
fn text() {
    P1::transaction(|j| drop(Pbox::new("static", j))).unwrap();
}
//@ reference: E0277 "cannot live in a pool"
fn reference() {
    P1::transaction(|j| drop(Pbox::new(&7u32, j))).unwrap();
}
//@ rc: E0277 "cannot live in a pool" "`Prc`"
fn rc() {
    P1::transaction(|j| drop(Pbox::new(Rc::new(1), j))).unwrap();
}
//@ arc: E0277 "cannot live in a pool" "`Parc`"
fn arc() {
    P1::transaction(|j| drop(Pbox::new(Arc::new(1), j))).unwrap();
}
//@ file: E0277 "cannot live in a pool"
fn file(file: std::fs::File) {
    P1::transaction(|j| drop(Pbox::new(file, j))).unwrap();
}
//@ socket: E0277 "cannot live in a pool"
fn socket(socket: std::net::TcpStream) {
    P1::transaction(|j| drop(Pbox::new(socket, j))).unwrap();
}
//@ instant: E0277 "cannot live in a pool"
fn instant() {
    P1::transaction(|j| drop(Pbox::new(std::time::Instant::now(), j))).unwrap();
}
//@ mutex: E0277 "cannot live in a pool" "`PMutex`"
fn mutex() {
    P1::transaction(|j| drop(Pbox::new(Mutex::new(1), j))).unwrap();
}
//@ atomic: E0277 "cannot live in a pool"
fn atomic() {
    P1::transaction(|j| drop(Pbox::new(AtomicU64::new(1), j))).unwrap();
}
//@ cell: E0277 "cannot live in a pool" "`PCell`"
fn cell() {
    P1::transaction(|j| drop(Pbox::new(Cell::new(1), j))).unwrap();
}
//@ ref_cell: E0277 "cannot live in a pool" "`PRefCell`"
fn ref_cell() {
    P1::transaction(|j| drop(Pbox::new(RefCell::new(1), j))).unwrap();
}
//@ unsafe_cell: E0277 "cannot live in a pool"
fn unsafe_cell() {
    P1::transaction(|j| drop(Pbox::new(UnsafeCell::new(1), j))).unwrap();
}
//@ function_pointer: E0277 "cannot live in a pool"
fn function_pointer() {
    P1::transaction(|j| drop(Pbox::new(function_pointer as fn(), j))).unwrap();
}
//@ closure: E0277 "cannot live in a pool"
fn closure() {
    P1::transaction(|j| drop(Pbox::new(|| 1, j))).unwrap();
}
//@ trait_object: E0277
fn trait_object(b: Box<dyn Any>) {
    P1::transaction(move |j| drop(Pbox::new(b, j))).unwrap();
}
//@ journal: E0277 "cannot live in a pool"
fn journal() {
    P1::transaction(|j| drop(Pbox::new(j, j))).unwrap();
}
//@ guard: E0277 "cannot live in a pool"
fn guard() {
    list().tx(|j, root| drop(Pbox::new(root.next.borrow_mut(j), j))).unwrap();
}
//@ volatile_weak: E0277 "cannot live in a pool"
fn volatile_weak(weak: parc::VWeak<u32, P1>) {
    P1::transaction(move |j| drop(Pbox::new(weak, j))).unwrap();
}
//@ open_pool: E0277 "cannot live in a pool"
fn open_pool(other: Root<u32, P2>) {
    P1::transaction(move |j| drop(Pbox::new(other, j))).unwrap();
}
//@ store: E0277 "cannot live in a pool"
fn store(store: everbyte_store::Store) {
    P1::transaction(move |j| drop(Pbox::new(store, j))).unwrap();
}
//@ in_an_option: E0277 "cannot live in a pool"
fn in_an_option() {
    P1::transaction(|j| drop(Pbox::new(Some(String::new()), j))).unwrap();
}
//@ in_a_tuple: E0277 "cannot live in a pool"
fn in_a_tuple() {
    P1::transaction(|j| drop(Pbox::new((1u32, String::new()), j))).unwrap();
}
//@ in_an_array: E0277 "cannot live in a pool"
fn in_an_array() {
    P1::transaction(|j| drop(Pbox::new([String::new()], j))).unwrap();
}
//@ in_a_vector: E0277 "cannot live in a pool"
fn in_a_vector() {
    P1::transaction(|j| PVec::new().push(String::new(), j)).unwrap();
}
//@ in_a_counted_pointer: E0277 "cannot live in a pool"
fn in_a_counted_pointer() {
    P1::transaction(|j| drop(Parc::new(Mutex::new(1), j))).unwrap();
}
//@ in_a_generic_type: E0277 "cannot live in a pool"
fn in_a_generic_type() {
    P1::transaction(|j| drop(Pbox::new(node(String::new()), j))).unwrap();
}
//@ not_derived: E0277 "`Plain` cannot live in a pool" "`#[derive(PSafe)]`"
struct Plain {
    n: u32,
}
fn not_derived() {
    P1::transaction(|j| drop(Pbox::new(Plain { n: 1 }, j))).unwrap();
}
//@ a_root_of_strings: E0277 "cannot live in a pool"
fn a_root_of_strings(store: &everbyte_store::Store) {
    let _ = P1::open::<String>(store, "x");
}
//@ a_pool_that_is_none: E0277 "`u32` is not a pool type" "`pool!(Name)`"
fn a_pool_that_is_none() {
    let _: Option<Pbox<u32, u32>> = None;
}
//@ a_closure_in_a_volatile_cell: E0277 E0599
fn a_string_in_a_volatile_cell() {
    P1::transaction(|j| drop(Pbox::new(VCell::<String, _>::new(), j))).unwrap();
}
