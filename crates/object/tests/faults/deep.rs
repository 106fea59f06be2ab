//! The deep check, by the program's types and by the description alone: both find every kind of
//! damage, at the same place, on the same way.

use crate::common::{Twins, description, make_old, store};
use everbyte_object::layout::FORMAT;
use everbyte_object::{
    FaultKind, Journal, MemPool, PBTreeMap, PCell, PHashMap, PMutex, PRefCell, PSafe, PString, PVec, Parc, Pbox, Pool,
    Prc, Report, Root, UntypedPool, parc, pool, prc,
};
use everbyte_store::{FindingKind, Store};
use std::sync::{Mutex, MutexGuard, PoisonError};

pool!(P);

#[derive(PSafe)]
#[repr(C)]
struct World<P: MemPool> {
    list: PRefCell<Option<Pbox<Link<P>, P>>, P>,
    grid: [PCell<u8, P>; 2],
    flag: PCell<bool, P>,
    letter: PCell<char, P>,
    shapes: PVec<Shape<P>, P>,
    name: PString<P>,
    maybe: Option<PString<P>>,
    pair: (u32, Pbox<u64, P>),
    one: PRefCell<Option<Prc<u64, P>>, P>,
    weak: PRefCell<Option<prc::PWeak<u64, P>>, P>,
    shared: PVec<Parc<Cell<P>, P>, P>,
    spare: PRefCell<Option<Pbox<u64, P>>, P>,
    hash: PHashMap<PString<P>, Pbox<bool, P>, P>,
    ordered: PRefCell<PBTreeMap<u32, Prc<u64, P>, P>, P>,
}

#[derive(PSafe)]
#[repr(C)]
struct Link<P: MemPool> {
    next: PRefCell<Option<Pbox<Link<P>, P>>, P>,
    val: u64,
}

#[derive(PSafe)]
#[repr(u8)]
enum Shape<P: MemPool> {
    Empty,
    Named { name: PString<P> },
    Boxed(Pbox<bool, P>, u32),
}

/// May lead in a circle.
#[derive(PSafe)]
#[repr(C)]
struct Cell<P: MemPool> {
    other: PMutex<Option<Parc<Cell<P>, P>>, P>,
    back: PMutex<Option<parc::PWeak<Cell<P>, P>>, P>,
}

impl<P: MemPool> Cell<P> {
    fn new(j: &Journal<P>) -> Parc<Cell<P>, P> {
        Parc::new(Cell { other: PMutex::new(None), back: PMutex::new(None) }, j)
    }
}

fn list<P: MemPool>(length: u64, j: &Journal<P>) -> Option<Pbox<Link<P>, P>> {
    (0..length).rev().fold(None, |next, val| Some(Pbox::new(Link { next: PRefCell::new(next), val }, j)))
}

/// One test at a time has the pool type.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn world(store: &Store) -> Root<World<P>, P> {
    let world = P::create::<World<P>>(store, "world", |j| {
        let one = Prc::new(7, j);
        let (two, three) = (Cell::new(j), Cell::new(j));
        *two.other.lock(j) = Some(three.pclone(j));
        *three.back.lock(j) = Some(two.downgrade(j));
        let shapes =
            [Shape::Empty, Shape::Named { name: PString::from_str("circle", j) }, Shape::Boxed(Pbox::new(true, j), 1)];
        World {
            list: PRefCell::new(list(6, j)),
            grid: [PCell::new(1), PCell::new(2)],
            flag: PCell::new(true),
            letter: PCell::new('ß'),
            shapes: PVec::from_iter(shapes, j),
            name: PString::from_str("earth", j),
            maybe: Some(PString::from_str("moon", j)),
            pair: (1, Pbox::new(2, j)),
            weak: PRefCell::new(Some(one.downgrade(j))),
            one: PRefCell::new(Some(one)),
            shared: PVec::from_iter([two, three], j),
            spare: PRefCell::new(None),
            hash: PHashMap::from_iter([(PString::from_str("sun", j), Pbox::new(true, j))], j),
            ordered: PRefCell::new(PBTreeMap::from_iter((0..50).map(|key| (key, Prc::new(7, j))), j)),
        }
    });
    world.unwrap()
}

/// Findings of both faces; the pool is open again behind it.
fn found(store: &Store) -> Report {
    let world = P::open::<World<P>>(store, "world").unwrap();
    let by_types = world.examine(&|_| ()).unwrap();
    drop(world);
    let by_text = UntypedPool::open(store, "world").unwrap().examine(&|_| ());
    assert_eq!(by_types, by_text);
    by_types
}

