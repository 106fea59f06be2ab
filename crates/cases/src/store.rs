//! Cases of the store: objects made, grown, released, backed again and removed.

use crate::{Case, TOTAL};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, Engine, Error, Finding, FindingKind, FormatOptions, ObjectOptions, Store};
use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "store-objects",
        crate_name: "store",
        about: "objects made and removed: each name whole or absent, the acknowledged ones there, no cluster lost",
        total: TOTAL,
        program: objects,
    },
    Case {
        name: "store-growth",
        crate_name: "store",
        about: "an object grows, releases clusters and backs them again: growths whole or absent, handed-out space zeroed",
        total: TOTAL,
        program: growth,
    },
    Case {
        name: "store-format",
        crate_name: "store",
        about: "formatting empty media: a store, or recognisably none",
        total: TOTAL,
        program: format,
    },
    Case {
        name: "store-raise",
        crate_name: "store",
        about: "the declared maximum is raised twice: the old one or the new one, and the store opens in between",
        total: TOTAL,
        program: raise,
    },
    Case {
        name: "store-rebase",
        crate_name: "store",
        about: "the store gets a new identity twice: the old one or the new one, and all it held",
        total: TOTAL,
        program: rebase,
    },
    Case {
        name: "store-quotas",
        crate_name: "store",
        about: "quotas of an object and of a user are set, changed and lifted: of each the old one or the new one",
        total: TOTAL,
        program: quotas,
    },
    Case {
        name: "store-clone",
        crate_name: "store",
        about: "a copy of a store that was killed is recovered, gets its identity, and then its name: whole, or without one",
        total: TOTAL,
        program: clone,
    },
];

const MAX: u64 = 2 << 20;
/// Of each object.
const SPAN: u64 = 64 << 10;

fn options() -> FormatOptions {
    FormatOptions { log_len: 0, identity: Some([7; 16]) }
}

pub(crate) fn image() -> Image {
    let empty = Image::zeroed(CLUSTER).with_max(MAX);
    empty.then(|media| drop(Store::format(media, &options()).expect("a small store")))
}

/// Recovers and checks everything the store can check about itself.
fn attach(media: &Media, seen: &Seen) -> Result<Store, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    seen.recovered();
    // A note of an unfinished change means that opening has missed the record.
    let is_left = |finding: &Finding| finding.detail.contains("opening the store finishes that");
    let counts = |finding: &Finding| finding.kind != FindingKind::Note || is_left(finding);
    let findings: Vec<_> = store.check().into_iter().filter(counts).collect();
    if findings.is_empty() { Ok(store) } else { Err(format!("check: {findings:?}")) }
}

/// The model: names, and the word their `init` wrote.
pub(crate) type Names = BTreeMap<String, u64>;

/// Offset of that word in an object.
pub(crate) const WORD_AT: u64 = 1024;

/// Offsets of words that lead to the clusters that an object was given: new ones, and ones that
/// were backed again.
const GROWN_AT: u64 = 1032;
const BACKED_AT: u64 = 1040;

/// Makes an object whose `init` writes `word`.
pub(crate) fn make(store: &Store, name: &str, word: u64) {
    let options = ObjectOptions { engine: Engine::None, fingerprint: word, span: Some(SPAN) };
    let made = store.create_object(name, options, |object| {
        let at = object.prime() + WORD_AT;
        object.media().store(at, word);
        object.media().flush(at, 8);
        object.set_root(at.get());
        Ok::<(), Error>(())
    });
    made.map(drop).expect("room for an object");
}

/// Recovers, checks, and reads out what [`make`] has made.
pub(crate) fn observe(media: Media, seen: &Seen) -> Result<Names, String> {
    let store = attach(&media, seen)?;
    let mut names = Names::new();
    for info in store.objects().map_err(|error| error.to_string())? {
        let object = store.object(&info.name).map_err(|error| error.to_string())?;
        names.insert(info.name, media.load(object.root()));
    }
    Ok(names)
}

