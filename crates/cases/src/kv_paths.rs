//! Cases of the commit paths of the tree: one leaf, splits, long values, aborts, emptied leaves, a
//! full list of void versions. After recovery every key is overwritten.

use crate::Case;
use crate::kv::{Pairs, open, read};
use everbyte_kv::Kv;
use everbyte_kv::raw::Raw as _;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, FormatOptions, Store};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "kv-one-leaf",
        crate_name: "kv",
        about: "inserts, overwrites and deletes in one leaf: slots are emptied and used again",
        total: 4000,
        program: one_leaf,
    },
    Case {
        name: "kv-slots-reused",
        crate_name: "kv",
        about: "small keys in slots that large ones had: a crash leaves old heads, and a new key still finds its place",
        total: 4000,
        program: slots_reused,
    },
    Case {
        name: "kv-one-split",
        crate_name: "kv",
        about: "a leaf fills and splits put by put: the parent gets entries, old nodes die and are freed",
        total: 4000,
        program: one_split,
    },
    Case {
        name: "kv-long-values",
        crate_name: "kv",
        about: "values and keys in blocks of their own come and go",
        total: 4000,
        program: long_values,
    },
    Case {
        name: "kv-batches-aborted",
        crate_name: "kv",
        about: "batches over many keys, each followed by an aborted one: no aborted version comes back",
        total: 4000,
        program: batches_and_aborts,
    },
    Case {
        name: "kv-emptying",
        crate_name: "kv",
        about: "emptied leaves leave the tree, everything goes at once, new keys come",
        total: 4000,
        program: emptying,
    },
    Case {
        name: "kv-scrub",
        crate_name: "kv",
        about: "the list of void versions is full, one more becomes void, and the tree is scrubbed",
        total: 3000,
        program: scrub,
    },
];

/// A small store with a table, filled before the recording begins.
fn image(fill: &Pairs) -> Image {
    Image::zeroed(CLUSTER).with_max(4 << 20).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let kv = Kv::create(&store, "pairs").expect("a table");
        fill.iter().for_each(|(key, value)| kv.put(key, value).expect("space in the tree"));
    })
}

fn sound(kv: &Kv, when: &str) -> Result<(), String> {
    let findings = kv.check();
    if findings.is_empty() { Ok(()) } else { Err(format!("check {when}: {findings:?}")) }
}

/// The contents after recovery. Nothing is written: a second run finds what the crash left.
fn look(media: Media, seen: &Seen) -> Result<Pairs, String> {
    let kv = open(&media)?;
    seen.recovered();
    let pairs = read(&kv)?;
    sound(&kv, "after recovery")?;
    Ok(pairs)
}

/// The contents after recovery. Then every key gets a new value, and the tree must be sound.
fn observe(media: Media, seen: &Seen) -> Result<Pairs, String> {
    let kv = open(&media)?;
    seen.recovered();
    let pairs = read(&kv)?;
    sound(&kv, "after recovery")?;
    for (key, value) in &pairs {
        kv.put(key, &[value.as_slice(), b"!"].concat()).map_err(|error| error.to_string())?;
        if kv.get(key).map_err(|error| error.to_string())?.is_none() {
            return Err(format!("{key:?} vanished when it was overwritten"));
        }
    }
    kv.put(b"one more", b"entry").map_err(|error| error.to_string())?;
    sound(&kv, "after more writes")?;
    Ok(pairs)
}

fn put(twin: &Twin<'_, Pairs>, kv: &Kv, key: &str, value: Vec<u8>) {
    let (in_model, stored) = (key.as_bytes().to_vec(), value.clone());
    twin.step(
        format!("put {key}"),
        move |pairs| drop(pairs.insert(in_model.clone(), stored.clone())),
        || kv.put(key.as_bytes(), &value).expect("space in the tree"),
    );
}

fn delete(twin: &Twin<'_, Pairs>, kv: &Kv, key: &str) {
    let in_model = key.as_bytes().to_vec();
    let is_there = twin.model().contains_key(&in_model);
    twin.step(
        format!("delete {key}"),
        move |pairs| drop(pairs.remove(&in_model)),
        || assert_eq!(kv.delete(key.as_bytes()).expect("no error"), is_there),
    );
}

fn explore(explorer: Explorer, fill: &Pairs, program: impl Fn(&Twin<'_, Pairs>, &Kv)) -> Result<Report, Box<Failure>> {
    let run = |media: Media, twin: &Twin<'_, Pairs>| program(twin, &open(&media).expect("a whole table"));
    explorer.explore_twin(&image(fill), fill, Order::InOrder, run, observe)
}

fn filled(count: usize, len: usize) -> Pairs {
    (0..count).map(|index| (format!("key{index:04}").into_bytes(), vec![index as u8; len])).collect()
}

fn one_leaf(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, &Pairs::new(), |twin, kv| {
        for round in 0..6_u8 {
            put(twin, kv, "hot", vec![round; 30]);
            put(twin, kv, "other", vec![round; 20 + usize::from(round)]);
        }
        delete(twin, kv, "hot");
        put(twin, kv, "hot", b"again".to_vec());
    })
}

