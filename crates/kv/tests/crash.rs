//! Every crash of small programs that go through each commit path of the tree: what was
//! acknowledged is there, what was not is whole or absent, in the order of commits; nothing leaks;
//! and the tree goes on working.

use everbyte_kv::Kv;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Image, Order, Profile, Report, Seen, Twin};
use everbyte_store::{CLUSTER, FormatOptions, Store};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const MAX: u64 = 4 << 20;

fn options() -> FormatOptions {
    FormatOptions { log_len: 0, identity: Some([7; 16]) }
}

/// A small store with a table, filled before the recording begins.
fn image(fill: &Model) -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let store = Store::format(media, &options()).expect("a small store");
        let kv = Kv::create(&store, "t").expect("a table");
        for (key, value) in fill {
            kv.put(key, value).expect("room");
        }
    })
}

/// Opens an image, lets everything check itself, and reads out what it holds.
fn observe(media: Media, seen: &Seen) -> Result<Model, String> {
    let store = Store::attach(media).map_err(|error| error.to_string())?;
    let kv = Kv::open(&store, "t").map_err(|error| error.to_string())?;
    seen.recovered();
    let model: Result<Model, _> = kv.range::<[u8]>(..).collect();
    let model = model.map_err(|error| error.to_string())?;
    let sound = |kv: &Kv, when: &str| {
        let findings: Vec<_> = kv.check();
        if findings.is_empty() { Ok(()) } else { Err(format!("check {when}: {findings:?}")) }
    };
    sound(&kv, "after recovery")?;
    // It works on: over every old key a new value, and all is still sound.
    for (key, value) in &model {
        kv.put(key, &[value.as_slice(), b"!"].concat()).map_err(|error| error.to_string())?;
        if kv.get(key).map_err(|error| error.to_string())?.is_none() {
            return Err(format!("{key:?} vanished when it was overwritten"));
        }
    }
    kv.put(b"one more", b"entry").map_err(|error| error.to_string())?;
    sound(&kv, "after more writes")?;
    Ok(model)
}

fn put(twin: &Twin<'_, Model>, kv: &Kv, key: &str, value: Vec<u8>) {
    let key = key.as_bytes().to_vec();
    let (its_key, its_value) = (key.clone(), value.clone());
    twin.step(
        format!("put {}", String::from_utf8_lossy(&key)),
        move |model| {
            model.insert(its_key.clone(), its_value.clone());
        },
        || kv.put(&key, &value).expect("room"),
    );
}

fn delete(twin: &Twin<'_, Model>, kv: &Kv, key: &str) {
    let key = key.as_bytes().to_vec();
    let its_key = key.clone();
    twin.step(
        "delete",
        move |model| {
            model.remove(&its_key);
        },
        || kv.delete(&key).expect("no error"),
    );
}

fn explore(name: &str, fill: &Model, total: u64, program: impl Fn(&Twin<'_, Model>, &Kv)) -> Report {
    let explorer = Explorer::new(name).profiles(&Profile::BOTH).total(total);
    let report = explorer.twin(
        &image(fill),
        fill,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            let kv = Kv::open(&store, "t").expect("a whole table");
            program(twin, &kv);
        },
        observe,
    );
    assert!(report.images() > 100, "{report}");
    report
}

fn filled(count: usize, len: usize) -> Model {
    (0..count).map(|index| (format!("key{index:04}").into_bytes(), vec![index as u8; len])).collect()
}

/// Inserts, overwrites and deletes in one leaf; slots are emptied and reused.
#[test]
fn one_leaf() {
    explore("tree-one-leaf", &Model::new(), 4000, |twin, kv| {
        for round in 0..6_u8 {
            put(twin, kv, "hot", vec![round; 30]);
            put(twin, kv, "other", vec![round; 20 + usize::from(round)]);
        }
        delete(twin, kv, "hot");
        put(twin, kv, "hot", b"again".to_vec());
    });
}

/// A leaf fills and splits; the parent gets entries, old nodes die and are freed.
#[test]
fn splits() {
    explore("tree-splits", &filled(46, 40), 4000, |twin, kv| {
        for index in 0..24 {
            put(twin, kv, &format!("key{:04}x", index * 2), vec![index as u8; 50]);
        }
    });
}

