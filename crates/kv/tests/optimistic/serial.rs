//! Random transactions of several threads: there is an order in which they, run one by one, return
//! what they returned. The order is that of their versions.

use crate::ops::{self, Got, Model, Op};
use everbyte_kv::{Error, Kv, KvTable};
use everbyte_media::{Media, Options, museum};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::{Keys, Random, programs};
use std::sync::{Barrier, Mutex};

/// A committed transaction: its operations, what they returned, and its place: its version, and
/// whether it stands behind the transaction that made it, because it only read.
struct Committed {
    version: u64,
    reads_only: bool,
    ops: Vec<Op>,
    got: Vec<Got>,
}

/// Runs `threads` with `rounds` transactions each. All transactions of a round begin before one of
/// them commits.
fn history(
    random: &mut Random,
    threads: u64,
    rounds: u64,
    keys: u64,
    bug: Option<&'static str>,
) -> (Kv, Vec<Committed>, u64) {
    let shapes = Keys::draw(random, &[0, 8, 24]);
    let keys: Vec<Vec<u8>> = (0..keys).map(|number| shapes.key(number)).collect();
    let store =
        Store::format(Media::anonymous(64 << 20, &Options::default()).unwrap(), &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let named = kv.create_table("named").unwrap();
    let (done, conflicts) = (Mutex::new(Vec::new()), Mutex::new(0));
    let barrier = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let seed = random.next();
            let (kv, named, keys, done, conflicts, barrier) = (&kv, &named, &keys, &done, &conflicts, &barrier);
            let body = move || {
                let random = &mut Random::new(seed);
                for round in 0..rounds {
                    let ops = ops::draw(random, keys, thread * rounds + round);
                    if random.chance(10) {
                        barrier.wait();
                        done.lock().unwrap().push(batch(kv, named, ops::writes(&ops)));
                        continue;
                    }
                    let mut transaction = kv.transaction();
                    barrier.wait();
                    let begun = transaction.version().get();
                    let got = ops::run(&mut transaction, named, &ops);
                    match transaction.commit() {
                        Ok(commit) => {
                            let version = commit.version().get();
                            kv.settle(commit).unwrap();
                            let reads_only = version == begun;
                            done.lock().unwrap().push(Committed { version, reads_only, ops, got });
                        }
                        Err(Error::Conflict { .. }) => *conflicts.lock().unwrap() += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            };
            scope.spawn(move || match bug {
                Some(bug) => museum::with(bug, body),
                None => body(),
            });
        }
    });
    (kv, done.into_inner().unwrap(), conflicts.into_inner().unwrap())
}

/// Writes of a thread that does without a transaction.
fn batch(kv: &Kv, named: &KvTable, ops: Vec<Op>) -> Committed {
    let mut batch = kv.batch();
    ops::write(&mut batch, named, &ops);
    let commit = batch.commit().unwrap();
    kv.settle(commit).unwrap();
    // Its results are not compared.
    Committed { version: commit.version().get(), reads_only: false, ops, got: Vec::new() }
}

/// The model behind the commits of one version. The one at `first` made it; the others, which
/// committed at it, changed nothing.
fn in_order(before: &Model, group: &[Committed], first: usize) -> Result<Model, String> {
    let mut model = before.clone();
    let others = group.iter().enumerate().filter(|(place, _)| *place != first).map(|(_, done)| done);
    for (place, done) in [&group[first]].into_iter().chain(others).enumerate() {
        let tables = model.tables.clone();
        for (step, op) in done.ops.iter().enumerate() {
            let expected = model.run(op);
            if done.got.get(step).is_some_and(|got| *got != expected) {
                return Err(format!("{}: {op:?} returned {:?}, not {expected:?}", done.version, done.got[step]));
            }
        }
        model.end();
        if place > 0 && model.tables != tables {
            return Err(format!("{}: a second change", done.version));
        }
    }
    Ok(model)
}

/// The first transaction that returned something else than in the order of versions, or a state at
/// the end that is not that of the order.
fn contradiction(kv: &Kv, mut history: Vec<Committed>) -> Option<String> {
    history.sort_by_key(|done| (done.version, done.reads_only));
    let mut model = Model::default();
    for group in history.chunk_by(|a, b| a.version == b.version) {
        let orders = (0..group.len()).map(|first| in_order(&model, group, first));
        let mut contradicted = None;
        let order = orders.into_iter().find_map(|order| order.map_err(|why| _ = contradicted.get_or_insert(why)).ok());
        match order {
            Some(after) => model = after,
            None => return contradicted,
        }
    }
    let table = kv.open_table("named").unwrap();
    let found: [ops::Pairs; 2] = [
        kv.range::<[u8]>(..).map(Result::unwrap).collect(),
        table.range::<[u8]>(..).unwrap().map(Result::unwrap).collect(),
    ];
    (found != model.tables).then(|| "the state at the end is another".into())
}

#[test]
fn transactions_of_one_thread_do_what_a_map_does() {
    programs(40, |random, _| {
        let (kv, history, conflicts) = history(random, 1, 60, 12, None);
        assert_eq!((contradiction(&kv, history), conflicts, kv.check()), (None, 0, vec![]));
    });
}

#[test]
fn transactions_of_several_threads_are_serialisable() {
    programs(24, |random, _| {
        let keys = random.pick(&[4, 12, 60]);
        let (kv, history, conflicts) = history(random, 4, 40, keys, None);
        assert!(history.len() > 40 && conflicts > 0, "{} committed, {conflicts} did not", history.len());
        assert_eq!((contradiction(&kv, history), kv.check()), (None, vec![]));
    });
}

/// The check of histories finds a validation that leaves out a kind of reads.
#[test]
fn a_validation_that_leaves_out_reads_is_found() {
    for bug in
        ["kv-optimistic-ranges-unvalidated", "kv-optimistic-keys-unvalidated", "kv-optimistic-counts-unvalidated"]
    {
        let found = (0..200).any(|seed| {
            let (kv, history, _) = history(&mut Random::new(seed), 4, 40, 12, Some(bug));
            contradiction(&kv, history).is_some()
        });
        assert!(found, "{bug} is not found");
    }
}
