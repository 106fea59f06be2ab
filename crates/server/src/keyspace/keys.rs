//! Keys whatever their types: what is there, deadlines, removal, moves.
//!
//! A key whose deadline has passed is absent for every command; what is left of it goes when the
//! key is written, or by `sweep`.

use super::reads::Place;
use super::record::{COLLECTION, Collection, HEADER, KeyRecord, ValueType, damaged, string};
use super::tables::{DATABASES, deadline_key, element_key, parse_deadline_key, record_key};
use super::{KEY_SIZE_MAX, KeyError, Keyspace, after_prefix};
use everbyte_kv::{Error, Result};
use everbyte_media::seeded;
use std::ops::Bound;

impl Keyspace<'_> {
    /// Whether a deadline has passed. At its very millisecond a key is still there, as in Redis.
    pub(super) fn expired(&self, deadline: u64) -> bool {
        let end = self.now + u64::from(seeded("server-expired-early"));
        let passed = deadline != 0 && deadline < end && !self.keeps_expired;
        if passed {
            self.met_expired.set(true);
        }
        passed
    }

    /// Whether no record exists, as far as it is known without a look. Unsettled removals do not
    /// count where settled versions are read.
    pub(super) fn no_records(&mut self) -> Result<bool> {
        if self.behind && !seeded("server-none-behind") {
            return Ok(false);
        }
        if self.remembered.counts.iter().all(Option::is_none) {
            let empty = self.entries(Place::Keys, Bound::Unbounded, Bound::Unbounded)?.next_entry()?.is_none();
            if empty {
                self.remembered.counts = [Some(0); DATABASES];
            }
        }
        Ok(self.remembered.counts.iter().all(|count| *count == Some(0)))
    }

    /// The record of a key, an expired one too; the bytes of a string are not read.
    fn any_record(&mut self, key: &[u8]) -> Result<Option<KeyRecord>> {
        if self.no_records()? {
            return Ok(None);
        }
        let first = |size: u64| 0..size.min(COLLECTION as u64 + 1);
        let found = self.value_part(Place::Keys, &record_key(self.space, key), first)?;
        found.as_deref().map(KeyRecord::parse).transpose()
    }

    /// The record of a key; the bytes of a string are not read.
    pub(super) fn record(&mut self, key: &[u8]) -> Result<Option<KeyRecord>> {
        let found = self.any_record(key)?;
        Ok(found.filter(|record| !self.expired(record.deadline())))
    }

    /// The size of a key's plain string.
    pub(super) fn plain_size(&mut self, key: &[u8]) -> Result<Option<u64>> {
        if self.space == 0 { self.value_size(Place::Main, key) } else { Ok(None) }
    }

    /// The type of a key's value; `None` without such a key.
    pub(crate) fn kind(&mut self, key: &[u8]) -> Result<Option<ValueType>> {
        Ok(self.look(key)?.map(|(kind, _)| kind))
    }

    /// Whether a key exists; its value is not read.
    pub(crate) fn contains(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.look(key)?.is_some())
    }

    /// The deadline of a key, in milliseconds since 1970, 0 without one; `None` without such a key.
    pub(crate) fn deadline(&mut self, key: &[u8]) -> Result<Option<u64>> {
        Ok(self.look(key)?.map(|(_, deadline)| deadline))
    }

    /// Type and deadline of a key; its value is not read.
    fn look(&mut self, key: &[u8]) -> Result<Option<(ValueType, u64)>> {
        if self.plain_size(key)?.is_some() {
            return Ok(Some((ValueType::String, 0)));
        }
        Ok(self.record(key)?.map(|record| (record.kind(), record.deadline())))
    }

    /// The string at a key.
    pub(crate) fn get(&mut self, key: &[u8]) -> std::result::Result<Option<Vec<u8>>, KeyError> {
        self.part(key, |size| 0..size)
    }

    /// The size of the string at a key, which is not read.
    pub(crate) fn size(&mut self, key: &[u8]) -> std::result::Result<Option<usize>, KeyError> {
        let mut size = 0;
        self.part(key, |whole| {
            size = whole;
            0..0
        })
        .map(|found| found.map(|_| size as usize))
    }

    /// The part of a key's string that `choose` names when it is told the size; no more of it is
    /// read.
    pub(crate) fn part(
        &mut self,
        key: &[u8],
        mut choose: impl FnMut(u64) -> std::ops::Range<u64>,
    ) -> std::result::Result<Option<Vec<u8>>, KeyError> {
        if self.space == 0
            && let Some(part) = self.value_part(Place::Main, key, &mut choose)?
        {
            return Ok(Some(part));
        }
        match self.record(key)? {
            None => return Ok(None),
            Some(KeyRecord::String { .. }) => {}
            Some(_) => return Err(KeyError::WrongType),
        }
        let of_record = |size: u64| {
            let part = choose(size.saturating_sub(HEADER as u64));
            part.start + HEADER as u64..part.end + HEADER as u64
        };
        Ok(self.value_part(Place::Keys, &record_key(self.space, key), of_record)?)
    }

    /// Refuses a key that is longer than keys can be. A command with several keys asks for all of
    /// them before it changes anything.
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<()> {
        match key.len() {
            ..=KEY_SIZE_MAX => Ok(()),
            len => Err(Error::KeyTooLong { len, max: KEY_SIZE_MAX }),
        }
    }

    /// Gives a key a string in place of whatever it had, without a deadline.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_until(key, value, 0)
    }

    /// Gives a key a string in place of whatever it had, and a deadline (0: none).
    pub(crate) fn put_until(&mut self, key: &[u8], value: &[u8], deadline: u64) -> Result<()> {
        self.check_key(key)?;
        if !seeded("server-put-over") {
            self.vacate(key)?;
        }
        self.put_fresh(key, value, deadline)
    }

    /// Gives a key that has a string, or is absent, another one; the deadline stays.
    pub(crate) fn replace(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.no_records()? {
            return self.put_until(key, value, 0);
        }
        let deadline = self.deadline(key)?.unwrap_or(0);
        self.put_until(key, value, deadline)
    }

    /// Stores a string where no record is.
    fn put_fresh(&mut self, key: &[u8], value: &[u8], deadline: u64) -> Result<()> {
        self.touch(key);
        if self.space == 0 && deadline == 0 {
            return self.put_value(Place::Main, key, value).map(drop);
        }
        if self.space == 0 && !seeded("server-plain-kept") {
            self.remove_value(Place::Main, key)?;
        }
        let was_there = self.put_value(Place::Keys, &record_key(self.space, key), &string(deadline, value))?;
        if !was_there && !seeded("server-record-uncounted") {
            self.count(1);
        }
        self.put_deadline(key, deadline)
    }

    /// Adds the entry of a deadline (KEYS-2).
    fn put_deadline(&mut self, key: &[u8], deadline: u64) -> Result<()> {
        if deadline != 0 && !seeded("server-deadline-unlisted") {
            self.put_value(Place::Deadlines, &deadline_key(self.space, deadline, key), &[])?;
        }
        Ok(())
    }

    fn remove_deadline(&mut self, key: &[u8], deadline: u64) -> Result<()> {
        let is_kept = seeded("server-deadline-kept") || self.evicting && seeded("server-evict-deadline");
        if deadline != 0 && !is_kept {
            self.remove_value(Place::Deadlines, &deadline_key(self.space, deadline, key))?;
        }
        Ok(())
    }

    /// Removes the record of a key, an expired one too: for a key that gets a new value.
    pub(super) fn vacate(&mut self, key: &[u8]) -> Result<()> {
        match self.any_record(key)? {
            Some(record) => {
                if self.expired(record.deadline()) {
                    self.swept(key);
                }
                self.drop_record(key, &record)
            }
            None => Ok(()),
        }
    }

    /// Removes a record and all that belongs to it.
    pub(super) fn drop_record(&mut self, key: &[u8], record: &KeyRecord) -> Result<()> {
        if self.remove_value(Place::Keys, &record_key(self.space, key))? {
            self.count(-1);
        }
        self.remove_deadline(key, record.deadline())?;
        match record {
            KeyRecord::Collection(collection) if !seeded("server-elements-kept") => self.remove_elements(collection),
            _ => Ok(()),
        }
    }

    /// Deletes a key; whether it was there.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let was_there = self.take_away(key)?;
        if was_there {
            self.touch(key);
        }
        Ok(was_there)
    }

    /// Removes a key and all that belongs to it; whether it was there. The caller notes the change.
    pub(super) fn take_away(&mut self, key: &[u8]) -> Result<bool> {
        if self.space == 0 && self.plain_size(key)?.is_some() {
            return self.remove_value(Place::Main, key);
        }
        let Some(record) = self.any_record(key)? else { return Ok(false) };
        self.drop_record(key, &record)?;
        if self.expired(record.deadline()) {
            self.swept(key);
            return Ok(false);
        }
        Ok(true)
    }

    /// Gives a key that is there another deadline, 0 for none. A string is written anew.
    pub(crate) fn set_deadline(&mut self, key: &[u8], deadline: u64) -> Result<()> {
        if let Some(KeyRecord::Collection(old)) = self.record(key)? {
            if !seeded("server-deadline-doubled") {
                self.remove_deadline(key, old.deadline)?;
            }
            let new = Collection { deadline, ..old };
            self.put_value(Place::Keys, &record_key(self.space, key), &new.bytes())?;
            self.touch(key);
            return self.put_deadline(key, deadline);
        }
        match self.get(key) {
            Ok(Some(value)) => self.put_until(key, &value, deadline),
            Ok(None) | Err(KeyError::WrongType) => Ok(()),
            Err(KeyError::Store(error)) => Err(error),
        }
    }

    /// Moves a value, of any type and with its deadline, to a key whose own goes. The elements of a
    /// collection stay where they are.
    pub(crate) fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        if !seeded("server-rename-over") {
            self.delete(to)?;
        }
        match self.record(from)? {
            Some(record) => {
                let old = record_key(self.space, from);
                let bytes = self.value(Place::Keys, &old)?.ok_or_else(damaged)?;
                self.remove_value(Place::Keys, &old)?;
                if !seeded("server-rename-deadline") {
                    self.remove_deadline(from, record.deadline())?;
                }
                self.put_value(Place::Keys, &record_key(self.space, to), &bytes)?;
                self.put_deadline(to, record.deadline())?;
            }
            None => {
                if let Some(value) = self.value(Place::Main, from)? {
                    self.put_value(Place::Main, to, &value)?;
                    if !seeded("server-rename-plain") {
                        self.remove_value(Place::Main, from)?;
                    }
                }
            }
        }
        self.touch(from);
        self.touch(to);
        Ok(())
    }

    /// Copies a value, of any type and with its deadline, to a key of a database, whose own goes.
    /// The cost is that of all elements, which are never together in memory.
    pub(crate) fn copy(&mut self, from: &[u8], database: u8, to: &[u8]) -> std::result::Result<(), KeyError> {
        const TOGETHER: usize = 256 << 10;
        let source = self.database;
        let Some(KeyRecord::Collection(old)) = self.record(from)? else {
            let (value, deadline) = (self.get(from)?.unwrap_or_default(), self.deadline(from)?.unwrap_or(0));
            self.select(database);
            let done = self.put_until(to, &value, deadline);
            self.select(source);
            return Ok(done?);
        };
        self.select(database);
        self.delete(to)?;
        let new = Collection {
            count: old.count,
            deadline: old.deadline,
            first: old.first,
            ..self.new_collection(to, old.kind)?
        };
        let new =
            if seeded("server-copy-shares") && database == source { Collection { id: old.id, ..new } } else { new };
        let mut after: Option<Vec<u8>> = None;
        loop {
            self.select(source);
            let (mut part, mut size) = (Vec::new(), 0);
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let span = super::ElementSpan { from, to: Bound::Unbounded, backwards: false };
            self.visit_elements(&old, span, &mut |element, value| {
                size += element.len() + value.len();
                part.push((element.to_vec(), value.to_vec()));
                size < TOGETHER
            })?;
            self.select(database);
            let Some((last, _)) = part.last() else { break };
            if seeded("server-copy-cut") && after.is_some() {
                break;
            }
            after = Some(last.clone());
            for (element, value) in &part {
                self.put_value(Place::Elements, &element_key(self.space, new.id, element), value)?;
            }
        }
        self.store(to, &new)?;
        if !seeded("server-copy-unlisted") {
            self.put_deadline(to, new.deadline)?;
        }
        self.select(source);
        Ok(())
    }

    /// Deletes all keys of this database.
    pub(crate) fn clear(&mut self) -> Result<()> {
        let space = [self.space];
        if self.space == 0 && !seeded("server-flush-plain") {
            self.remove_prefix(Place::Main, b"")?;
        }
        for place in [Place::Keys, Place::Elements, Place::Deadlines] {
            if seeded("server-flush-partly") && place == Place::Deadlines {
                continue;
            }
            self.remove_prefix(place, &space)?;
        }
        if !seeded("server-flush-counts") {
            self.remembered.counts[usize::from(self.space)] = Some(0);
        }
        self.touch_all();
        Ok(())
    }

    /// Deletes all keys of all databases.
    pub(crate) fn clear_all(&mut self) -> Result<()> {
        let mine = self.database;
        for database in 0..DATABASES {
            self.select(database as u8);
            self.clear()?;
        }
        self.select(mine);
        Ok(())
    }

    /// The number of keys of this database, expired ones that are still there too.
    pub(crate) fn len(&mut self) -> Result<u64> {
        let plain = if self.space == 0 { self.len_of(Place::Main)? } else { 0 };
        Ok(plain + self.records()?)
    }

    /// The number of records of this database.
    fn records(&mut self) -> Result<u64> {
        if self.no_records()? {
            return Ok(0);
        }
        // Counts are of the newest state; a settled version keeps its own, of all databases
        // together.
        let newest = self.reads_newest();
        if newest && let Some(count) = self.remembered.counts[usize::from(self.space)] {
            return Ok(count);
        }
        // Without records of other databases the table's own count is that of database 0. Each
        // version is asked for itself, as it may be another one than the version that changes.
        if !newest && self.entries(Place::Keys, Bound::Included(&[1]), Bound::Unbounded)?.next_entry()?.is_none() {
            return if self.space == 0 { self.len_of(Place::Keys) } else { Ok(0) };
        }
        let prefix = [self.space];
        let end = after_prefix(&prefix);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let count = self.entries(Place::Keys, Bound::Included(&prefix), to)?.count_entries()?;
        if newest {
            self.remembered.counts[usize::from(self.space)] = Some(count);
        }
        Ok(count)
    }

    /// The number of this database's keys with a deadline.
    pub(crate) fn deadlines(&mut self) -> Result<u64> {
        if self.no_records()? {
            return Ok(0);
        }
        let prefix = [self.space];
        let end = after_prefix(&prefix);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.entries(Place::Deadlines, Bound::Included(&prefix), to)?.count_entries()
    }

    /// Changes the count of records.
    pub(super) fn count(&mut self, by: i64) {
        if let Some(count) = &mut self.remembered.counts[usize::from(self.space)] {
            *count = count.saturating_add_signed(by);
        }
    }

    /// Removes up to `max` expired keys of all databases; whether there are more.
    pub(crate) fn sweep(&mut self, max: usize) -> Result<bool> {
        if self.no_records()? {
            return Ok(false);
        }
        let mine = self.database;
        let mut left = max;
        for database in 0..if seeded("server-sweep-first") { 1 } else { DATABASES as u8 } {
            self.select(database);
            // A look at the settled version first: without expired keys no reply waits for
            // anything.
            self.may_write = false;
            if self.due(1)?.is_empty() {
                continue;
            }
            self.may_write = !seeded("server-sweep-remade");
            for (deadline, key) in self.due(left)? {
                left = left.saturating_sub(1);
                match self.any_record(&key)? {
                    Some(record) if record.deadline() == deadline || seeded("server-sweep-remade") => {
                        self.drop_record(&key, &record)?;
                        self.swept(&key);
                    }
                    _ => self.remove_deadline(&key, deadline)?,
                }
            }
        }
        self.select(mine);
        Ok(left == 0)
    }

    /// Up to `max` keys of this database whose deadlines have passed, and these.
    fn due(&mut self, max: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        let end = deadline_key(self.space, self.now, b"");
        let mut range = self.entries(Place::Deadlines, Bound::Included(&[self.space]), Bound::Excluded(&end))?;
        let mut due = Vec::new();
        while due.len() < max
            && let Some(entry) = range.next_entry()?
        {
            let (_, deadline, key) = parse_deadline_key(entry.key()?).ok_or_else(damaged)?;
            due.push((deadline, key.to_vec()));
        }
        Ok(due)
    }
}
