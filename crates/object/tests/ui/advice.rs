//! Everyday programs that are right and do not compile: the message says what to write. For three
//! of them it cannot (docs/manual/objects.md, section 6): their errors name no trait of this crate.
#[path = "common.rs"]
mod common;
use common::*;

//@ a_result: E0277 once "in place of `Result`" "use `PResult`"
#[derive(PSafe)]
#[repr(C)]
struct AResult(std::result::Result<u64, u32>);
//@ one_pool_by_name: E0277 once "takes the pool as a parameter, `struct Name<P: MemPool>`"
#[derive(PSafe)]
#[repr(C)]
struct OnePool(Pbox<u64, P1>);
//@ derived_clone: E0277 once "is not cloned without a journal" "write `pclone(j)`"
mod derived_clone {
    use super::*;
    #[derive(PSafe, Clone)]
    #[repr(C)]
    struct Named<P: MemPool> {
        name: PString<P>,
        number: u64,
    }
}
//@ question_mark: E0282 once "annotations needed"
fn question_mark(r: &Root<PCell<u64, P1>, P1>, text: &str) -> std::result::Result<(), Box<dyn std::error::Error>> {
    r.try_tx(|j, c| {
        c.set(text.parse()?, j);
        Ok(())
    })?;
    Ok(())
}
//@ a_helper_of_one_pool: E0308 once "found `&Journal<In<'_, P1Tag>>`"
mod a_helper_of_one_pool {
    use super::*;
    fn add(cell: &PCell<u64, P1>, j: &Journal<P1>) {
        cell.set(1, j);
    }
    fn body(r: &Root<PCell<u64, P1>, P1>) {
        r.tx(|j, c| add(c, j)).unwrap();
    }
}
//@ written_without_a_journal: E0277 once "`write!(text.writer(j), ..)`"
fn written_without_a_journal(r: &Root<PRefCell<PString<P1>, P1>, P1>) {
    use std::fmt::Write;
    r.tx(|j, s| write!(s.borrow_mut(j), "{}", 5).unwrap()).unwrap();
}
//@ a_key_of_the_heap: E0277 once "are not found by a `String`" "write `key.as_str()`"
fn a_key_of_the_heap<P: MemPool>(m: &PHashMap<PString<P>, u64, P>, key: &String) -> Option<u64> {
    m.get(key).copied()
}
//@ a_generic_root: E0277 once "write `Root<T, Out<G>>`"
mod a_generic_root {
    use super::*;
    struct App<G: PoolTag> {
        root: Root<PCell<u64, In<'static, G>>, In<'static, G>>,
    }
    impl<G: PoolTag> App<G> {
        fn bump(&self) {
            self.root.tx(|j, c| c.set(c.get() + 1, j)).unwrap();
        }
    }
}
//@ a_box_of_a_slice: E0277 once "a boxed slice is a `PVec<T, P>`"
fn a_box_of_a_slice<P: MemPool>(s: &Pbox<[u64], P>) {}
//@ a_generic_root_in_a_function: E0277 once "write `Root<T, Out<G>>`"
fn a_generic_root_in_a_function<R, G: PoolTag>(
    r: &Root<R, In<'static, G>>,
    f: impl for<'x> FnOnce(&'x Journal<In<'x, G>>, &'x R::At<'x>),
) where
    R: PSafe<In<'static, G>>,
{
    r.tx(f).unwrap();
}
//@ two_fields_of_a_guard: E0502 once "cannot borrow `g` as mutable"
mod two_fields_of_a_guard {
    use super::*;
    #[derive(PSafe)]
    #[repr(C)]
    struct Two<P: MemPool> {
        a: PVec<u64, P>,
        b: PVec<u64, P>,
    }
    fn body(r: &Root<PRefCell<Two<P1>, P1>, P1>) {
        r.tx(|j, l| {
            let mut g = l.borrow_mut(j);
            for x in g.a.iter() {
                g.b.push(*x, j);
            }
        })
        .unwrap();
    }
}
//@ a_field_of_an_enum: E0277 once "`String` cannot live in a pool"
#[derive(PSafe)]
#[repr(u8)]
enum AFieldOfAnEnum {
    Named { name: String },
}
//@ a_foreign_form: E0277 "`Stored` has no form for `Instant`"
fn a_foreign_form() -> Stored<std::time::Instant> {
    panic!()
}
//@ a_box_is_cloned: E0277 E0599 "`pclone(j)`"
fn a_box_is_cloned<P: MemPool>(boxes: &[Option<Pbox<u64, P>>]) -> Vec<Option<Pbox<u64, P>>> {
    boxes.iter().cloned().collect()
}
//@ written_by_a_set: E0277 once "are not found by a `String`"
fn written_by_a_set<P: MemPool>(set: &PBTreeSet<PString<P>, P>, key: &String) -> bool {
    set.contains(key)
}
