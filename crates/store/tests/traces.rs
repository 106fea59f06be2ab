//! The stores, flushes and fences of each change of a store, in order: golden traces in
//! `testdata/`.

use everbyte_media::Media;
use everbyte_sim::{Image, Tracer, assert_golden};
use everbyte_store::{CLUSTER, Engine, Error, FormatOptions, ObjectOptions, Plan, Store};

const MAX: u64 = 1 << 20;

fn format(media: Media) -> Store {
    Store::format(media, &FormatOptions { log_len: 0, identity: Some([1; 16]) }).unwrap()
}

fn make(store: &Store) {
    let options = ObjectOptions { engine: Engine::Heap, fingerprint: 5, span: Some(4 * CLUSTER) };
    drop(store.create_object("orders", options, |_| Ok::<(), Error>(())).unwrap());
}

fn tracer() -> Tracer {
    let plan = Plan::new(MAX, 0).unwrap();
    let prime = plan.spans_at.next_multiple_of(4 * CLUSTER);
    Tracer::new(&Image::zeroed(128 << 10).with_max(MAX))
        .label("superblock.a", 0..512)
        .label("words.a", 1024..1088)
        .label("superblock.b", 4096..4608)
        .label("words.b", 5120..5184)
        .label("record0", plan.table_at..plan.table_at + 256)
        .label("backed-bits", plan.space.bitmap_at..plan.space.bitmap_at + 4096)
        .label("used-bits", plan.space.used_at..plan.space.used_at + 4096)
        .label("header", prime..prime + 512)
        .label("header.root", prime + 128..prime + 136)
        .label("header.backed", prime + 192..prime + 200)
        .label("header.reach", prime + 200..prime + 208)
}

#[test]
fn every_path_stores_flushes_and_fences_as_reviewed() {
    let golden = |name: &str, text: String| assert_golden(format!("testdata/{name}.trace"), &text);
    golden("format", tracer().run(|media| drop(format(media))));
    golden("create", tracer().run_after(format, |_, store| make(&store)));
    let made = |media| {
        let store = format(media);
        make(&store);
        store
    };
    golden("grow", tracer().run_after(made, |_, store| assert!(store.object("orders").unwrap().grow(1).is_ok())));
    golden("remove", tracer().run_after(made, |_, store| store.remove_object("orders").unwrap()));
    golden("close", tracer().run_after(made, |_, store| store.close().unwrap()));
    let grown = |media| {
        let store = made(media);
        store.object("orders").unwrap().grow(2 * CLUSTER).unwrap();
        store
    };
    golden(
        "release",
        tracer().run_after(grown, |_, store| {
            let object = store.object("orders").unwrap();
            object.release(object.prime() + CLUSTER..object.prime() + 2 * CLUSTER).unwrap();
            assert_eq!(store.trim().unwrap(), CLUSTER);
        }),
    );
}
