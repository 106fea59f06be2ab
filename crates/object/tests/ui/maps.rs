//! Entries of maps are reached, changed and shared as values of other types of a pool.
#[path = "common.rs"]
mod common;
use common::*;

type Hash = Root<PRefCell<PHashMap<u32, Pbox<u32, P1>, P1>, P1>, P1>;
type Numbers = Root<PRefCell<PHashMap<u32, u32, P1>, P1>, P1>;
type Ordered = Root<PRefCell<PBTreeMap<u32, Pbox<u32, P1>, P1>, P1>, P1>;

//@ changed_without_a_journal: E0061
fn changed_without_a_journal(r: &Numbers) {
    r.tx(|j, map| map.borrow_mut(j).insert(1, 2)).unwrap();
}
//@ changed_in_the_root: E0596
fn changed_in_the_root(r: &Root<PHashMap<u32, u32, P1>, P1>) {
    r.tx(|j, map| map.clear(j)).unwrap();
}
//@ a_value_changed_unnoted: E0594
fn a_value_changed_unnoted(r: &Numbers) {
    r.tx(|j, map| map.borrow_mut(j)[&1] = 2).unwrap();
}
//@ a_value_changed_through_a_shared_guard: E0594
fn a_value_changed_through_a_shared_guard(r: &Numbers) {
    r.tx(|_, map| *map.borrow().get(&1).unwrap() = 2).unwrap();
}
//@ a_key_changed: E0594
fn a_key_changed(r: &Numbers) {
    r.tx(|j, map| map.borrow_mut(j).iter_mut(j).for_each(|(key, _)| *key = 2)).unwrap();
}
//@ a_value_kept_while_the_map_changes: E0502
fn a_value_kept_while_the_map_changes(r: &Numbers) {
    r.tx(|j, map| {
        let mut map = map.borrow_mut(j);
        let value = map.get(&1);
        map.remove(&1, j);
        println!("{value:?}");
    })
    .unwrap();
}
//@ two_values_to_change_at_once: E0499
fn two_values_to_change_at_once(r: &Numbers) {
    r.tx(|j, map| {
        let mut map = map.borrow_mut(j);
        let (one, other) = (map.get_mut(&1, j), map.get_mut(&1, j));
        println!("{one:?} {other:?}");
    })
    .unwrap();
}
//@ removed_from_while_iterated_over: E0502
fn removed_from_while_iterated_over(r: &Numbers) {
    r.tx(|j, map| {
        let mut map = map.borrow_mut(j);
        for (key, _) in map.iter() {
            map.remove(key, j);
        }
    })
    .unwrap();
}
//@ a_removed_value_returned: lifetime
fn a_removed_value_returned(r: &Hash) {
    let gone = r.tx(|j, map| map.borrow_mut(j).remove(&1, j)).unwrap();
    drop(gone);
}
//@ a_map_returned: lifetime
fn a_map_returned(r: &Hash) {
    let gone = r.tx(|j, map| map.take(j)).unwrap();
    drop(gone);
}
//@ a_value_lent_to_the_outside: E0308 E0515 E0716 lifetime
fn a_value_lent_to_the_outside(r: &Hash) {
    let gone: Option<&Pbox<u32, P1>> = r.tx(|_, map| map.borrow().get(&1)).unwrap();
    drop(gone);
}
//@ carried_out_by_a_closure: E0308 lifetime
fn carried_out_by_a_closure(r: &Hash, kept: &Mutex<Vec<Pbox<u32, P1>>>) {
    r.tx(|j, map| {
        map.borrow_mut(j).get_or_insert_with(
            1,
            || {
                kept.lock().unwrap().push(Pbox::new(1, j));
                Pbox::new(2, j)
            },
            j,
        );
    })
    .unwrap();
}
//@ an_ordered_map_changed_in_the_root: E0596
fn an_ordered_map_changed_in_the_root(r: &Root<PBTreeMap<u32, u32, P1>, P1>) {
    r.tx(|j, map| map.pop_first(j)).unwrap();
}
//@ a_key_of_a_range_changed: E0594
fn a_key_of_a_range_changed(r: &Ordered) {
    r.tx(|j, map| map.borrow_mut(j).range_mut(1.., j).for_each(|(key, _)| *key = 2)).unwrap();
}
//@ a_range_kept_while_the_map_changes: E0502
fn a_range_kept_while_the_map_changes(r: &Ordered) {
    r.tx(|j, map| {
        let mut map = map.borrow_mut(j);
        let range = map.range(1..);
        map.clear(j);
        println!("{}", range.count());
    })
    .unwrap();
}
//@ values_of_two_ranges_at_once: E0499
fn values_of_two_ranges_at_once(r: &Ordered) {
    r.tx(|j, map| {
        let mut map = map.borrow_mut(j);
        let one: Vec<_> = map.range_mut(1.., j).collect();
        let other: Vec<_> = map.range_mut(2.., j).collect();
        println!("{}", one.len() + other.len());
    })
    .unwrap();
}
//@ a_first_entry_returned: lifetime
fn a_first_entry_returned(r: &Ordered) {
    let gone = r.tx(|j, map| map.borrow_mut(j).pop_first(j)).unwrap();
    drop(gone);
}
//@ a_range_returned: E0277 E0515 E0716 lifetime
fn a_range_returned(r: &Ordered) {
    let gone: Vec<&Pbox<u32, P1>> = r.tx(|_, map| map.borrow().values().collect()).unwrap();
    drop(gone);
}
//@ keys_without_an_order: E0277 E0599
fn keys_without_an_order(r: &Root<PRefCell<PBTreeMap<f64, u32, P1>, P1>, P1>) {
    r.tx(|j, map| map.borrow_mut(j).insert(1.0, 2, j)).unwrap();
}
//@ cells_with_an_order: E0277 E0599
fn cells_with_an_order(r: &Root<PRefCell<PBTreeMap<PCell<u32, P1>, u32, P1>, P1>, P1>) {
    r.tx(|j, map| map.borrow_mut(j).insert(PCell::new(1), 2, j)).unwrap();
}
//@ ordered_values_of_another_pool: E0277
fn ordered_values_of_another_pool(store: &everbyte_store::Store) {
    let _ = P1::open::<PBTreeMap<u32, Pbox<u32, P2>, P1>>(store, "x");
}
//@ text_of_the_heap_as_a_key: E0277 "`String` cannot live in a pool" "`PString`"
fn text_of_the_heap_as_a_key() {
    let _: Option<PHashMap<String, u32, P1>> = None;
}
//@ a_volatile_value: E0277 "cannot live in a pool" "`PMutex`"
fn a_volatile_value() {
    let _: Option<PHashMap<u32, Mutex<u32>, P1>> = None;
}
//@ keys_that_cannot_be_hashed: E0277 E0599
fn keys_that_cannot_be_hashed(r: &Root<PRefCell<PHashMap<f64, u32, P1>, P1>, P1>) {
    r.tx(|j, map| map.borrow_mut(j).insert(1.0, 2, j)).unwrap();
}
//@ cells_as_keys: E0277 E0599
fn cells_as_keys(r: &Root<PRefCell<PHashMap<PCell<u32, P1>, u32, P1>, P1>, P1>) {
    r.tx(|j, map| map.borrow_mut(j).insert(PCell::new(1), 2, j)).unwrap();
}
//@ values_of_another_pool: E0277
fn values_of_another_pool(store: &everbyte_store::Store) {
    let _ = P1::open::<PHashMap<u32, Pbox<u32, P2>, P1>>(store, "x");
}
//@ keys_of_another_pool: E0277
fn keys_of_another_pool(store: &everbyte_store::Store) {
    let _ = P1::open::<PHashMap<PString<P2>, u32, P1>>(store, "x");
}
//@ the_journal_of_another_pool: E0308
fn the_journal_of_another_pool(r: &Numbers) {
    P2::transaction(|other| r.tx(|j, map| map.borrow_mut(j).insert(1, 2, other)).unwrap()).unwrap();
}
//@ cells_shared_by_threads: E0277
fn cells_shared_by_threads(r: &Root<PHashMap<u32, PCell<u32, P1>, P1>, P1>) {
    thread::scope(|s| s.spawn(|| r[&1].get()).join().unwrap());
}
//@ a_map_of_a_transaction_in_a_thread: E0277 E0521
fn a_map_of_a_transaction_in_a_thread() {
    P1::transaction(|j| {
        let map = PHashMap::from_iter([(1u32, 2u32)], j);
        thread::scope(|s| {
            s.spawn(move || drop(map));
        });
    })
    .unwrap();
}
