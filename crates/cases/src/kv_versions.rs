//! Cases of named versions: they stay, across openings and crashes, until their name is removed.

use crate::kv::{open, value};
use crate::kv_tables::{All, image, observe, read, settle};
use crate::{Case, TOTAL};
use everbyte_kv::Kv;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Order, Report, Seen};
use std::collections::BTreeMap;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "kv-versions",
        crate_name: "kv",
        about: "versions get names and lose them between writes and openings: each stays as it was until then",
        total: TOTAL,
        program: versions,
    },
    Case {
        name: "kv-restore",
        crate_name: "kv",
        about: "all tables go back to a named version, dropped and new ones among them, or none of them does",
        total: TOTAL,
        program: restore,
    },
];

/// The tables now, and at each named version.
pub(crate) type Named = (All, BTreeMap<String, All>);

/// The main table of a named version, and its others.
pub(crate) fn named(kv: &Kv, name: &str) -> Result<All, String> {
    let text = |error: everbyte_kv::Error| error.to_string();
    let snapshot = kv.open_version(name).map_err(text)?;
    let main = snapshot.range::<[u8]>(..).collect::<Result<_, _>>().map_err(text)?;
    let mut all = All::from([(String::new(), main)]);
    for name in kv.tables().map_err(text)? {
        // Of tables that are there now, those that it sees.
        let Ok(table) = snapshot.table(&kv.open_table(&name).map_err(text)?) else { continue };
        let pairs = table.range::<[u8]>(..).collect::<Result<_, _>>().map_err(text)?;
        all.insert(name, pairs);
    }
    Ok(all)
}

pub(crate) fn observe_named(media: &Media, seen: &Seen) -> Result<Named, String> {
    let text = |error: everbyte_kv::Error| error.to_string();
    let all = observe(media, seen)?;
    let kv = open(media)?;
    let mut names = BTreeMap::new();
    for version in kv.versions().map_err(text)? {
        names.insert(version.name.clone(), named(&kv, &version.name)?);
    }
    // Dead entries, old and new, are reclaimed as far as no name keeps them.
    for round in 0..3 {
        for key in 0..4 {
            kv.put(&[key], &value(round, 800)).map_err(text)?;
        }
    }
    let findings = kv.check();
    if !findings.is_empty() {
        return Err(format!("check after writes: {findings:?}"));
    }
    for (name, before) in &names {
        if named(&kv, name)? != *before {
            return Err(format!("the version {name} has changed"));
        }
    }
    Ok((all, names))
}

fn versions(explorer: Explorer) -> Result<Report, Box<Failure>> {
    // Short values, and one that owns a block.
    let fill = || (0..4_u8).map(|key| (vec![key], value(key, if key == 3 { 700 } else { 20 })));
    let start = (All::from([(String::new(), fill().collect())]), BTreeMap::new());
    let image = image(&|kv| fill().for_each(|(key, value)| kv.put(&key, &value).expect("room")));
    let explorer = explorer.recovery(64, 4);
    explorer.explore_twin(
        &image,
        &start,
        Order::InOrder,
        |media, twin| {
            let write = |twin: &everbyte_sim::Twin<'_, Named>, kv: &Kv, seed: u8| {
                for key in [3, 1] {
                    let put = move |state: &mut Named| {
                        state.0.get_mut("").expect("always there").insert(vec![key], value(seed, 700));
                    };
                    twin.step(format!("put {key}"), put, || kv.put(&[key], &value(seed, 700)).expect("room"));
                }
            };
            let kv = open(&media).expect("a whole store");
            let is_named = twin.model().1.contains_key("one");
            let name = |state: &mut Named| drop(state.1.insert("one".into(), state.0.clone()));
            if !is_named {
                twin.step("name", name, || {
                    kv.name_version("one").expect("room");
                });
            }
            write(twin, &kv, 50);
            drop(kv);
            let kv = open(&media).expect("a whole store");
            write(twin, &kv, 60);
            let remove = |state: &mut Named| drop(state.1.remove("one"));
            twin.step("remove", remove, || kv.remove_version("one").expect("it is named"));
            write(twin, &kv, 70);
        },
        |media, seen| observe_named(&media, seen),
    )
}

fn restore(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = image(&|kv| {
        (0..4_u8).for_each(|key| kv.put(&[key], &value(key, 20)).expect("room"));
        kv.create_table("first").expect("room").put(&[1], &value(2, 700)).expect("room");
        kv.name_version("one").expect("room");
        kv.drop_table("first").expect("room");
        kv.create_table("second").expect("room").put(&[1], &value(3, 20)).expect("room");
        kv.put(&[1], &value(9, 700)).expect("room");
        kv.delete(&[2]).expect("room");
    });
    let now = read(&open(&image.clone().media()).expect("a whole store")).expect("no damage");
    let old = All::from([
        (String::new(), (0..4_u8).map(|key| (vec![key], value(key, 20))).collect()),
        ("first".into(), BTreeMap::from([(vec![1], value(2, 700))])),
    ]);
    explorer.explore_twin(
        &image,
        &now,
        Order::InOrder,
        |media, twin| {
            let kv = open(&media).expect("a whole store");
            let back = {
                let old = old.clone();
                move |all: &mut All| all.clone_from(&old)
            };
            twin.step("restore", back, || kv.restore_version("one").expect("room"));
            let put = |all: &mut All| drop(all.get_mut("").expect("always there").insert(vec![1], value(4, 30)));
            twin.step("put", put, || {
                let mut batch = kv.batch();
                batch.put(&[1], &value(4, 30)).expect("room");
                settle(&kv, batch);
            });
        },
        |media, seen| observe(&media, seen),
    )
}
