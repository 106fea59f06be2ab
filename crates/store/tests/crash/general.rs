//! Power cuts in the middle of every change of a store's metadata, and in the middle of recovering
//! from them.

use everbyte_media::Media;
use everbyte_sim::{Explorer, Image, Order, Seen, Twin};
use everbyte_store::{CLUSTER, Engine, Error, FormatOptions, Object, ObjectOptions, Store};
use std::collections::BTreeMap;

const MAX: u64 = 1 << 20;
/// The offset of a test's word in each cluster: behind the header of a prime page.
const WORD: u64 = 4096;

/// The visible state of an object: its root, and a word of each cluster (`None`: released).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Seeing {
    root: u64,
    clusters: Vec<Option<u64>>,
}

type Model = BTreeMap<String, Seeing>;

fn fresh() -> Image {
    let options = FormatOptions { log_len: 0, identity: Some([1; 16]) };
    Image::zeroed(128 << 10).with_max(MAX).then(|media| Store::format(media, &options).unwrap().close().unwrap())
}

fn options(clusters: u64) -> ObjectOptions {
    ObjectOptions { engine: Engine::Heap, fingerprint: 5, span: Some(clusters * CLUSTER) }
}

fn put(media: &Media, at: u64, value: u64) {
    let _section = media.section();
    media.store(at, value);
    media.flush(at, 8);
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

fn made() -> Seeing {
    Seeing { root: 3, clusters: vec![Some(1), Some(2)] }
}

/// Recovers and reads out; whatever a crash left, nothing may leak and the store must go on
/// working.
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
        model.insert(info.name, Seeing { root: object.root(), clusters: clusters.map(word).collect() });
    }
    let more = make(&store, "after", 2).map_err(|error| error.to_string())?;
    for at in ((more.prime() + 8192).get()..more.backed().get()).step_by(512) {
        if store.media().load(at) != 0 && at % CLUSTER != WORD {
            return Err(format!("a new object has old bytes at {at:#x}"));
        }
    }
    Ok(model)
}

