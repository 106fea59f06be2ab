//! Cases of the versioned hash table.

use crate::kv::{Pairs, filled, value};
use crate::{Case, TOTAL};
use everbyte_kv::HashTable;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, FindingKind, FormatOptions, Store};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "kv-hashed-puts",
        crate_name: "kv",
        about: "puts, replacements and deletes in a hash table: each is whole, and an acknowledged one is there",
        total: TOTAL,
        program: puts,
    },
    Case {
        name: "kv-hashed-splits",
        crate_name: "kv",
        about: "batches that add buckets and a segment to a hash table, one given up: no key is lost, nothing leaks",
        total: 8000,
        program: splits,
    },
    Case {
        name: "kv-hashed-reopen",
        crate_name: "kv",
        about: "a ledger too long for its place, the hash table opened again, another one: both whole or absent",
        total: 400,
        program: reopen,
    },
];

fn image(fill: u8, max: u64) -> Image {
    Image::zeroed(CLUSTER).with_max(max).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let table = HashTable::create(&store, "pairs").expect("room for a table");
        filled(fill).iter().for_each(|(key, value)| table.put(key, value).expect("room in the table"));
        drop(table);
        store.close().expect("sim barriers do not fail");
    })
}

fn open(media: &Media) -> Result<(Store, HashTable), String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let table = HashTable::open(&store, "pairs").map_err(|error| error.to_string())?;
    Ok((store, table))
}

fn read(table: &HashTable) -> Result<Pairs, String> {
    table.snapshot().entries().collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// The contents after recovery; then the table must be sound, of use, and sound after use.
fn observe(media: &Media, seen: &Seen) -> Result<Pairs, String> {
    let (store, table) = open(media)?;
    seen.recovered();
    let pairs = read(&table)?;
    let check = |when: &str| {
        let mut findings = table.check();
        findings.extend(store.check());
        findings.retain(|finding| finding.kind != FindingKind::Note);
        if findings.is_empty() { Ok(()) } else { Err(format!("check {when}: {findings:?}")) }
    };
    check("after recovery")?;
    let mut expected = pairs.clone();
    for round in 0..3_u8 {
        table.put(b"after", &[round; 30]).map_err(|error| error.to_string())?;
        expected.insert(b"after".to_vec(), vec![round; 30]);
    }
    let found = read(&table)?;
    if found != expected {
        return Err(format!("{expected:?} expected after puts, found {found:?}"));
    }
    check("after puts")?;
    Ok(pairs)
}

fn puts(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(3, 4 << 20),
        &filled(3),
        Order::InOrder,
        |media, twin| {
            let (_store, table) = open(&media).expect("a whole store");
            let before = table.snapshot();
            let held = read_all(&before);
            for (key, len) in [(9, 10), (1, 30), (1, 5000), (7, 9000), (7, 5), (9, 6000)] {
                let put = move |pairs: &mut Pairs| drop(pairs.insert(vec![key], value(key, len)));
                twin.step(format!("put {key}"), put, || table.put(&[key], &value(key, len)).expect("room"));
            }
            let delete = |pairs: &mut Pairs| drop(pairs.remove(&vec![2]));
            let is_there = twin.model().contains_key(&vec![2]);
            twin.step("delete 2", delete, || assert_eq!(table.delete(&[2]).expect("room"), is_there));
            assert_eq!(read_all(&before), held, "a snapshot has changed");
            drop(before);
            // The entries that it held are freed, and their blocks are used again.
            for round in 0..4_u8 {
                let put = move |pairs: &mut Pairs| drop(pairs.insert(vec![1], value(round, 30)));
                twin.step(format!("put 1, {round}"), put, || table.put(&[1], &value(round, 30)).expect("room"));
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn read_all(snapshot: &everbyte_kv::HashSnapshot) -> Pairs {
    snapshot.entries().collect::<Result<_, _>>().expect("no damage")
}

fn splits(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(12, 4 << 20),
        &filled(12),
        Order::InOrder,
        |media, twin| {
            let (_store, table) = open(&media).expect("a whole store");
            for round in 0..4_u8 {
                if round == 2 {
                    let mut batch = table.begin().expect("no other batch");
                    (200..220).for_each(|key| batch.put(&[key], b"never").expect("room"));
                    batch.delete(&[0]).expect("no damage");
                    drop(batch);
                }
                let keys = 20 + round * 10..30 + round * 10;
                let model_keys = keys.clone();
                let change = move |pairs: &mut Pairs| {
                    pairs.extend(model_keys.clone().map(|key| (vec![key], value(key, 40))));
                    pairs.remove(&vec![round]);
                };
                twin.step(format!("batch {round}"), change, || {
                    let mut batch = table.begin().expect("no other batch");
                    keys.clone().for_each(|key| batch.put(&[key], &value(key, 40)).expect("room"));
                    batch.delete(&[round]).expect("no damage");
                    batch.commit().expect("room");
                });
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn reopen(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let many = |first: u16| (first..first + 200).map(|key| key.to_be_bytes().to_vec());
    // Each recovery reads some hundred values.
    let explorer = explorer.recovery(64, 4);
    let step = move |store: &Store, twin: &Twin<'_, Pairs>, round: u16| {
        let first = 1000 + round * 100;
        let change = move |pairs: &mut Pairs| pairs.extend(many(first).map(|key| (key.clone(), value(key[1], 300))));
        let table = HashTable::open(store, "pairs").expect("a whole table");
        twin.step(format!("batch {round}"), change, || {
            let mut batch = table.begin().expect("no other batch");
            many(first).for_each(|key| batch.put(&key, &value(key[1], 300)).expect("room"));
            batch.commit().expect("room");
        });
    };
    explorer.explore_twin(
        &image(2, 8 << 20),
        &filled(2),
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            (0..2).for_each(|round| step(&store, twin, round));
        },
        |media, seen| observe(&media, seen),
    )
}
