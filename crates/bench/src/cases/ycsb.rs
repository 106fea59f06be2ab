//! `ycsb`: the workloads A to F of YCSB (Cooper and others, SoCC 2010). A record is ten fields of
//! 100 bytes in one value. An update reads the record, replaces one field and writes the record;
//! every write is durable when it returns.
//!
//! Stores are loaded in turn, a share each. D and E, which insert, come last; a store that got more
//! inserts in D has more records in E.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::host;
use crate::ours::{self, NAME, Ours};
use crate::pairs::key;
use everbyte_bench_rivals::{KV, KvRival};
use everbyte_workload::{Random, Zipf, mix};
use std::cell::RefCell;
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;

const FIELDS: usize = 10;
const FIELD: usize = 100;
/// Records that a scan reads at most.
const SCAN_MAX: u64 = 100;

/// Which record an operation goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Few records most often, strewn over all keys.
    Zipfian,
    Uniform,
    /// The newest records most often.
    Latest,
}

/// The operations that are no reads.
#[derive(Clone, Copy)]
enum Other {
    None,
    Update,
    Insert,
    /// A read, and an update of the same record.
    ReadModifyWrite,
}

/// A workload: of a hundred operations so many are reads, or scans.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    reads: u64,
    scans: bool,
    other: Other,
    choice: Choice,
}

const fn workload(name: &'static str, reads: u64, other: Other, choice: Choice) -> Workload {
    Workload { name, reads, scans: false, other, choice }
}

const WORKLOADS: [Workload; 9] = [
    workload("a", 50, Other::Update, Choice::Zipfian),
    workload("b", 95, Other::Update, Choice::Zipfian),
    workload("c", 100, Other::None, Choice::Zipfian),
    workload("f", 50, Other::ReadModifyWrite, Choice::Zipfian),
    workload("a_uniform", 50, Other::Update, Choice::Uniform),
    workload("b_uniform", 95, Other::Update, Choice::Uniform),
    workload("c_uniform", 100, Other::None, Choice::Uniform),
    // As YCSB advises: the workloads that insert come last.
    workload("d", 95, Other::Insert, Choice::Latest),
    Workload { scans: true, ..workload("e", 95, Other::Insert, Choice::Zipfian) },
];

fn record(number: u64) -> [u8; FIELDS * FIELD] {
    let mut record = [b'r'; FIELDS * FIELD];
    for (index, field) in record.chunks_exact_mut(FIELD).enumerate() {
        field[..8].copy_from_slice(&mix(number ^ (index as u64) << 56).to_le_bytes());
    }
    record[..8].copy_from_slice(&number.to_le_bytes());
    record
}

/// The client of one store.
struct Client {
    records: u64,
    zipf: Zipf,
    random: Random,
    record: Vec<u8>,
    scanned: Vec<u8>,
}

impl Client {
    fn new(records: u64) -> Client {
        Client { records, zipf: Zipf::new(records), random: Random::new(7), record: Vec::new(), scanned: Vec::new() }
    }

    fn choose(&mut self, choice: Choice) -> u64 {
        match choice {
            Choice::Uniform => self.random.below(self.records),
            // Keys are in another order than their numbers, so the frequent ones are strewn.
            Choice::Zipfian => self.zipf.draw(&mut self.random),
            Choice::Latest => self.records - 1 - self.zipf.draw(&mut self.random),
        }
    }

    fn read(&mut self, kv: &dyn KvRival, number: u64) {
        assert!(kv.get(&key(number), &mut self.record).expect("a get that must succeed"), "a record is there");
        assert_eq!((self.record.len(), &self.record[..8]), (FIELDS * FIELD, &number.to_le_bytes()[..]));
    }

    /// Replaces one field of the record that was read last; the first holds its number.
    fn write_field(&mut self, kv: &dyn KvRival, number: u64) {
        let field = 1 + self.random.below(FIELDS as u64 - 1) as usize;
        let fresh = self.random.next().to_le_bytes();
        self.record[field * FIELD..][..8].copy_from_slice(&fresh);
        kv.put(&key(number), &self.record).expect("a put that must succeed");
    }

