//! Power cuts and dying processes in the middle of transactions, and in the middle of recovering
//! from them.

mod common;

use common::{image, open};
use everbyte_media::{Media, museum};
use everbyte_sim::{Explorer, Failure, Order, Profile, Seen, Twin};
use everbyte_tx::{Error, Tx, Undo};
use std::collections::BTreeSet;
use std::sync::mpsc;

/// Words of the table that programs change, and pointers behind them.
const WORDS: u64 = 24;
const POINTERS: u64 = 4;

/// The words, and the contents of each pointer's block.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    words: Vec<u64>,
    blocks: Vec<Option<u64>>,
}

fn empty() -> Model {
    Model { words: vec![0; WORDS as usize], blocks: vec![None; POINTERS as usize] }
}

fn root(undo: &Undo) -> u64 {
    undo.heap().object().root()
}

fn pointer(undo: &Undo, index: u64) -> u64 {
    root(undo) + (WORDS + index) * 8
}

/// Recovers and reads out: nothing leaked, nothing doubled, and transactions go on working.
fn observe(media: Media, seen: &Seen) -> Result<Model, String> {
    let (_store, undo) = open(media)?;
    seen.recovered();
    let media = undo.media();
    let mut reachable: BTreeSet<u64> = [root(&undo)].into();
    reachable.insert(media.load(undo.heap().object().prime() + everbyte_tx::layout::LANES_AT));
    let words = (0..WORDS).map(|word| media.load(root(&undo) + word * 8)).collect();
    let mut blocks = vec![];
    for index in 0..POINTERS {
        let at = media.load(pointer(&undo, index));
        if at == 0 {
            blocks.push(None);
            continue;
        }
        let size = undo.heap().size_of(at).map_err(|error| error.to_string())?;
        let (first, last) = (media.load(at), media.load(at + size - 8));
        blocks.push(Some(if first == last { first } else { u64::MAX }));
        reachable.insert(at);
    }
    let findings = undo.heap().check(Some(&reachable));
    if !findings.is_empty() {
        return Err(format!("{findings:?}"));
    }
    let model = Model { words, blocks };
    undo.run(|tx| {
        let block = tx.allocate(100)?;
        tx.store(root(&undo), block.at.get())?;
        tx.free(block.at.get())
    })
    .map_err(|error| error.to_string())?;
    Ok(model)
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

type Program = fn(&Undo, &Twin<'_, Model>);

fn explore(name: &str, profiles: &[Profile], lane: u64, order: Order, program: Program) -> Result<(), Box<Failure>> {
    let explorer = Explorer::new(name).profiles(profiles).total(6_000);
    let run = |media: Media, twin: &Twin<'_, Model>| program(&open(media).unwrap().1, twin);
    explorer.explore_twin(&image(lane), &empty(), order, run, observe).map(|report| println!("{report}"))
}

fn passes(name: &str, lane: u64, program: Program) {
    explore(name, &Profile::BOTH, lane, Order::InOrder, program).unwrap_or_else(|failure| panic!("{failure}"));
}

fn update(undo: &Undo, twin: &Twin<'_, Model>) {
    for round in 1..=3u64 {
        let change = move |model: &mut Model| [0, 1, 9].into_iter().for_each(|word| model.words[word] = round);
        twin.step(format!("update {round}"), change, || {
            let body = |tx: &Tx<'_>| {
                set(undo, tx, 0, 77)?;
                tx.name_ranges(&[(root(undo) + 8, 8), (root(undo) + 72, 8)])?;
                [0, 1, 9].into_iter().try_for_each(|word| set(undo, tx, word, round))
            };
            undo.run(body).unwrap();
        });
    }
}

#[test]
fn an_update_is_whole_or_absent() {
    passes("tx-update", 4096, update);
}

#[test]
fn the_same_where_lines_keep_their_order() {
    let lines = [Profile::PMEM_LINES, Profile::FILE_LINES];
    explore("tx-update-lines", &lines, 4096, Order::InOrder, update).unwrap_or_else(|failure| panic!("{failure}"));
}

fn blocks(undo: &Undo, twin: &Twin<'_, Model>) {
    for (round, index, size) in [(1u64, 0u64, 64), (2, 1, 20_000), (3, 0, 1000), (4, 1, 64)] {
        let change = move |model: &mut Model| {
            model.blocks[index as usize] = Some(round);
            model.words[3] = round;
        };
        twin.step(format!("replace {round}"), change, || {
            undo.run(|tx| {
                set(undo, tx, 3, round)?;
                replace(undo, tx, index, size, round)
            })
            .unwrap();
        });
    }
    let change = |model: &mut Model| model.blocks[0] = None;
    twin.step("free", change, || {
        undo.run(|tx| {
            tx.free(tx.media().load(pointer(undo, 0)))?;
            tx.store(pointer(undo, 0), 0)
        })
        .unwrap();
    });
}

/// FM37: blocks come and go with the transaction that asks.
#[test]
fn blocks_come_and_go_with_their_transaction() {
    passes("tx-blocks", 4096, blocks);
}

/// A lane of five entries, and transactions that need more: pmdk#5465 (a log extension left linked
/// after a crash).
fn spill(undo: &Undo, twin: &Twin<'_, Model>) {
    for (round, count) in [(1u64, 12u64), (2, 3), (3, 14)] {
        let change = move |model: &mut Model| (0..count).for_each(|word| model.words[word as usize] = round);
        twin.step(format!("spill {round}"), change, || {
            undo.run(|tx| {
                let named: Vec<(u64, u64)> = (0..count).map(|word| (root(undo) + word * 8, 8)).collect();
                tx.name_ranges(&named)?;
                (0..count).try_for_each(|word| set(undo, tx, word, round))
            })
            .unwrap();
        });
        // The segment goes back to the heap, and another owner's block may come to lie there.
        let change = move |model: &mut Model| model.blocks[0] = Some(round);
        twin.step("block", change, || undo.run(|tx| replace(undo, tx, 0, 16 << 10, round)).unwrap());
    }
}

#[test]
fn a_spilled_lane_is_undone_whole_and_leaves_no_link() {
    passes("tx-spill", 512, spill);
}

fn abort(undo: &Undo, twin: &Twin<'_, Model>) {
    for round in 1..=2u64 {
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
        twin.step(format!("after abort {round}"), change, || {
            undo.run(|tx| {
                set(undo, tx, 0, round)?;
                undo.run(|inner| replace(undo, inner, 0, 64, round)).map_err(|_| stop())
            })
            .unwrap();
        });
    }
}

#[test]
fn an_aborted_transaction_leaves_nothing() {
    passes("tx-abort", 4096, abort);
}

/// Two lanes under way at once, their steps interleaved; words of one line, blocks of one run.
fn interleave(undo: &Undo, twin: &Twin<'_, Model>) {
    let (to_other, from_first) = mpsc::channel::<()>();
    let (to_first, from_other) = mpsc::channel::<()>();
    let turn = |say: &mpsc::Sender<()>, hear: &mpsc::Receiver<()>| {
        let _ = say.send(());
        let _ = hear.recv();
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            from_first.recv().unwrap();
            for round in 1..=2u64 {
                let change = move |model: &mut Model| {
                    model.words[1] = round;
                    model.blocks[1] = Some(round);
                };
                twin.step_here(format!("other {round}"), change, || {
                    undo.run(|tx| {
                        set(undo, tx, 1, round)?;
                        turn(&to_first, &from_first);
                        replace(undo, tx, 1, 64, round)
                    })
                    .unwrap();
                });
            }
            drop(to_first);
        });
        for round in 1..=2u64 {
            let change = move |model: &mut Model| {
                model.words[0] = round;
                model.blocks[0] = Some(round);
            };
            twin.step_here(format!("first {round}"), change, || {
                undo.run(|tx| {
                    set(undo, tx, 0, round)?;
                    turn(&to_other, &from_other);
                    replace(undo, tx, 0, 64, round)
                })
                .unwrap();
            });
        }
        drop(to_other);
        other.join().unwrap();
    });
}

#[test]
fn two_lanes_do_not_undo_each_other() {
    let outcome = explore("tx-interleave", &Profile::BOTH, 4096, Order::Free, interleave);
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Every seeded bug of this crate is found by the tests above.
#[test]
fn seeded_bugs_are_found() {
    let bugs: [(&'static str, u64, Program); 5] = [
        ("tx-note-unfenced", 4096, update),
        ("tx-data-not-flushed", 4096, update),
        ("tx-new-not-flushed", 4096, blocks),
        ("tx-apply-before-commit", 4096, blocks),
        ("tx-answer-unsettled", 4096, update),
    ];
    for (bug, lane, program) in bugs {
        let outcome = museum::with(bug, || explore(bug, &Profile::BOTH, lane, Order::InOrder, program));
        println!("{}", outcome.expect_err(&format!("{bug}: not found")));
    }
}
