//! The worked example of docs/formats/tree.md is what this program writes, byte for byte.

#![forbid(unsafe_code)]

use everbyte_kv::Kv;
use everbyte_sim::{Image, assert_page, dump};
use everbyte_store::{FormatOptions, Store};

#[test]
fn the_worked_example_is_written_byte_for_byte() {
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some(*b"worked example 1") };
        let store = Store::format(media, &format).unwrap();
        let kv = Kv::create(&store, "kv").unwrap();
        kv.put(b"Oslo", b"Norway").unwrap();
        kv.put(b"Bergen", b"Norway").unwrap();
        kv.put(b"Oslo", b"the capital").unwrap();
        drop(kv);
        store.close().unwrap();
    });
    let media = image.media();
    let tree = (0..media.len()).step_by(4096).map(|page| page + 2048).find(|&at| media.read_vec(at, 8) == b"EVRBCDDS");
    let tree = tree.expect("a tree's header");
    let commit = media.load(tree + 64);
    let state = tree + 128 + (commit & 1) * 64;
    let root = media.load(state + 8);
    // An inner node of one entry: header, 16 heads, 16 slots of which the first leads to the leaf.
    let leaf = media.load(root + 192 + 24);
    let size = |node| media.load(node + 8) & 0xffff_ffff;
    let parts = [
        ("header, commit word, closed word, the two states", tree, 256),
        ("the root, an inner node", root, size(root)),
        ("its only leaf", leaf, size(leaf)),
    ];
    assert_page("../../docs/formats/tree.md", &dump(&media, &parts));
}
