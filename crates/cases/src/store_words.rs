//! Cases of the store's metadata: after each crash every cluster of every object holds the word
//! that the program stored there, or zeros.

use crate::Case;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Oracle, Order, Report, Seen, Twin};
use everbyte_space::{Space, SpaceLayout};
use everbyte_store::{
    CLUSTER, Engine, Error, FindingKind, FormatOptions, Object, ObjectOptions, Store, layout::Superblock,
};
use std::collections::BTreeMap;

/// About how many images a case of this file tries.
const TOTAL: u64 = 16_000;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "store-create",
        crate_name: "store",
        about: "objects are created, one creation fails on purpose: each is whole or absent, the failed one leaves nothing",
        total: TOTAL,
        program: create,
    },
    Case {
        name: "store-remove",
        crate_name: "store",
        about: "an object is removed and another takes its span: each is whole or absent, and no old byte shows",
        total: TOTAL,
        program: remove,
    },
    Case {
        name: "store-extend",
        crate_name: "store",
        about: "an object grows twice and is written to: each growth whole or absent, its clusters zeroed",
        total: TOTAL,
        program: grow,
    },
    Case {
        name: "store-release",
        crate_name: "store",
        about: "a cluster is released, backed again and written to: the old word, zeros, or the new word",
        total: TOTAL,
        program: release,
    },
    Case {
        name: "store-trim",
        crate_name: "store",
        about: "a released cluster is punched out of the medium: only after the release is settled",
        total: TOTAL,
        program: trim,
    },
    Case {
        name: "store-close",
        crate_name: "store",
        about: "a store is closed and opened again: no object changes",
        total: TOTAL,
        program: close,
    },
    Case {
        name: "store-close-flushed",
        crate_name: "store",
        about: "a word is flushed and its store closed: a store that counts as closed has the word",
        total: 400,
        program: close_flushed,
    },
    Case {
        name: "store-hole-dead",
        crate_name: "store",
        about: "the death of a process that backs a cluster again: what a later one writes there lasts",
        total: 40,
        program: |explorer| back(crate::deaths::starts(explorer, u64::MAX, 100)),
    },
    Case {
        name: "store-create-next",
        crate_name: "store",
        about: "objects of one cluster are created side by side: nothing of them shows in a larger one that takes their place",
        total: 600,
        program: create_next,
    },
    Case {
        name: "store-small",
        crate_name: "store",
        about: "an object of one page is made where another was, and grows: it is whole or absent, and zeros behind its page",
        total: 1500,
        program: small,
    },
    Case {
        name: "store-outside",
        crate_name: "store",
        about: "a store is opened whose file got bytes from outside: no new object shows them",
        total: 600,
        program: outside,
    },
    Case {
        name: "store-repair",
        crate_name: "store",
        about: "clusters without an owner are given back: all or some of them, and the clusters of objects stay",
        total: TOTAL,
        program: repair,
    },
];

const MAX: u64 = 1 << 20;
/// The offset of the word in each cluster: behind the header of a prime page.
const WORD: u64 = 4096;

/// The state of an object: its root, and the word of each cluster (`None`: released).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct ObjectState {
    root: u64,
    clusters: Vec<Option<u64>>,
}

type Model = BTreeMap<String, ObjectState>;

fn fresh() -> Image {
    fresh_with(MAX)
}

fn fresh_with(max: u64) -> Image {
    let options = FormatOptions { log_len: 0, identity: Some([1; 16]) };
    Image::zeroed(2 * CLUSTER).with_max(max).then(|media| {
        let store = Store::format(media, &options).expect("a small store");
        store.close().expect("sim barriers do not fail");
    })
}

fn options(clusters: u64) -> ObjectOptions {
    ObjectOptions { engine: Engine::Heap, fingerprint: 5, span: Some(clusters * CLUSTER) }
}

fn put(media: &Media, at: u64, value: u64) {
    let _section = media.section();
    media.store(at, value);
    media.flush(at, 8);
}

fn settle(store: &Store) {
    store.media().barrier().expect("sim barriers do not fail");
}

/// Makes an object of two clusters whose words are 1 and 2 and whose root is 3.
fn make(store: &Store, name: &str, span: u64) -> Result<Object, Error> {
    store.create_object(name, options(span), |object| {
        let grown = object.grow(CLUSTER)?;
        put(object.media(), (object.prime() + WORD).get(), 1);
        put(object.media(), grown.start + WORD, 2);
        object.set_root(3);
        Ok(())
    })
}

fn made() -> ObjectState {
    ObjectState { root: 3, clusters: vec![Some(1), Some(2)] }
}

