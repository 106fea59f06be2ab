//! Cases of the key-value store's harder days: keys with long shared prefixes, writers on several
//! threads, batches that are given up, openings that fail, values that died before a restart.

use crate::Case;
use crate::kv::{Pairs, image, image_up_to, observe, open, read, value};
use everbyte_kv::Kv;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Twin};
use everbyte_store::Store;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "kv-shared-prefixes",
        crate_name: "kv",
        about: "keys that share 300 bytes: separators in blocks of their own die and are reused, and every key is found",
        total: 200,
        program: shared_prefixes,
    },
    Case {
        name: "kv-parts",
        crate_name: "kv",
        about: "values of several chunks are put and replaced: each is whole, and so is any part of it that is read alone",
        total: 200,
        program: parts,
    },
    Case {
        name: "kv-two-writers",
        crate_name: "kv",
        about: "each write by a thread of its own: what one thread has flushed, another one's fence does not order",
        total: 6000,
        program: two_writers,
    },
    Case {
        name: "kv-aborts",
        crate_name: "kv",
        about: "batches given up between commits, before a close and after it: nothing of them ever comes to life",
        total: 6000,
        program: aborts,
    },
    Case {
        name: "kv-failed-opening",
        crate_name: "kv",
        about: "a crash in a batch, an opening that fails, one that does not: what the crash cut short stays void",
        total: 4000,
        program: failed_opening,
    },
    Case {
        name: "kv-dead-after-restart",
        crate_name: "kv",
        about: "long values deleted before a restart: later commits elsewhere free them, each once",
        total: 2500,
        program: dead_after_restart,
    },
    Case {
        name: "kv-voids-full",
        crate_name: "kv",
        about: "the list of versions that crashes cut short is full when the tree is opened: it begins anew",
        total: 400,
        program: voids,
    },
    Case {
        name: "kv-voids-dead",
        crate_name: "kv",
        about: "the death of a process that begins the list anew",
        total: 40,
        program: |explorer| voids(crate::deaths::starts(explorer, u64::MAX, 100)),
    },
];

fn put(twin: &Twin<'_, Pairs>, kv: &Kv, key: &[u8], value: &[u8]) {
    let (its_key, its_value) = (key.to_vec(), value.to_vec());
    let change = move |pairs: &mut Pairs| drop(pairs.insert(its_key.clone(), its_value.clone()));
    twin.step("put", change, || kv.put(key, value).expect("room"));
}

/// An image of a table that was filled and closed, and what it holds.
fn filled(pairs: Pairs) -> (Image, Pairs) {
    let image = image(0).then(|media| {
        let kv = open(&media).expect("a whole store");
        pairs.iter().for_each(|(key, value)| kv.put(key, value).expect("room"));
    });
    (image, pairs)
}

fn voids(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let pairs = Pairs::from([(vec![1], value(u8::MAX, 8))]);
    let image = image(0).then(|media| {
        // The first opening finds a closed tree, each of 256 later ones lists one version more.
        for number in std::iter::once(0).chain(0..=u8::MAX) {
            let kv = open(&media).expect("a whole store");
            kv.put(&[1], &value(number, 8)).expect("room");
            std::mem::forget(kv);
        }
    });
    explorer.explore_twin(
        &image,
        &pairs,
        Order::InOrder,
        |media, twin| put(twin, &open(&media).expect("a whole store"), &[2], &value(2, 8)),
        |media, seen| observe(&media, seen),
    )
}

fn shared_prefixes(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let key = |number: u8| [&[b'p'; 300][..], &[number]].concat();
    // Twelve of them fill a leaf; so many that the root was written anew with long separators in
    // its base.
    let order = (0..170_u16).map(|number| (number * 7 % 170) as u8);
    let pairs: Pairs = order.clone().map(|number| (key(number), value(number, 480))).collect();
    let image = image_up_to(0, 8 << 20).then(|media| {
        let kv = open(&media).expect("a whole store");
        order.clone().for_each(|number| kv.put(&key(number), &value(number, 480)).expect("room"));
    });
    explorer.recovery(8, 2).explore_twin(
        &image,
        &pairs,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            for round in 0..3_u8 {
                let some = move || (0..56).map(move |step| step * 3 + round);
                let change = move |pairs: &mut Pairs| {
                    pairs.extend(some().map(|number| (key(number), value(number ^ round, 470))));
                };
                twin.step(format!("batch {round}"), change, || {
                    let mut batch = kv.batch();
                    for number in some() {
                        assert!(batch.put(&key(number), &value(number ^ round, 470)).expect("room"));
                    }
                    kv.settle(batch.commit().expect("room")).expect("sim barriers do not fail");
                });
                for number in 0..170 {
                    assert!(kv.get(&key(number)).expect("no damage").is_some(), "key {number} in round {round}");
                }
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn parts(explorer: Explorer) -> Result<Report, Box<Failure>> {
    // Two chunks of 64 KiB at least, and a length that is no multiple of a word.
    const LENS: [usize; 2] = [131_077, 70_003];
    let long = |round: u8, len: usize| -> Vec<u8> { (0..len).map(|at| (at / 7) as u8 ^ round).collect() };
    explorer.recovery(64, 2).explore_twin(
        &image(2),
        &crate::kv::filled(2),
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            for (round, len) in (0..).zip(LENS) {
                put(twin, &kv, &[7], &long(round, len));
            }
        },
        |media, seen| {
            let kv = open(&media)?;
            for (key, value) in read(&kv)?.into_iter().filter(|(_, value)| value.len() > 1 << 16) {
                for at in [0, 1 << 16, value.len() - 5] {
                    let end = (at + 9).min(value.len());
                    let part = kv.part_of(&key, |_| at as u64..end as u64).map_err(|error| error.to_string())?;
                    if part.as_deref() != Some(&value[at..end]) {
                        return Err(format!("the bytes at {at} of a value of {} bytes: {part:?}", value.len()));
                    }
                }
            }
            drop(kv);
            observe(&media, seen)
        },
    )
}

fn two_writers(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(3),
        &crate::kv::filled(3),
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            let elsewhere = |key: &[u8], value: &[u8]| {
                std::thread::scope(|scope| scope.spawn(|| put(twin, &kv, key, value)).join().expect("a writer"));
            };
            let long = [b'k'; 400];
            for round in 0..3_u8 {
                elsewhere(&[9], &value(round, 2000 + usize::from(round) * 300));
                elsewhere(&long, &value(round, 10));
                put(twin, &kv, &[1], &value(round, 700));
            }
            let delete = |pairs: &mut Pairs| drop(pairs.remove(&vec![9]));
            twin.step("delete", delete, || {
                std::thread::scope(|scope| scope.spawn(|| kv.delete(&[9]).expect("room")).join().expect("a writer"))
            });
            // Overwrites alone: their versions write no state, and the last ledger is theirs to
            // order.
            (0..3_u8).for_each(|round| elsewhere(&[2], &value(round, 20)));
        },
        |media, seen| observe(&media, seen),
    )
}

