//! The description in a pool: enough to walk it without the program, and pools of older formats
//! still open.

#![allow(dead_code)] // values that only lie there

use crate::common::{description, make_old, store};
use everbyte_object::layout::FORMAT;
use everbyte_object::{
    Journal, MemPool, Migrate, PBTreeMap, PCell, PHashMap, POnceCell, PRefCell, PSafe, PString, PVec, Parc, Pbox, Pool,
    UntypedPool, VCell, pool,
};

#[derive(PSafe)]
#[repr(C)]
struct Everything<P: MemPool> {
    word: Option<Pbox<u8, P>>,
    text: Option<PString<P>>,
    twice: Option<Option<Pbox<u8, P>>>,
    pair: Option<(u64, Pbox<u8, P>)>,
    either: Option<(Pbox<u8, P>, Pbox<u8, P>)>,
    flag: Option<bool>,
    shape: Option<Shape<P>>,
    once: POnceCell<u16, P>,
    cells: [PCell<Option<C>, P>; 2],
    list: PRefCell<PVec<Parc<Wide<P>, P>, P>, P>,
    volatile: VCell<u32, P>,
    mine: mine::Pbox<char>,
    hash: PHashMap<u16, Pbox<u8, P>, P>,
    ordered: PBTreeMap<u128, C, P>,
}

#[derive(PSafe)]
#[repr(i8)]
enum Shape<P: MemPool> {
    Empty = -1,
    Named { name: PString<P>, short: u16 } = 4,
    Boxed(Pbox<u8, P>, u32),
}

#[derive(PSafe, Clone, Copy)]
#[repr(C)]
enum C {
    Small(u8),
    Wide(u64),
}

#[derive(PSafe)]
#[repr(C, u16)]
enum Wide<P: MemPool> {
    Small(u8),
    Pointer(u8, Pbox<u8, P>),
}

mod mine {
    use super::PSafe;

    /// Called as a type of the crate, and none.
    #[derive(PSafe)]
    #[repr(C)]
    pub(super) struct Pbox<T>(pub T);
}

