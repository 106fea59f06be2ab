//! Collections: lists, sets, sorted sets and hashes as ranges of the table of elements.
//!
//! A command opens the collection of its key, reads and changes elements, and stores the collection
//! again with its new count; one without elements is removed by that. So a collection of any size
//! is changed at the cost of the elements touched.
//!
//! Members and fields lie in the order of a hash of theirs (`hashed`), so that a random one is
//! found in logarithmic time, and a cursor of HSCAN, SSCAN and ZSCAN is a hash.

use super::reads::Place;
use super::record::{Collection, KeyRecord, ValueType, damaged};
use super::sorted_sets::{BEHIND_MEMBERS, BY_MEMBER};
use super::tables::{element_key, record_key};
use super::{KeyError, Keyspace, after_prefix};
use everbyte_kv::{Range, Result};
use everbyte_media::seeded;
use std::ops::Bound;

/// Ids reserved at a time.
const IDS: u64 = 1024;
/// Bytes of a hash before a member or field.
pub(crate) const HASH: usize = 8;

/// The place of a member or field among the others: 8 bytes of FNV-1a with the finalizer of
/// MurmurHash3, and the bytes themselves.
pub(crate) fn hashed(member: &[u8]) -> Vec<u8> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in member {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ hash >> 33).wrapping_mul(factor);
    }
    hash ^= hash >> 33;
    [&hash.to_be_bytes()[..], member].concat()
}

/// Which elements, and in which order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementSpan<'b> {
    pub from: Bound<&'b [u8]>,
    pub to: Bound<&'b [u8]>,
    /// From the end to the start.
    pub backwards: bool,
}

/// A member or field, its hash, and its value, which is empty if it was not asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashedMember<'m> {
    pub hash: u64,
    pub member: &'m [u8],
    pub value: &'m [u8],
}

impl ElementSpan<'_> {
    /// All elements.
    pub(crate) const ALL: ElementSpan<'static> =
        ElementSpan { from: Bound::Unbounded, to: Bound::Unbounded, backwards: false };
}

impl Collection {
    /// The first bytes of the elements that are members or fields: a sorted set has others, too.
    pub(crate) fn member_prefix(&self) -> &'static [u8] {
        if self.kind == ValueType::SortedSet { BY_MEMBER } else { b"" }
    }

    /// The members or fields behind one that was met, or all, in the order of their hashes.
    pub(crate) fn members_behind<'b>(&self, last: Option<&'b [u8]>) -> ElementSpan<'b> {
        let (first, to) = match self.kind {
            ValueType::SortedSet => (Bound::Included(BY_MEMBER), Bound::Excluded(BEHIND_MEMBERS)),
            _ => (Bound::Unbounded, Bound::Unbounded),
        };
        ElementSpan { from: last.map_or(first, Bound::Excluded), to, backwards: false }
    }

    /// The element of a member or field.
    pub(crate) fn member_element(&self, member: &[u8]) -> Vec<u8> {
        [self.member_prefix(), &hashed(member)].concat()
    }
}

