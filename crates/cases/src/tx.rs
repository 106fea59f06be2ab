//! Cases of transactions: words and blocks that change together, aborts, and transactions longer
//! than their lane.

use crate::{Case, TOTAL};
use everbyte_heap::Heap;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, Engine, FindingKind, FormatOptions, ObjectOptions, Store};
use everbyte_tx::{Error, TxError, Undo};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "tx-words",
        crate_name: "tx",
        about: "transactions over words of several lines, one aborted: all of one or nothing of it",
        total: TOTAL,
        program: words,
    },
    Case {
        name: "tx-blocks",
        crate_name: "tx",
        about: "blocks allocated, filled, replaced and freed with the words that name them: no leak, no torn block",
        total: 10_000,
        program: blocks,
    },
    Case {
        name: "tx-long",
        crate_name: "tx",
        about: "a transaction longer than its lane: the segments it borrows are undone with it and given back after it",
        total: 4000,
        program: long,
    },
];

pub(crate) const MAX: u64 = 4 << 20;
pub(crate) const WORDS: u64 = 64;
/// The first words name blocks, the others are plain.
const NAMES: u64 = 8;

/// The table's words: for a name the tag its block is filled with.
pub(crate) type NameTable = BTreeMap<u64, u64>;

/// A small store with an engine of two lanes of `lane_len` bytes, and a table of words.
pub(crate) fn image(lane_len: u64) -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(2 << 20) };
        let made = store.create_object("table", options, |object| Undo::format_with(object, 2, lane_len));
        let undo = Undo::open(made.expect("room for an object")).expect("a fresh engine");
        let outcome = undo.run(|tx| {
            let block = tx.allocate(WORDS * 8)?;
            tx.media().zero(block.at, block.size);
            tx.store(tx.heap().object().root_at().get(), block.at.get())
        });
        outcome.expect("room in the heap");
        drop(undo);
        store.close().expect("sim barriers do not fail");
    })
}

pub(crate) fn open(media: &Media) -> Result<(Store, Undo), String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let object = store.object("table").map_err(|error| error.to_string())?;
    let undo = Undo::open(object).map_err(|error| error.to_string())?;
    Ok((store, undo))
}

fn word_at(undo: &Undo, word: u64) -> u64 {
    undo.heap().object().root() + word * 8
}

/// Reads the table that the root word of an object leads to; the heap must hold the blocks it
/// names, the engine's own block and nothing else.
pub(crate) fn read_table(store: &Store, heap: &Heap) -> Result<NameTable, String> {
    let (media, root) = (heap.media(), heap.object().root());
    let mut table = NameTable::new();
    let mut named = BTreeSet::from([root]);
    for word in 0..WORDS {
        let mut value = media.load(root + word * 8);
        if value != 0 && word < NAMES {
            named.insert(value);
            let size = heap.size_of(value).map_err(|error| error.to_string())?;
            let tag = media.load(value);
            if (0..size / 8).any(|index| media.load(value + index * 8) != tag) {
                return Err(format!("the block at {value:#x}, named by word {word}, is torn"));
            }
            value = tag;
        }
        if value != 0 {
            table.insert(word, value);
        }
    }
    // One block is the engine's own: its lanes. Any other without a name has leaked.
    let mut others = Vec::new();
    heap.blocks(|block| {
        if !named.remove(&block.at.get()) {
            others.push(block.at)
        }
    })
    .map_err(|error| error.to_string())?;
    if others.len() != 1 || !named.is_empty() {
        return Err(format!("blocks without a name: {others:x?}; names without a block: {named:x?}"));
    }
    let mut findings = heap.check(None);
    findings.extend(store.check());
    findings.retain(|finding| finding.kind != FindingKind::Note);
    if !findings.is_empty() {
        return Err(format!("check: {findings:?}"));
    }
    Ok(table)
}

/// Blocks of 32 KiB that fit into a heap beside its contents.
fn reservable(heap: &Heap) -> usize {
    let blocks: Vec<_> = std::iter::from_fn(|| heap.reserve(32 << 10).ok()).collect();
    let count = blocks.len();
    blocks.into_iter().for_each(|block| heap.cancel(block));
    count
}