/// One thing that is wrong, and nothing besides.
#[track_caller]
fn one_fault(report: &Report, kind: FaultKind, paths: &[&str], detail: &str) {
    let [fault] = &report.faults[..] else { panic!("{:#?}", report.faults) };
    assert_eq!((fault.kind, &fault.paths.iter().map(String::as_str).collect::<Vec<_>>()[..]), (kind, paths));
    assert!(fault.detail.contains(detail), "{fault}");
}

#[test]
fn a_whole_pool_is_clean_and_counted() {
    let _alone = alone();
    let store = store();
    let before = {
        drop(world(&store));
        found(&store)
    };
    assert!(before.is_clean() && before.findings().is_empty(), "{:?}", before.findings());
    // Root, description, lanes; six links, three shapes with a text and a box, two texts, a box, a
    // counted number, two cells in a vector; a table with a text and a box, five nodes of fifty
    // numbers.
    assert_eq!(before.reached.blocks, 3 + 6 + 3 + 2 + 1 + 1 + 3 + 3 + 5 + 50, "{:?}", before.reached);
    assert_eq!((before.leaked.blocks, before.unsure.blocks), (0, 0));
}

/// Stores `words` over the value that `place` finds, looks, and puts the old ones back.
#[track_caller]
fn damaged<T>(place: impl Fn(&World<P>) -> *const T, bytes: &[u8], check: impl Fn(&Store, Report)) {
    let store = store();
    let world = world(&store);
    let at = place(&world) as u64 - store.media().address().as_ptr() as u64;
    drop(world);
    let before = store.media().read_vec(at, bytes.len());
    store.media().write(at, bytes);
    check(&store, found(&store));
    store.media().write(at, &before);
    assert!(found(&store).is_clean());
}

#[test]
fn bytes_that_are_no_value_are_found_on_their_way() {
    let _alone = alone();
    let value = |place: fn(&World<P>) -> *const u8, bytes: &[u8], path: &str, detail: &str| {
        damaged(place, bytes, |_, report| {
            one_fault(&report, FaultKind::Value, &[path], detail);
            assert_eq!(report.leaked.blocks, 0, "DEEP-1: nothing is sure");
        });
    };
    value(|world| (&raw const world.flag).cast(), &[2], "root.flag", "not a `bool`");
    value(|world| (&raw const world.letter).cast(), &[0, 0xd8, 0, 0], "root.letter", "not a `char`");
    value(|world| (&raw const world.shapes[1]).cast(), &[3], "root.shapes[1]", "not a variant of `Shape`");
    value(|world| (&raw const world.maybe).cast(), &[9], "root.maybe", "not a variant of `Option`");
    value(|world| world.name.as_ptr(), &[0xff], "root.name", "text that is not UTF-8");
    value(
        |world| (&raw const world.name).cast::<u8>().wrapping_add(8),
        &[0xff],
        "root.name",
        "text longer than its block",
    );
    value(
        |world| (&raw const world.shapes).cast::<u8>().wrapping_add(8),
        &[9],
        "root.shapes",
        "a vector longer than its block",
    );
    value(|world| (&raw const world.pair.1).cast(), &[0; 8], "root.pair.1", "not a `Pbox`");
    value(
        |world| match &world.shapes[2] {
            Shape::Boxed(boxed, _) => (&raw const **boxed).cast(),
            _ => unreachable!(),
        },
        &[7],
        "root.shapes[2].Boxed.0",
        "not a `bool`",
    );
}

#[test]
fn maps_are_taken_apart_by_either_face() {
    let _alone = alone();
    let fault = |place: fn(&World<P>) -> *const u8,
                 bytes: &[u8],
                 kind: FaultKind,
                 paths: &[&str],
                 detail: &str,
                 blocks: u64| {
        damaged(place, bytes, |_, report| {
            one_fault(&report, kind, paths, detail);
            assert_eq!((report.leaked.blocks, report.unsure.blocks), (0, blocks), "{detail}");
        });
    };
    fn hash(world: &World<P>) -> *const u8 {
        (&raw const world.hash).cast()
    }
    fn ordered(world: &World<P>) -> *const u8 {
        (&raw const *world.ordered.borrow()).cast()
    }
    fn value(world: &World<P>) -> *const u8 {
        (&raw const world.ordered.borrow()[&20]).cast()
    }
    use FaultKind::{Counts, Pointer, Value};
    fault(hash, &[0; 8], Value, &["root.hash"], "entries and no block", 3);
    fault(hash, &[8], Pointer, &["root.hash"], "", 3);
    fault(|world| hash(world).wrapping_add(8), &[3], Value, &["root.hash"], "no power of two", 3);
    fault(|world| hash(world).wrapping_add(16), &[2], Value, &["root.hash"], "2 entries and 6 free places", 0);
    fault(|world| (&raw const *world.hash["sun"]).cast(), &[2], Value, &["root.hash[0].value"], "not a `bool`", 0);
    fault(ordered, &[0; 8], Value, &["root.ordered"], "an ordered map of 50 entries has 0", 55);
    fault(|world| ordered(world).wrapping_add(8), &[51], Value, &["root.ordered"], "51 entries has 50", 0);
    fault(value, &[0xff; 8], Pointer, &["root.ordered[1][5].value"], "outside the heap", 1);
    let counts = |world: &World<P>| (&raw const *world.ordered.borrow()[&29]).cast::<u8>().wrapping_sub(16);
    let kind = Counts { stored: (3, 0), found: (1, 0) };
    fault(counts, &[3], kind, &["root.ordered[1].value"], "3 strong", 0);
}