fn objects(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(),
        &Names::new(),
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            let added = |name: &'static str, word: u64| {
                move |names: &mut Names| {
                    names.insert(name.into(), word);
                }
            };
            for (name, word) in [("a", 1), ("b", 2)] {
                if !twin.model().contains_key(name) {
                    twin.step(format!("make {name}"), added(name, word), || make(&store, name, word));
                }
            }
            let removed = |names: &mut Names| {
                names.remove("a");
            };
            twin.step("remove a", removed, || store.remove_object("a").expect("it is not open"));
            twin.step("make a again", added("a", 3), || make(&store, "a", 3));
        },
        observe,
    )
}

fn growth(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let span = ObjectOptions { span: Some(512 << 10), ..ObjectOptions::default() };
    let image = image().then(|media| {
        let store = Store::attach(media).expect("a whole store");
        store.create_object("grows", span, |_| Ok::<(), Error>(())).expect("room for an object");
        store.close().expect("sim barriers do not fail");
    });
    // The model: clusters backed from the start of the span, of which some are holes.
    explorer.explore(
        &image,
        |media, oracle| {
            let store = Store::attach(media.clone()).expect("a whole store");
            let object = store.object("grows").expect("it is there");
            // A word of the object leads to what it was given last, as an engine's would.
            let link = |word: u64, range: &Range<u64>| {
                media.store(object.prime() + word, range.start);
                media.flush(object.prime() + word, 8);
            };
            let grow = |name: &str| {
                oracle.step(name, || {
                    let range = object.grow(1).expect("room in the span");
                    media.store(range.start, 99);
                    media.flush(range.start, 8);
                    link(GROWN_AT, &range);
                    media.barrier().expect("sim barriers do not fail");
                    range
                })
            };
            grow("grow to 2");
            let second = grow("grow to 3");
            oracle.step("release the second", || {
                object.release(second.clone()).expect("it was backed");
                media.barrier().expect("sim barriers do not fail");
            });
            oracle.step("back it again", || {
                object.back(second.clone()).expect("room on the media");
                link(BACKED_AT, &second);
                media.barrier().expect("sim barriers do not fail");
            });
        },
        |media, seen| {
            let store = attach(&media, seen)?;
            let object = store.object("grows").map_err(|error| error.to_string())?;
            let (grown, again) = (media.load(object.prime() + GROWN_AT), media.load(object.prime() + BACKED_AT));
            if grown >= object.backed().get() || again != 0 && object.holes().iter().any(|hole| hole.contains(&again)) {
                return Err(format!("words lead to {grown:#x} and {again:#x}, which are not backed"));
            }
            let clusters = ((object.backed().get() - object.span().start) / CLUSTER) as usize;
            let holes = object.holes().len();
            let (acked, begun) = (seen.acked_count(), seen.begun_count());
            let grown = 1 + acked.min(2)..=1 + begun.min(2);
            let holes_fit = match (acked, begun) {
                (_, ..=2) => holes == 0,
                (..=2, 3) => holes <= 1,
                (3, 3) => holes == 1,
                (4, _) => holes == 0,
                _ => holes <= 1,
            };
            if !grown.contains(&clusters) || !holes_fit {
                return Err(format!("{clusters} clusters with {holes} holes, {seen:?}"));
            }
            let second = object.span().start + 2 * CLUSTER;
            if acked == 2 && holes == 0 && media.load(second) != 99 {
                return Err(format!("the cluster at {second:#x} lost its content before its release was settled"));
            }
            if acked >= 3 && holes == 0 && media.load(second) != 0 {
                return Err(format!("the cluster at {second:#x}, backed again, holds what it held before (STORE-6)"));
            }
            // New clusters read as zeros.
            let range = object.grow(1).map_err(|error| error.to_string())?;
            let dirty = media.read_vec(range.start, CLUSTER as usize).iter().any(|&byte| byte != 0);
            if dirty { Err(format!("the cluster at {:#x} is not zeroed", range.start)) } else { Ok(()) }
        },
    )
}

