//! A library that ends its program where others throw.
//@@ -Cpanic=abort
use everbyte_bridge::{Extern, export, library};
use everbyte_object::{Journal, MemPool, PCell, PSafe, pool};

pool!(P1);

#[derive(PSafe, Extern)]
#[repr(C)]
pub struct Counter<P: MemPool> {
    count: PCell<u64, P>,
}

#[export]
impl<P: MemPool> Counter<P> {
    pub fn new(_: &Journal<P>) -> Self {
        Counter { count: PCell::new(0) }
    }
}

//@ a_library_that_aborts: "a library for C++ unwinds"
library! {
    name aborting;
    pool P1 { Counter }
}
