//! Cases of what spans several kinds of objects: merging stores.

use crate::Case;
use crate::object::{Explored, Node, append, values};
use everbyte::{Engines, Merge, MergeOptions};
use everbyte_kv::Kv;
use everbyte_media::{Media, Options};
use everbyte_object::{PRefCell, Pool, PoolOptions};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen};
use everbyte_store::{CLUSTER, Error, FindingKind, FormatOptions, ObjectOptions, Store};

pub(crate) const CASES: &[Case] = &[Case {
    name: "everbyte-merge",
    crate_name: "everbyte",
    about: "a pool and a table are merged into a store: each is whole or absent, and the same merge, resumed, does the rest",
    total: 300, // an image costs milliseconds: it is read, and merged again
    program: merge,
}];

const VALUES: [u64; 3] = [5, 6, 7];
const PAIRS: u8 = 40;

/// The store that is merged: a list in a pool, and a table.
fn source() -> Store {
    let media = Media::anonymous(6 << 20, &Options::default()).expect("memory");
    let options = FormatOptions { log_len: 0, identity: Some([9; 16]) };
    let store = Store::format(media, &options).expect("a small store");
    let options = PoolOptions { span: Some((2 << 20).into()), lanes: Some(2) };
    let list = Explored::create_with::<Node<Explored>>(&store, "graph", &options, |j| {
        let head = Node { val: 0, next: PRefCell::new(None) };
        VALUES.into_iter().for_each(|val| append(&head, val, j));
        head
    });
    drop(list.expect("room for a pool"));
    let kv = Kv::create(&store, "pairs").expect("room for a tree");
    let mut batch = kv.batch();
    for key in 0..PAIRS {
        batch.put(&[key], &[key; 90]).expect("room in the tree");
    }
    let commit = batch.commit().expect("room in the tree");
    kv.settle(commit).expect("memory does not fail");
    store
}

/// A store with an object, so that nothing that is merged lies where it lay.
fn target() -> Image {
    Image::zeroed(CLUSTER).with_max(8 << 20).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let wish = ObjectOptions { span: Some(2 << 20), ..ObjectOptions::default() };
        store.create_object("first", wish, |_| Ok::<(), Error>(())).expect("room for an object");
        store.close().expect("sim barriers do not fail");
    })
}

fn planned<'t>(target: &'t Store, source: &Store) -> Merge<'t> {
    let options = MergeOptions { prefix: "west/".into(), resume: true, ..MergeOptions::default() };
    Merge::plan(target, std::slice::from_ref(source), &options).expect("names that are free, or copies")
}

/// The names that were merged, each of which holds what it should.
fn merged(store: &Store) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut findings = Engines::standard().check(store, |_| ());
    for info in store.objects().map_err(|error| error.to_string())? {
        let is_whole = match info.name.as_str() {
            "west/graph" => {
                let list = Explored::open::<Node<Explored>>(store, &info.name).map_err(|error| error.to_string())?;
                findings.extend(list.check().map_err(|error| error.to_string())?);
                let found = values(&list);
                // it is usable
                list.tx(|j, head| append(head, 8, j)).map_err(|error| error.to_string())?;
                found.starts_with(&VALUES)
            }
            "west/pairs" => {
                let kv = Kv::open(store, &info.name).map_err(|error| error.to_string())?;
                let mut keys = 0..PAIRS;
                let same = kv.range::<[u8]>(..).all(|pair| {
                    pair.is_ok_and(|(key, value)| keys.next().is_some_and(|at| key == [at] && value == [at; 90]))
                });
                same && keys.is_empty()
            }
            _ => continue,
        };
        if !is_whole {
            return Err(format!("`{}` is there and not whole", info.name));
        }
        names.push(info.name);
    }
    findings.retain(|finding| finding.kind != FindingKind::Note);
    if findings.is_empty() { Ok(names) } else { Err(format!("check: {findings:?}")) }
}

fn merge(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.recovery(48, 6).explore_twin(
        &target(),
        &Vec::<String>::new(),
        Order::InOrder,
        |media, twin| {
            let (store, source) = (Store::attach(media).expect("a whole store"), source());
            let merge = planned(&store, &source);
            for step in merge.steps() {
                let name = step.target.clone();
                if twin.model().contains(&name) {
                    continue; // the run before has copied it
                }
                let add = move |names: &mut Vec<String>| names.push(name.clone());
                twin.step(&step.target, add, || merge.copy(step, &mut |_| ()).expect("room for both"));
            }
        },
        |media, seen: &Seen| {
            let store = Store::attach(media).map_err(|error| error.to_string())?;
            seen.recovered();
            let names = merged(&store)?;
            planned(&store, &source()).run().map_err(|error| error.to_string())?;
            match merged(&store)?.len() {
                2 => Ok(names),
                _ => Err(format!("resumed after {names:?}, the merge is not whole")),
            }
        },
    )
}
