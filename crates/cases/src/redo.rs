//! Cases of the redo engine: transactions of several workers over the same words, in logs that are
//! truncated at once or later, with blocks, and longer than their log.

use crate::Case;
use crate::tx::{MAX, NameTable, WORDS, read_table};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::redo::{Truncation, Worker};
use everbyte_tx::{Error, Redo};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "tx-redo-words",
        crate_name: "tx",
        about: "transactions over words of several lines, one aborted: all of one or nothing of it",
        total: 1500,
        program: words,
    },
    Case {
        name: "tx-redo-logs",
        crate_name: "tx",
        about: "workers with logs of their own store to the same words, truncated later: the newest store stays",
        total: 1000,
        program: logs,
    },
    Case {
        name: "tx-redo-blocks",
        crate_name: "tx",
        about: "blocks allocated, filled, replaced and freed with the words that name them: no leak, no torn block",
        total: 1200,
        program: blocks,
    },
    Case {
        name: "tx-redo-long",
        crate_name: "tx",
        about: "transactions longer than their log go through blocks of the heap, which come back",
        total: 600,
        program: long,
    },
];

fn image(log_len: u64) -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span: Some(2 << 20) };
        let made = store.create_object("table", options, |object| Redo::format_with(object, 3, log_len));
        let redo = Redo::open(made.expect("room for an object")).expect("a fresh engine");
        let outcome = redo.atomically(|tx| {
            let block = tx.allocate(WORDS * 8)?;
            (0..WORDS).try_for_each(|word| tx.store((block.at + word * 8).get(), 0))?;
            tx.store(redo.heap().object().root_at().get(), block.at.get())
        });
        outcome.expect("room in the heap");
        drop(redo);
        store.close().expect("sim barriers do not fail");
    })
}

fn open(media: &Media) -> Result<(Store, Redo), String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let object = store.object("table").map_err(|error| error.to_string())?;
    let redo = Redo::open(object).map_err(|error| error.to_string())?;
    Ok((store, redo))
}

fn word_at(redo: &Redo, word: u64) -> u64 {
    redo.heap().object().root() + word * 8
}

/// Recovers and reads the table; then the engine is usable again, and an abort leaves what was
/// found.
fn observe(media: &Media, seen: &Seen) -> Result<NameTable, String> {
    let (store, redo) = open(media)?;
    seen.recovered();
    let table = read_table(&store, redo.heap())?;
    let at = word_at(&redo, WORDS - 1);
    let aborted = redo.atomically(|tx| {
        tx.store(at, 4711)?;
        tx.allocate(100)?;
        Err::<(), Error>(Error::NoLane { object: "on purpose".into() })
    });
    let kept = media.load(at) == table.get(&(WORDS - 1)).copied().unwrap_or(0);
    if aborted.is_err() && kept {
        Ok(table)
    } else {
        Err(format!("an abort after recovery: {aborted:?}, kept: {kept}"))
    }
}

/// Explores a program that changes the table, with logs of `log_len` bytes.
fn explore(
    explorer: Explorer,
    log_len: u64,
    program: impl Fn(&Redo, &Twin<'_, NameTable>),
) -> Result<Report, Box<Failure>> {
    let program = |media: Media, twin: &Twin<'_, NameTable>| {
        let (_store, redo) = open(&media).expect("a whole store");
        program(&redo, twin);
    };
    let explorer = explorer.recovery(96, 8);
    explorer
        .explore_twin(&image(log_len), &NameTable::new(), Order::InOrder, program, |media, seen| observe(&media, seen))
}

/// Sets words in one transaction of a worker.
fn set(redo: &Redo, worker: &mut Worker, pairs: &[(u64, u64)]) {
    worker.begin().expect("a sound engine");
    pairs.iter().for_each(|&(word, value)| worker.store(word_at(redo, word), value).expect("there is no other thread"));
    worker.commit().expect("room in the log");
}

fn step(twin: &Twin<'_, NameTable>, name: String, pairs: &[(u64, u64)], run: impl FnOnce() + Send) {
    let kept = pairs.to_vec();
    twin.step(name, move |table: &mut NameTable| table.extend(kept.iter().copied()), run);
}

