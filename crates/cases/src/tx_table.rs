//! Cases of transactions over a table of words and of pointers to blocks: nested and aborted
//! transactions, lanes that need segments, and two lanes whose steps interleave.

use crate::Case;
use crate::tx::{image, open};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Order, Report, Seen, Twin};
use everbyte_tx::{Error, Tx, Undo};
use std::collections::BTreeSet;
use std::sync::mpsc;

/// About how many images a case of this file tries.
const TOTAL: u64 = 12_000;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "tx-update",
        crate_name: "tx",
        about: "ranges named in advance, and a word named twice: whole or absent",
        total: TOTAL,
        program: update,
    },
    Case {
        name: "tx-spill",
        crate_name: "tx",
        about: "a lane takes segments and gives them back, and other blocks come to lie there: undo follows no stale link",
        total: TOTAL,
        program: spill,
    },
    Case {
        name: "tx-abort",
        crate_name: "tx",
        about: "transactions with nested ones, aborted and then committed: an abort leaves no change and no block",
        total: TOTAL,
        program: abort,
    },
    Case {
        name: "tx-interleave",
        crate_name: "tx",
        about: "two threads' transactions, step by step in turn, in words of one line and blocks of one run",
        total: TOTAL,
        program: interleave,
    },
];

/// Words of the table that programs change, and pointers behind them.
const WORDS: u64 = 24;
const POINTERS: u64 = 4;

/// Bytes of a lane: enough for each program here but [`spill`], whose lane holds few entries.
const LANE: u64 = 4096;
const SHORT_LANE: u64 = 512;

/// The words, and the contents of each pointer's block.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    words: Vec<u64>,
    blocks: Vec<Option<u64>>,
}

fn root(undo: &Undo) -> u64 {
    undo.heap().object().root()
}

fn pointer(undo: &Undo, index: u64) -> u64 {
    root(undo) + (WORDS + index) * 8
}

/// Recovers and reads out; no block has leaked, none is named twice, and the next transaction
/// commits.
fn observe(media: Media, seen: &Seen) -> Result<Model, String> {
    let (_store, undo) = open(&media)?;
    seen.recovered();
    let media = undo.media();
    let mut reachable: BTreeSet<u64> = [root(&undo)].into();
    reachable.insert(media.load(undo.heap().object().prime() + everbyte_tx::layout::LANES_AT));
    let words: Vec<u64> = (0..WORDS).map(|word| media.load(root(&undo) + word * 8)).collect();
    let mut blocks = vec![];
    for index in 0..POINTERS {
        let at = media.load(pointer(&undo, index));
        if at == 0 {
            blocks.push(None);
            continue;
        }
        let size = undo.heap().size_of(at).map_err(|error| error.to_string())?;
        let (first, last) = (media.load(at), media.load(at + size - 8));
        if first != last || !reachable.insert(at) {
            return Err(format!("block {index} at {at:#x} begins with {first} and ends with {last}, or has two names"));
        }
        blocks.push(Some(first));
    }
    let findings = undo.heap().check(Some(&reachable));
    if !findings.is_empty() {
        return Err(format!("{findings:?}"));
    }
    undo.run(|tx| {
        let block = tx.allocate(100)?;
        tx.store(root(&undo), block.at.get())?;
        tx.free(block.at.get())?;
        tx.store(root(&undo), words[0])
    })
    .map_err(|error| error.to_string())?;
    Ok(Model { words, blocks })
}

fn set(undo: &Undo, tx: &Tx<'_>, word: u64, value: u64) -> Result<(), Error> {
    tx.store(root(undo) + word * 8, value)
}

/// A new block in place of the pointer's old one.
fn replace(undo: &Undo, tx: &Tx<'_>, index: u64, size: u64, value: u64) -> Result<(), Error> {
    let at = pointer(undo, index);
    let old = tx.media().load(at);
    let block = tx.allocate(size)?;
    tx.store(block.at.get(), value)?;
    tx.store(block.end() - 8, value)?;
    tx.store(at, block.at.get())?;
    if old != 0 { tx.free(old) } else { Ok(()) }
}

fn stop() -> Error {
    Error::NoLane { object: "on purpose".into() }
}

