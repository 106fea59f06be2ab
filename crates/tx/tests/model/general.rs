//! Random transactions against a plain model: updates, blocks, nesting, errors, panics, and opening
//! again in between.

use crate::common::{create, table};
use everbyte_tx::{Error, Tx, TxError, Undo};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

const WORDS: u64 = 512;

#[derive(Clone, Debug)]
enum Step {
    Write { word: u64, words: u64, value: u64 },
    Name { words: Vec<u64>, value: u64 },
    Allocate { slot: u64, size: u64 },
    Free { slot: u64 },
    Nested { steps: Vec<Step>, end: End },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Commit,
    Fail,
    Panic,
}

#[derive(Clone, Debug)]
struct Program {
    steps: Vec<Step>,
    end: End,
    reopen: bool,
}

/// The words, and for each slot the size and content of its block.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    words: Vec<u64>,
    blocks: BTreeMap<u64, (u64, u64)>,
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![6 => Just(End::Commit), 2 => Just(End::Fail), 1 => Just(End::Panic)]
}

fn step() -> impl Strategy<Value = Step> {
    let leaf = prop_oneof![
        (0..WORDS - 40, 1u64..40, 1u64..1000).prop_map(|(word, words, value)| Step::Write { word, words, value }),
        (prop::collection::vec(0..WORDS, 1..70), 1u64..1000).prop_map(|(words, value)| Step::Name { words, value }),
        (0u64..12, prop_oneof![1u64..300, 1000u64..9000, 9000u64..100_000])
            .prop_map(|(slot, size)| Step::Allocate { slot, size }),
        (0u64..12).prop_map(|slot| Step::Free { slot }),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        (prop::collection::vec(inner, 0..4), end()).prop_map(|(steps, end)| Step::Nested { steps, end })
    })
}

fn program() -> impl Strategy<Value = Program> {
    (prop::collection::vec(step(), 0..6), end(), prop::bool::weighted(0.2)).prop_map(|(steps, end, reopen)| Program {
        steps,
        end,
        reopen,
    })
}

fn stop() -> Error {
    Error::NoLane { object: "on purpose".into() }
}

/// Runs steps; whether all nested ones committed.
fn perform(undo: &Undo, tx: &Tx<'_>, at: u64, steps: &[Step], model: &mut Model) -> Result<bool, Error> {
    let mut whole = true;
    let pointer = |slot: u64| at + (WORDS + slot) * 8;
    for step in steps {
        match step {
            Step::Write { word, words, value } => {
                tx.write(at + word * 8, &value.to_le_bytes().repeat(*words as usize))?;
                model.words[*word as usize..(word + words) as usize].fill(*value);
            }
            Step::Name { words, value } => {
                tx.name_ranges(&words.iter().map(|word| (at + word * 8, 8)).collect::<Vec<_>>())?;
                for &word in words {
                    tx.store(at + word * 8, *value)?;
                    model.words[word as usize] = *value;
                }
            }
            Step::Allocate { slot, size } => {
                let old = tx.media().load(pointer(*slot));
                if old != 0 {
                    tx.free(old)?;
                }
                let block = tx.allocate(*size)?;
                tx.store(block.end() - 8, *size)?;
                tx.store(pointer(*slot), block.at.get())?;
                model.blocks.insert(*slot, (block.size.get(), *size));
            }
            Step::Free { slot } => {
                let old = tx.media().load(pointer(*slot));
                if old != 0 {
                    tx.free(old)?;
                    tx.store(pointer(*slot), 0)?;
                }
                model.blocks.remove(slot);
            }
            Step::Nested { steps, end } => {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    undo.run(|inner| {
                        let all = perform(undo, inner, at, steps, model)?;
                        finish(*end).map(|()| all)
                    })
                }));
                whole &= matches!(outcome, Ok(Ok(true)));
            }
        }
    }
    Ok(whole)
}

fn finish(end: End) -> Result<(), Error> {
    match end {
        End::Commit => Ok(()),
        End::Fail => Err(stop()),
        // without a message on the terminal
        End::Panic => std::panic::resume_unwind(Box::new("on purpose")),
    }
}

fn observe(undo: &Undo, at: u64) -> Model {
    let media = undo.media();
    let words = (0..WORDS).map(|word| media.load(at + word * 8)).collect();
    let mut reachable: BTreeSet<u64> =
        [at, media.load(undo.heap().object().prime() + everbyte_tx::layout::LANES_AT)].into();
    let mut blocks = BTreeMap::new();
    for slot in 0..12 {
        let block = media.load(at + (WORDS + slot) * 8);
        if block != 0 {
            let size = undo.heap().size_of(block).unwrap();
            blocks.insert(slot, (size, media.load(block + size - 8)));
            reachable.insert(block);
        }
    }
    assert_eq!(undo.heap().check(Some(&reachable)), []);
    Model { words, blocks }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn transactions_agree_with_the_model(programs in prop::collection::vec(program(), 1..12)) {
        let (store, mut undo) = create(16 << 20, 8 << 20);
        let at = table(&undo, WORDS + 12);
        let mut model = Model { words: vec![0; WORDS as usize], ..Model::default() };
        for program in programs {
            let mut next = model.clone();
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                undo.run(|tx| {
                    let whole = perform(&undo, tx, at, &program.steps, &mut next)?;
                    finish(program.end).map(|()| whole)
                })
            }));
            match (&outcome, program.end) {
                (Ok(Ok(whole)), End::Commit) => {
                    prop_assert!(whole, "a failure inside dooms the outermost");
                    model = next;
                }
                (Ok(Err(TxError::Doomed)), End::Commit) | (Err(_), End::Panic) => {}
                (Ok(Err(TxError::Aborted(_))), End::Fail) => {}
                other => prop_assert!(false, "{:?}", other),
            }
            prop_assert_eq!(&observe(&undo, at), &model);
            if program.reopen {
                drop(undo);
                undo = Undo::open(store.object("test").unwrap()).unwrap();
                prop_assert_eq!(&observe(&undo, at), &model);
            }
        }
    }
}