/// Recovers and reads out; no cluster has leaked, and another object can be made, of zeros.
fn observe(media: Media, seen: &Seen) -> Result<Model, String> {
    let store = Store::attach(media).map_err(|error| error.to_string())?;
    seen.recovered();
    let findings = store.check();
    if !findings.is_empty() {
        return Err(format!("{findings:?} after {:?}", store.recovery()));
    }
    let mut model = Model::new();
    for info in store.objects().map_err(|error| error.to_string())? {
        let object = store.object(&info.name).map_err(|error| error.to_string())?;
        let clusters = (object.prime().get()..object.backed().get()).step_by(CLUSTER as usize);
        let word = |at: u64| object.is_backed(at).then(|| object.media().load(at + WORD));
        model.insert(info.name, ObjectState { root: object.root(), clusters: clusters.map(word).collect() });
    }
    let more = make(&store, "after", 2).map_err(|error| error.to_string())?;
    for at in ((more.prime() + 8192).get()..more.backed().get()).step_by(512) {
        if store.media().load(at) != 0 && at % CLUSTER != WORD {
            return Err(format!("a new object has old bytes at {at:#x}"));
        }
    }
    drop(more);
    store.remove_object("after").map_err(|error| error.to_string())?;
    Ok(model)
}

/// Explores a program on a store with the objects of `model`.
fn explore(
    explorer: Explorer,
    (image, model): (Image, Model),
    program: impl Fn(&Store, &Twin<'_, Model>),
) -> Result<Report, Box<Failure>> {
    let attached = |media: Media, twin: &Twin<'_, Model>| program(&Store::attach(media).expect("a whole store"), twin);
    explorer.explore_twin(&image, &model, Order::InOrder, attached, observe)
}

/// A store with one object `old`, and its model.
fn with_object() -> (Image, Model) {
    let image = fresh().then(|media| {
        let store = Store::attach(media).expect("a whole store");
        make(&store, "old", 4).expect("room for an object");
        store.close().expect("sim barriers do not fail");
    });
    (image, Model::from([("old".into(), made())]))
}

fn create(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, (fresh(), Model::new()), |store, twin| {
        let failed = store.create_object("failed", options(4), |object| {
            object.grow(2 * CLUSTER)?;
            Err::<(), _>(Error::NotFound { name: "on purpose".into() })
        });
        assert!(failed.is_err());
        for name in ["a", "b/c"] {
            if !twin.model().contains_key(name) {
                let change = move |model: &mut Model| drop(model.insert(name.into(), made()));
                twin.step(format!("create {name}"), change, || drop(make(store, name, 2).expect("room")));
            }
        }
    })
}

/// Fills the store with the largest objects that find room, each of them zeros behind its header.
fn fill(store: &Store) -> Result<(), String> {
    let text = |error: Error| error.to_string();
    for number in 0.. {
        let options = ObjectOptions { span: None, ..options(1) };
        let object = match store.create_object(&format!("fill/{number}"), options, |_| Ok::<(), Error>(())) {
            Err(Error::NoSpan { .. } | Error::Full { .. }) => break,
            made => made.map_err(text)?,
        };
        let rest = object.span().end - object.backed().get();
        if rest > 0 {
            object.grow(rest).map_err(text)?;
        }
        let bytes = store.media().read_vec((object.prime() + WORD).get(), (rest + CLUSTER - WORD) as usize);
        if bytes.iter().any(|&byte| byte != 0) {
            return Err(format!("`fill/{number}` of {rest:#x} bytes has old bytes"));
        }
    }
    Ok(())
}

/// Names of small objects, whose spans lie side by side.
const SIDE_BY_SIDE: [&str; 4] = ["a", "b", "c", "d"];

fn create_next(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.once().recovery(1 << 40, 1).further_deaths(0).explore_twin(
        &fresh_with(MAX / 2), // all of it is read
        &0_usize,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            for name in &SIDE_BY_SIDE[twin.model()..] {
                let make = || store.create_object(name, options(1), |_| Ok::<(), Error>(())).map(drop);
                twin.step(format!("create {name}"), |made| *made += 1, || make().expect("room for an object"));
            }
        },
        |media, seen| {
            let store = Store::attach(media).map_err(|error| error.to_string())?;
            seen.recovered();
            let made = SIDE_BY_SIDE.iter().take_while(|name| store.remove_object(name).is_ok()).count();
            fill(&store)?;
            Ok(made)
        },
    )
}

/// Bytes of a prime page that are the store's.
const HEADER_LEN: u64 = 512;

