//! Keys as replication carries them: the pairs of the server's tables, whatever they mean.
//!
//! A key of the stream is the place of its table, a byte, and the key in that table. The tables are
//! sent in the order of their places.
//!
//! A patch is applied as one command: its changes, and the origin that the replica has with them,
//! are in one batch (REPL-3). Clients that watch, track or wait for a key hear of it as of any
//! change. An element names its collection by an id; if the record of none in the patch has the
//! id, all keys of the database count as changed.

use super::reads::Place;
use super::record::{COLLECTION, Collection, KeyRecord, damaged_by};
use super::tables::{DATABASES, SPACES, Tables};
use super::{Keyspace, Touch, after_prefix, functions};
use crate::replication::{Item, ORIGIN, Patch, ReplicaOrigin};
use everbyte_kv::{Changes, Error, Range, Result, Snapshot};
use everbyte_media::seeded;
use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// The places whose pairs are sent, in that order.
const PLACES: [Place; 5] = [Place::Main, Place::Keys, Place::Elements, Place::Deadlines, Place::State];

/// The tables, for the threads that read versions of them.
#[derive(Clone)]
pub(crate) struct ReplicatedTables(pub Arc<Tables>);

impl ReplicatedTables {
    /// Places are below this.
    pub(crate) const COUNT: u8 = PLACES.len() as u8;

    /// The difference of two versions at a place.
    pub(crate) fn changes(&self, place: u8, before: &Snapshot, after: &Snapshot) -> Result<Changes> {
        match self.table(place) {
            None => before.changes(after),
            Some(table) => before.table(table)?.changes(&after.table(table)?),
        }
    }

    /// The pairs of a version at a place.
    pub(crate) fn entries(&self, place: u8, of: &Snapshot, from: Bound<&[u8]>) -> Result<Range<'static>> {
        Ok(match self.table(place) {
            None => of.range::<[u8]>((from, Bound::Unbounded)),
            Some(table) => of.table(table)?.range::<[u8]>((from, Bound::Unbounded)),
        })
    }

    fn table(&self, place: u8) -> Option<&everbyte_kv::KvTable> {
        match PLACES.get(usize::from(place))? {
            Place::Main | Place::Local => None,
            Place::Keys => Some(&self.0.keys),
            Place::Elements => Some(&self.0.elements),
            Place::Deadlines => Some(&self.0.deadlines),
            Place::State => Some(&self.0.state),
        }
    }
}

/// The byte of a place; `None`: its pairs are not sent.
pub(super) fn place_of(place: Place) -> Option<u8> {
    PLACES.iter().position(|known| *known == place).map(|place| place as u8)
}

/// The place and the key of a key of the stream.
fn split(key: &[u8]) -> Result<(Place, &[u8])> {
    let found = key.split_first().and_then(|(place, key)| Some((*PLACES.get(usize::from(*place))?, key)));
    found.ok_or_else(|| damaged_by("a primary sent a key of a table that this server does not have"))
}

/// The space and the id of a collection in the key of an element.
fn collection_of(key: &[u8]) -> Option<(u8, u64)> {
    let (space, rest) = key.split_first()?;
    Some((*space, u64::from_be_bytes(*rest.first_chunk()?)))
}

/// Collections in a patch, by space and id.
#[derive(Default)]
struct Seen {
    /// Those whose records are in it.
    named: BTreeSet<(u8, u64)>,
    /// Those whose elements are.
    elements: BTreeSet<(u8, u64)>,
}

impl Seen {
    fn name(&mut self, space: u8, record: &[u8]) -> Result<()> {
        if let KeyRecord::Collection(Collection { id, .. }) =
            KeyRecord::parse(&record[..record.len().min(COLLECTION + 1)])?
        {
            self.named.insert((space, id));
        }
        Ok(())
    }
}

