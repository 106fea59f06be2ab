//! The order in which a hash table's writes store their bytes. `EVERBYTE_REWRITE=1` writes the
//! traces anew.

use everbyte_kv::HashTable;
use everbyte_sim::{Image, Tracer, assert_golden};
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
