//! A program that calls the crate `everbyte-object` by another name, and one type that says where
//! it is.
extern crate objects;

use objects::{MemPool, PCell, PSafe};

mod again {
    pub use objects as inner;
}

objects::pool!(pub Books);

#[derive(PSafe)]
#[repr(C)]
pub struct Book<P: MemPool> {
    pub lent: PCell<bool, P>,
}

#[derive(again::inner::PSafe)]
#[persist(crate = unsafe(crate::again::inner), version = 2)]
#[repr(C)]
pub struct Shelf<P: MemPool> {
    pub books: [Book<P>; 4],
}
