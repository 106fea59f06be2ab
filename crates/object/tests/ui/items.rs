//! Properties that a type in a pool may not have, and traits that are not implemented by hand.
#[path = "common.rs"]
mod common;
use common::*;

//@ a_drop_of_its_own: E0119
#[derive(PSafe)]
#[repr(C)]
struct Dropped {
    n: u32,
}
impl Drop for Dropped {
    fn drop(&mut self) {
        self.n = 0;
    }
}
//@ a_generic_drop: E0119
#[derive(PSafe)]
#[repr(C)]
struct DroppedIn<T: PSafe<P>, P: MemPool> {
    cell: PCell<T, P>,
}
impl<T: PSafe<P>, P: MemPool> Drop for DroppedIn<T, P> {
    fn drop(&mut self) {}
}
//@ safe_to_persist_by_hand: E0200
struct Claimed(String);
impl<P: MemPool> PSafe<P> for Claimed {
    type At<'x> = Claimed;
    const CELLS: u8 = 0;
    fn describe(_: &mut Schema) -> TypeName {
        "Claimed".into()
    }
    unsafe fn trace(_: *const Self, _: &mut Tracer<'_>) {}
}
//@ a_pool_by_hand: E0200
struct NoPool;
impl MemPool for NoPool {
    type Tag = P1Tag;
    type At<'x> = NoPool;
}