#[test]
fn pointers_that_lead_astray_are_found_on_their_way() {
    let _alone = alone();
    let third = |world: &World<P>| {
        let first = world.list.borrow();
        let second = first.as_ref().unwrap().next.borrow();
        &raw const second.as_ref().unwrap().next
    };
    let pointer = |word: u64, detail: &str| {
        damaged(third, &word.to_le_bytes(), |_, report| {
            one_fault(&report, FaultKind::Pointer, &["root.list.next.next"], detail);
            assert_eq!((report.leaked.blocks, report.unsure.blocks), (0, 4), "the rest of the list");
        });
    };
    pointer(u64::MAX, "it lies outside the heap");
    pointer(1 << 40, "it lies outside the heap");
    pointer(8, "it lies inside a block");
    let inside = world(&store()).list.borrow().as_ref().unwrap().offset();
    pointer(inside + 8, "it lies inside a block");
    pointer(inside + 16 * 3000, "the block is free");
}

/// Two words of the pool, one stored over the other.
#[track_caller]
fn doubled<T, U>(
    from: impl Fn(&World<P>) -> *const T,
    to: impl Fn(&World<P>) -> *const U,
    paths: &[&str],
    detail: &str,
) {
    let store = store();
    let world = world(&store);
    let place = |at: u64| at - store.media().address().as_ptr() as u64;
    let (from, to) = (place(from(&world) as u64), place(to(&world) as u64));
    drop(world);
    store.media().store(to, store.media().load(from));
    let report = found(&store);
    let fault = report.faults.iter().find(|fault| fault.kind == FaultKind::Owners);
    let fault = fault.unwrap_or_else(|| panic!("{:#?}", report.faults));
    let mut found: Vec<&str> = fault.paths.iter().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(found, paths, "{fault}");
    assert!(fault.detail.contains(detail), "{fault}");
    assert!(report.findings().iter().any(|finding| finding.kind == FindingKind::DoubleUse));
}

#[test]
fn a_block_with_two_owners_is_found_on_both_ways() {
    let _alone = alone();
    doubled(
        |world| &raw const world.pair.1,
        |world| &raw const world.spare,
        &["root.pair.1", "root.spare"],
        "2 owners, 2 of which should be alone",
    );
    doubled(
        |world| &raw const world.one,
        |world| &raw const world.spare,
        &["root.one", "root.spare", "root.weak"],
        "3 owners, 1 of which should be alone",
    );
}

#[test]
fn counts_that_are_off_are_found() {
    let _alone = alone();
    let counts = |index: usize, stored: u64, wanted: (u64, u64), found: (u64, u64), paths: &[&str]| {
        let place =
            move |world: &World<P>| (&raw const *world.shared[1]).cast::<u64>().wrapping_sub(2).wrapping_add(index);
        damaged(place, &stored.to_le_bytes(), |_, report| {
            one_fault(&report, FaultKind::Counts { stored: wanted, found }, paths, "");
            assert!(report.leaked.blocks == 0 && !report.is_clean());
        });
    };
    let ways = ["root.shared[0].other", "root.shared[1]"];
    counts(0, 3, (3, 0), (2, 0), &ways);
    counts(0, 1, (1, 0), (2, 0), &ways);
    counts(1, 5, (2, 5), (2, 0), &ways);
    counts(0, 0, (0, 0), (2, 0), &ways);
}

