//! Golden persistence traces: what each kind of typed change stores, flushes and fences, in order.

mod common;

use everbyte_object::{MemPool, PCell, PRefCell, PSafe, PVec, Parc, Pbox, Pool, PoolOptions, Root, pool};
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

fn trace(body: impl FnOnce(&Root<All<P>, P>)) -> String {
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &format).unwrap();
        let options = PoolOptions { span: Some(1 << 20), lanes: Some(1) };
        let all = P::create_with::<All<P>>(&store, "all", &options, |j| All {
            cell: PCell::new(0),
            slot: PRefCell::new(Some(Pbox::new(1, j))),
            list: PRefCell::new(PVec::with_capacity(100, j)),
            shared: Parc::new(1, j),
        });
        drop(all.unwrap());
        store.close().unwrap();
    });
    let tracer = Tracer::new(&image)
        .label("prime", 0x10_0000..0x10_2000)
        .label("bits", 0x10_2000..0x10_4000)
        .label("lane", 0x11_0000..0x11_1000)
        .label("blocks", 0x12_0000..0x20_0000);
    tracer
        .run_after(|media| P::open::<All<P>>(&Store::attach(media).unwrap(), "all").unwrap(), |_media, all| body(&all))
}

/// One after the other: a pool type has one pool open at a time.
#[test]
fn what_changes_store_flush_and_fence() {
    let text = trace(|all| all.tx(|j, all| all.cell.set(1, j)).unwrap());
    assert_golden("testdata/cell.trace", &text);
    let text = trace(|all| all.tx(|j, all| *all.slot.borrow_mut(j) = Some(Pbox::new(2, j))).unwrap());
    assert_golden("testdata/box.trace", &text);
    let text = trace(|all| all.tx(|j, all| all.list.borrow_mut(j).push(3, j)).unwrap());
    assert_golden("testdata/push.trace", &text);
    let text = trace(|all| all.tx(|j, all| std::mem::forget(all.shared.pclone(j))).unwrap());
    assert_golden("testdata/count.trace", &text);
    let text = trace(|all| all.tx(|_, all| assert_eq!(all.cell.get(), 0)).unwrap());
    assert_golden("testdata/nothing.trace", &text);
}
