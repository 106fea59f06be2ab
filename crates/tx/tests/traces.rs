//! Golden persistence traces: the stores, flushes and fences of each kind of commit, in order.

mod common;

use common::{image, open};
use everbyte_sim::{Tracer, assert_golden};
use everbyte_tx::{Error, Undo};

/// Addresses as the image has them: the prime page, zone 0's table, the lanes, the table of words,
/// blocks.
fn trace(body: impl FnOnce(&Undo, u64)) -> String {
    let image = image(4096);
    let tracer = Tracer::new(&image)
        .label("prime", 0x10_0000..0x10_2000)
        .label("bits", 0x10_2000..0x10_4000)
        .label("lane0", 0x11_0000..0x11_1000)
        .label("lane1", 0x11_1000..0x11_2000)
        .label("words", 0x12_0000..0x12_0200)
        .label("block", 0x12_0200..0x20_0000);
    let text = tracer.run_after(
        |media| {
            let (_store, undo) = open(media).unwrap();
            // A run of the class is there, and this thread's first lane is chosen.
            let block = undo.run(|tx| tx.allocate(64)).unwrap();
            let root = undo.heap().object().root();
            undo.run(|tx| tx.store(root + 256, block.at.get())).unwrap();
            undo
        },
        |_media, undo| {
            let root = undo.heap().object().root();
            body(&undo, root)
        },
    );
    text.replace("lane1", "lane0") // which one depends on the thread, and each test has its own
}

#[test]
fn eight_bytes() {
    let text = trace(|undo, root| undo.run(|tx| tx.store(root, 1)).unwrap());
    assert_golden("testdata/update.trace", &text);
}

#[test]
fn lines_named_in_advance() {
    let text = trace(|undo, root| {
        undo.run(|tx| {
            tx.name_ranges(&[(root, 8), (root + 64, 8), (root + 128, 100)])?;
            tx.store(root, 1)?;
            tx.store(root + 64, 2)?;
            tx.write(root + 128, &[3; 100])
        })
        .unwrap();
    });
    assert_golden("testdata/named.trace", &text);
}

#[test]
fn a_block_in_place_of_another() {
    let text = trace(|undo, root| {
        undo.run(|tx| {
            let block = tx.allocate(64)?;
            tx.store(block.at.get(), 1)?;
            tx.free(tx.media().load(root + 256))?;
            tx.store(root + 256, block.at.get())
        })
        .unwrap();
    });
    assert_golden("testdata/replace.trace", &text);
}

#[test]
fn a_rollback() {
    let text = trace(|undo, root| {
        let stop = || Error::NoLane { object: "on purpose".into() };
        let _ = undo.run(|tx| tx.store(root, 1).and(Err::<(), _>(stop())));
    });
    assert_golden("testdata/rollback.trace", &text);
}
