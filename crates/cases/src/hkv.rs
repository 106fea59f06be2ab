//! Cases of HEAPO's key-value stores.

use crate::{Case, TOTAL};
use everbyte_hkv::Hash;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen};
use everbyte_store::{CLUSTER, FormatOptions, Store};
use std::collections::BTreeMap;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "hkv-hash",
        room: "hkv",
        about: "insertions, updates and deletions one by one: each is whole, and an acknowledged one is there",
        total: TOTAL,
        program: changes,
    },
    Case {
        name: "hkv-hash-splits",
        room: "hkv",
        about: "insertions that fill buckets and split them: no pair is lost, doubled or in the wrong place, nothing leaks",
        total: 4000,
        program: splits,
    },
];

const MAX: u64 = 4 << 20;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn image(fill: u8) -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let hash = Hash::create(&store, "pairs", Some(2 << 20)).expect("room for a table");
        (0..fill).for_each(|key| assert!(hash.insert(&[key], &value(key)).expect("room in the table")));
        drop(hash);
        store.close().expect("sim barriers do not fail");
    })
}

fn value(seed: u8) -> Vec<u8> {
    vec![seed ^ 0x5a; usize::from(seed % 4) * 11]
}

fn filled(fill: u8) -> Pairs {
    (0..fill).map(|key| (vec![key], value(key))).collect()
}

fn open(media: &Media) -> Result<Hash, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let object = store.object("pairs").map_err(|error| error.to_string())?;
    Hash::open(object).map_err(|error| error.to_string())
}

/// Recovers, checks everything, and reads out the pairs.
fn observe(media: &Media, seen: &Seen) -> Result<Pairs, String> {
    let hash = open(media)?;
    seen.recovered();
    if let Some(finding) = hash.check().first() {
        return Err(finding.to_string());
    }
    let mut pairs = Pairs::new();
    hash.scan(|key, value| pairs.insert(key.to_vec(), value.to_vec()).is_none()).map_err(|error| error.to_string())?;
    Ok(pairs)
}

fn changes(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(6),
        &filled(6),
        Order::InOrder,
        |media, twin| {
            let hash = open(&media).expect("a whole image");
            for (key, fresh) in [(2_u8, 9_u8), (7, 7), (4, 12)] {
                let insert = move |pairs: &mut Pairs| _ = pairs.entry(vec![key]).or_insert_with(|| value(fresh));
                twin.step(format!("insert {key}"), insert, || hash.insert(&[key], &value(fresh)).unwrap());
            }
            let update = |pairs: &mut Pairs| drop(pairs.insert(vec![3], value(99)));
            twin.step("update 3", update, || assert!(hash.update(&[3], &value(99)).unwrap()));
            for key in [7_u8, 0] {
                let delete = move |pairs: &mut Pairs| drop(pairs.remove(&vec![key]));
                twin.step(format!("delete {key}"), delete, || assert!(hash.delete(&[key]).unwrap()));
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn splits(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const FILL: u8 = 70;
    explorer.explore_twin(
        &image(FILL),
        &filled(FILL),
        Order::InOrder,
        |media, twin| {
            let hash = open(&media).expect("a whole image");
            for key in FILL..FILL + 14 {
                let insert = move |pairs: &mut Pairs| drop(pairs.insert(vec![key], value(key)));
                twin.step(format!("insert {key}"), insert, || assert!(hash.insert(&[key], &value(key)).unwrap()));
            }
        },
        |media, seen| observe(&media, seen),
    )
}