impl Keyspace<'_> {
    /// Whether the keys are a mixture of two versions of a primary, in the version that commands
    /// read.
    pub(crate) fn is_mixture(&mut self) -> Result<bool> {
        if self.tables.local().is_none() {
            return Ok(false);
        }
        let origin = match self.value(Place::Local, ORIGIN) {
            // The version is from before the table was made.
            Err(Error::TableGone { .. }) => None,
            origin => origin?,
        };
        Ok(origin.and_then(|bytes| ReplicaOrigin::parse(&bytes)).is_some_and(|origin| origin.is_between()))
    }

    /// The keys are to be this server's own: in the batch of the first change.
    pub(super) fn forget_origin(&mut self) -> Result<()> {
        if self.tables.local().is_some() {
            self.remove_value(Place::Local, ORIGIN)?;
        }
        Ok(())
    }

    /// Applies a patch of the primary, and records where the keys come from then.
    pub(crate) fn apply(&mut self, patch: &Patch) -> Result<()> {
        if seeded("server-replica-position-first") {
            self.put_value(Place::Local, ORIGIN, &patch.origin.bytes())?;
            self.commit_apart();
        }
        let mut seen = Seen::default();
        let mut all = patch.origin.is_between();
        for item in &patch.items {
            match item {
                Item::Put(key, value) => {
                    let (place, key) = split(key)?;
                    self.name_old(place, key, &mut seen)?;
                    let was_there = self.put_value(place, key, value)?;
                    self.changed(place, key, Some(value), i64::from(!was_there), &mut seen)?;
                }
                Item::Delete(key) => {
                    let (place, key) = split(key)?;
                    self.name_old(place, key, &mut seen)?;
                    let was_there = self.remove_value(place, key)?;
                    self.changed(place, key, None, -i64::from(was_there), &mut seen)?;
                }
                Item::Clear(from, to) => all |= self.clear_sent(from, to, &mut seen)?,
            }
        }
        let unnamed: BTreeSet<u8> = seen.elements.difference(&seen.named).map(|(space, _)| *space).collect();
        if all {
            self.remembered.forget_all();
            self.functions_changed();
        }
        for database in 0..DATABASES as u8 {
            if self.tracks && (all || unnamed.contains(&self.remembered.spaces.of(database))) {
                self.touched.push(Touch::Cleared(database));
            }
        }
        if !seeded("server-replica-position-first") {
            self.put_value(Place::Local, ORIGIN, &patch.origin.bytes())?;
        }
        Ok(())
    }

    /// Removes all keys from `from` to the one before `to`. Whether more has gone than elements of
    /// one collection, or deadlines.
    fn clear_sent(&mut self, from: &[u8], to: &[u8], seen: &mut Seen) -> Result<bool> {
        let Some(((first, from), (last, to))) = from.split_first().zip(to.split_first()) else { return Ok(false) };
        let mut is_much = false;
        for (place, table) in (0..).zip(PLACES).filter(|(place, _)| (*first..=*last).contains(place)) {
            if place == *last && to.is_empty() {
                break;
            }
            let low = if place == *first { Bound::Included(from) } else { Bound::Unbounded };
            let high = if place == *last { Bound::Excluded(to) } else { Bound::Unbounded };
            self.remove_range(table, (low, high))?;
            if table == Place::State && RangeBounds::<[u8]>::contains(&(low, high), SPACES) {
                self.replace_spaces(None)?;
            }
            match (table, collection_of(from).zip(from.get(..9).and_then(after_prefix))) {
                (Place::Deadlines, _) => {}
                (Place::Elements, Some((collection, end))) if place == *first && place == *last && *to <= end[..] => {
                    if self.tracks {
                        seen.elements.insert(collection);
                    }
                }
                _ => is_much = true,
            }
        }
        Ok(is_much)
    }

    /// Notes the collection whose record is about to change.
    fn name_old(&mut self, place: Place, key: &[u8], seen: &mut Seen) -> Result<()> {
        if let (Place::Keys, true, Some(space)) = (place, self.tracks, key.first()) {
            let first = |size: u64| 0..size.min(COLLECTION as u64 + 1);
            if let Some(record) = self.value_part(place, key, first)? {
                seen.name(*space, &record)?;
            }
        }
        Ok(())
    }

    /// Notes the change of a pair.
    fn changed(&mut self, place: Place, key: &[u8], value: Option<&[u8]>, gained: i64, seen: &mut Seen) -> Result<()> {
        match place {
            Place::Main => {
                let database = self.remembered.spaces.database_of(0);
                self.touch_replicated(database, key);
            }
            Place::Keys => {
                let Some((space, key)) = key.split_first() else {
                    return Err(damaged_by("a primary sent a record without a space"));
                };
                if let Some(Some(count)) = self.remembered.counts.get_mut(usize::from(*space)) {
                    *count = count.saturating_add_signed(gained);
                }
                if let Some(value) = value.filter(|_| self.tracks) {
                    seen.name(*space, value)?;
                }
                self.touch_replicated(self.remembered.spaces.database_of(*space), super::unstored_key(key));
            }
            Place::Elements if self.tracks => seen.elements.extend(collection_of(key)),
            Place::Elements => {}
            Place::Deadlines | Place::Local => {}
            Place::State if key == SPACES => {
                self.replace_spaces(value.map(<[u8]>::to_vec))?;
                for database in 0..DATABASES as u8 {
                    if self.tracks {
                        self.touched.push(Touch::Cleared(database));
                    }
                }
            }
            Place::State if key.starts_with(functions::PREFIX) => self.functions_changed(),
            Place::State => {}
        }
        Ok(())
    }

    fn touch_replicated(&mut self, database: u8, key: &[u8]) {
        if self.tracks {
            self.touched.push(Touch::Changed(database, key.to_vec()));
        }
    }
}