#[test]
fn what_nobody_points_to_has_leaked_cycles_too() {
    let _alone = alone();
    let store = store();
    let world = world(&store);
    world.tx(|j, _| std::mem::forget(Pbox::new(1u64, j))).unwrap();
    world
        .tx(|j, _| {
            let (one, two) = (Cell::new(j), Cell::new(j));
            *one.other.lock(j) = Some(two.pclone(j));
            *two.other.lock(j) = Some(one.pclone(j));
            *two.back.lock(j) = Some(one.downgrade(j));
        })
        .unwrap();
    world.tx(|j, world| std::mem::forget(world.shared[0].pclone(j))).unwrap();
    drop(world);
    let report = found(&store);
    let likes: Vec<_> = report.leaks().map(|leak| (leak.bytes.get(), leak.looks_like)).collect();
    let cell = ["Prc<u64>".to_string(), "Parc<Cell>".to_string()];
    assert_eq!(likes, [(32, &cell[..]), (32, &cell), (16, &["u64".to_string(), "bool".to_string()])]);
    assert_eq!((report.leaked.blocks, report.leaked.bytes), (3, 80));
    one_fault(
        &report,
        FaultKind::Counts { stored: (2, 1), found: (1, 1) },
        &["root.shared[0]", "root.shared[1].back"],
        "",
    );
}

/// The description names containers of types of one name by numbers: it explains them as well.
#[test]
fn containers_of_types_of_one_name_are_taken_apart() {
    pool!(T);
    let store = store();
    let twins = T::create::<Twins<u32, T>>(&store, "twins", |j| Twins::new(u32::from, j)).unwrap();
    twins.tx(|j, _| std::mem::forget(Pbox::new(1u64, j))).unwrap();
    let by_types = twins.examine(&|_| ()).unwrap();
    drop(twins);
    let by_text = UntypedPool::open(&store, "twins").unwrap().examine(&|_| ());
    assert_eq!((by_text.leaked.blocks, &by_text.unread[..]), (1, &[][..]));
    assert_eq!(by_types, by_text);
}

type Two<P> = (Pbox<u64, P>, Pbox<Link<P>, P>);

#[derive(PSafe)]
#[repr(C)]
struct Unclear<P: MemPool> {
    /// A description that an earlier Everbyte made does not say which of the two pointers is 0 in
    /// `None`.
    both: PRefCell<Option<Two<P>>, P>,
}

/// DEEP-1: an opaque value keeps every block that it could point to.
#[test]
fn what_cannot_be_taken_apart_is_never_taken_for_leaked() {
    pool!(U);
    let store = store();
    let unclear = U::create::<Unclear<U>>(&store, "unclear", |j| Unclear {
        both: PRefCell::new(Some((Pbox::new(1, j), list(5, j).unwrap()))),
    });
    let unclear = unclear.unwrap();
    unclear.tx(|j, _| std::mem::forget(Pbox::new(1u64, j))).unwrap();
    let by_types = unclear.examine(&|_| ()).unwrap();
    drop(unclear);
    let text = description(&store, "unclear").replace("16 8 u64 { None = 0;", "16 8 ? { None = else;");
    make_old(&store, "unclear", FORMAT, &text);
    let by_text = UntypedPool::open(&store, "unclear").unwrap().examine(&|_| ());
    assert_eq!(by_text.unread, [("Option<(Pbox<u64>, Pbox<Link>)>".to_string(), 1)]);
    assert_eq!((by_types.reached.blocks, by_types.unsure.blocks), (3 + 6, 0));
    assert_eq!((by_text.reached.blocks, by_text.unsure.blocks), (3, 6));
    assert_eq!(by_text.leaks().collect::<Vec<_>>(), by_types.leaks().collect::<Vec<_>>());
    assert_eq!(by_text.leaked.blocks, 1);
}

/// Elements without bytes have no block, and are not looked at one by one.
#[test]
fn a_damaged_vector_of_elements_without_bytes_is_a_fault() {
    pool!(N);
    type Nothing = (PVec<(), N>, Pbox<u64, N>);
    let store = store();
    let nothing = N::create::<Nothing>(&store, "nothing", |j| (PVec::from_iter([(), ()], j), Pbox::new(7, j))).unwrap();
    let at = (&raw const nothing.0) as u64 - store.media().address().as_ptr() as u64;
    let block = nothing.1.offset();
    assert!(nothing.check().unwrap().is_empty());
    drop(nothing);
    for words in [[block, 1 << 60, 1], [block, 1, 1], [0, 1, 1]] {
        (0..3).for_each(|word| store.media().store(at + word * 8, words[word as usize]));
        let by_types = N::open::<Nothing>(&store, "nothing").unwrap().examine(&|_| ()).unwrap();
        let by_text = UntypedPool::open(&store, "nothing").unwrap().examine(&|_| ());
        assert_eq!(by_types, by_text);
        one_fault(&by_types, FaultKind::Value, &["root.0"], "a vector longer than its block");
    }
    (0..3).for_each(|word| store.media().store(at + word * 8, [0, 1 << 60, 0][word as usize]));
    assert!(UntypedPool::open(&store, "nothing").unwrap().examine(&|_| ()).is_clean());
    assert!(N::open::<Nothing>(&store, "nothing").unwrap().check().unwrap().is_empty());
}
