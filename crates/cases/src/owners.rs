//! Cases of clusters that go from one object to another, or are prepared for one: an owner reads
//! nothing of the owner before, and loses nothing of its own.

use crate::store::image;
use crate::{Case, TOTAL};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Report, Seen};
use everbyte_store::{CLUSTER, Error, HEADER_LEN, Object, ObjectOptions, Store};
use std::ops::Range;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "store-owners",
        crate_name: "store",
        about: "an object is removed, one releases a cluster, others get their clusters: theirs until then, zeros afterwards",
        total: TOTAL,
        program: |explorer| owners(explorer, false),
    },
    Case {
        name: "store-owners-kept",
        crate_name: "store",
        about: "the same where released clusters are kept, and cleared before an object asks for them",
        total: TOTAL,
        program: |explorer| owners(explorer, true),
    },
    Case {
        name: "store-owners-ahead",
        crate_name: "store",
        about: "an object grows into clusters that are prepared for it, into some before and into some after that",
        total: TOTAL,
        program: grows,
    },
];

/// Offsets of words that an owner fills: one in each page, behind the header of the first.
fn words(clusters: Range<u64>) -> impl Iterator<Item = u64> {
    clusters.step_by(4096).map(|page| page + HEADER_LEN + 8)
}

/// An object of two clusters.
fn make(store: &Store, name: &str) -> Result<Object, Error> {
    let options = ObjectOptions { span: Some(2 * CLUSTER), ..ObjectOptions::default() };
    store.create_object(name, options, |object| object.grow(CLUSTER).map(drop))
}

fn fill(object: &Object, clusters: Range<u64>, value: u64) {
    for at in words(clusters) {
        object.media().store(at, value);
        object.media().flush(at, 8);
    }
    object.media().barrier().expect("sim barriers do not fail");
}

/// An error unless each word is one of these.
fn require(object: &Object, clusters: Range<u64>, allowed: &[u64]) -> Result<(), String> {
    let name = object.name();
    let other = words(clusters).find(|&at| !allowed.contains(&object.media().load(at)));
    other.map_or(Ok(()), |at| Err(format!("`{name}` reads {} at {at:#x}", object.media().load(at))))
}

fn second(object: &Object) -> Range<u64> {
    (object.prime() + CLUSTER).get()..(object.prime() + 2 * CLUSTER).get()
}

fn owners(explorer: Explorer, kept: bool) -> Result<Report, Box<Failure>> {
    let image = image().then(|media| {
        let store = Store::attach(media).expect("a whole store");
        for (name, value) in [("first", 1), ("other", 2)] {
            let object = make(&store, name).expect("room for an object");
            fill(&object, object.span(), value);
        }
        store.close().expect("sim barriers do not fail");
    });
    explorer.explore(
        &image,
        |media, oracle| {
            let store = Store::attach(media.clone()).expect("a whole store");
            if kept {
                store.keep_released();
            }
            let other = store.object("other").expect("it is there");
            oracle.step("remove the first", || store.remove_object("first").expect("it is not open"));
            store.clear_released();
            oracle.step("make a second in its place", || drop(make(&store, "second").expect("room for an object")));
            oracle.step("release a cluster of the other", || {
                other.release(second(&other)).expect("it was backed");
                store.clear_released();
                media.barrier().expect("sim barriers do not fail");
            });
            store.clear_released();
            oracle.step("back it again", || {
                other.back(second(&other)).expect("room on the media");
                media.barrier().expect("sim barriers do not fail");
            });
        },
        |media, seen| check(&media, seen),
    )
}

fn check(media: &Media, seen: &Seen) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let store = Store::attach(media.clone()).map_err(failed)?;
    seen.recovered();
    if let Ok(first) = store.object("first") {
        require(&first, first.span(), &[1])?;
    }
    if let Ok(object) = store.object("second") {
        require(&object, object.span(), &[0])?;
    }
    let other = store.object("other").map_err(failed)?;
    require(&other, other.prime().get()..(other.prime() + CLUSTER).get(), &[2])?;
    if other.is_backed(second(&other).start) {
        let allowed: &[u64] = match (seen.acked_count(), seen.begun_count()) {
            (_, ..=3) => &[2],
            (4, _) => &[0],
            _ => &[0, 2],
        };
        require(&other, second(&other), allowed)?;
    }
    // The next owner of any free cluster reads zeros, across this crash too.
    let next = make(&store, "next").map_err(failed)?;
    require(&next, next.span(), &[0])?;
    other.back(second(&other)).map_err(failed)
}

/// The cluster that the growth of this number, from 1, gives an object.
fn grown(object: &Object, number: u64) -> Range<u64> {
    (object.prime() + number * CLUSTER).get()..(object.prime() + (number + 1) * CLUSTER).get()
}

fn grows(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = image().then(|media| {
        let store = Store::attach(media).expect("a whole store");
        let options = ObjectOptions { span: Some(4 * CLUSTER), ..ObjectOptions::default() };
        store.create_object("grown", options, |_| Ok::<(), Error>(())).expect("room for an object");
        store.close().expect("sim barriers do not fail");
    });
    explorer.explore(
        &image,
        |media, oracle| {
            let store = Store::attach(media.clone()).expect("a whole store");
            store.keep_released();
            let object = store.object("grown").expect("it is there");
            for (number, story) in
                [(1, "grow"), (2, "grow into what was to be prepared"), (3, "into what was prepared")]
            {
                oracle.step(story, || {
                    assert_eq!(object.grow(CLUSTER).expect("room on the media"), grown(&object, number));
                    fill(&object, grown(&object, number), number);
                });
                if number == 2 {
                    store.clear_released();
                }
            }
        },
        |media, seen| {
            let failed = |error: Error| error.to_string();
            let store = Store::attach(media).map_err(failed)?;
            seen.recovered();
            let object = store.object("grown").map_err(failed)?;
            for number in 1..=3 {
                let cluster = grown(&object, number);
                if seen.acked_count() as u64 >= number {
                    require(&object, cluster, &[number])?;
                } else if object.backed() >= cluster.end {
                    require(&object, cluster, &[0, number])?;
                } else {
                    require(&object, object.grow(CLUSTER).map_err(failed)?, &[0])?;
                }
            }
            let next = make(&store, "next").map_err(failed)?;
            require(&next, next.span(), &[0])
        },
    )
}
