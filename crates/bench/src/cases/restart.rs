//! `restart`: what a program waits for when it starts again after it was killed, step by step: its
//! store mapped and its regions found where they were, the transactions that its logs still hold
//! stored again, the first block from its heap, the records of its own log handed to it. And all of
//! them together. Ours alone.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::ours::NAME;
use everbyte_log::{Form, Full};
use everbyte_media::Options;
use everbyte_mnemosyne::{Log, LogOptions, Program, Regions, Variables};
use everbyte_store::{CreateOptions, Engine, ObjectOptions, Store};
use everbyte_tx::Redo;
use everbyte_tx::redo::Truncation;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Regions of a program.
const REGIONS: u64 = 100;
/// Words that a transaction stores to.
const WORDS: u64 = 16;
/// Threads that share the transactions that were left: each has a log of its own.
const WORKERS: u64 = 16;
/// Readable and writable.
const ACCESS: u64 = 3;
/// Bytes that transactions store to.
const ROOM: u64 = 1 << 20;

/// Commits so many transactions and leaves all of them in the logs, as one who is killed does.
fn leave(redo: &Redo, transactions: u64, at: u64) -> Result {
    redo.set_truncation(Truncation::Asynchronous);
    let mut workers: Vec<_> = (0..WORKERS).map(|_| redo.worker()).collect();
    for number in 0..transactions {
        let tx = &mut workers[(number % WORKERS) as usize];
        tx.begin()?;
        for word in 0..WORDS {
            tx.store(at + (number * WORDS + word) * 8 % ROOM, number)?;
        }
        tx.commit()?;
    }
    Ok(())
}

/// One step that is timed, with what comes before it.
type Step<'a> = Box<dyn FnMut() -> Result<Duration> + 'a>;

fn measure(bench: &mut Bench<'_>, metric: &str, unit: Unit, mut step: Step<'_>) {
    let run = move |count| (0..count).map(|_| step().expect("a store that opens")).sum();
    bench.metric(metric, unit, 50, vec![Runner::timed(NAME, run)]);
}

/// Opens an engine whose logs hold so many transactions.
fn replay(store: &Store, transactions: u64) -> Result<Step<'_>> {
    let name = format!("replay-{transactions}");
    let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span: Some(64 << 20) };
    let redo = Redo::open(store.create_object(&name, options, Redo::format)?)?;
    let at = allocate(&redo, ROOM, 1)?;
    drop(redo);
    Ok(Box::new(move || {
        leave(&Redo::open(store.object(&name)?)?, transactions, at)?;
        let start = Instant::now();
        let redo = Redo::open(store.object(&name)?)?;
        let took = start.elapsed();
        assert_eq!(redo.replayed().transactions, transactions);
        Ok(took)
    }))
}

/// Allocates so many blocks; where the last one lies.
fn allocate(redo: &Redo, size: u64, count: u64) -> Result<u64> {
    let (mut tx, mut at) = (redo.worker(), 0);
    for first in (0..count).step_by(100) {
        tx.begin()?;
        for _ in first..count.min(first + 100) {
            at = tx.allocate(size)?.at.get();
        }
        tx.commit()?;
    }
    Ok(at)
}

/// Opens a heap of so many blocks and has it allocate one.
fn heap<'s>(store: &'s Store, name: &'s str, blocks: u64) -> Result<Step<'s>> {
    let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span: Some(1 << 30) };
    let redo = Redo::open(store.create_object(name, options, Redo::format)?)?;
    allocate(&redo, 1024, blocks)?;
    drop(redo);
    Ok(Box::new(move || {
        let start = Instant::now();
        allocate(&Redo::open(store.object(name)?)?, 64, 1)?;
        Ok(start.elapsed())
    }))
}

fn variables() -> Variables<'static> {
    Variables { initial: &[0; 4096], build: b"bench", layout: &|| Ok(None) }
}

/// Opens the log of that name, and hears each record that it holds.
fn log(store: &Store, heard: &mut u64) -> Result<Log> {
    let options = LogOptions { size: 1 << 20, form: Form::Torn, full: Full::Error };
    Ok(Log::open(store, "log", options, |words| {
        assert_eq!(words, [*heard; 4], "records come back in order");
        *heard += 1;
    })?)
}

