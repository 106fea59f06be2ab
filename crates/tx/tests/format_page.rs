//! The worked examples of docs/formats/heap.md and docs/formats/lane.md are what this program writes, byte for byte.

use everbyte_sim::{Image, assert_page, dump};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::{Error, Undo};

#[test]
fn the_worked_examples_are_what_is_written() {
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some(*b"worked example 1") };
        let store = Store::format(media, &format).unwrap();
        let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(1 << 20) };
        let undo = Undo::open(store.create_object("x", options, |object| Undo::format_with(object, 2, 4096)).unwrap());
        let undo = undo.unwrap();
        let root = undo.heap().object().root_at();
        undo.run(|tx| {
            let (first, second) = (tx.allocate(100)?, tx.allocate(100)?);
            tx.store(first.at, second.at)?;
            tx.store(first.at + 8, tx.allocate(70_000)?.at)?;
            tx.store(root, first.at)?;
            Ok::<_, Error>(())
        })
        .unwrap();
        store.close().unwrap();
    });
    let media = image.media();
    let prime = 0x10_0000;
    let heap = [
        ("header and the words after it", prime + 512, 1536),
        ("log, slot 0", prime + 4096, 64),
        ("records of clusters 0 to 3", prime + 8192, 2048),
    ];
    assert_page("../../docs/formats/heap.md", &dump(&media, &heap));
    assert_page("../../docs/formats/lane.md", &dump(&media, &[("lane table", prime + 2048, 128)]));
}