/// How far the small object has come, by number.
fn small(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = fresh().then(|media| {
        let store = Store::attach(media.clone()).expect("a whole store");
        let old = make(&store, "old", 4).expect("room for an object");
        let (at, len) = (old.prime().get() + HEADER_LEN, 2 * CLUSTER - HEADER_LEN);
        media.write(at, &vec![0xaa; len as usize]);
        media.flush(at, len);
        drop(old);
        store.remove_object("old").expect("it is not open");
        store.close().expect("sim barriers do not fail");
    });
    let program = |media: Media, twin: &Twin<'_, u64>| {
        let store = Store::attach(media).expect("a whole store");
        if twin.model() == 0 {
            let make = || store.create_small_object("small", options(4), |_| Ok::<(), Error>(()));
            twin.step("create", |stage| *stage = 1, || drop(make().expect("room for an object")));
        }
        let object = store.object("small").expect("it is there");
        if twin.model() == 1 {
            twin.step(
                "grow",
                |stage| *stage = 2,
                || {
                    object.grow(CLUSTER).expect("room in the span");
                    settle(&store);
                },
            );
        }
        twin.step(
            "store",
            |stage| *stage = 3,
            || {
                put(store.media(), (object.prime() + 2 * WORD).get(), 7);
                settle(&store);
            },
        );
    };
    explorer.explore_twin(&image, &0, Order::InOrder, program, |media, seen| {
        let store = Store::attach(media).map_err(|error| error.to_string())?;
        seen.recovered();
        if let Some(finding) = store.check().first() {
            return Err(finding.to_string());
        }
        let Ok(object) = store.object("small") else { return Ok(0) };
        let page = store.media().read_vec(object.prime().get() + HEADER_LEN, (WORD - HEADER_LEN) as usize);
        if page.iter().any(|&byte| byte != 0) {
            return Err("the first page has old bytes".into());
        }
        if (object.backed() - object.prime()).get() == CLUSTER {
            return Ok(1);
        }
        let bytes = store.media().read_vec((object.prime() + WORD).get(), (2 * CLUSTER - WORD) as usize);
        match bytes.iter().enumerate().find(|(_, byte)| **byte != 0) {
            None => Ok(2),
            Some((at, 7)) if at as u64 == WORD => Ok(3),
            Some((at, byte)) => Err(format!("{byte:#x} lies {at:#x} bytes behind the first page")),
        }
    })
}

fn outside(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = fresh_with(MAX / 2).then(|media| {
        let end = media.len();
        media.extend(end, 2 * CLUSTER).expect("room in the file");
        media.write(end, &[0xaa; 2 * CLUSTER as usize]);
        media.flush(end, 2 * CLUSTER);
        media.barrier().expect("sim barriers do not fail");
    });
    explorer.recovery(1 << 40, 1).further_deaths(0).explore(
        &image,
        |media, oracle| {
            let store = oracle.step("open", || Store::attach(media).expect("a whole store"));
            oracle.step("make", || drop(make(&store, "x", 2).expect("room for an object")));
        },
        |media, seen| {
            let store = Store::attach(media).map_err(|error| error.to_string())?;
            seen.recovered();
            if store.remove_object("x").is_err() && seen.acked_count() == 2 {
                return Err("the object is lost".into());
            }
            fill(&store)
        },
    )
}

fn remove(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, with_object(), |store, twin| {
        for name in ["old", "new"] {
            if twin.model().contains_key(name) {
                let change = |model: &mut Model| drop(model.remove(name));
                twin.step(format!("remove {name}"), change, || store.remove_object(name).expect("it is not open"));
            }
        }
        let change = |model: &mut Model| drop(model.insert("new".into(), made()));
        twin.step("create in its place", change, || drop(make(store, "new", 4).expect("room")));
    })
}

/// A step's change of the model: the word of a cluster of `old`.
fn word(cluster: usize, value: Option<u64>) -> impl Fn(&mut Model) + Send {
    move |model| model.get_mut("old").expect("it stays").clusters[cluster] = value
}

fn grow(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, with_object(), |store, twin| {
        let object = store.object("old").expect("it stays");
        for clusters in twin.model()["old"].clusters.len() + 1..=4 {
            let change = |model: &mut Model| model.get_mut("old").expect("it stays").clusters.push(Some(0));
            twin.step(format!("grow to {clusters}"), change, || {
                object.grow(CLUSTER).expect("room in the span");
                settle(store);
            });
        }
        twin.step("write into the last", word(3, Some(9)), || {
            put(store.media(), (object.prime() + 3 * CLUSTER + WORD).get(), 9);
            settle(store);
        });
    })
}

/// The second cluster of an object.
fn second(object: &Object) -> std::ops::Range<u64> {
    (object.prime() + CLUSTER).get()..(object.prime() + 2 * CLUSTER).get()
}

/// Releases the second cluster of `old`, if it is backed.
fn release_second(store: &Store, object: &Object, twin: &Twin<'_, Model>) {
    if twin.model()["old"].clusters[1].is_some() {
        twin.step("release", word(1, None), || {
            object.release(second(object)).expect("it is backed");
            settle(store);
        });
    }
}