/// Explores a program on a fresh store.
fn explore(name: &str, program: impl Fn(&Store, &Twin<'_, Model>)) {
    explore_on(name, &fresh(), &Model::new(), program);
}

fn explore_on(name: &str, image: &Image, initial: &Model, program: impl Fn(&Store, &Twin<'_, Model>)) {
    let attached = |media: Media, twin: &Twin<'_, Model>| program(&Store::attach(media).unwrap(), twin);
    explorer(name).twin(image, initial, Order::InOrder, attached, observe);
}

fn explorer(name: &str) -> Explorer {
    Explorer::new(name).total(8_000)
}

/// A store with one object `old`, and its model.
fn with_object() -> (Image, Model) {
    let image = fresh().then(|media| {
        let store = Store::attach(media).unwrap();
        make(&store, "old", 4).unwrap();
        store.close().unwrap();
    });
    (image, Model::from([("old".into(), made())]))
}

#[test]
fn a_created_object_is_whole_or_absent() {
    explore("store-create", |store, twin| {
        for name in ["a", "b/c"] {
            let change = move |model: &mut Model| drop(model.insert(name.into(), made()));
            twin.step(format!("create {name}"), change, || drop(make(store, name, 2).unwrap()));
        }
    });
}

#[test]
fn a_failed_creation_leaves_nothing() {
    explore("store-create-fails", |store, twin| {
        let failed = store.create_object("a", options(4), |object| {
            object.grow(2 * CLUSTER)?;
            Err::<(), _>(Error::NotFound { name: "on purpose".into() })
        });
        assert!(failed.is_err());
        let change = |model: &mut Model| drop(model.insert("a".into(), made()));
        twin.step("create a", change, || drop(make(store, "a", 2).unwrap()));
    });
}

#[test]
fn a_removed_object_is_whole_or_gone_and_its_span_is_used_again() {
    let (image, model) = with_object();
    explore_on("store-remove", &image, &model, |store, twin| {
        twin.step("remove", |model| drop(model.remove("old")), || store.remove_object("old").unwrap());
        let change = |model: &mut Model| drop(model.insert("new".into(), made()));
        twin.step("create in its place", change, || drop(make(store, "new", 4).unwrap()));
    });
}

#[test]
fn growth_happens_whole_or_not_and_reads_as_zeros() {
    let (image, model) = with_object();
    explore_on("store-grow", &image, &model, |store, twin| {
        let object = store.object("old").unwrap();
        for clusters in [1, 1] {
            let change = move |model: &mut Model| {
                model.get_mut("old").unwrap().clusters.extend(vec![Some(0); clusters as usize]);
            };
            twin.step(format!("grow by {clusters}"), change, || {
                object.grow(clusters * CLUSTER).unwrap();
                store.media().barrier().unwrap();
            });
        }
        let change = |model: &mut Model| model.get_mut("old").unwrap().clusters[3] = Some(9);
        twin.step("write into it", change, || {
            put(store.media(), (object.prime() + 3 * CLUSTER + WORD).get(), 9);
            store.media().barrier().unwrap();
        });
    });
}

#[test]
fn released_clusters_are_backed_again_as_zeros() {
    let (image, model) = with_object();
    explore_on("store-release", &image, &model, |store, twin| {
        let object = store.object("old").unwrap();
        let second = object.prime() + CLUSTER..object.prime() + 2 * CLUSTER;
        let to = |value: Option<u64>| move |model: &mut Model| model.get_mut("old").unwrap().clusters[1] = value;
        twin.step("release", to(None), || {
            object.release(second.clone()).unwrap();
            store.media().barrier().unwrap();
        });
        twin.step("back", to(Some(0)), || {
            object.back(second.clone()).unwrap();
            store.media().barrier().unwrap();
        });
        twin.step("write", to(Some(8)), || {
            put(store.media(), (second.start + WORD).get(), 8);
            store.media().barrier().unwrap();
        });
    });
}

/// A hole that is punched too early shows zeros where a crash brings the cluster back.
#[test]
fn a_trim_only_takes_what_is_settled_as_released() {
    let (image, model) = with_object();
    explore_on("store-trim", &image, &model, |store, twin| {
        let object = store.object("old").unwrap();
        let to = |value: Option<u64>| move |model: &mut Model| model.get_mut("old").unwrap().clusters[1] = value;
        twin.step("release", to(None), || {
            object.release(object.prime() + CLUSTER..object.prime() + 2 * CLUSTER).unwrap();
            store.media().barrier().unwrap();
        });
        assert_eq!(store.trim().unwrap(), CLUSTER);
    });
}

/// A store that is being formatted is not there, or is.
#[test]
fn formatting_is_all_or_nothing() {
    let format = FormatOptions { log_len: 0, identity: Some([1; 16]) };
    let program = |media: Media, oracle: &everbyte_sim::Oracle| {
        oracle.step("format", || drop(Store::format(media, &format).unwrap()));
    };
    explorer("store-format").run(&Image::zeroed(128 << 10).with_max(MAX), program, |media, seen| {
        match Store::attach(media) {
            Ok(store) if store.check().is_empty() => Ok(()),
            Ok(store) => Err(format!("{:?}", store.check())),
            Err(Error::NotAStore { .. } | Error::Unfinished { .. }) if seen.acked_count() == 0 => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    });
}

/// The maximum is the old one or the new one, and the store opens in between.
#[test]
fn a_raised_maximum_is_the_old_or_the_new_one() {
    let image = fresh().with_max(4 * MAX);
    explorer("store-raise").run(&image, raise, check_raised);
}

fn raise(media: Media, oracle: &everbyte_sim::Oracle) {
    let store = Store::attach(media).unwrap();
    for times in [2, 3] {
        oracle.step(format!("raise to {times} MiB"), || store.grow(times * MAX).unwrap());
    }
}

#[allow(clippy::needless_pass_by_value)] // as the explorer calls it
fn check_raised(media: Media, seen: &Seen) -> Result<(), String> {
    let store = Store::attach(media).map_err(|error| error.to_string())?;
    seen.recovered();
    let max = store.info().max / MAX;
    let fits = (seen.acked_count() as u64 + 1..=seen.begun_count() as u64 + 1).contains(&max);
    if fits && store.check().is_empty() { Ok(()) } else { Err(format!("maximum {max} MiB, {:?}", store.check())) }
}

/// Opening and closing change words; a crash in between never loses one.
#[test]
fn opening_and_closing_can_be_cut_anywhere() {
    let (image, model) = with_object();
    explore_on("store-close", &image, &model, |store, _| {
        let opened = store.generation();
        store.close().unwrap();
        let again = Store::attach(store.media().clone()).unwrap();
        assert!(again.recovery().clean && again.generation() == opened + 1);
    });
}

mod museum {
    use super::*;
    use everbyte_media::museum;

    /// The explorer must find the bug; without it the same program passes above.
    fn finds(bug: &'static str, explore: impl Fn() + std::panic::UnwindSafe) {
        let found = museum::with(bug, || std::panic::catch_unwind(explore));
        let text = found.expect_err("the seeded bug was not found");
        let text = text.downcast::<String>().expect("a failure's text");
        assert!(text.contains("EVERBYTE_CRASH_IMAGE"), "{text}");
    }

    #[test]
    fn a_name_published_before_its_object_is_found() {
        finds("store-publish-early", a_created_object_is_whole_or_absent);
    }

    #[test]
    fn a_bit_set_after_its_cluster_was_handed_out_is_found() {
        finds("store-bit-late", growth_happens_whole_or_not_and_reads_as_zeros);
    }

    #[test]
    fn bits_not_ordered_behind_their_reach_are_found() {
        finds("store-reach-unordered", growth_happens_whole_or_not_and_reads_as_zeros);
    }

    #[test]
    fn superblock_copies_in_flight_together_are_found() {
        finds("store-superblocks-together", a_raised_maximum_is_the_old_or_the_new_one);
    }

    #[test]
    fn a_hole_punched_before_its_release_is_settled_is_found() {
        finds("space-punch-early", a_trim_only_takes_what_is_settled_as_released);
    }

    #[test]
    fn zeros_that_were_not_flushed_are_found() {
        finds("space-zero-unflushed", released_clusters_are_backed_again_as_zeros);
    }
}

/// Clusters without an owner are given back, all or some of them whatever crashes; what objects
/// have stays.
#[test]
fn a_repair_may_be_cut_anywhere_and_begun_again() {
    use everbyte_space::{Space, SpaceLayout};
    use everbyte_store::{FindingKind, layout::Superblock};
    let lost = 12 * CLUSTER..14 * CLUSTER;
    let leak = lost.clone();
    let image = with_object().0.then(move |media| {
        let store = Store::attach(media.clone()).unwrap();
        let superblock: Superblock = media.get(0);
        let Superblock { bitmap_at, used_at, bitmap_len, .. } = superblock;
        let space = Space::new(
            media,
            SpaceLayout { bitmap_at: bitmap_at.get(), used_at: used_at.get(), bitmap_len: bitmap_len.get() },
        );
        let cleared = space.reserve(&leak).unwrap();
        space.prepare(&leak, &cleared);
        space.set_backed(&leak);
        assert_eq!(store.check().len(), 1);
        store.close().unwrap();
    });
    let repair = |media: Media, oracle: &everbyte_sim::Oracle| {
        let store = Store::attach(media).unwrap();
        oracle.step("repair", || assert_eq!(store.repair().unwrap().len(), 1));
    };
    explorer("store-repair").run(&image, repair, |media, seen| {
        let store = Store::attach(media).map_err(|error| error.to_string())?;
        seen.recovered();
        let found = store.check();
        if found.iter().any(|finding| finding.kind != FindingKind::Leak || !lost.contains(&finding.at)) {
            return Err(format!("{found:?}"));
        }
        if seen.acked_count() == 1 && !found.is_empty() {
            return Err(format!("repaired, and still there: {found:?}"));
        }
        let object = store.object("old").map_err(|error| error.to_string())?;
        let whole =
            (object.prime().get()..object.backed().get()).step_by(CLUSTER as usize).all(|at| object.is_backed(at));
        store.repair().map_err(|error| error.to_string())?;
        if whole && store.check().is_empty() { Ok(()) } else { Err(format!("{:?}", store.check())) }
    });
}
