//! Power cuts of a store on a disk whose objects come and go: places in its file are given to one,
//! freed, and given to another.

use crate::{Case, TOTAL};
use everbyte_media::{BackendChoice, OpenOptions, Options};
use everbyte_sim::{DiskTape, Explorer, Failure, PowerCut, RecordedDisk, Report};
use everbyte_store::{CLUSTER, CreateOptions, Error, ObjectOptions, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) const CASES: &[Case] = &[Case {
    name: "media-map",
    crate_name: "media",
    about: "places in a store's file are given to objects, freed and given to others: after a cut, in recovery too, each belongs to one",
    total: TOTAL / 4,
    program: map,
}];

enum Step {
    /// An object with a span of its own, and so many clusters.
    Make(u64, u64),
    Remove(u64),
    /// Frees what was removed.
    Trim,
    /// The same, as part of closing the store; it is opened again.
    Close,
}

use Step::{Close, Make, Remove, Trim};

/// Each object is made in another place. Of two places that are freed at once the next takes the
/// first, and the slot of the second.
const STEPS: &[Step] = &[
    Make(2, 2),
    Make(4, 1),
    Make(3, 1),
    Remove(2),
    Remove(4),
    Trim,
    Make(5, 1),
    Make(6, 3),
    Remove(3),
    Remove(5),
    Close,
    Make(7, 2),
    Remove(6),
    Trim,
    Make(8, 2),
];

/// No threads but the caller's, so that a seed tells all; a small log, so that checkpoints happen.
fn options() -> Options {
    Options { backend: BackendChoice::File, background: false, log_bytes: 64 << 10, ..Options::default() }
}

fn open(disk: &Arc<RecordedDisk>) -> Result<Store, Error> {
    Store::attach(OpenOptions::new("recorded").on_disk(Arc::clone(disk) as _).open(&options())?)
}

/// An object whose number is in its root, and at the end of its last cluster. Its span is as many
/// times 64 KiB as two has that power.
fn make(store: &Store, number: u64, clusters: u64) -> Result<(), Error> {
    let span = ObjectOptions { span: Some(CLUSTER << number), ..ObjectOptions::default() };
    let object = store.create_object(&number.to_string(), span, |object| {
        object.grow((clusters - 1) * CLUSTER)?;
        let _section = store.media().section();
        store.media().store(object.backed() - 8, number);
        store.media().flush(object.backed() - 8, 8);
        object.set_root(number);
        Ok::<(), Error>(())
    });
    object.map(drop)
}

fn take(store: Store, disk: &Arc<RecordedDisk>, step: &Step) -> Result<Store, Error> {
    match *step {
        Make(number, clusters) => make(&store, number, clusters)?,
        Remove(number) => store.remove_object(&number.to_string())?,
        Trim => drop(store.trim()?),
        Close => {
            store.close()?;
            drop(store);
            return open(disk);
        }
    }
    Ok(store)
}

fn record() -> Result<DiskTape, Error> {
    let path = std::env::temp_dir().join(format!("everbyte-map-{}", std::process::id()));
    let create = CreateOptions { media: options(), max: 2 << 20, ..CreateOptions::default() };
    let created = Store::create(&path, &create).and_then(|store| store.close());
    let bytes = std::fs::read(&path);
    let _ = std::fs::remove_file(&path);
    created?;
    let io = |source| everbyte_media::Error::Io { action: "record", path: path.clone(), source };
    let disk = RecordedDisk::new(&bytes.map_err(io)?).map_err(io)?;
    let mut store = open(&disk)?;
    for (number, step) in (1..).zip(STEPS) {
        store = take(store, &disk, step)?;
        disk.note(number);
    }
    store.media().clone().abandon();
    Ok(disk.tape())
}

/// Opens what a cut left and compares: all that was acknowledged is there, and nothing else but
/// what the next step makes or removes.
fn check(disk: &Arc<RecordedDisk>, steps: usize) -> Result<(), String> {
    let store = open(disk).map_err(|error| error.to_string())?;
    let mut live = BTreeSet::new();
    for step in &STEPS[..steps] {
        match step {
            Make(number, _) => drop(live.insert(*number)),
            Remove(number) => drop(live.remove(number)),
            Trim | Close => {}
        }
    }
    let next = match STEPS.get(steps) {
        Some(Make(number, _) | Remove(number)) => Some(*number),
        _ => None,
    };
    for number in 0..9 {
        let found = match store.object(&number.to_string()) {
            Ok(object) => Some([object.root(), store.media().load(object.backed() - 8)]),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(error.to_string()),
        };
        let right = found.is_none_or(|found| found == [number; 2]);
        if !right || Some(number) != next && found.is_some() != live.contains(&number) {
            return Err(format!("object {number} holds {found:?} after {steps} steps"));
        }
    }
    let findings = store.check();
    // It goes on: another object takes what is free.
    if store.object("9").is_ok() {
        store.remove_object("9").map_err(|error| error.to_string())?; // of an opening that was cut
    }
    let more = make(&store, 9, 2).and_then(|()| store.remove_object("9")).and_then(|()| store.trim());
    store.media().clone().abandon();
    more.map_err(|error| error.to_string())?;
    if findings.is_empty() { Ok(()) } else { Err(format!("check: {findings:?}")) }
}

fn map(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let tape = record().expect("a program that no power cut disturbs");
    explorer.cut_power(&tape, |cut, disk| {
        let steps = cut.notes.last().copied().unwrap_or(0) as usize;
        check(&disk, steps)?;
        if cut.point % 64 != 0 || cut.image > 0 {
            return Ok(());
        }
        // Writes of recovery, and of the object after it, are cut in turn: a sample.
        let again = PowerCut::new("media-map").images_per_point(1).images_max(32);
        again.explore(&disk.tape(), |_, disk| check(&disk, steps)).map_err(|failure| failure.detail).map(drop)
    })
}