fn release(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, with_object(), |store, twin| {
        let object = store.object("old").expect("it stays");
        release_second(store, &object, twin);
        twin.step("back", word(1, Some(0)), || {
            object.back(second(&object)).expect("room on the media");
            settle(store);
        });
        twin.step("write", word(1, Some(8)), || {
            put(store.media(), second(&object).start + WORD, 8);
            settle(store);
        });
    })
}

/// A hole that is punched too early shows zeros where a crash brings the cluster back.
fn trim(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, with_object(), |store, twin| {
        release_second(store, &store.object("old").expect("it stays"), twin);
        store.trim().expect("sim punches holes");
    })
}

fn close(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, with_object(), |store, _| {
        let opened = store.generation();
        store.close().expect("sim barriers do not fail");
        let again = Store::attach(store.media().clone()).expect("a whole store");
        assert!(again.recovery().clean && again.generation() == opened + 1);
    })
}

fn close_flushed(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let word_at = |store: &Store| store.object("old").map(|object| object.prime().get() + WORD);
    let image = with_object().0;
    let opened = Store::attach(image.media()).expect("a whole store").generation();
    let program = |media: Media, _: &Oracle| {
        let store = Store::attach(media).expect("a whole store");
        put(store.media(), word_at(&store).expect("it stays"), 7);
        store.close().expect("sim barriers do not fail");
    };
    explorer.explore(&image, program, |media, seen| {
        let store = Store::attach(media).map_err(|error| error.to_string())?;
        seen.recovered();
        let word = store.media().load(word_at(&store).map_err(|error| error.to_string())?);
        let was_closed = store.recovery().clean && store.generation() > opened;
        if was_closed && word != 7 { Err(format!("the store was closed, and the word is {word}")) } else { Ok(()) }
    })
}

/// A process that finds the cluster backed writes to it at once.
fn back(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, mut model) = with_object();
    let image = image.then(|media| {
        let store = Store::attach(media).expect("a whole store");
        let object = store.object("old").expect("it stays");
        object.release(second(&object)).expect("it is backed");
        drop(object);
        store.close().expect("sim barriers do not fail");
    });
    word(1, None)(&mut model);
    explore(explorer, (image, model), |store, twin| {
        let object = store.object("old").expect("it stays");
        let found = twin.model()["old"].clusters[1];
        if found.is_none() {
            twin.step("back", word(1, Some(0)), || object.back(second(&object)).expect("room on the media"));
        }
        let value = if found == Some(8) { 9 } else { 8 };
        twin.step("write", word(1, Some(value)), || {
            put(store.media(), second(&object).start + WORD, value);
            settle(store);
        });
    })
}

/// Clusters that the bitmap calls used and that belong to no object.
fn lost() -> std::ops::Range<u64> {
    12 * CLUSTER..14 * CLUSTER
}

fn with_lost_clusters() -> Image {
    with_object().0.then(|media| {
        let store = Store::attach(media.clone()).expect("a whole store");
        let Superblock { bitmap_at, used_at, bitmap_len, .. } = media.get(0);
        let layout = SpaceLayout { bitmap_at: bitmap_at.get(), used_at: used_at.get(), bitmap_len: bitmap_len.get() };
        let space = Space::new(media, layout);
        let cleared = space.reserve(&lost()).expect("they are free");
        space.prepare(&lost(), &cleared);
        space.set_backed(&lost());
        assert_eq!(store.check().len(), 1);
        store.close().expect("sim barriers do not fail");
    })
}

fn repair(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let program = |media: Media, oracle: &Oracle| {
        let store = Store::attach(media).expect("a whole store");
        oracle.step("repair", || store.repair().map(drop).expect("it can be repaired"));
    };
    explorer.explore(&with_lost_clusters(), program, |media, seen| {
        let store = Store::attach(media).map_err(|error| error.to_string())?;
        seen.recovered();
        let found = store.check();
        if found.iter().any(|finding| finding.kind != FindingKind::Leak || !lost().contains(&finding.at)) {
            return Err(format!("{found:?}"));
        }
        if seen.acked_count() == 1 && !found.is_empty() {
            return Err(format!("repaired, and still there: {found:?}"));
        }
        let object = store.object("old").map_err(|error| error.to_string())?;
        let mut clusters = (object.prime().get()..object.backed().get()).step_by(CLUSTER as usize);
        let whole = clusters.all(|at| object.is_backed(at));
        store.repair().map_err(|error| error.to_string())?;
        if whole && store.check().is_empty() { Ok(()) } else { Err(format!("{:?}", store.check())) }
    })
}
