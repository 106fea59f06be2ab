//! Refusals of the macros, each with the code to write instead.
#[path = "common.rs"]
mod common;
use common::*;

//@ no_layout: "add `#[repr(C)]`"
#[derive(PSafe)]
struct NoLayout {
    n: u32,
}
//@ no_layout_of_an_enum: "add `#[repr(u8)]`"
#[derive(PSafe)]
enum NoTag {
    One,
}
//@ packed: "cannot be packed"
#[derive(PSafe)]
#[repr(C, packed)]
struct Packed {
    n: u32,
}
//@ a_union: "use an enum"
#[derive(PSafe)]
#[repr(C)]
union Either {
    a: u32,
    b: f32,
}
//@ a_lifetime: "take the pool as a parameter, `P: MemPool`"
#[derive(PSafe)]
#[repr(C)]
struct Borrowed<'a> {
    text: &'a str,
}
//@ two_pools: "take one parameter `P: MemPool`"
#[derive(PSafe)]
#[repr(C)]
struct Two<P: MemPool, Q: MemPool> {
    here: PCell<u32, P>,
    there: PCell<u32, Q>,
}
//@ an_unknown_word: "`persist` knows"
#[derive(PSafe)]
#[persist(verzion = 2)]
#[repr(C)]
struct Misspelt {
    n: u32,
}
//@ no_pool_named: "name at least one pool type"
pool!();
//@ flags_left_out_without_unsafe: "`persist` of a pool type knows `unsafe(unchecked_borrows)`"
pool!(
    #[persist(unchecked_borrows)]
    pub Fast
);
//@ another_check_left_out: "`persist` of a pool type knows `unsafe(unchecked_borrows)`"
pool!(
    #[persist(unsafe(unchecked))]
    pub Faster
);
//@ a_transparent_enum: "in place of `transparent`"
#[derive(PSafe)]
#[repr(transparent)]
enum Transparent {
    It(u64),
}
//@ a_crate_named_without_unsafe: "`crate = unsafe(path)`"
#[derive(PSafe)]
#[persist(crate = everbyte_object)]
#[repr(C)]
struct Elsewhere {
    n: u32,
}
