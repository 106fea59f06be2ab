//! Keys in order: visits of a range either way, and its removal.

use super::reads::Place;
use super::record::{HEADER, KeyRecord, ValueType, damaged};
use super::tables::{random, record_key};
use super::{Keyspace, after_prefix, unstored_key};
use everbyte_kv::{Range, Result};
use everbyte_media::seeded;
use std::ops::Bound;

/// Keys removed at a time.
const TOGETHER: usize = 256;

/// Which keys, and in which order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpan<'b> {
    pub from: Bound<&'b [u8]>,
    pub to: Bound<&'b [u8]>,
    /// From the last to the first.
    pub backwards: bool,
}

/// A key met by [`Keyspace::visit`].
pub(crate) struct Visited<'v> {
    pub key: &'v [u8],
    pub kind: ValueType,
    /// The value of a string, if it was asked for.
    pub value: Option<&'v [u8]>,
}

/// A record met by a visit.
struct Held {
    key: Vec<u8>,
    kind: ValueType,
    value: Option<Vec<u8>>,
}

impl Held {
    fn visited(&self) -> Visited<'_> {
        Visited { key: &self.key, kind: self.kind, value: self.value.as_deref() }
    }
}

/// The records of a visit, but for those that have expired at `now`.
struct Records<'r> {
    range: Range<'r>,
    backwards: bool,
    values: bool,
    now: u64,
}

impl Records<'_> {
    fn next(&mut self) -> Result<Option<Held>> {
        while let Some((key, bytes)) =
            if self.backwards { self.range.next_back_ref()? } else { self.range.next_ref()? }
        {
            let record = KeyRecord::parse(bytes)?;
            if record.deadline() != 0 && record.deadline() < self.now {
                continue;
            }
            let key = unstored_key(key.get(1..).ok_or_else(damaged)?).to_vec();
            let value = (self.values && record.kind() == ValueType::String).then(|| bytes[HEADER..].to_vec());
            return Ok(Some(Held { key, kind: record.kind(), value }));
        }
        Ok(None)
    }
}

/// The key of a random entry. One way down the tree meets the entries of full nodes too rarely. So
/// several keys are drawn, and one of them is chosen by weights that make up for it.
fn sampled(range: &Range<'_>, mut seed: u64) -> Result<Option<Vec<u8>>> {
    const SAMPLES: usize = 16;
    let (mut found, mut total) = (None, 0_u128);
    for _ in 0..SAMPLES {
        let Some((weight, key)) = range.sample(&mut || random(&mut seed))? else { continue };
        // Each key so far is the one found with the chance of its own weight among all.
        total += u128::from(weight);
        if u128::from(random(&mut seed)) % total < u128::from(weight) {
            found = Some(key);
        }
    }
    Ok(found)
}

