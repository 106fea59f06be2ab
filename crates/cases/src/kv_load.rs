//! A key-value store is made of a dump or of a damaged one, or loaded in bulk, and crashed at each
//! step.

use crate::kv::{open, value};
use crate::kv_tables::{All, image_up_to, observe, read, settle};
use crate::kv_versions::{Named, named, observe_named};
use crate::object::empty;
use crate::{Case, TOTAL};
use everbyte_kv::Kv;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::Store;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "kv-load",
        crate_name: "kv",
        about: "a key-value store is made of a dump, and written to: it is whole or absent, with what was written",
        total: TOTAL,
        program,
    },
    Case {
        name: "kv-load-versions",
        crate_name: "kv",
        about: "a key-value store is made of a dump with named versions: it is absent, or has all of them",
        total: 4000,
        program: versions,
    },
    Case {
        name: "kv-bulk-load",
        crate_name: "kv",
        about: "loads into the gaps of two tables, beside puts, savepoints and a load given up: each batch is whole",
        total: 6000,
        program: bulk,
    },
    Case {
        name: "kv-salvage",
        crate_name: "kv",
        about: "a key-value store whose root is damaged is saved to a new one: whole or absent, with every entry",
        total: TOTAL,
        program: salvage,
    },
];

fn filled() -> Image {
    filled_up_to(4 << 20)
}

fn filled_up_to(max: u64) -> Image {
    image_up_to(max, &|kv| {
        (0..70_u8).for_each(|key| kv.put(&[key], &value(key, 20)).expect("room"));
        kv.create_table("first").expect("room").put(&[1], &value(2, 700)).expect("room");
    })
}

/// A dump of two tables, and its contents.
fn dump() -> (Vec<u8>, All) {
    let kv = open(&filled().media()).expect("a whole store");
    let mut bytes = Vec::new();
    kv.snapshot().dump(&mut bytes, &mut |_| ()).expect("no damage");
    (bytes, read(&kv).expect("no damage"))
}

/// Loads a dump with these contents, where an earlier run has not done it.
fn loaded<T: Clone + Send + Sync + 'static>(media: Media, twin: &Twin<'_, Option<T>>, dump: &[u8], all: &T) -> Kv {
    let store = Store::attach(media).expect("a whole store");
    if twin.model().is_none() {
        let all = all.clone();
        let load = || drop(Kv::load(&store, "pairs", &mut &*dump, &mut |_| ()).expect("room"));
        twin.step("load", move |now: &mut Option<T>| *now = Some(all.clone()), load);
    }
    Kv::open(&store, "pairs").expect("it was loaded")
}

fn program(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (bytes, all) = dump();
    explorer.explore_twin(
        &empty(),
        &None,
        Order::InOrder,
        |media, twin| {
            let kv = loaded(media, twin, &bytes, &all);
            for key in [7, 8] {
                let put = move |now: &mut Option<All>| {
                    let main = now.as_mut().and_then(|all| all.get_mut("")).expect("loaded");
                    main.insert(vec![key], value(key, 600));
                };
                twin.step(format!("put {key}"), put, || {
                    let mut batch = kv.batch();
                    batch.put(&[key], &value(key, 600)).expect("room");
                    settle(&kv, batch);
                });
            }
        },
        |media, seen| observe_loaded(&media, seen),
    )
}

/// A dump of two named versions and the newest one, and their contents.
fn dump_of_versions() -> (Vec<u8>, Named) {
    let media = image_up_to(4 << 20, &|kv| {
        let first = kv.create_table("first").expect("room");
        (0..6_u8).for_each(|key| kv.put(&[key], &value(key, 700)).expect("room"));
        first.put(&[1], &value(2, 700)).expect("room");
        kv.name_version("one").expect("room");
        (1..5_u8).for_each(|key| kv.put(&[key], &value(key + 50, 700)).expect("room"));
        kv.create_table("second").expect("room").put(&[1], &value(3, 20)).expect("room");
        kv.name_version("two").expect("room");
        kv.delete(&[1]).expect("room");
        first.put(&[1], &value(4, 700)).expect("room");
    })
    .media();
    let (kv, mut bytes) = (open(&media).expect("a whole store"), Vec::new());
    kv.dump(&mut bytes, &mut |_| ()).expect("no damage");
    let names = ["one", "two"].map(|name| (name.to_string(), named(&kv, name).expect("no damage")));
    (bytes, (read(&kv).expect("no damage"), names.into()))
}

