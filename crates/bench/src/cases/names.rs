//! Looking names up: ours against the file system's own, on memory and on a disk.
//!
//! Ours are objects, the rivals' empty files of the same names in one folder, looked up by a
//! descriptor of that. All names have been looked up before, by all. The caller has the name at
//! hand: it lies in the caller's memory in the order in which names are asked for, the same for
//! all, so that what is measured is the search.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use everbyte_media::Options;
use everbyte_store::{CLUSTER, CreateOptions, Error, ObjectOptions, Store};
use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};
use std::ffi::CString;
use std::fs::File;
use std::hint::black_box;
use std::path::Path;

/// Names are looked up in steps of so many, which is prime: each once before any again, and never
/// two neighbours.
const STRIDE: usize = 7919;
/// Declared maximum of the store: addresses for the objects.
const MAX: u64 = 64 << 30;

/// Whether a store has a name.
type Find = fn(&Store, &str) -> bool;

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let many = bench.plan.pick(100_000, 100_000, 600);
    for (metric, count) in [("lookup_1k", 1000.min(many)), ("lookup_100k", many)] {
        if bench.wants(metric) || (count == many && bench.wants("lookup_trie")) {
            lookups(bench, metric, count, count == many)?;
        }
    }
    Ok(())
}

fn lookups(bench: &mut Bench<'_>, metric: &str, count: usize, trie: bool) -> Result {
    let (memory, disk) = (folder(&bench.plan.memory)?, folder(&bench.plan.disk)?);
    let names: Vec<String> = (0..count).map(|index| format!("customer-{:02}.{index:06}", index % 37)).collect();
    let store = filled(&memory.path().join("store"), &names)?;
    bench.on(store.media());
    let asked: Vec<String> = (0..count).map(|turn| names[turn * STRIDE % count].clone()).collect();

    let wanted: [(&str, Find); 2] = [
        (metric, |store, name| store.find(name).is_ok_and(|found| found.is_some())),
        ("lookup_trie", |store, name| store.find_on_media(name).is_ok_and(|found| found.is_some())),
    ];
    let rivals = [("tmpfs", made(&memory, &names)?), ("disk", made(&disk, &names)?)];
    let files: Vec<CString> =
        asked.iter().map(|name| CString::new(name.as_str())).collect::<std::result::Result<_, _>>()?;
    for (metric, find) in wanted.into_iter().take(if trie { 2 } else { 1 }) {
        let mut runners = vec![each("everbyte", &asked, |name: &String| find(&store, name))];
        for (place, folder) in &rivals {
            let stat = move |name: &CString| statat(folder, name, AtFlags::empty()).is_ok();
            // and closed again
            let open = move |name: &CString| openat(folder, name, OFlags::RDONLY, Mode::empty()).is_ok();
            runners.push(each(&format!("stat {place}"), &files, stat));
            runners.push(each(&format!("open+close {place}"), &files, open));
        }
        bench.metric(metric, Unit::Nanoseconds, 0, runners);
    }
    Ok(())
}

/// A runner that looks up names one after another, for ever.
fn each<'a, T>(runner: &str, names: &'a [T], find: impl Fn(&T) -> bool + 'a) -> Runner<'a> {
    assert!(names.iter().all(&find), "every name is there");
    let mut next = 0;
    Runner::new(runner, move |lookups| {
        for _ in 0..lookups {
            assert!(black_box(find(&names[next])), "every name is there");
            next = if next + 1 < names.len() { next + 1 } else { 0 };
        }
    })
}

fn filled(path: &Path, names: &[String]) -> Result<Store> {
    let options = CreateOptions { media: Options::default(), max: MAX, ..CreateOptions::default() };
    let store = Store::create(path, &options)?;
    let span = ObjectOptions { span: Some(CLUSTER), ..ObjectOptions::default() };
    for name in names {
        drop(store.create_small_object(name, span, |_| Ok::<(), Error>(()))?);
    }
    store.index_names()?;
    Ok(store)
}

fn folder(parent: &Path) -> Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix("names").tempdir_in(parent)?)
}

/// The folder, with an empty file for each name.
fn made(folder: &tempfile::TempDir, names: &[String]) -> Result<File> {
    names.iter().try_for_each(|name| File::create(folder.path().join(name)).map(drop))?;
    Ok(File::open(folder.path())?)
}
