//! Shared by the tests: a store with a pool and a table, and their contents after so many changes.
#![allow(dead_code)] // each test file uses its part

use everbyte::media::{BackendChoice, Options};
use everbyte::{Journal, Kv, MemPool, PMutex, PRefCell, PSafe, PString, PVec, Parc, VCell};
use everbyte_store::{CreateOptions, Store};
use std::path::Path;

pub(crate) const BACKENDS: [BackendChoice; 2] = [BackendChoice::File, BackendChoice::Shm];

pub(crate) fn options(backend: BackendChoice) -> Options {
    Options { backend, log_bytes: 1 << 20, ..Options::default() }
}

pub(crate) fn create(path: &Path, backend: BackendChoice, max: u64) -> Store {
    Store::create(path, &CreateOptions { media: options(backend), max, ..CreateOptions::default() }).unwrap()
}

#[derive(PSafe)]
#[repr(C)]
pub(crate) struct Shop<P: MemPool> {
    pub names: PRefCell<PVec<PString<P>, P>, P>,
    pub total: Parc<PMutex<u64, P>, P>,
    /// Of this opening alone.
    pub served: VCell<u64, P>,
}

pub(crate) fn new_shop<P: MemPool>(j: &Journal<P>) -> Shop<P> {
    let names = PRefCell::new(PVec::new());
    Shop { names, total: Parc::new(PMutex::new(0), j), served: VCell::new() }
}

/// Change number `number` of a pool.
pub(crate) fn add<P: MemPool>(shop: &Shop<P>, number: u64, j: &Journal<P>) {
    shop.names.borrow_mut(j).push(PString::from_str(&name(number), j), j);
    *shop.total.lock(j) += number;
}

/// The state after so many changes.
pub(crate) fn expected(count: u64) -> (Vec<String>, u64) {
    ((0..count).map(name).collect(), (0..count).sum())
}

/// The contents of a pool.
pub(crate) fn found<P: MemPool>(shop: &Shop<P>, j: &Journal<P>) -> (Vec<String>, u64) {
    let names = shop.names.borrow().iter().map(|name| name.to_string()).collect();
    (names, *shop.total.lock(j))
}

/// Change number `number` of a table.
pub(crate) fn put(kv: &Kv, number: u64) {
    kv.put(&number.to_be_bytes(), name(number).as_bytes()).unwrap();
}

/// So many changes at once.
pub(crate) fn fill(kv: &Kv, count: u64) {
    let mut batch = kv.batch();
    (0..count).for_each(|number| assert!(!batch.put(&number.to_be_bytes(), name(number).as_bytes()).unwrap()));
    let commit = batch.commit().unwrap();
    kv.settle(commit).unwrap();
}

/// Names of very different lengths.
fn name(number: u64) -> String {
    let len = if number.is_multiple_of(50) { 20_000 } else { number as usize * 37 % 600 };
    format!("{number} {}", "x".repeat(len))
}

/// Whether a table holds what so many changes leave.
pub(crate) fn holds(kv: &Kv, count: u64) -> bool {
    let expected = (0..count).map(|number| (number.to_be_bytes().to_vec(), name(number).into_bytes()));
    kv.range::<[u8]>(..).map(Result::unwrap).eq(expected)
}