fn versions(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (bytes, all) = dump_of_versions();
    explorer.recovery(64, 4).explore_twin(
        &empty(),
        &None,
        Order::InOrder,
        |media, twin| {
            let kv = loaded(media, twin, &bytes, &all);
            let put = move |now: &mut Option<Named>| {
                let main = now.as_mut().and_then(|all| all.0.get_mut("")).expect("loaded");
                main.insert(vec![2], value(7, 600));
            };
            twin.step("put", put, || kv.put(&[2], &value(7, 600)).expect("room"));
        },
        |media, seen| match is_absent(&media, seen)? {
            true => Ok(None),
            false => observe_named(&media, seen).map(Some),
        },
    )
}

fn observe_loaded(media: &Media, seen: &Seen) -> Result<Option<All>, String> {
    if is_absent(media, seen)? { Ok(None) } else { observe(media, seen).map(Some) }
}

/// Whether the store has no object: the load has not happened.
fn is_absent(media: &Media, seen: &Seen) -> Result<bool, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let is_absent = store.objects().map_err(|error| error.to_string())?.is_empty();
    if is_absent {
        seen.recovered();
    }
    Ok(is_absent)
}

/// Entries of a load: `count` below the two bytes of `first`.
fn entries(first: u8, seed: u8, count: u8) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (0..count).map(move |index| (vec![first, index], value(seed ^ index, if index == 9 { 600 } else { 60 })))
}

fn bulk(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = filled_up_to(16 << 20); // old leaves stay until the next commits free them
    let start = read(&open(&image.media()).expect("a whole store")).expect("no damage");
    explorer.explore_twin(
        &image,
        &start,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            let table = kv.open_table("first").expect("never dropped");
            for round in 0..3_u8 {
                // Into the gap behind a key of one table, and behind all keys of the other.
                let gap = 20 + 3 * round;
                let change = move |all: &mut All| {
                    let main = all.get_mut("").expect("always there");
                    main.retain(|key, _| key[0] != gap);
                    main.extend(entries(gap, round, 70));
                    main.insert(vec![gap + 1], value(round, 600));
                    let table = all.get_mut("first").expect("never dropped");
                    table.retain(|key, _| key[0] != 90 + round);
                    table.extend(entries(90 + round, round, if round == 1 { 20 } else { 110 }));
                };
                twin.step(format!("batch {round}"), change, || {
                    let mut batch = kv.batch();
                    batch.put(&[gap + 1], &value(round, 600)).expect("room");
                    batch.delete_range([gap].as_slice()..&[gap + 1]).expect("room");
                    let savepoint = batch.savepoint().expect("few");
                    batch.load(entries(gap, 77, 60)).expect("room");
                    batch.roll_back(savepoint).expect("of this batch");
                    let mut load = batch.begin_load().expect("few");
                    for (key, value) in entries(gap, 99, 65) {
                        load.push(&key, &value).expect("room");
                    }
                    drop(load);
                    assert_eq!(batch.load(entries(gap, round, 70)).expect("room"), 70);
                    let mut first = batch.table(&table).expect("live");
                    first.delete_range([90 + round].as_slice()..&[91 + round]).expect("room");
                    first.load(entries(90 + round, round, if round == 1 { 20 } else { 110 })).expect("room");
                    settle(&kv, batch);
                });
            }
        },
        |media, seen| observe(&media, seen),
    )
}

/// First bytes of a node on media: its magic; the level follows.
const NODE_MAGIC: [u8; 2] = 0x4e45_u16.to_le_bytes();

fn salvage(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (_, all) = dump();
    let image = filled().then(|media| {
        let is_inner = |at: &u64| media.read_vec(*at, 2) == NODE_MAGIC && media.read_vec(at + 2, 1) != [0];
        let inner: Vec<u64> = (0..media.len() - 64).step_by(64).filter(is_inner).collect();
        let _section = media.section();
        for at in inner {
            media.write(at, &[0; 8]);
            media.flush(at, 8);
        }
        media.barrier().expect("sim barriers do not fail");
    });
    explorer.explore_twin(
        &image,
        &None,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            if twin.model().is_none() {
                let all = all.clone();
                let save = || drop(Kv::salvage(&store, "pairs", &store, "saved", &mut |_| ()).expect("room"));
                twin.step("salvage", move |now: &mut Option<All>| *now = Some(all.clone()), save);
            }
        },
        |media, seen| {
            let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
            seen.recovered();
            if store.find("saved").map_err(|error| error.to_string())?.is_none() {
                return Ok(None);
            }
            let kv = Kv::open(&store, "saved").map_err(|error| error.to_string())?;
            match kv.check().as_slice() {
                [] => read(&kv).map(Some),
                findings => Err(format!("check: {findings:?}")),
            }
        },
    )
}
