//! Golden persistence traces: the stores, flushes and fences of an insertion into a tree, in order.

use everbyte_hkv::Tree;
use everbyte_sim::{Image, Tracer, assert_golden};
use everbyte_store::{FormatOptions, Store};

/// The trace of a change of a tree of `count` keys. A key's record has three lines.
fn trace(count: u8, body: impl FnOnce(&Tree)) -> String {
    let image = Image::zeroed(128 << 10).with_max(4 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &format).unwrap();
        let tree = Tree::create(&store, "pairs", Some(2 << 20)).unwrap();
        (0..count).for_each(|key| assert!(tree.insert(&[2 * key], &[key; 160]).unwrap()));
        drop(tree);
        store.close().unwrap();
    });
    let media = image.media();
    let object = Store::attach(image.media()).unwrap().object("pairs").unwrap();
    let (prime, root) = (object.prime(), object.root());
    let top = media.load(root + 64);
    let record = |node: u64| media.load(node + 40);
    let leaf = if count > 14 { record(top) } else { top };
    let cluster = |at: u64| at & !0xffff..(at & !0xffff) + 0x1_0000;
    let mut tracer = Tracer::new(&image)
        .label("bits", (prime + 0x2000).get()..(prime + 0x4000).get())
        .label("nodes", cluster(top))
        .label("records", cluster(record(leaf)));
    // The lane depends on the thread, and each test has its own.
    for lane in ((prime + 0x4000).get()..cluster(top).start).step_by(0x1000) {
        tracer = tracer.label("lane", lane..lane + 0x1000);
    }
    let run = |media| {
        let store = Store::attach(media).unwrap();
        let tree = Tree::open(store.object("pairs").unwrap()).unwrap();
        tree.insert(&[200], &[200; 160]).unwrap(); // a lane and a run of blocks are in use
        (store, tree)
    };
    tracer.run_after(run, |_, (_, tree)| body(&tree))
}

#[test]
fn an_insertion() {
    let text = trace(4, |tree| assert!(tree.insert(&[3], &[1; 160]).unwrap()));
    assert_golden("testdata/tree_insert.trace", &text);
}

#[test]
fn an_insertion_that_splits_a_leaf() {
    let text = trace(26, |tree| assert!(tree.insert(&[27], &[1; 160]).unwrap()));
    assert_golden("testdata/tree_split.trace", &text);
}
