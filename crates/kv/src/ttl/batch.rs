//! [`ExpiringBatch`]: writes of an expiring table, which keep its index right (TTL-2).

use super::{DEADLINE_LEN, ExpiringTable, NEVER, millis, read};
use crate::batch::Batch;
use crate::tree::KEY_MAX;
use crate::{Error, Result};
use everbyte_media::seeded;
use std::ops::RangeBounds;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An expiring table in a [`Batch`]. The time is that at which this was made.
pub struct ExpiringBatch<'b, 'k> {
    table: &'b ExpiringTable,
    batch: &'b mut Batch<'k>,
    now: u64,
}

impl<'b, 'k> ExpiringBatch<'b, 'k> {
    pub(super) fn new(table: &'b ExpiringTable, batch: &'b mut Batch<'k>, now: u64) -> ExpiringBatch<'b, 'k> {
        ExpiringBatch { table, batch, now }
    }

    /// The value of `key`, this batch's writes included.
    ///
    /// # Errors
    /// Damage.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.batch.table(&self.table.table)?.get(key)?.map_or(Ok(None), |value| read::visible(value, self.now))
    }

    /// Binds `value` to `key` without a deadline; returns whether the key was there.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.write(key, value, NEVER)
    }

    /// Binds `value` to `key` until `deadline`, rounded up to a millisecond; returns whether the
    /// key was there.
    ///
    /// # Errors
    /// As [`Batch::put`]; the key may be 8 bytes shorter than [`crate::KEY_MAX`] at most.
    pub fn put_until(&mut self, key: &[u8], value: &[u8], deadline: SystemTime) -> Result<bool> {
        let whole = millis(deadline);
        let is_whole = UNIX_EPOCH.checked_add(Duration::from_millis(whole)).is_none_or(|time| time >= deadline);
        let deadline = if is_whole { whole } else { whole.saturating_add(1) };
        self.write(key, value, deadline.min(NEVER - 1))
    }

    /// Binds `value` to `key` for so long; returns whether the key was there.
    ///
    /// # Errors
    /// As [`ExpiringBatch::put_until`].
    pub fn put_for(&mut self, key: &[u8], value: &[u8], duration: Duration) -> Result<bool> {
        let millis = u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(NEVER);
        self.write(key, value, self.now.saturating_add(millis).min(NEVER - 1))
    }

    fn write(&mut self, key: &[u8], value: &[u8], deadline: u64) -> Result<bool> {
        const MAX: usize = KEY_MAX - DEADLINE_LEN;
        if key.len() > MAX {
            return Err(Error::KeyTooLong { len: key.len(), max: MAX });
        }
        let before = self.before(key)?;
        self.batch.table(&self.table.table)?.put(key, &[&deadline.to_le_bytes(), value].concat())?;
        if before != Some(deadline) {
            self.batch.go_on(|batch| {
                unlist(self.table, batch, before, key)?;
                if let Some(deadline) = read::listed(deadline) {
                    batch.table(&self.table.index)?.put(&read::index_key(deadline, key), b"")?;
                }
                Ok(())
            })?;
        }
        Ok(before.is_some_and(|before| read::is_before(self.now, before)))
    }

    /// Removes `key`; returns whether it was there.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let before = self.before(key)?;
        self.batch.table(&self.table.table)?.delete(key)?;
        self.batch.go_on(|batch| unlist(self.table, batch, before, key))?;
        Ok(before.is_some_and(|before| read::is_before(self.now, before)))
    }

    /// Removes the keys of a range; returns how many were there. The index loses an entry for each
    /// deadline among them.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete_range<K: AsRef<[u8]> + ?Sized>(&mut self, range: impl RangeBounds<K>) -> Result<u64> {
        let bounds = (range.start_bound().map(AsRef::as_ref), range.end_bound().map(AsRef::as_ref));
        let (mut listed, mut visible) = (Vec::new(), 0);
        {
            let table = self.batch.table(&self.table.table)?;
            let mut entries = table.range::<[u8]>(bounds);
            while let Some((key, value)) = entries.next_ref()? {
                let Some(deadline) = read::deadline_of(Some(value))? else { continue };
                visible += u64::from(read::is_before(self.now, deadline));
                listed.extend(read::listed(deadline).map(|deadline| read::index_key(deadline, key)));
            }
        }
        self.batch.table(&self.table.table)?.delete_range::<[u8]>(bounds)?;
        self.batch.go_on(|batch| {
            for entry in listed {
                batch.table(&self.table.index)?.delete(&entry)?;
            }
            Ok(visible)
        })
    }

    /// The deadline beside the value of `key`, expired or not.
    fn before(&mut self, key: &[u8]) -> Result<Option<u64>> {
        let head = self.batch.table(&self.table.table)?.part_of(key, |_| 0..DEADLINE_LEN as u64)?;
        read::deadline_of(head.as_deref())
    }
}

/// Takes a deadline that `key` had out of the index.
fn unlist(table: &ExpiringTable, batch: &mut Batch<'_>, deadline: Option<u64>, key: &[u8]) -> Result<()> {
    if let Some(deadline) = deadline.and_then(read::listed)
        && !seeded("kv-ttl-keeps-deadline")
    {
        batch.table(&table.index)?.delete(&read::index_key(deadline, key))?;
    }
    Ok(())
}