const TEXT: &str = "\
root Everything
Everything 288 8 { word: Option<Pbox<u8>> @0; text: Option<PString> @8; twice: Option<Option<Pbox<u8>>> @40; \
pair: Option<(u64, Pbox<u8>)> @56; either: Option<(Pbox<u8>, Pbox<u8>)> @72; flag: Option<bool> @88; \
shape: Option<Shape> @96; once: POnceCell<Option<u16>> @136; cells: [PCell<Option<C>>; 2] @144; \
list: PRefCell<PVec<Parc<Wide>>> @176; volatile: VCell<4 4> @200; mine: Pbox<char>#2 @216; hash: PHashMap<u16, Pbox<u8>> @224; ordered: PBTreeMap<u128, C> @272 }
Option<Pbox<u8>> 8 8 u64 { None = 0; Some = else; Some.0: Pbox<u8> @0 }
Option<PString> 32 8 u8 { None = 0; Some = 1; Some.0: PString @8 }
Option<Option<Pbox<u8>>> 16 8 u8 { None = 0; Some = 1; Some.0: Option<Pbox<u8>> @8 }
(u64, Pbox<u8>) 16 8 { 0: u64 @0; 1: Pbox<u8> @8 }
Option<(u64, Pbox<u8>)> 16 8 u64@8 { None = 0; Some = else; Some.0: (u64, Pbox<u8>) @0 }
(Pbox<u8>, Pbox<u8>) 16 8 { 0: Pbox<u8> @0; 1: Pbox<u8> @8 }
Option<(Pbox<u8>, Pbox<u8>)> 16 8 u64 { None = 0; Some = else; Some.0: (Pbox<u8>, Pbox<u8>) @0 }
Option<bool> 1 1 u8 { None = 2; Some = else; Some.0: bool @0 }
Shape 40 8 i8 { Empty = -1; Named = 4; Named.name: PString @8; Named.short: u16 @32; Boxed = 5; \
Boxed.0: Pbox<u8> @8; Boxed.1: u32 @16 }
Option<Shape> 40 8 u8 { None = 6; Some = else; Some.0: Shape @0 }
Option<u16> 4 2 u8 { None = 0; Some = 1; Some.0: u16 @2 }
C 16 8 C { Small = 0; Small.0: u8 @8; Wide = 1; Wide.0: u64 @8 }
Option<C> 16 8 u32 { None = 2; Some = else; Some.0: C @0 }
Wide 24 8 u16 { Small = 0; Small.0: u8 @8; Pointer = 1; Pointer.0: u8 @8; Pointer.1: Pbox<u8> @16 }
PVec<Parc<Wide>> 24 8
Pbox<char>#2 4 4 { 0: char @0 }
PHashMap<u16, Pbox<u8>> 48 8
PHashMap<u16, Pbox<u8>>::Entry 16 8 { key: u16 @0; value: Pbox<u8> @8 }
PBTreeMap<u128, C> 16 8
PBTreeMap<u128, C>::Entry 32 16 { key: u128 @0; value: C @16 }
PBTreeMap<u128, C>::Node 304 16 { len: u32 @0; level: u32 @4; entries: [PBTreeMap<u128, C>::Entry; 7] @16; \
edges: [u64; 8] @240 }
";

#[test]
fn a_description_says_where_everything_lies() {
    pool!(P);
    let store = store();
    let all = P::create::<Everything<P>>(&store, "all", |j| Everything {
        word: None,
        text: Some(PString::from_str("x", j)),
        twice: Some(None),
        pair: None,
        either: None,
        flag: None,
        shape: Some(Shape::Named { name: PString::new(), short: 7 }),
        once: POnceCell::new(),
        cells: [PCell::new(None), PCell::new(Some(C::Small(1)))],
        list: PRefCell::new(PVec::new()),
        volatile: VCell::new(),
        mine: mine::Pbox('x'),
        hash: PHashMap::new(),
        ordered: PBTreeMap::new(),
    });
    drop(all.unwrap());
    assert_eq!(description(&store, "all"), TEXT);
}

#[derive(PSafe)]
#[repr(C)]
struct Old<P: MemPool> {
    shape: PRefCell<Option<Shape<P>>, P>,
    all: [u64; 2],
}

/// As the first format had it: no word on the inside of an `Option`.
const OLD: &str = "\
root Old
Old 56 8 { shape: PRefCell<Option<Shape>> @0; all: [u64; 2] @40 }
Shape 40 8 i8 { Empty = -1; Named = 4; Named.name: PString @8; Named.short: u16 @32; Boxed = 5; \
Boxed.0: Pbox<u8> @8; Boxed.1: u32 @16 }
Option<Shape> 40 8
";

#[test]
fn a_pool_of_format_1_opens() {
    pool!(P);
    let store = store();
    let old = P::create::<Old<P>>(&store, "old", |_| Old { shape: PRefCell::new(None), all: [1, 2] }).unwrap();
    old.tx(|j, old| *old.shape.borrow_mut(j) = Some(Shape::Named { name: PString::from_str("old", j), short: 7 }))
        .unwrap();
    drop(old);
    make_old(&store, "old", 1, OLD);
    let old = P::open::<Old<P>>(&store, "old").unwrap();
    assert!(matches!(&*old.shape.borrow(), Some(Shape::Named { name, short: 7 }) if **name == *"old"));
    assert_eq!(old.check().unwrap(), []);
    drop(old);
    // Its text does not tell where the tag lies: nothing that it may lead to counts as leaked.
    let report = UntypedPool::open(&store, "old").unwrap().examine(&|_| ());
    assert_eq!(report.unread, [("Option<Shape>".to_string(), 1)]);
    assert_eq!((report.unsure.blocks, report.leaked.blocks, report.is_clean()), (1, 0, true));
    let error = P::open::<Everything<P>>(&store, "old").unwrap_err().to_string();
    assert!(error.contains("its root is `Old`, the program's is `Everything`"), "{error}");
    make_old(&store, "old", 1, &OLD.replace("Named.short: u16", "Named.short: u32"));
    let error = P::open::<Old<P>>(&store, "old").unwrap_err().to_string();
    assert!(error.contains("field `Named.short` of `Shape` is `u32 @32` in the pool and `u16 @32`"), "{error}");
}

#[derive(PSafe)]
#[repr(C)]
struct Lines<const SEPARATOR: char> {
    count: u32,
}

/// A constant that is a line feed does not end the line of its type. A pool of an earlier program,
/// in whose description it does, opens.
#[test]
fn a_line_feed_in_an_argument_is_no_end_of_a_line() {
    mod newer {
        use super::*;
        #[derive(PSafe)]
        #[persist(version = 2, from = super::Lines<SEPARATOR>)]
        #[repr(C)]
        pub(super) struct Lines<const SEPARATOR: char> {
            pub count: u64,
        }
        impl<P: MemPool, const SEPARATOR: char> Migrate<super::Lines<SEPARATOR>, P> for Lines<SEPARATOR> {
            fn migrate(old: super::Lines<SEPARATOR>, _: &Journal<P>) -> Self {
                Lines { count: old.count.into() }
            }
        }
    }
    pool!(P);
    let store = store();
    drop(P::create::<PVec<Lines<'\n'>, P>>(&store, "lines", |j| PVec::from_iter([Lines { count: 7 }], j)).unwrap());
    let text = description(&store, "lines");
    assert_eq!(text, "root PVec<Lines<\\n>>\nLines<\\n> 4 4 { count: u32 @0 }\nPVec<Lines<\\n>> 24 8\n");
    assert!(UntypedPool::open(&store, "lines").unwrap().examine(&|_| ()).unread.is_empty());
    make_old(&store, "lines", FORMAT, &text.replace("\\n", "\n"));
    assert_eq!(P::open::<PVec<Lines<'\n'>, P>>(&store, "lines").unwrap()[0].count, 7);
    make_old(&store, "lines", FORMAT, &text);
    let lines = P::open_migrating::<PVec<newer::Lines<'\n'>, P>>(&store, "lines").unwrap();
    assert_eq!((lines[0].count, lines.check().unwrap()), (7, vec![]));
}

type Prices<P> = PRefCell<PHashMap<u64, Pbox<u64, P>, P>, P>;

/// As the second format had it: no word on entries and nodes.
#[test]
fn a_pool_of_format_2_opens() {
    pool!(P);
    let store = store();
    let prices = P::create::<Prices<P>>(&store, "old", |j| {
        PRefCell::new(PHashMap::from_iter((0..20).map(|key| (key, Pbox::new(key, j))), j))
    });
    drop(prices.unwrap());
    let text = description(&store, "old");
    let old: Vec<&str> = text.lines().filter(|line| !line.contains("::Entry")).collect();
    make_old(&store, "old", 2, &(old.join("\n") + "\n"));
    let prices = P::open::<Prices<P>>(&store, "old").unwrap();
    assert_eq!((prices.borrow().len(), prices.check().unwrap()), (20, vec![]));
    drop(prices);
    let report = UntypedPool::open(&store, "old").unwrap().examine(&|_| ());
    assert_eq!(report.unread, [("PHashMap<u64, Pbox<u64>>".to_string(), 1)]);
    assert_eq!((report.unsure.blocks, report.leaked.blocks, report.is_clean()), (1 + 20, 0, true));
}
