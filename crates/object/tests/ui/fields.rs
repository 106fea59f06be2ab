//! The derive looks at every field, and says which one does not fit.
#[path = "common.rs"]
mod common;
use common::*;

//@ a_string: E0277 "`String` cannot live in a pool" "`PString`"
#[derive(PSafe)]
#[repr(C)]
struct WithString {
    n: u32,
    text: String,
}
//@ a_reference: E0277 "cannot live in a pool"
#[derive(PSafe)]
#[repr(C)]
struct WithReference {
    text: &'static str,
}
//@ a_cell: E0277 "cannot live in a pool"
#[derive(PSafe)]
#[repr(C)]
struct WithCell<P: MemPool> {
    fine: PCell<u32, P>,
    not: Cell<u32>,
}
//@ in_a_variant: E0277 "cannot live in a pool"
#[derive(PSafe)]
#[repr(u8)]
enum WithVariants {
    Empty,
    Number(u32),
    Text { text: String },
}
//@ in_a_tuple_struct: E0277 "cannot live in a pool"
#[derive(PSafe)]
#[repr(C)]
struct Pair(u32, Arc<u32>);
//@ boxed: E0277 "cannot live in a pool" "`Pbox`"
#[derive(PSafe)]
#[repr(C)]
struct Boxed<T: PSafe<P>, P: MemPool> {
    value: Box<T>,
    cell: PCell<u32, P>,
}
//@ of_two_pools: E0277 "in that pool alone"
#[derive(PSafe)]
#[repr(C)]
struct Mixed<P: MemPool> {
    here: PCell<u32, P>,
    there: Option<Pbox<u32, P2>>,
}
//@ of_a_pool_by_name: E0277 "`struct Name<P: MemPool>`"
#[derive(PSafe)]
#[repr(C)]
struct Named {
    here: PCell<u32, P1>,
}
//@ not_derived: E0277 "`Inner` cannot live in a pool" "`#[derive(PSafe)]`"
struct Inner;
#[derive(PSafe)]
#[repr(C)]
struct Outer {
    inner: Inner,
}
//@ added_below_the_derive: E0063 "`added`"
#[derive(PSafe)]
#[adds_field::adds_field]
#[repr(C)]
struct Grown {
    n: u32,
}
//@ added_to_a_variant: E0027 E0063 "`added`"
#[derive(PSafe)]
#[adds_field::adds_field]
#[repr(u8)]
enum GrownVariant {
    Empty,
    Pair {
        one: u32,
        other: u32,
    },
}
//@ added_to_an_empty_struct: E0063 "`added`"
#[derive(PSafe)]
#[adds_field::adds_field]
#[repr(C)]
struct GrownEmpty {}
