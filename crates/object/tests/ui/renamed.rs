//! A program that calls the crate `everbyte` by another name.
extern crate memory;

use memory::{Journal, MemPool, PCell, PSafe, Pbox, Pool, Root, Store};

memory::pool!(pub Books, pub Notes);

#[derive(PSafe)]
#[repr(C)]
pub struct Book<P: MemPool> {
    pub lent: PCell<bool, P>,
    pub kind: Kind<Note<P>, P>,
}

#[derive(PSafe)]
#[repr(u8)]
pub enum Kind<T: PSafe<P>, P: MemPool> {
    Novel,
    Annotated(Option<Pbox<T, P>>),
}

#[derive(PSafe)]
#[repr(C)]
pub struct Note<P: MemPool>(pub PCell<u64, P>);

pub fn lend<P: MemPool>(book: &Book<P>, j: &Journal<P>) {
    book.lent.set(true, j);
}

pub fn open(store: &Store) -> memory::object::Result<Root<Book<Books>, Books>> {
    Books::open_or_create(store, "books", |_| Book { lent: PCell::new(false), kind: Kind::Novel })
}