fn words(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, 1024, |redo, twin| {
        let mut worker = redo.worker();
        for round in 1..4_u64 {
            // One run, over the end of a line; and places of their own.
            let pairs = [(15, round), (16, round * 2), (20, round * 3), (45, round * 4), (15, round * 5)];
            step(twin, format!("transaction {round}"), &pairs, || set(redo, &mut worker, &pairs));
            worker.begin().expect("a sound engine");
            worker.store(word_at(redo, 30), 77).expect("there is no other thread");
            worker.abort();
        }
        // Bytes of a word whose others stay as they are.
        step(twin, "bytes".into(), &[(20, 0x0102_0009)], || {
            worker.begin().expect("a sound engine");
            worker.write(word_at(redo, 20) + 2, &[2, 1]).expect("there is no other thread");
            worker.commit().expect("room in the log");
        });
    })
}

fn logs(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, 1024, |redo, twin| {
        redo.set_truncation(Truncation::Asynchronous);
        let mut workers = [redo.worker(), redo.worker(), redo.worker()];
        // The thread of each round, and the rounds after which one truncates.
        for (round, index) in [(1, 0), (2, 1), (3, 0), (4, 2), (5, 1)] {
            let pairs = [(8, round), (10 + round, round), (40, round * 2)];
            step(twin, format!("transaction {round}"), &pairs, || set(redo, &mut workers[index], &pairs));
            if round % 3 == 0 {
                redo.truncate();
            }
            if round == 4 {
                // what waits is still older than what comes now
                redo.set_truncation(Truncation::Synchronous);
            }
        }
        // The logs are empty now: no record is stored over it.
        step(twin, "a store outside".into(), &[(40, 99)], || {
            let (media, at) = (redo.media(), word_at(redo, 40));
            media.store(at, 99);
            media.flush(at, 8);
            media.barrier().expect("sim barriers do not fail");
        });
    })
}

fn blocks(explorer: Explorer) -> Result<Report, Box<Failure>> {
    // Name, tag (0: free it), size.
    const STEPS: [&[(u64, u64, u64)]; 4] = [
        &[(0, 11, 64), (1, 12, 200)],
        &[(0, 21, 64), (2, 22, 3000)],
        &[(1, 0, 0), (2, 0, 0)],
        &[(3, 41, 128), (0, 0, 0)],
    ];
    explore(explorer, 2048, |redo, twin| {
        for (index, changes) in STEPS.into_iter().enumerate() {
            redo.set_truncation(if index % 2 == 0 { Truncation::Asynchronous } else { Truncation::Synchronous });
            let change = move |table: &mut NameTable| {
                table.extend(changes.iter().map(|&(name, tag, _)| (name, tag)));
                table.retain(|_, tag| *tag != 0);
            };
            twin.step(format!("{changes:?}"), change, || {
                let outcome = redo.atomically(|tx| changes.iter().try_for_each(|change| apply(redo, tx, *change)));
                outcome.expect("room in the heap");
            });
            if index == 2 {
                redo.truncate(); // by another thread than the commits
            }
        }
    })
}

fn apply(redo: &Redo, tx: &mut Worker, (name, tag, size): (u64, u64, u64)) -> Result<(), Error> {
    let place = word_at(redo, name);
    let (old, mut new) = (tx.load(place)?, 0);
    if tag != 0 {
        let block = tx.allocate(size)?;
        (0..block.size / 8).try_for_each(|word| tx.store((block.at + word * 8).get(), tag))?;
        new = block.at.get();
    }
    tx.store(place, new)?;
    if old != 0 { tx.free(old) } else { Ok(()) }
}

fn long(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let room_for_few_stores = 320;
    explore(explorer, room_for_few_stores, |redo, twin| {
        let mut worker = redo.worker();
        for round in 1..4_u64 {
            redo.set_truncation(if round == 2 { Truncation::Synchronous } else { Truncation::Asynchronous });
            let pairs: Vec<(u64, u64)> = (8..24).map(|word| (word * 2, word + round * 100)).collect();
            step(twin, format!("transaction {round}"), &pairs, || set(redo, &mut worker, &pairs));
        }
    })
}
