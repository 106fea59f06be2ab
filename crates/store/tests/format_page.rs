//! The worked example of docs/formats/store.md is what this program writes, byte for byte.

use everbyte_sim::{Image, assert_page, dump};
use everbyte_store::{CLUSTER, Engine, Error, FormatOptions, ObjectOptions, Plan, Store};

#[test]
fn the_worked_example_is_what_is_written() {
    let plan = Plan::new(1 << 20, 64 << 10).unwrap();
    let image = Image::zeroed(plan.spans_at).with_max(1 << 20).then(|media| {
        let identity = Some(*b"worked example 1");
        let store = Store::format(media, &FormatOptions { log_len: 64 << 10, identity }).unwrap();
        let options = ObjectOptions { engine: Engine::Cdds, fingerprint: 0xf00d, span: Some(4 * CLUSTER) };
        let object = store.create_object("shop/orders", options, |_| Ok::<(), Error>(())).unwrap();
        let room = object.grow(2 * CLUSTER).unwrap();
        object.set_root(room.start + 64);
        object.release(room.end - CLUSTER..room.end).unwrap();
        drop(object);
        store.close().unwrap();
    });
    let media = image.media();
    let parts = [
        ("superblock A", 0, 512),
        ("words beside superblock A", 1024, 64),
        ("record 0 of the object table", plan.table_at, 256),
        ("bitmap of backed clusters", plan.space.bitmap_at, 4096),
        ("bitmap of used clusters", plan.space.used_at, 4096),
        ("header of `shop/orders`", 0x40000, 512),
    ];
    assert_page("../../docs/formats/store.md", &dump(&media, &parts));
    let b = media.read_vec(4096, 512);
    assert_eq!(media.read_vec(0, 512), b, "both copies are the same");
}