    fn insert(&mut self, kv: &dyn KvRival) {
        kv.put(&key(self.records), &record(self.records)).expect("a put that must succeed");
        self.records += 1;
        self.zipf.grow(self.records);
    }

    fn run(&mut self, kv: &dyn KvRival, workload: &Workload, count: u64) {
        for _ in 0..count {
            let reads = self.random.chance(workload.reads);
            match workload.other {
                Other::Insert if !reads => self.insert(kv),
                _ if workload.scans => {
                    let (first, len) = (self.choose(workload.choice), 1 + self.random.below(SCAN_MAX));
                    self.scanned.clear();
                    let (found, _) = kv.scan(&key(first), len as usize, Some(&mut self.scanned)).expect("a scan");
                    assert_eq!(self.scanned.len(), found * FIELDS * FIELD);
                }
                other => {
                    let number = self.choose(workload.choice);
                    self.read(kv, number);
                    if !reads {
                        if matches!(other, Other::ReadModifyWrite) {
                            self.read(kv, number); // the update's own read follows
                        }
                        self.write_field(kv, number);
                    }
                }
            }
        }
    }
}

/// The stores, ours first, each with its client.
struct Field {
    ours: (Ours, RefCell<Client>),
    rivals: Vec<(&'static str, Box<dyn KvRival>, RefCell<Client>)>,
    _folders: Vec<TempDir>,
}

/// Creates the stores and loads them, one durable insert after another.
fn load(bench: &mut Bench<'_>, place: &Path, records: u64, metric: &str) -> Result<Field> {
    let client = || RefCell::new(Client::new(records));
    let mut folders = vec![tempfile::tempdir_in(place)?];
    let ours = Ours::open(folders[0].path())?;
    let mut rivals = Vec::new();
    for &name in KV {
        let folder = tempfile::tempdir_in(place)?;
        rivals.push((name, ours::open(name, folder.path())?, client()));
        folders.push(folder);
    }
    let media = ours.store.media();
    bench.on(media);
    host::pin(0);
    let (before, shares) = (media.counts(), bench.plan.rounds.max(1) as u64);
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); rivals.len() + 1];
    for share in 0..shares {
        let numbers = share * records / shares..(share + 1) * records / shares;
        for turn in 0..times.len() {
            let index = (turn + share as usize) % times.len();
            let kv: &dyn KvRival = if index == 0 { &ours } else { &*rivals[index - 1].1 };
            let start = Instant::now();
            for number in numbers.clone() {
                kv.put(&key(number), &record(number))?;
            }
            times[index].push((numbers.end - numbers.start) as f64 / start.elapsed().as_secs_f64());
        }
    }
    if bench.wants(metric) {
        let names = std::iter::once(NAME).chain(KV.iter().copied()).map(String::from);
        let counts = Some((media.counts() - before, records));
        bench.report(metric, Unit::PerSecond, names.zip(times).collect(), counts);
    }
    Ok(Field { ours: (ours, client()), rivals, _folders: folders })
}

fn runner<'f>(name: &str, kv: &'f dyn KvRival, client: &'f RefCell<Client>, workload: &'f Workload) -> Runner<'f> {
    client.borrow_mut().random = Random::new(7);
    Runner::new(name, move |count| client.borrow_mut().run(kv, workload, count))
}

fn measure(bench: &mut Bench<'_>, field: &Field, workload: &Workload, suffix: &str) {
    let (ours, client) = &field.ours;
    let mut runners = vec![runner(NAME, ours, client, workload).counting(ours.store.media())];
    runners.extend(field.rivals.iter().map(|(name, kv, client)| runner(name, &**kv, client, workload)));
    bench.metric(&format!("{}{suffix}", workload.name), Unit::PerSecond, 0, runners);
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let memory = (bench.plan.memory.clone(), bench.plan.pick(200_000, 20_000, 60), "");
    let disk = (bench.plan.disk.clone(), bench.plan.pick(20_000, 2_000, 30), "_disk");
    for (place, records, suffix) in [memory, disk] {
        let metric = format!("load{suffix}");
        let field = load(bench, &place, records, &metric)?;
        WORKLOADS.iter().for_each(|workload| measure(bench, &field, workload, suffix));
    }
    Ok(())
}
