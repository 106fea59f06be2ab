//! Migrations that cannot be right, each with the code to write instead.
#[path = "common.rs"]
mod common;
use common::*;

#[derive(PSafe)]
#[persist(version = 1, name = "Entry")]
#[repr(C)]
pub struct EntryV1<P: MemPool> {
    pub key: u32,
    pub text: PString<P>,
}

//@ no_function: E0277 "nothing says how `EntryV1<P>` becomes `Unmade<P>`" "implement `Migrate<EntryV1<P>, P>` for `Unmade<P>`"
#[derive(PSafe)]
#[persist(version = 2, from = EntryV1<P>, name = "Entry")]
#[repr(C)]
struct Unmade<P: MemPool> {
    key: u64,
    text: PString<P>,
}
//@ a_function_for_one_pool: E0277 "nothing says how `Price` becomes `PriceNow`" "for every pool"
#[derive(PSafe)]
#[repr(C)]
struct Price {
    cents: u32,
}
#[derive(PSafe)]
#[persist(version = 2, from = Price)]
#[repr(C)]
struct PriceNow {
    cents: u64,
}
impl Migrate<Price, P1> for PriceNow {
    fn migrate(old: Price, _: &Journal<P1>) -> Self {
        PriceNow { cents: old.cents.into() }
    }
}
//@ from_what_is_not_derived: E0277 "`Plain` has no version to migrate from" "cannot live in a pool"
struct Plain {
    key: u32,
}
#[derive(PSafe)]
#[persist(version = 2, from = Plain)]
#[repr(C)]
struct FromPlain {
    key: u64,
}
impl<P: MemPool> Migrate<Plain, P> for FromPlain {
    fn migrate(old: Plain, _: &Journal<P>) -> Self {
        FromPlain { key: old.key.into() }
    }
}
//@ from_without_a_version: "says which version it is"
#[derive(PSafe)]
#[persist(from = EntryV1<P>)]
#[repr(C)]
struct Unnumbered<P: MemPool> {
    key: PCell<u64, P>,
}
//@ version_nought: "versions are numbered from 1"
#[derive(PSafe)]
#[persist(version = 0)]
#[repr(C)]
struct Nought {
    key: u64,
}
//@ a_name_that_is_none: "by an identifier, without arguments"
#[derive(PSafe)]
#[persist(name = "Entry<u8>")]
#[repr(C)]
struct Misnamed {
    key: u64,
}
//@ the_old_value_is_kept: lifetime E0310 E0521 E0597 E0277
thread_local! {
    static KEPT: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}
#[derive(PSafe)]
#[persist(version = 2, from = EntryV1<P>, name = "Entry")]
#[repr(C)]
struct Kept<P: MemPool> {
    key: PCell<u64, P>,
}
impl<P: MemPool> Migrate<EntryV1<P>, P> for Kept<P> {
    fn migrate(old: EntryV1<P>, _: &Journal<P>) -> Self {
        let key = old.key.into();
        KEPT.with_borrow_mut(|kept| kept.push(Box::new(old.text)));
        Kept { key: PCell::new(key) }
    }
}
//@ a_pool_by_its_name: E0308
#[derive(PSafe)]
#[persist(version = 2, from = EntryV1<P>, name = "Entry")]
#[repr(C)]
struct Mixed<P: MemPool> {
    key: u64,
    text: PString<P>,
}
impl<P: MemPool> Migrate<EntryV1<P>, P> for Mixed<P> {
    fn migrate(old: EntryV1<P>, j: &Journal<P>) -> Self {
        let text = P1::transaction(|j| PString::from_str("other", j).len()).unwrap();
        Mixed { key: old.key.into(), text: PString::<P1>::new() }
    }
}