/// Opens a log of so many records.
fn records(store: &Store, count: u64) -> Result<Step<'_>> {
    let log_with = log(store, &mut 0)?;
    (0..count).try_for_each(|number| log_with.append(&[number; 4]))?;
    log_with.flush()?;
    drop(log_with);
    Ok(Box::new(move || {
        let (start, mut heard) = (Instant::now(), 0);
        let _log = log(store, &mut heard)?;
        let took = start.elapsed();
        assert_eq!(heard, count);
        Ok(took)
    }))
}

/// A program with its regions, in a store of its own.
struct Kept {
    path: PathBuf,
    options: Options,
}

impl Kept {
    fn create(path: PathBuf, region: u64) -> Result<Kept> {
        let kept = Kept { path, options: Options::default() };
        let options = CreateOptions { media: kept.options.clone(), max: 16 << 30, bound: true };
        let store = Store::create(&kept.path, &options)?;
        let program = kept.program(&store)?;
        let regions = Regions::open(&program)?;
        for number in 0..REGIONS {
            regions.map(&program, region, ACCESS, program.variables().start + 8 * number)?;
        }
        Ok(kept)
    }

    fn program(&self, store: &Store) -> Result<Program> {
        Ok(Program::open(store, "pstatic/bench", 64 << 20, &variables())?)
    }

    /// Opens the store, the program and its regions, and reads a word of each region.
    fn open(&self) -> Result<(Store, Program, Regions)> {
        let store = Store::open(&self.path, &self.options)?;
        let program = self.program(&store)?;
        let regions = Regions::open(&program)?;
        assert!(regions.list().iter().all(|region| store.media().load(region.at) == 0), "as they were mapped");
        Ok((store, program, regions))
    }
}

/// Opens a store with regions of so many bytes each.
fn remap(path: &Path, region: u64) -> Result<Step<'static>> {
    let kept = Kept::create(path.into(), region)?;
    Ok(Box::new(move || {
        let start = Instant::now();
        let open = kept.open()?;
        let took = start.elapsed();
        assert_eq!(open.2.list().len() as u64, REGIONS);
        Ok(took)
    }))
}

/// All steps, up to the first transaction.
fn everything(path: &Path, transactions: u64, count: u64) -> Result<Step<'static>> {
    let kept = Kept::create(path.into(), 1 << 20)?;
    let (store, program, _regions) = kept.open()?;
    let at = allocate(program.redo(), ROOM, 1)?;
    drop(records(&store, count)?);
    drop((store, program, _regions));
    Ok(Box::new(move || {
        let (_store, program, _regions) = kept.open()?;
        leave(program.redo(), transactions, at)?;
        drop((_store, program, _regions));
        let (start, mut heard) = (Instant::now(), 0);
        let (store, program, _regions) = kept.open()?;
        let _log = log(&store, &mut heard)?;
        allocate(program.redo(), 64, 1)?;
        let took = start.elapsed();
        assert_eq!((program.redo().replayed().transactions, heard), (transactions, count));
        Ok(took)
    }))
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let create = CreateOptions { media: Options::default(), max: 16 << 30, ..CreateOptions::default() };
    let store = Store::create(&folder.path().join("steps"), &create)?;
    bench.on(store.media());
    let (us, share) = (Unit::Microseconds, bench.plan.pick(1, 1, 100));
    for (metric, region) in [("remap_16m", 160 << 10), ("remap_1g", (10 << 20) / share)] {
        if bench.wants(metric) {
            let step = remap(&folder.path().join(metric), region)?;
            measure(bench, metric, us, step);
        }
    }
    for transactions in [0, 4, 64, 1000] {
        measure(bench, &format!("replay_{transactions}"), us, replay(&store, transactions)?);
    }
    for (metric, blocks) in [("heap_1k", 1000), ("heap_100k", 100_000 / share)] {
        measure(bench, metric, us, heap(&store, metric, blocks)?);
    }
    measure(bench, "log_1000", us, records(&store, 1000)?);
    let step = everything(&folder.path().join("all"), 64, 1000)?;
    measure(bench, "all", us, step);
    Ok(())
}