impl Keyspace<'_> {
    /// Visits keys while `each` says `true`; with the values of strings if `values`.
    pub(crate) fn visit(
        &mut self,
        span: KeySpan<'_>,
        values: bool,
        each: &mut dyn FnMut(Visited<'_>) -> bool,
    ) -> Result<()> {
        let (space, now, backwards) = (self.space, self.now, span.backwards);
        let (start, end) = self.record_bounds(span.from, span.to);
        let records = (Place::Keys, start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice));
        let nothing = (Place::Main, Bound::Included(&b""[..]), Bound::Excluded(&b""[..]));
        let plain = if space == 0 { (Place::Main, span.from, span.to) } else { nothing };
        let mut ranges = self.several([plain, records])?.into_iter();
        let (Some(mut plain), Some(range)) = (ranges.next(), ranges.next()) else { return Ok(()) };
        let mut records = Records { range, backwards, values, now };
        // The next record is held back until the plain keys before it are through.
        let mut held = records.next()?;
        loop {
            let entry = if backwards { plain.next_back_entry()? } else { plain.next_entry()? };
            let (key, value) = match (entry, values) {
                (Some(entry), true) => {
                    let (key, value) = entry.read()?;
                    (key, Some(value))
                }
                (Some(entry), false) => (entry.key()?, None),
                (None, _) => break,
            };
            let is_before = |first: &Held| if backwards { *first.key > *key } else { *first.key < *key };
            while let Some(first) = held.take_if(|first| is_before(first)) {
                if !each(first.visited()) {
                    return Ok(());
                }
                held = records.next()?;
            }
            if !each(Visited { key, kind: ValueType::String, value }) {
                return Ok(());
            }
        }
        while let Some(last) = held {
            if !each(last.visited()) {
                return Ok(());
            }
            held = records.next()?;
        }
        Ok(())
    }

    /// A key that any one is as likely to be as any other, or nearly as likely if there are many:
    /// these are drawn by [`sampled`]. `None` without any.
    pub(crate) fn random_key(&mut self) -> Result<Option<Vec<u8>>> {
        /// Draws that may meet a key that has expired.
        const DRAWS: usize = 100;
        /// Keys of a table at most that are passed over up to the drawn one, from the nearer end.
        const PASSED_MAX: u64 = 512;
        for _ in 0..DRAWS {
            let (plain, all) = (if self.space == 0 { self.len_of(Place::Main)? } else { 0 }, self.len()?);
            if all == 0 {
                return Ok(None);
            }
            let rank = self.random() % all;
            let (start, end) = self.record_bounds(Bound::Unbounded, Bound::Unbounded);
            let (place, count, rank) =
                if rank < plain { (Place::Main, plain, rank) } else { (Place::Keys, all - plain, rank - plain) };
            let seed = self.random();
            let mut range = match place {
                Place::Main => self.entries(place, Bound::Unbounded, Bound::Unbounded)?,
                _ => self.entries(place, start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice))?,
            };
            let from_end = count - 1 - rank;
            let stored = if count > PASSED_MAX {
                sampled(&range, seed)?
            } else if rank <= from_end {
                range.skip_entries(rank)?;
                range.next_entry()?.map(|entry| entry.key().map(<[u8]>::to_vec)).transpose()?
            } else {
                range.skip_back_entries(from_end)?;
                range.next_back_entry()?.map(|entry| entry.key().map(<[u8]>::to_vec)).transpose()?
            };
            let Some(stored) = stored else { continue };
            if place == Place::Main {
                return Ok(Some(stored));
            }
            let key = unstored_key(stored.get(1..).ok_or_else(damaged)?).to_vec();
            if self.record(&key)?.is_some() {
                return Ok(Some(key));
            }
        }
        let mut found = None;
        self.visit(KeySpan { from: Bound::Unbounded, to: Bound::Unbounded, backwards: false }, false, &mut |met| {
            found = Some(met.key.to_vec());
            false
        })?;
        Ok(found)
    }

    /// The bounds of a range of keys in the table of keys.
    fn record_bounds(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let space = self.space;
        let start = match from {
            Bound::Unbounded => Bound::Included(vec![space]),
            bound => bound.map(|key| record_key(space, key)),
        };
        let end = match to {
            Bound::Unbounded => after_prefix(&[space]).map_or(Bound::Unbounded, Bound::Excluded),
            bound => bound.map(|key| record_key(space, key)),
        };
        (start, end)
    }

    /// The number of keys between two bounds. Plain strings are counted leaf by leaf.
    pub(crate) fn count_between(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<u64> {
        let now = self.now;
        let (start, end) = self.record_bounds(from, to);
        let mut number = if self.space == 0 { self.entries(Place::Main, from, to)?.count_entries()? } else { 0 };
        let range = self.entries(Place::Keys, start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice))?;
        let mut records = Records { range, backwards: false, values: false, now };
        while records.next()?.is_some() {
            number += 1;
        }
        Ok(number)
    }

    /// Deletes the keys between two bounds, at most `max` of them, the first ones; how many.
    pub(crate) fn delete_between(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>, max: u64) -> Result<u64> {
        if max == u64::MAX && self.space == 0 && !self.tracks && (seeded("server-range-plain") || self.no_records()?) {
            return self.remove_range(Place::Main, (from, to));
        }
        let (mut deleted, mut last) = (0, None::<Vec<u8>>);
        loop {
            let count = usize::try_from(max - deleted).unwrap_or(TOGETHER).min(TOGETHER);
            let from = last.as_deref().map_or(from, Bound::Excluded);
            let mut keys = Vec::new();
            if count > 0 {
                self.visit(KeySpan { from, to, backwards: false }, false, &mut |met| {
                    keys.push(met.key.to_vec());
                    keys.len() < count
                })?;
            }
            for key in &keys {
                deleted += u64::from(self.delete(key)?);
            }
            if keys.len() < TOGETHER || seeded("server-range-cut") {
                return Ok(deleted);
            }
            last = keys.pop();
        }
    }
}
