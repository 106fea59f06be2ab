//! Operations of a transaction, and what each returns by the transaction and by a model.

use everbyte_kv::{Batch, KvTable, Transaction};
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The main table and one with a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) tables: [Pairs; 2],
    marks: Vec<[Pairs; 2]>,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Get(usize, Vec<u8>),
    LenOf(usize, Vec<u8>),
    /// A range, from its front or its back, so many entries of it.
    Walk(usize, Vec<u8>, Vec<u8>, bool, usize),
    /// A range from both ends at once.
    Ends(usize, Vec<u8>, Vec<u8>),
    Len(usize),
    Put(usize, Vec<u8>, Vec<u8>),
    Delete(usize, Vec<u8>),
    Cut(usize, Vec<u8>, Vec<u8>),
    Mark,
    /// Goes back to one of so many savepoints.
    Back(usize),
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Got {
    Value(Option<Vec<u8>>),
    Pairs(Vec<(Vec<u8>, Vec<u8>)>),
    Number(Option<u64>),
    Nothing,
}

/// Operations of one transaction. `unique` makes its values unlike all others.
pub(crate) fn draw(random: &mut Random, keys: &[Vec<u8>], unique: u64) -> Vec<Op> {
    let mut marks = 0;
    let ops = 1 + random.below(8);
    (0..ops)
        .map(|step| {
            let table = random.index(2);
            let key = keys[random.index(keys.len())].clone();
            let mut ends = [key.clone(), keys[random.index(keys.len())].clone()];
            ends.sort();
            let [low, high] = ends;
            match random.below(20) {
                0..4 => Op::Get(table, key),
                4 => Op::LenOf(table, key),
                5..9 => Op::Walk(table, low, high, random.chance(30), random.pick(&[1, 3, usize::MAX])),
                9 => Op::Ends(table, low, high),
                10 => Op::Len(table),
                11 | 12 => Op::Delete(table, key),
                13 => Op::Cut(table, low, high),
                14 => {
                    marks += 1;
                    Op::Mark
                }
                15 if marks > 0 => {
                    let back = random.index(marks);
                    marks = back + 1;
                    Op::Back(back)
                }
                _ => {
                    let mut value = format!("{unique}:{step}").into_bytes();
                    value.resize(random.pick(&[value.len(), 40, 600]), b'.');
                    Op::Put(table, key, value)
                }
            }
        })
        .collect()
}

impl Model {
    pub(crate) fn run(&mut self, op: &Op) -> Got {
        let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        match op {
            Op::Get(table, key) => Got::Value(self.tables[*table].get(key).cloned()),
            Op::LenOf(table, key) => Got::Number(self.tables[*table].get(key).map(|value| value.len() as u64)),
            Op::Walk(table, low, high, back, take) => {
                let range = self.tables[*table].range::<Vec<u8>, _>((Included(low), Excluded(high)));
                Got::Pairs(match back {
                    false => range.take(*take).map(owned).collect(),
                    true => range.rev().take(*take).map(owned).collect(),
                })
            }
            Op::Ends(table, low, high) => {
                let range = self.tables[*table].range::<Vec<u8>, _>((Included(low), Excluded(high)));
                Got::Pairs(from_both_ends(range.map(owned)))
            }
            Op::Len(table) => Got::Number(Some(self.tables[*table].len() as u64)),
            Op::Put(table, key, value) => {
                self.tables[*table].insert(key.clone(), value.clone());
                Got::Nothing
            }
            Op::Delete(table, key) => {
                self.tables[*table].remove(key);
                Got::Nothing
            }
            Op::Cut(table, low, high) => {
                let before = self.tables[*table].len();
                self.tables[*table].retain(|key, _| !(low <= key && key < high));
                Got::Number(Some((before - self.tables[*table].len()) as u64))
            }
            Op::Mark => {
                self.marks.push(self.tables.clone());
                Got::Nothing
            }
            Op::Back(index) => {
                self.tables = self.marks[*index].clone();
                self.marks.truncate(index + 1);
                Got::Nothing
            }
        }
    }

