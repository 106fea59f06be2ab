//! [`TransactionRange`]: what a transaction sees of a range, noted as read while it is walked.

use crate::Result;
use crate::optimistic::Transaction;
use crate::range::{Bounds, Range};
use crate::tree::TABLE_LEN;
use std::collections::btree_map;
use std::iter::FusedIterator;

type Pair = (Vec<u8>, Vec<u8>);

/// Entries in key order, a transaction's own writes among them; [`DoubleEndedIterator`] walks them
/// from the end. The part that was walked counts as read by the transaction.
pub struct TransactionRange<'t> {
    transaction: &'t Transaction,
    table: [u8; TABLE_LEN],
    low: Vec<u8>,
    high: Vec<u8>,
    /// The version's entries.
    seen: Ends<Seen<'t>>,
    /// The transaction's own.
    own: Ends<btree_map::Range<'t, Vec<u8>, Option<Vec<u8>>>>,
    /// Places of the parts walked from the front and from the back in the transaction's reads.
    front: Option<usize>,
    back: Option<usize>,
}

/// The version's entries that no cut of the transaction hides, with full keys.
struct Seen<'t> {
    range: Range<'static>,
    transaction: &'t Transaction,
    table: [u8; TABLE_LEN],
}

impl Seen<'_> {
    fn full(&self, pair: Result<Pair>) -> Option<Result<Pair>> {
        let pair = pair.map(|(key, value)| ([&self.table[..], &key].concat(), value));
        match &pair {
            Ok((key, _)) if self.transaction.writes.is_cut(key) => None,
            _ => Some(pair),
        }
    }
}

impl Iterator for Seen<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        loop {
            let pair = self.range.next()?;
            if let Some(pair) = self.full(pair) {
                return Some(pair);
            }
        }
    }
}

impl DoubleEndedIterator for Seen<'_> {
    fn next_back(&mut self) -> Option<Result<Pair>> {
        loop {
            let pair = self.range.next_back()?;
            if let Some(pair) = self.full(pair) {
                return Some(pair);
            }
        }
    }
}

/// An iterator that shows its items at both ends before they are taken.
struct Ends<I: DoubleEndedIterator> {
    rest: I,
    front: Option<I::Item>,
    back: Option<I::Item>,
}

impl<I: DoubleEndedIterator> Ends<I> {
    fn new(rest: I) -> Ends<I> {
        Ends { rest, front: None, back: None }
    }

    fn front(&mut self) -> &mut Option<I::Item> {
        if self.front.is_none() {
            self.front = self.rest.next().or_else(|| self.back.take());
        }
        &mut self.front
    }

    fn back(&mut self) -> &mut Option<I::Item> {
        if self.back.is_none() {
            self.back = self.rest.next_back().or_else(|| self.front.take());
        }
        &mut self.back
    }
}

impl<'t> TransactionRange<'t> {
    pub(super) fn new(transaction: &'t Transaction, bounds: Bounds) -> TransactionRange<'t> {
        let (low, high) = (bounds.low.clone(), bounds.high());
        let table = *low.first_chunk().expect("a full key begins with its table");
        let range = Range::new(transaction.tree.cursor(), bounds);
        let own = Ends::new(transaction.writes.range(&low, &high));
        let seen = Ends::new(Seen { range, transaction, table });
        TransactionRange { transaction, table, low, high, seen, own, front: None, back: None }
    }

    /// Notes what was walked from one end: up to `key`, or all (OPT-1).
    fn note(&mut self, from_back: bool, key: Option<&[u8]>) {
        let mut reads = self.transaction.reads.borrow_mut();
        let (low, high) = (&self.low, &self.high);
        if from_back {
            let index = *self.back.get_or_insert_with(|| reads.add_range(high.clone(), high.clone()));
            reads.extend_from(index, key.unwrap_or(low));
            return;
        }
        let index = *self.front.get_or_insert_with(|| reads.add_range(low.clone(), low.clone()));
        match key {
            Some(key) => reads.extend_to(index, key),
            None => reads.set_high(index, high),
        }
    }

    /// The next entry from one end: the nearer one of the version's and the transaction's own.
    fn step(&mut self, from_back: bool) -> Option<Result<Pair>> {
        loop {
            let (seen, own) = match from_back {
                false => (self.seen.front(), self.own.front()),
                true => (self.seen.back(), self.own.back()),
            };
            let own_first = match (&*seen, &*own) {
                (Some(Err(_)), _) => return seen.take(),
                (Some(Ok((key, _))), Some((own, _))) if key == *own => {
                    *seen = None; // the transaction's own hides it
                    continue;
                }
                (Some(Ok((key, _))), Some((own, _))) => (*own < key) != from_back,
                (None, own) => own.is_some(),
                (Some(_), None) => false,
            };
            let (key, value) = if own_first {
                let (key, value) = own.take()?;
                (key.clone(), value.clone())
            } else {
                let Some(Ok((key, value))) = seen.take() else {
                    self.note(from_back, None);
                    return None;
                };
                (key, Some(value))
            };
            self.note(from_back, Some(&key));
            if let Some(value) = value {
                return Some(Ok(self.pair(&key, value)));
            }
        }
    }

    fn pair(&self, key: &[u8], value: Vec<u8>) -> Pair {
        debug_assert!(key.starts_with(&self.table));
        (key[TABLE_LEN..].to_vec(), value)
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        self.step(false)
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Result<Pair>> {
        self.step(true)
    }
}

impl FusedIterator for TransactionRange<'_> {}