/// Values and keys in blocks of their own come and go.
#[test]
fn long_values() {
    explore("tree-long-values", &Model::new(), 4000, |twin, kv| {
        let long = "k".repeat(400);
        for round in 0..5_u8 {
            put(twin, kv, "long", vec![round; 2000 + usize::from(round) * 300]);
            put(twin, kv, &long, vec![round; 10]);
        }
        delete(twin, kv, "long");
        delete(twin, kv, &long);
        put(twin, kv, "end", vec![1; 900]);
        put(twin, kv, "end", vec![2; 900]);
    });
}

/// A batch is all or nothing, an aborted one is nothing, and a version that was void once never
/// comes back.
#[test]
fn batches_and_aborts() {
    explore("tree-batches", &filled(30, 20), 4000, |twin, kv| {
        for round in 0..4_u8 {
            twin.step(
                format!("batch {round}"),
                move |model| {
                    for index in 0..10 {
                        model.insert(format!("key{:04}", index * 3).into_bytes(), vec![round; 25]);
                        model.remove(format!("key{:04}", index * 3 + 1).as_bytes());
                    }
                    model.insert(b"big".to_vec(), vec![round; 700]);
                },
                || {
                    let mut batch = kv.batch();
                    for index in 0..10 {
                        batch.put(format!("key{:04}", index * 3).as_bytes(), &[round; 25]).expect("room");
                        batch.delete(format!("key{:04}", index * 3 + 1).as_bytes()).expect("no error");
                    }
                    batch.put(b"big", &[9; 600]).expect("room");
                    batch.put(b"big", &[round; 700]).expect("room");
                    let commit = batch.commit().expect("room");
                    kv.settle(commit).expect("settled");
                },
            );
            let mut batch = kv.batch();
            batch.put(b"never", &[round; 600]).expect("room");
            batch.put(b"key0000", b"never").expect("room");
            batch.delete(b"key0003").expect("no error");
            batch.abort();
        }
    });
}

/// Emptied leaves leave the tree; everything goes at once; new keys come.
#[test]
fn emptying() {
    explore("tree-emptying", &filled(110, 30), 4000, |twin, kv| {
        for index in 0..40 {
            delete(twin, kv, &format!("key{index:04}"));
        }
        twin.step(
            "clear",
            |model| model.clear(),
            || {
                let mut batch = kv.batch();
                batch.clear().expect("room");
                let commit = batch.commit().expect("room");
                kv.settle(commit).expect("settled");
            },
        );
        for index in 0..6 {
            put(twin, kv, &format!("new{index}"), vec![1; 10]);
        }
    });
}

/// The void list is full, one more version becomes void, and the tree is scrubbed: whatever a crash
/// makes of that.
#[test]
fn scrubbing_a_full_void_list() {
    let mut fill = Model::new();
    let image = image(&fill).then(|media| {
        for round in 0..255_u32 {
            let store = Store::attach(media.clone()).expect("a whole store");
            let kv = Kv::open(&store, "t").expect("a whole table");
            let key = vec![round as u8 % 40];
            kv.put(&key, &[round as u8; 20]).expect("room");
            fill.insert(key, vec![round as u8; 20]);
            // The process dies in the middle of a batch, and nothing is taken back.
            let mut batch = kv.batch();
            batch.put(b"never", &[round as u8; 20]).expect("room");
            batch.delete(&[round as u8 % 40]).expect("no error");
            std::mem::forget(batch);
            std::mem::forget(kv);
        }
    });
    let explorer = Explorer::new("tree-scrub").profiles(&Profile::BOTH).total(3000);
    explorer.twin(
        &image,
        &fill,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            let kv = Kv::open(&store, "t").expect("a whole table");
            assert!(kv.stats().void_ranges == 256, "{:?}", kv.stats());
            put(twin, &kv, "before", vec![0; 9]);
            drop(kv);
            // As if the process had died again.
            let closed_at = store.object("t").expect("a table").prime() + 2048 + 72;
            store.media().put(closed_at, &0_u64);
            store.media().fence();
            let kv = Kv::open(&store, "t").expect("a whole table");
            assert!(kv.stats().void_ranges < 10, "{:?}", kv.stats());
            (0..2_u8).for_each(|round| put(twin, &kv, "after", vec![round; 9]));
        },
        observe,
    );
}
