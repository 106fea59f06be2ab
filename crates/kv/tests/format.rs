//! The worked examples of docs/formats/tree.md and hashed.md are what these programs write, byte
//! for byte. `EVERBYTE_REWRITE=1` writes them anew.

#![forbid(unsafe_code)]

use everbyte_kv::{HashTable, Kv};
use everbyte_sim::{Image, assert_page, dump};
use everbyte_store::{FormatOptions, Store};

#[test]
fn the_worked_example_of_a_tree_is_written_byte_for_byte() {
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

#[test]
fn the_worked_example_of_a_hash_table_is_written_byte_for_byte() {
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some(*b"worked example 1") };
        let store = Store::format(media, &format).unwrap();
        let table = HashTable::create(&store, "hash").unwrap();
        table.put(b"Oslo", b"Norway").unwrap();
        table.put(b"Oslo", b"the capital").unwrap();
        drop(table);
        store.close().unwrap();
    });
    let media = image.media();
    let page = (0..media.len()).step_by(4096).map(|page| page + 2048).find(|&at| media.read_vec(at, 8) == b"EVRBCDHT");
    let page = page.expect("a hash table's page");
    let number = |at: u64| media.load(at) & ((1 << 48) - 1);
    let state = page + 128 + (media.load(page + 64) & 1) * 64;
    let ledger = media.load(state + 24);
    let words = (media.load(state + 32) & 0xffff_ffff) + 2 * (media.load(state + 32) >> 32);
    let segment = number(page + 256);
    let head = (0..16).map(|bucket| segment + bucket * 8).find(|&at| number(at) != 0).expect("a chain");
    let parts = [
        ("header, commit word, the two states, the places of the first segments", page, 288),
        ("the ledger of the newest version", ledger, words * 8),
        ("the bucket with a chain, and its neighbour", head & !15, 16),
        ("its first entry", number(head), 80),
        ("the entry before it, which has ended", number(number(head)), 72),
    ];
    assert_page("../../docs/formats/hashed.md", &dump(&media, &parts));
}