fn format(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore(
        &Image::zeroed(CLUSTER).with_max(MAX),
        |media, oracle| {
            oracle.step("format", || Store::format(media, &options()).map(drop).expect("a small store"));
        },
        |media, seen| match Store::attach(media.clone()) {
            Ok(store) => {
                seen.recovered();
                let findings = store.check();
                if findings.is_empty() { Ok(()) } else { Err(format!("check: {findings:?}")) }
            }
            Err(Error::NotAStore { .. } | Error::Unfinished { .. }) if seen.acked_count() == 0 => Ok(()),
            Err(error) => Err(error.to_string()),
        },
    )
}

fn raise(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore(
        &image().with_max(3 * MAX),
        |media, oracle| {
            let store = Store::attach(media).expect("a whole store");
            for times in [2, 3] {
                oracle.step(format!("raise to {}", times * MAX), || store.grow(times * MAX).expect("the media can"));
            }
        },
        |media, seen| {
            let max = attach(&media, seen)?.info().max / MAX;
            let fits = (seen.acked_count() as u64 + 1..=seen.begun_count() as u64 + 1).contains(&max);
            if fits { Ok(()) } else { Err(format!("the maximum is {max} times the first, {seen:?}")) }
        },
    )
}

/// A store with an object whose root is 5; it was not closed.
fn kept() -> Image {
    image().then(|media| {
        let store = Store::attach(media.clone()).expect("a whole store");
        let made = store.create_object("kept", ObjectOptions::default(), |object| object.grow(3 * CLUSTER).map(drop));
        made.expect("room for an object").set_root(5);
        media.barrier().expect("sim barriers do not fail");
    })
}

/// The number of which its identity is made, if it holds what [`kept`] did.
fn identity_of_kept(media: &Media, seen: &Seen) -> Result<u8, String> {
    let store = attach(media, seen)?;
    let kept = store.object("kept").map_err(|error| error.to_string())?.root();
    let [first, rest @ ..] = store.identity();
    let whole = kept == 5 && rest.iter().all(|&byte| byte == first);
    if whole { Ok(first) } else { Err(format!("root {kept}, identity {:?}", store.identity())) }
}

fn rebase(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &kept(),
        &7,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            for number in [8, 9] {
                twin.step(
                    format!("rebase to {number}"),
                    move |identity| *identity = number,
                    || store.rebase([number; 16]).expect("room on the media"),
                );
            }
        },
        |media, seen| identity_of_kept(&media, seen),
    )
}

/// Of the object, and of its user.
type Quotas = (Option<u64>, Option<u64>);

fn quotas(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &kept(),
        &(None, None),
        Order::InOrder,
        |media, twin: &Twin<'_, Quotas>| {
            let store = Store::attach(media).expect("a whole store");
            for quota in [Some(5), Some(9), None] {
                let set = move |quotas: &mut Quotas| quotas.0 = quota;
                twin.step(format!("object: {quota:?}"), set, || store.set_quota("kept", quota).expect("it is there"));
                let set = move |quotas: &mut Quotas| quotas.1 = quota;
                twin.step(format!("user: {quota:?}"), set, || store.set_user_quota(quota).expect("a whole store"));
            }
        },
        |media, seen| {
            identity_of_kept(&media, seen)?;
            let store = Store::attach(media).map_err(|error| error.to_string())?;
            let object = store.stat("kept").map_err(|error| error.to_string())?;
            Ok((object.quota, store.user_quota()))
        },
    )
}

/// The name is given by an operation of its own, so a crash before it leaves a file without a name.
fn clone(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore(
        &kept(),
        |media, oracle| {
            let name = || {
                let op = oracle.begin("name");
                oracle.acked(op);
                Ok(())
            };
            Store::finish_clone(media, [8; 16], name).expect("room on the media");
        },
        |media, seen| match identity_of_kept(&media, seen) {
            Ok(7) if seen.acked_count() == 0 => Ok(()),
            Ok(8) => Ok(()),
            Ok(other) => Err(format!("the identity is made of {other}, {seen:?}")),
            Err(error) => Err(error),
        },
    )
}