fn explore(
    explorer: &Explorer,
    lane_len: u64,
    order: Order,
    program: fn(&Undo, &Twin<'_, Model>),
) -> Result<Report, Box<Failure>> {
    let empty = Model { words: vec![0; WORDS as usize], blocks: vec![None; POINTERS as usize] };
    let run = |media: Media, twin: &Twin<'_, Model>| program(&open(&media).expect("a whole store").1, twin);
    explorer.explore_twin(&image(lane_len), &empty, order, run, observe)
}

fn update(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(&explorer, LANE, Order::InOrder, |undo, twin| {
        for round in 1..=3_u64 {
            let change = move |model: &mut Model| [0, 1, 9].into_iter().for_each(|word| model.words[word] = round);
            let body = |tx: &Tx<'_>| {
                set(undo, tx, 0, 77)?;
                tx.name_ranges(&[(root(undo) + 8, 8), (root(undo) + 72, 8)])?;
                [0, 1, 9].into_iter().try_for_each(|word| set(undo, tx, word, round))
            };
            twin.step(format!("update {round}"), change, || undo.run(body).expect("room in the lane"));
        }
    })
}

/// pmdk#5465: an extension of the log stayed linked after a crash.
fn spill(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(&explorer, SHORT_LANE, Order::InOrder, |undo, twin| {
        for (round, count) in [(1_u64, 12_u64), (2, 3), (3, 14)] {
            let change = move |model: &mut Model| (0..count).for_each(|word| model.words[word as usize] = round);
            let body = |tx: &Tx<'_>| {
                let named: Vec<(u64, u64)> = (0..count).map(|word| (root(undo) + word * 8, 8)).collect();
                tx.name_ranges(&named)?;
                (0..count).try_for_each(|word| set(undo, tx, word, round))
            };
            twin.step(format!("spill {round}"), change, || undo.run(body).expect("room for a segment"));
            // The segment returns to the heap, and a block takes its place.
            let change = move |model: &mut Model| model.blocks[0] = Some(round);
            let body = |tx: &Tx<'_>| replace(undo, tx, 0, 16 << 10, round);
            twin.step("block", change, || undo.run(body).expect("room in the heap"));
        }
    })
}

fn abort(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(&explorer, LANE, Order::InOrder, |undo, twin| {
        for round in 1..=2_u64 {
            let failed = undo.run(|tx| {
                set(undo, tx, 0, 100 + round)?;
                replace(undo, tx, 0, 200, 100 + round)?;
                undo.run(|inner| set(undo, inner, 5, 1)).map_err(|_| stop())?;
                Err::<(), _>(stop())
            });
            assert!(failed.is_err());
            let change = move |model: &mut Model| {
                model.words[0] = round;
                model.blocks[0] = Some(round);
            };
            let body = |tx: &Tx<'_>| {
                set(undo, tx, 0, round)?;
                undo.run(|inner| replace(undo, inner, 0, 64, round)).map_err(|_| stop())
            };
            twin.step(format!("after abort {round}"), change, || undo.run(body).expect("room in the heap"));
        }
    })
}

/// One of two threads that run in turn: it passes the turn on, and waits until it returns or the
/// other thread has ended.
fn pass(to: &mpsc::Sender<()>, back: &mpsc::Receiver<()>) {
    let _ = to.send(());
    let _ = back.recv();
}

/// Two transactions that store to word and block `index`; the turn passes inside each.
fn one_of_two(undo: &Undo, twin: &Twin<'_, Model>, index: u64, to: &mpsc::Sender<()>, back: &mpsc::Receiver<()>) {
    for round in 1..=2_u64 {
        let change = move |model: &mut Model| {
            model.words[index as usize] = round;
            model.blocks[index as usize] = Some(round);
        };
        let body = |tx: &Tx<'_>| {
            set(undo, tx, index, round)?;
            pass(to, back);
            replace(undo, tx, index, 64, round)
        };
        twin.step_here(format!("thread {index}, {round}"), change, || undo.run(body).expect("room in the heap"));
    }
}

fn interleave(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(&explorer, LANE, Order::Free, |undo, twin| {
        let (to_other, from_first) = mpsc::channel::<()>();
        let (to_first, from_other) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                let _ = from_first.recv();
                one_of_two(undo, twin, 1, &to_first, &from_first);
            });
            one_of_two(undo, twin, 0, &to_other, &from_other);
            drop(to_other);
            other.join().expect("it does not panic");
        });
    })
}
