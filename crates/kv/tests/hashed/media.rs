//! The bytes of a hash table, and the order in which its writes store them.
//! `EVERBYTE_REWRITE=1` writes the traces and the worked example anew.

use everbyte_kv::HashTable;
use everbyte_sim::{Image, Tracer, assert_golden, assert_page, dump};
use everbyte_store::{CLUSTER, FormatOptions, Store};

/// A table of ten keys, one of them replaced and one gone, and what `program` does to it.
fn golden(name: &str, program: impl FnOnce(&HashTable)) {
    let mut prime = 0;
    let image = Image::zeroed(CLUSTER).with_max(4 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([7; 16]) }).unwrap();
        let table = HashTable::create(&store, "t").unwrap();
        (0..10_u8).for_each(|index| table.put(&[b'a' + index; 24], &[index; 100]).unwrap());
        table.put(&[b'b'; 24], &[9; 100]).unwrap();
        assert!(table.delete(&[b'c'; 24]).unwrap());
        while table.reclaim().unwrap() {}
        prime = store.object("t").unwrap().prime().get();
    });
    let page = prime + 2048;
    let text = Tracer::new(&image)
        .label("hash.commit", page + 64..page + 72)
        .label("hash.state0", page + 128..page + 192)
        .label("hash.state1", page + 192..page + 256)
        .label("space", prime + 4096..prime + (1 << 20))
        .run_after(
            |media| {
                let table = HashTable::open(&Store::attach(media).unwrap(), "t").unwrap();
                // The sweep that follows an opening has nothing to do any more.
                while table.reclaim().unwrap() {}
                table
            },
            |_, table| program(&table),
        );
    assert_golden(format!("testdata/{name}.trace"), &text);
}

#[test]
fn hash_insert() {
    golden("hash_insert", |table| table.put(&[b'x'; 24], &[1; 100]).unwrap());
}

#[test]
fn hash_overwrite() {
    golden("hash_overwrite", |table| table.put(&[b'e'; 24], &[1; 100]).unwrap());
}

#[test]
fn hash_delete() {
    golden("hash_delete", |table| assert!(table.delete(&[b'e'; 24]).unwrap()));
}

/// Reading, and a batch that writes nothing or is given up, store nothing.
#[test]
fn hash_nothing() {
    golden("hash_nothing", |table| {
        assert!(table.get(&[b'e'; 24]).unwrap().is_some());
        assert!(!table.delete(b"absent").unwrap());
        table.begin().unwrap().commit().unwrap();
    });
}

#[test]
fn the_worked_example_is_written_byte_for_byte() {
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