    /// The transaction is over.
    pub(crate) fn end(&mut self) {
        self.marks.clear();
    }
}

fn from_both_ends<T>(mut range: impl DoubleEndedIterator<Item = T>) -> Vec<T> {
    let (mut all, mut front) = (Vec::new(), true);
    while let Some(item) = if front { range.next() } else { range.next_back() } {
        all.push(item);
        front = !front;
    }
    all
}

/// Calls `$then` with the faces of a table, the main one or the named one.
macro_rules! on {
    ($tx:expr, $table:expr, $named:expr, |$face:ident| $then:expr) => {
        match $table {
            0 => {
                let $face = &mut *$tx;
                $then
            }
            _ => {
                let mut table = $tx.table($named).unwrap();
                let $face = &mut table;
                $then
            }
        }
    };
}

/// Runs the operations; a savepoint's index is its place among those made.
pub(crate) fn run(tx: &mut Transaction, named: &KvTable, ops: &[Op]) -> Vec<Got> {
    let mut marks = Vec::new();
    ops.iter()
        .map(|op| {
            std::thread::yield_now();
            match op {
                Op::Get(table, key) => Got::Value(on!(tx, *table, named, |face| face.get(key).unwrap())),
                Op::LenOf(table, key) => Got::Number(on!(tx, *table, named, |face| face.len_of(key).unwrap())),
                Op::Walk(table, low, high, back, take) => on!(tx, *table, named, |face| {
                    let range = face.range(low.as_slice()..high.as_slice());
                    Got::Pairs(match back {
                        false => range.take(*take).collect::<Result<_, _>>().unwrap(),
                        true => range.rev().take(*take).collect::<Result<_, _>>().unwrap(),
                    })
                }),
                Op::Ends(table, low, high) => on!(tx, *table, named, |face| {
                    Got::Pairs(from_both_ends(face.range(low.as_slice()..high.as_slice()).map(Result::unwrap)))
                }),
                Op::Len(table) => Got::Number(Some(on!(tx, *table, named, |face| face.len().unwrap()))),
                Op::Put(table, key, value) => {
                    on!(tx, *table, named, |face| face.put(key, value).unwrap());
                    Got::Nothing
                }
                Op::Delete(table, key) => {
                    on!(tx, *table, named, |face| face.delete(key).unwrap());
                    Got::Nothing
                }
                Op::Cut(table, low, high) => Got::Number(Some(on!(tx, *table, named, |face| face
                    .delete_range(low.as_slice()..high.as_slice())
                    .unwrap()))),
                Op::Mark => {
                    marks.push(tx.savepoint());
                    Got::Nothing
                }
                Op::Back(index) => {
                    tx.roll_back(marks[*index]).unwrap();
                    assert!(marks.drain(index + 1..).all(|later| tx.roll_back(later).is_err()));
                    Got::Nothing
                }
            }
        })
        .collect()
}

/// The writes of `ops` alone, in a batch of the writer.
pub(crate) fn write(batch: &mut Batch<'_>, named: &KvTable, ops: &[Op]) {
    for op in ops {
        match op {
            Op::Put(table, key, value) => on!(batch, *table, named, |face| _ = face.put(key, value).unwrap()),
            Op::Delete(table, key) => on!(batch, *table, named, |face| _ = face.delete(key).unwrap()),
            Op::Cut(table, low, high) => {
                on!(batch, *table, named, |face| _ = face.delete_range(low.as_slice()..high.as_slice()).unwrap());
            }
            _ => {}
        }
    }
}

/// The operations that [`write`] runs.
pub(crate) fn writes(ops: &[Op]) -> Vec<Op> {
    ops.iter().filter(|op| matches!(op, Op::Put(..) | Op::Delete(..) | Op::Cut(..))).cloned().collect()
}