fn slots_reused(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let fill = filled(3, 20);
    let run = |media: Media, twin: &Twin<'_, Pairs>| {
        let kv = &open(&media).expect("a whole table");
        // New in each generation: the first insert after a crash meets no equal key. All share the
        // prefix of the leaf, so that their heads differ.
        let news = (0..).map(|number| format!("key000n{number}"));
        let new = news.into_iter().find(|new| !twin.model().contains_key(new.as_bytes())).expect("a new name");
        put(twin, kv, &new, vec![1; 20]);
        for index in 0..7_u8 {
            put(twin, kv, &format!("key000z{index}"), vec![index; 30]);
            delete(twin, kv, &format!("key000z{index}"));
        }
        // One batch, which empties the slots of dead entries and needs more than are free.
        let some = || (0..8_u8).map(|index| (format!("key000b{index}").into_bytes(), vec![index; 30]));
        twin.step(
            "batch",
            move |pairs| pairs.extend(some()),
            || {
                let mut batch = kv.batch();
                for (key, value) in some() {
                    batch.put(&key, &value).expect("space in the tree");
                }
                kv.settle(batch.commit().expect("space in the tree")).expect("sim barriers do not fail");
            },
        );
        for index in 0..10_u8 {
            put(twin, kv, &format!("key000z{index}"), vec![index; 40]);
            delete(twin, kv, &format!("key000z{index}"));
        }
        for index in 0..10_u8 {
            put(twin, kv, &format!("key000a{index}"), vec![index; 30]);
        }
    };
    explorer.explore_twin(&image(&fill), &fill, Order::InOrder, run, look)
}

fn one_split(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, &filled(46, 40), |twin, kv| {
        (0..24_u8).for_each(|index| put(twin, kv, &format!("key{:04}x", index * 2), vec![index; 50]));
    })
}

fn long_values(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, &Pairs::new(), |twin, kv| {
        let long = "k".repeat(400);
        for round in 0..5_u8 {
            put(twin, kv, "long", vec![round; 2000 + usize::from(round) * 300]);
            put(twin, kv, &long, vec![round; 10]);
        }
        delete(twin, kv, "long");
        delete(twin, kv, &long);
        put(twin, kv, "end", vec![1; 900]);
        put(twin, kv, "end", vec![2; 900]);
    })
}

fn batches_and_aborts(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let key = |index: u32| format!("key{index:04}").into_bytes();
    explore(explorer, &filled(30, 20), |twin, kv| {
        for round in 0..4_u8 {
            let change = move |pairs: &mut Pairs| {
                for index in 0..10 {
                    pairs.insert(key(index * 3), vec![round; 25]);
                    pairs.remove(&key(index * 3 + 1));
                }
                pairs.insert(b"big".to_vec(), vec![round; 700]);
            };
            twin.step(format!("batch {round}"), change, || {
                let mut batch = kv.batch();
                for index in 0..10 {
                    batch.put(&key(index * 3), &[round; 25]).expect("space in the tree");
                    batch.delete(&key(index * 3 + 1)).expect("no error");
                }
                batch.put(b"big", &[9; 600]).expect("space in the tree");
                batch.put(b"big", &[round; 700]).expect("space in the tree");
                let commit = batch.commit().expect("space in the tree");
                kv.settle(commit).expect("sim barriers do not fail");
            });
            let mut batch = kv.batch();
            batch.put(b"never", &[round; 600]).expect("space in the tree");
            batch.put(b"key0000", b"never").expect("space in the tree");
            batch.delete(b"key0003").expect("no error");
            batch.abort();
        }
    })
}

fn emptying(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, &filled(110, 30), |twin, kv| {
        (0..40).for_each(|index| delete(twin, kv, &format!("key{index:04}")));
        twin.step("clear", Pairs::clear, || {
            let mut batch = kv.batch();
            batch.clear().expect("space in the tree");
            let commit = batch.commit().expect("space in the tree");
            kv.settle(commit).expect("sim barriers do not fail");
        });
        (0..6).for_each(|index| put(twin, kv, &format!("new{index}"), vec![1; 10]));
    })
}

/// The list holds 256 versions. No second run: the program asserts that the list is full.
fn scrub(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const TREE_CLOSED_AT: u64 = 2048 + 72;
    let mut fill = Pairs::new();
    let image = image(&fill).then(|media| {
        for round in 0..=255_u8 {
            let kv = open(&media).expect("a whole table");
            kv.put(&[round % 40], &[round; 20]).expect("space in the tree");
            fill.insert(vec![round % 40], vec![round; 20]);
            // The process dies in the middle of a batch, and nothing is taken back.
            let mut batch = kv.batch();
            batch.put(b"never", &[round; 20]).expect("space in the tree");
            batch.delete(&[round % 40]).expect("no error");
            std::mem::forget(batch);
            std::mem::forget(kv);
        }
    });
    let program = |media: Media, twin: &Twin<'_, Pairs>| {
        let kv = open(&media).expect("a whole table");
        assert_eq!(kv.stats().void_ranges, 256, "{:?}", kv.stats());
        put(twin, &kv, "before", vec![0; 9]);
        let closed_at = kv.store().object("pairs").expect("a table").prime() + TREE_CLOSED_AT;
        drop(kv);
        // As if the process had died again.
        media.put(closed_at, &0_u64);
        media.flush(closed_at, 8);
        media.fence();
        let kv = open(&media).expect("a whole table");
        assert!(kv.stats().void_ranges < 10, "{:?}", kv.stats());
        (0..2_u8).for_each(|round| put(twin, &kv, "after", vec![round; 9]));
    };
    explorer.once().explore_twin(&image, &fill, Order::InOrder, program, observe)
}