impl Keyspace<'_> {
    /// The collection of this type at a key; `None` without such a key.
    pub(crate) fn collection(
        &mut self,
        key: &[u8],
        kind: ValueType,
    ) -> std::result::Result<Option<Collection>, KeyError> {
        match self.record(key)? {
            Some(KeyRecord::Collection(collection)) if collection.kind == kind => Ok(Some(collection)),
            Some(_) => Err(KeyError::WrongType),
            None if self.plain_size(key)?.is_some() => Err(KeyError::WrongType),
            None => Ok(None),
        }
    }

    /// An empty collection for a key that is not there. It exists once it is stored.
    pub(crate) fn new_collection(&mut self, key: &[u8], kind: ValueType) -> Result<Collection> {
        if !seeded("server-expired-kept") {
            self.vacate(key)?; // an expired record
        }
        self.collection_without_key(kind)
    }

    /// An empty collection for a key that keeps another one, which may still be read, until
    /// `store_in_place` gives it this one.
    pub(crate) fn collection_without_key(&mut self, kind: ValueType) -> Result<Collection> {
        Ok(Collection { kind, deadline: 0, id: self.new_id()?, count: 0, first: 1 << 63 })
    }

    /// Stores a collection at a key in place of whatever it had; without elements the key
    /// is removed.
    pub(crate) fn store_in_place(&mut self, key: &[u8], collection: Option<&Collection>) -> Result<()> {
        self.delete(key)?;
        collection.map_or(Ok(()), |collection| self.store(key, collection))
    }

    /// Stores a collection whose count or place has changed; one without elements is removed.
    pub(crate) fn store(&mut self, key: &[u8], collection: &Collection) -> Result<()> {
        if collection.count == 0 {
            let deadline = if seeded("server-empty-deadline") { 0 } else { collection.deadline };
            self.drop_record(key, &KeyRecord::Collection(Collection { deadline, ..*collection }))?;
        } else if seeded("server-count-stale") && self.record(key)?.is_some() {
            // The record stays as it is.
        } else if !self.put_value(Place::Keys, &record_key(self.space, key), &collection.bytes())? {
            self.count(1);
        }
        self.touch(key);
        Ok(())
    }

    /// Tells that elements of a collection have changed, its record not.
    pub(crate) fn touch_collection(&mut self, key: &[u8]) {
        self.touch(key);
    }

    /// An element's value.
    pub(crate) fn element(&mut self, of: &Collection, element: &[u8]) -> Result<Option<Vec<u8>>> {
        self.value(Place::Elements, &element_key(self.space, of.id, element))
    }

    /// The size of an element's value, which is not read.
    pub(crate) fn element_size(&mut self, of: &Collection, element: &[u8]) -> Result<Option<u64>> {
        self.value_size(Place::Elements, &element_key(self.space, of.id, element))
    }

    /// Gives an element a value; whether it was there.
    pub(crate) fn put_element(&mut self, of: &Collection, element: &[u8], value: &[u8]) -> Result<bool> {
        self.put_value(Place::Elements, &element_key(self.space, of.id, element), value)
    }

    /// Removes an element; whether it was there.
    pub(crate) fn remove_element(&mut self, of: &Collection, element: &[u8]) -> Result<bool> {
        self.remove_value(Place::Elements, &element_key(self.space, of.id, element))
    }

    /// Visits elements and their values in order while `each` says `true`.
    pub(crate) fn visit_elements(
        &mut self,
        of: &Collection,
        span: ElementSpan<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.walk(of, span, true, each)
    }

    /// Visits elements in order while `each` says `true`; with their values if `values`, else these
    /// are not read, and empty.
    pub(crate) fn walk(
        &mut self,
        of: &Collection,
        span: ElementSpan<'_>,
        values: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.walk_past(of, span, 0, values, each)
    }

    /// As `walk`, without the first `skip` elements, which are passed over.
    pub(super) fn walk_past(
        &mut self,
        of: &Collection,
        span: ElementSpan<'_>,
        skip: u64,
        values: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let (from, to) = self.element_bounds(of, span);
        let prefix = element_key(self.space, of.id, b"").len();
        let mut range =
            self.entries(Place::Elements, from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))?;
        match (skip, span.backwards) {
            (0, _) => {}
            (_, true) => range.skip_back_entries(skip)?,
            (_, false) => range.skip_entries(skip)?,
        }
        while let Some(entry) = if span.backwards { range.next_back_entry()? } else { range.next_entry()? } {
            let (key, value) = if values { entry.read()? } else { (entry.key()?, &[][..]) };
            if !each(key.get(prefix..).ok_or_else(damaged)?, value) {
                break;
            }
        }
        Ok(())
    }

    /// Several spans of elements, to be walked side by side.
    pub(super) fn element_ranges<const N: usize>(
        &mut self,
        of: &Collection,
        spans: [ElementSpan<'_>; N],
    ) -> Result<[Range<'_>; N]> {
        let bounds = spans.map(|span| self.element_bounds(of, span));
        let ranges = bounds
            .each_ref()
            .map(|(from, to)| (Place::Elements, from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice)));
        self.several(ranges)?.try_into().map_err(|_| damaged())
    }

    /// Visits members or fields in the order of their hashes, from a hash on, while `each` says
    /// `true`; with their values if `values`.
    pub(crate) fn walk_members(
        &mut self,
        of: &Collection,
        hash: u64,
        values: bool,
        each: &mut dyn FnMut(HashedMember<'_>) -> bool,
    ) -> Result<()> {
        let prefix = of.member_prefix();
        let from = [prefix, &hash.to_be_bytes()].concat();
        let span = ElementSpan { from: Bound::Included(&from), ..of.members_behind(None) };
        let mut odd = false;
        self.walk(of, span, values, &mut |element, value| match element
            .get(prefix.len()..)
            .and_then(|rest| rest.split_first_chunk::<HASH>())
        {
            Some((hash, member)) => each(HashedMember { hash: u64::from_be_bytes(*hash), member, value }),
            None => {
                odd = true;
                false
            }
        })?;
        if odd { Err(damaged()) } else { Ok(()) }
    }

    /// The bounds of a span in the table of elements.
    fn element_bounds(&self, of: &Collection, span: ElementSpan<'_>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let key = |element: &[u8]| element_key(self.space, of.id, element);
        let from = match span.from {
            Bound::Unbounded => Bound::Included(key(b"")),
            bound => bound.map(key),
        };
        let to = match span.to {
            Bound::Unbounded => after_prefix(&key(b"")).map_or(Bound::Unbounded, Bound::Excluded),
            bound => bound.map(key),
        };
        (from, to)
    }

    /// Removes the elements of a span; how many there were.
    pub(crate) fn remove_span(&mut self, of: &Collection, span: ElementSpan<'_>) -> Result<u64> {
        let (from, to) = self.element_bounds(of, span);
        self.remove_range(Place::Elements, (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice)))
    }

    /// Removes all elements of a collection.
    pub(super) fn remove_elements(&mut self, of: &Collection) -> Result<()> {
        self.remove_prefix(Place::Elements, &element_key(self.space, of.id, b"")).map(drop)
    }

    /// An id that was never given before.
    pub(super) fn new_id(&mut self) -> Result<u64> {
        if self.remembered.next_id >= self.remembered.id_end {
            let stored = match self.value(Place::State, b"next id")? {
                Some(bytes) => u64::from_le_bytes(bytes.try_into().map_err(|_| damaged())?),
                None => 1,
            };
            let next = stored.max(self.remembered.next_id);
            if !seeded("server-ids-unreserved") {
                self.put_value(Place::State, b"next id", &(next + IDS).to_le_bytes())?;
            }
            let beyond = u64::from(seeded("server-ids-beyond"));
            (self.remembered.next_id, self.remembered.id_end) = (next, next + IDS + beyond);
        }
        self.remembered.next_id += 1;
        Ok(self.remembered.next_id - 1)
    }

    /// A member or field that every one is as likely to be as any other; `None` without any. Draws
    /// `hashed` keys from a window of the hashes in which one lies on average, and of at most
    /// [`PICKED`] in it each with the same chance.
    pub(crate) fn random_element(&mut self, of: &Collection) -> Result<Option<Vec<u8>>> {
        const PICKED: u64 = 12;
        if of.count == 0 {
            return Ok(None);
        }
        let width = (u64::MAX / of.count).max(1);
        // One draw in twelve finds a member, so a thousand find one unless hashes were made to
        // collide; then the first of all has to do.
        const DRAWS: usize = 1000;
        for draw in 0..=DRAWS {
            let window = self.random() / width;
            let (from, last) = (window.saturating_mul(width), window.saturating_mul(width).saturating_add(width - 1));
            let chosen = self.random() % PICKED;
            let (from, last, chosen) = if draw == DRAWS { (0, u64::MAX, 0) } else { (from, last, chosen) };
            let (mut at, mut found) = (0, None);
            self.walk_members(of, from, false, &mut |HashedMember { hash, member, .. }| {
                if hash > last {
                    return false;
                }
                if at == chosen {
                    found = Some(member.to_vec());
                }
                at += 1;
                found.is_none()
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Err(damaged()) // a count above 0, and no member
    }

    /// Visits members or fields from a cursor on, about `count` of them; returns the cursor to go
    /// on with, 0 at the end. Those that stay from the first call to the last are visited.
    /// When `each` says `false`, it is enough.
    pub(crate) fn scan_elements(
        &mut self,
        of: &Collection,
        cursor: u64,
        count: u64,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<u64> {
        // Cursors have 53 bits, as some clients hold them in a double; elements of one cursor go
        // together.
        const SHIFT: u32 = 11;
        let (mut seen, mut last, mut next) = (0, cursor, 0);
        self.walk_members(of, cursor.wrapping_shl(SHIFT), true, &mut |HashedMember { hash, member, value }| {
            let place = hash >> SHIFT;
            if seen >= count && place != last {
                next = place;
                return false;
            }
            let more = each(member, value);
            (seen, last) = (if more { seen + 1 } else { count }, place);
            true
        })?;
        Ok(next)
    }
}
