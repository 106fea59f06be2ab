//! Golden persistence traces: the stores, flushes and fences of each kind of typed change, in
//! order.

mod common;

use everbyte_object::{
    In, Journal, MemPool, PBTreeMap, PCell, PHashMap, PRefCell, PSafe, PVec, Parc, Pbox, Pool, PoolOptions, Root, pool,
};
use everbyte_sim::{Image, Tracer, assert_golden};
use everbyte_store::{FormatOptions, Store};

pool!(P);

#[derive(PSafe)]
#[repr(C)]
struct All<P: MemPool> {
    cell: PCell<u64, P>,
    slot: PRefCell<Option<Pbox<u64, P>>, P>,
    list: PRefCell<PVec<u64, P>, P>,
    shared: Parc<u64, P>,
}

/// The trace of `body` on a pool whose root is made by `init`.
fn trace<R: PSafe<P>>(
    init: impl for<'tx> FnOnce(&'tx Journal<<P as MemPool>::At<'tx>>) -> R::At<'tx>,
    body: impl FnOnce(&Root<R, P>),
) -> String {
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &format).unwrap();
        let options = PoolOptions { span: Some((1 << 20).into()), lanes: Some(1) };
        drop(P::create_with::<R>(&store, "all", &options, init).unwrap());
        store.close().unwrap();
    });
    let tracer = Tracer::new(&image)
        .label("prime", 0x10_0000..0x10_2000)
        .label("bits", 0x10_2000..0x10_4000)
        .label("lane", 0x11_0000..0x11_1000)
        .label("blocks", 0x12_0000..0x20_0000);
    tracer.run_after(|media| P::open::<R>(&Store::attach(media).unwrap(), "all").unwrap(), |_media, all| body(&all))
}

fn trace_all(body: impl FnOnce(&Root<All<P>, P>)) -> String {
    trace(
        |j| All {
            cell: PCell::new(0),
            slot: PRefCell::new(Some(Pbox::new(1, j))),
            list: PRefCell::new(PVec::with_capacity(100, j)),
            shared: Parc::new(1, j),
        },
        body,
    )
}

/// One after the other: a pool type has one pool open at a time.
#[test]
fn what_changes_store_flush_and_fence() {
    let text = trace_all(|all| all.tx(|j, all| all.cell.set(1, j)).unwrap());
    assert_golden("testdata/cell.trace", &text);
    let text = trace_all(|all| all.tx(|j, all| *all.slot.borrow_mut(j) = Some(Pbox::new(2, j))).unwrap());
    assert_golden("testdata/box.trace", &text);
    let text = trace_all(|all| all.tx(|j, all| all.list.borrow_mut(j).push(3, j)).unwrap());
    assert_golden("testdata/push.trace", &text);
    let text = trace_all(|all| all.tx(|j, all| std::mem::forget(all.shared.pclone(j))).unwrap());
    assert_golden("testdata/count.trace", &text);
    let text = trace_all(|all| all.tx(|_, all| assert_eq!(all.cell.get(), 0)).unwrap());
    assert_golden("testdata/nothing.trace", &text);
    hash_map();
    ordered_map();
}

type HashMap<P> = PRefCell<PHashMap<u64, u64, P>, P>;

/// Of a map of seven entries, the most that a first table holds. The heap has had a second one.
fn trace_seven(body: impl for<'tx> FnOnce(&mut PHashMap<u64, u64, In<'tx, PTag>>, &Journal<In<'tx, PTag>>)) -> String {
    trace::<HashMap<P>>(
        |j| {
            drop(PHashMap::<u64, u64, _>::with_capacity(14, j));
            PRefCell::new(PHashMap::from_iter((0..7).map(|key| (key, key)), j))
        },
        |map| map.tx(|j, map| body(&mut map.borrow_mut(j), j)).unwrap(),
    )
}

fn hash_map() {
    let text = trace::<HashMap<P>>(
        |j| PRefCell::new(PHashMap::with_capacity(100, j)),
        |map| assert_eq!(map.tx(|j, map| map.borrow_mut(j).insert(1, 2, j)).unwrap(), None),
    );
    assert_golden("testdata/hash_insert.trace", &text);
    let text = trace_seven(|map, j| assert_eq!(map.remove(&1, j), Some(1)));
    assert_golden("testdata/hash_remove.trace", &text);
    let text = trace_seven(|map, j| assert_eq!(map.insert(7, 7, j), None));
    assert_golden("testdata/hash_grow.trace", &text);
}

type Ordered<P> = PRefCell<PBTreeMap<u64, u64, P>, P>;

/// Of a map of fifteen entries with even keys: one full leaf. The heap has had nodes of both kinds.
fn trace_full(body: impl for<'tx> FnOnce(&mut PBTreeMap<u64, u64, In<'tx, PTag>>, &Journal<In<'tx, PTag>>)) -> String {
    trace::<Ordered<P>>(
        |j| {
            let even = |count: u64| (0..count).map(|key| (2 * key, key));
            drop(PBTreeMap::<u64, u64, _>::from_iter(even(100), j));
            PRefCell::new(PBTreeMap::from_iter(even(15), j))
        },
        |map| map.tx(|j, map| body(&mut map.borrow_mut(j), j)).unwrap(),
    )
}

fn ordered_map() {
    let text = trace_full(|map, j| assert_eq!(map.remove(&20, j), Some(10)));
    assert_golden("testdata/ordered_remove.trace", &text);
    let text = trace_full(|map, j| assert_eq!(map.insert(9, 7, j), None));
    assert_golden("testdata/ordered_split.trace", &text);
    let text = trace::<Ordered<P>>(
        |j| PRefCell::new(PBTreeMap::from_iter((0..14).map(|key| (2 * key, key)), j)),
        |map| assert_eq!(map.tx(|j, map| map.borrow_mut(j).insert(9, 7, j)).unwrap(), None),
    );
    assert_golden("testdata/ordered_insert.trace", &text);
    let text = trace::<Ordered<P>>(
        |j| PRefCell::new(PBTreeMap::from_iter((0..14).map(|key| (2 * key, key)), j)),
        |map| assert_eq!(map.tx(|j, map| map.borrow_mut(j).insert(99, 7, j)).unwrap(), None),
    );
    assert_golden("testdata/ordered_append.trace", &text);
}
