//! The worked examples of docs/formats/heap.md, lane.md and redo.md are what this program writes,
//! byte for byte.

use everbyte_sim::{Image, assert_page, dump};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::redo::{Truncation, layout};
use everbyte_tx::{Error, Redo, Undo};

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
            tx.store(first.at.get(), second.at.get())?;
            tx.store((first.at + 8).get(), (tx.allocate(70_000)?.at).get())?;
            tx.store(root.get(), first.at.get())?;
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
    redo_page();
}

/// Part of the one test: which slot of the heap's log is used depends on the threads there are.
fn redo_page() {
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some(*b"worked example 1") };
        let store = Store::format(media, &format).unwrap();
        let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span: Some(1 << 20) };
        let made = store.create_object("x", options, |object| Redo::format_with(object, 2, 512));
        let redo = Redo::open(made.unwrap()).unwrap();
        let root = redo.heap().object().root_at();
        redo.atomically(|tx| tx.store(root.get(), 0x11)).unwrap();
        redo.set_truncation(Truncation::Asynchronous);
        redo.atomically(|tx| tx.write((root + 4).get(), &[0x22])).unwrap();
        redo.truncate();
        redo.atomically(|tx| {
            let block = tx.allocate(64)?;
            tx.store(root.get(), block.at.get())
        })
        .unwrap();
        store.close().unwrap();
    });
    let media = image.media();
    let logs_at = media.load(0x10_0000 + everbyte_tx::layout::LANES_AT);
    let ranges = [
        ("lane table", 0x10_0800, 64),
        ("floor", 0x10_0000 + layout::FLOOR, 8),
        ("log 1: head word, and its ring", logs_at + 512 + 64, 320),
    ];
    assert_page("../../docs/formats/redo.md", &dump(&media, &ranges));
}