fn give_up(kv: &Kv, round: u8) {
    let mut batch = kv.batch();
    batch.put(&[100 + round], &value(round, 20)).expect("room");
    batch.put(&[0], &value(round, 2000)).expect("room");
    batch.delete(&[1]).expect("room");
    batch.abort();
}

fn aborts(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(4),
        &crate::kv::filled(4),
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            for round in 0..2_u8 {
                let kv = Kv::open(&store, "pairs").expect("a whole table");
                give_up(&kv, round);
                put(twin, &kv, &[2], &value(round, 20));
                give_up(&kv, 2 + round);
                give_up(&kv, 4 + round);
                put(twin, &kv, &[3], &value(round, 800));
                give_up(&kv, 6 + round);
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn failed_opening(explorer: Explorer) -> Result<Report, Box<Failure>> {
    /// The first word of a root with one entry: magic, level 1, no prefix, base 1.
    const ROOT: u64 = 0x1_0001_4e45;
    // The process dies in the middle of a batch.
    let image = image(4).then(|media| {
        let kv = open(&media).expect("a whole store");
        let mut batch = kv.batch();
        batch.put(b"never", b"happened").expect("room");
        batch.delete(&[1]).expect("room");
        std::mem::forget(batch);
        std::mem::forget(kv);
    });
    // The root as the commit word chooses it.
    let root = |media: &Media| {
        let header =
            Store::attach(media.clone()).expect("a whole store").object("pairs").expect("a table").prime() + 2048;
        media.load(header + 128 + (media.load(header + 64) & 1) * 64 + 8)
    };
    explorer.explore_twin(
        &image,
        &crate::kv::filled(4),
        Order::InOrder,
        |media, twin| {
            let at = root(&media);
            if media.load(at) == 0 {
                media.store(at, ROOT); // a run before died while it could not be read
            }
            assert_eq!(media.load(at), ROOT);
            media.store(at, 0);
            assert!(open(&media).is_err(), "the root cannot be read");
            media.store(at, ROOT);
            media.flush(at, 8);
            media.fence();
            let kv = open(&media).expect("a whole store");
            put(twin, &kv, &[2], &value(1, 20));
            let pairs = read(&kv).expect("no damage");
            assert!(pairs.len() == 4, "what the crash cut short came to life: {pairs:?}");
        },
        move |media, seen| {
            // Bytes that could not be read can be read again.
            let at = root(&media);
            if media.load(at) == 0 {
                media.store(at, ROOT);
            }
            observe(&media, seen)
        },
    )
}

fn dead_after_restart(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let key = |number: u8| vec![number; 20];
    let dead = 0..24_u8;
    let (image, pairs) = filled((0..96).map(|number| (key(number), value(number, 700))).collect());
    let mut left = pairs;
    let image = image.then(|media| {
        let kv = open(&media).expect("a whole store");
        let mut batch = kv.batch();
        dead.clone().for_each(|number| assert!(batch.delete(&key(number * 3)).expect("room")));
        kv.settle(batch.commit().expect("room")).expect("sim barriers do not fail");
    });
    dead.clone().for_each(|number| drop(left.remove(&key(number * 3))));
    explorer.recovery(16, 2).explore_twin(
        &image,
        &left,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            // A run after a crash of this program finds some of the dead values freed by the first.
            let is_first = kv.get(&[255]).expect("no damage").is_none();
            (0..8_u8).for_each(|round| put(twin, &kv, &[255], &value(round, 20)));
            let all_freed = kv.stats().freed >= dead.len() as u64;
            assert!(all_freed || !is_first, "{} values died: {:?}", dead.len(), kv.stats());
        },
        |media, seen| observe(&media, seen),
    )
}