/// Recovers, reads the table and follows its names; the heap must hold those blocks, the lanes and
/// nothing else.
fn observe(media: &Media, seen: &Seen) -> Result<NameTable, String> {
    let (store, undo) = open(media)?;
    seen.recovered();
    let table = read_table(&store, undo.heap())?;
    // Blocks freed by recovery serve this process, and not only the next one.
    let room = reservable(undo.heap());
    drop(undo);
    let (store, undo) = open(media)?;
    let (once, again) = (room, reservable(undo.heap()));
    if once != again {
        return Err(format!("after recovery {once} blocks fit, after a second opening {again}"));
    }
    drop(store);
    // The engine is usable again, and an abort leaves the words as they were.
    let at = word_at(&undo, WORDS - 1);
    let aborted = undo.run(|tx| {
        tx.store(at, 4711)?;
        tx.allocate(100)?;
        Err::<(), Error>(Error::NoLane { object: "on purpose".into() })
    });
    let kept = media.load(at) == table.get(&(WORDS - 1)).copied().unwrap_or(0);
    match aborted {
        Err(TxError::Aborted(_)) if kept => Ok(table),
        other => Err(format!("an abort after recovery: {other:?}, kept: {kept}")),
    }
}

/// Sets words in one transaction; fails on purpose at its end if it is to abort.
fn set(undo: &Undo, pairs: &[(u64, u64)], aborts: bool) {
    let outcome = undo.run(|tx| {
        pairs.iter().try_for_each(|&(word, value)| tx.store(word_at(undo, word), value))?;
        if aborts { Err(Error::NoLane { object: "on purpose".into() }) } else { Ok(()) }
    });
    assert_eq!(outcome.is_err(), aborts, "{outcome:?}");
}

/// Explores a program that changes the table, in lanes of `lane_len` bytes.
fn explore(
    explorer: Explorer,
    lane_len: u64,
    program: impl Fn(&Undo, &Twin<'_, NameTable>),
) -> Result<Report, Box<Failure>> {
    let program = |media: Media, twin: &Twin<'_, NameTable>| {
        let (_store, undo) = open(&media).expect("a whole store");
        program(&undo, twin);
    };
    explorer
        .explore_twin(&image(lane_len), &NameTable::new(), Order::InOrder, program, |media, seen| observe(&media, seen))
}

fn words(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, 1024, |undo, twin| {
        for round in 1..5_u64 {
            let pairs = [(8, round), (9, round * 2), (20, round * 3), (45, round * 4), (8, round * 5)];
            let aborts = round == 3;
            let change = move |table: &mut NameTable| {
                if !aborts {
                    table.extend(pairs);
                }
            };
            twin.step(format!("transaction {round}"), change, || set(undo, &pairs, aborts));
        }
    })
}

fn blocks(explorer: Explorer) -> Result<Report, Box<Failure>> {
    /// Words beside each other, of more than one line.
    const RANGE: std::ops::Range<u64> = 30..44;
    // Name, tag (0: free it), size.
    const STEPS: [&[(u64, u64, u64)]; 4] = [
        &[(0, 11, 64), (1, 12, 200)],
        &[(0, 21, 64), (2, 22, 3000)],
        &[(1, 0, 0), (2, 0, 0)],
        &[(3, 41, 128), (0, 0, 0)],
    ];
    explore(explorer, 1024, |undo, twin| {
        for (step, round) in STEPS.into_iter().zip(1..) {
            let change = move |table: &mut NameTable| {
                for &(name, tag, _) in step {
                    table.insert(name, tag);
                    table.retain(|_, tag| *tag != 0);
                }
                table.extend(RANGE.map(|word| (word, round)));
            };
            twin.step(format!("{step:?}"), change, || {
                let outcome = undo.run(|tx| {
                    for &(name, tag, size) in step {
                        let place = word_at(undo, name);
                        let old = tx.media().load(place);
                        let mut new = 0;
                        if tag != 0 {
                            let block = tx.allocate(size)?;
                            (0..block.size / 8).try_for_each(|word| tx.store((block.at + word * 8).get(), tag))?;
                            new = block.at.get();
                        }
                        tx.store(place, new)?;
                        if old != 0 {
                            tx.free(old)?;
                        }
                    }
                    let bytes: Vec<u8> = RANGE.flat_map(|_| u64::to_le_bytes(round)).collect();
                    tx.write(word_at(undo, RANGE.start), &bytes)
                });
                outcome.expect("room in the heap");
            });
        }
    })
}

fn long(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let room_for_one_entry = 256;
    explore(explorer, room_for_one_entry, |undo, twin| {
        for round in 1..4_u64 {
            let pairs: Vec<(u64, u64)> = (8..28).map(|word| (word * 2, word + round * 100)).collect();
            let aborts = round == 2;
            let kept = pairs.clone();
            let change = move |table: &mut NameTable| {
                if !aborts {
                    table.extend(kept.iter().copied());
                }
            };
            twin.step(format!("transaction {round}"), change, || set(undo, &pairs, aborts));
        }
    })
}
