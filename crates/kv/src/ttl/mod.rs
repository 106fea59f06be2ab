//! [`ExpiringTable`]: a table whose entries may have deadlines.
//!
//! Two tables of the store hold it: one of the entries, each value behind its deadline, and an
//! index of deadlines in the order of time. So a read needs no second lookup, and a sweep finds
//! what has expired without a scan. Format: docs/formats/tree.md, section 5.
//!
//! Invariants
//!   TTL-1  An entry is expired if and only if its deadline is at or before the clock's time. Reads
//!          compare; nothing else hides an entry.
//!   TTL-2  The index has an entry for each deadline of the table, and no other: both change in one
//!          batch.
//!   TTL-3  A sweep removes an entry only if the deadline beside its value is the one in the index.
//!
//! Design: docs/design/ttl.md

mod batch;
mod clock;
mod read;

pub use batch::ExpiringBatch;
pub use clock::{Clock, ManualClock, SystemClock};
pub use read::{ExpiringRange, ExpiringSnapshot};

use crate::batch::Batch;
use crate::{Error, Kv, KvTable, Result, Snapshot};
use clock::millis;
use everbyte_media::seeded;
use everbyte_store::{Finding, FindingKind};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a deadline, before the value and before the key in the index.
const DEADLINE_LEN: usize = size_of::<u64>();
/// The deadline of an entry that has none.
const NEVER: u64 = u64::MAX;
/// Behind the table's name: the name of its index.
const INDEX: &str = ".expiry";

/// A table whose entries may have deadlines. Cheap to clone, usable from any thread.
///
/// From its deadline on, by the word of the table's clock, an entry is invisible to every read of
/// the newest version; [`ExpiringTable::expire`] removes it. The crate starts no thread: the
/// program or the server calls `expire` from time to time.
///
/// The store lists it as two tables, `NAME` and `NAME.expiry`. Both are written to through this
/// type alone: values that a [`KvTable`] of that name puts lack their deadlines. Other tables pay
/// nothing for it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
/// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
/// use everbyte_kv::{ExpiringTable, ManualClock};
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let clock = ManualClock::default();
/// let sessions = ExpiringTable::open_or_create(&kv, "sessions", clock.clone())?;
/// sessions.put_for(b"ada", b"token", Duration::from_secs(60))?; // durable when it returns
/// sessions.put(b"root", b"token")?; // has no deadline
/// assert!(sessions.contains(b"ada")?);
/// clock.set(UNIX_EPOCH + Duration::from_secs(60));
/// assert_eq!((sessions.get(b"ada")?, sessions.len()?), (None, 1));
/// assert_eq!(sessions.expire(100)?.keys, 1); // its space comes back
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ExpiringTable {
    kv: Kv,
    table: KvTable,
    index: KvTable,
    clock: Arc<dyn Clock>,
}

/// The result of one sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Keys removed.
    pub keys: u64,
    /// Whether more have expired.
    pub more: bool,
}

impl ExpiringTable {
    /// Opens the table `name`, and makes it if there is none. Settled on return.
    ///
    /// # Errors
    /// A table of that name exists that is not an expiring one ([`Error::TableExists`]); otherwise
    /// as [`Kv::open_or_create_table`].
    pub fn open_or_create(kv: &Kv, name: &str, clock: impl Clock + 'static) -> Result<ExpiringTable> {
        let index_name = format!("{name}{INDEX}");
        let mut batch = kv.begin()?;
        let found = batch.open_table(name).and_then(|table| Ok((table, batch.open_table(&index_name)?)));
        let (table, index) = match found {
            Err(Error::NoTable { .. }) => {
                let made = (batch.create_table(name)?, batch.create_table(&index_name)?);
                let commit = batch.commit()?;
                kv.settle(commit)?;
                made
            }
            found => {
                let (table, index) = found?;
                kv.settle_tables(batch, [&table, &index])?;
                (table, index)
            }
        };
        Ok(ExpiringTable { kv: kv.clone(), table, index, clock: Arc::new(clock) })
    }

    /// Opens the table `name`.
    ///
    /// # Errors
    /// There is none, or it is not an expiring one.
    pub fn open(kv: &Kv, name: &str, clock: impl Clock + 'static) -> Result<ExpiringTable> {
        let (table, index) = (kv.open_table(name)?, kv.open_table(&format!("{name}{INDEX}"))?);
        Ok(ExpiringTable { kv: kv.clone(), table, index, clock: Arc::new(clock) })
    }

    /// Drops the table `name` with its index. Settled on return.
    ///
    /// # Errors
    /// As [`Kv::drop_table`].
    pub fn drop_table(kv: &Kv, name: &str) -> Result<()> {
        let mut batch = kv.begin()?;
        batch.drop_table(name)?;
        batch.drop_table(&format!("{name}{INDEX}"))?;
        let commit = batch.commit()?;
        kv.settle(commit)
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        self.table.name()
    }

    fn now(&self) -> u64 {
        millis(self.clock.now())
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// The table was dropped; damage.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.table.get(key)? {
            Some(value) => read::visible(value, self.now()),
            None => Ok(None),
        }
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// As [`ExpiringTable::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        let head = self.table.part_of(key, |_| 0..DEADLINE_LEN as u64)?;
        Ok(matches!(read::deadline_of(head.as_deref())?, Some(deadline) if self.now() < deadline))
    }

    /// The deadline of `key`: `None` if it is not there, `Some(None)` if it has no deadline.
    ///
    /// # Errors
    /// As [`ExpiringTable::get`].
    pub fn deadline(&self, key: &[u8]) -> Result<Option<Option<SystemTime>>> {
        let head = self.table.part_of(key, |_| 0..DEADLINE_LEN as u64)?;
        let deadline = read::deadline_of(head.as_deref())?.filter(|&deadline| self.now() < deadline);
        Ok(deadline.map(|deadline| match deadline {
            NEVER => None,
            _ => UNIX_EPOCH.checked_add(Duration::from_millis(deadline)),
        }))
    }

    /// Binds `value` to `key` without a deadline. Durable on return.
    ///
    /// # Errors
    /// As [`KvTable::put`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.written(|batch| batch.put(key, value)).map(drop)
    }

    /// Binds `value` to `key` until `deadline`, in steps of a millisecond, rounded up. Durable on
    /// return.
    ///
    /// # Errors
    /// As [`KvTable::put`]; keys may be 8 bytes shorter than [`crate::KEY_MAX`] at most.
    pub fn put_until(&self, key: &[u8], value: &[u8], deadline: SystemTime) -> Result<()> {
        self.written(|batch| batch.put_until(key, value, deadline)).map(drop)
    }

    /// Binds `value` to `key` for so long. Durable on return.
    ///
    /// # Errors
    /// As [`ExpiringTable::put_until`].
    pub fn put_for(&self, key: &[u8], value: &[u8], duration: Duration) -> Result<()> {
        self.written(|batch| batch.put_for(key, value, duration)).map(drop)
    }

    /// Removes `key`; returns whether it was there. Durable on return.
    ///
    /// # Errors
    /// As [`KvTable::delete`].
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        self.written(|batch| batch.delete(key))
    }

    /// The entries of a range that have not expired now, in key order; `rev()` walks from the end.
    ///
    /// # Errors
    /// The table was dropped.
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> Result<ExpiringRange> {
        Ok(ExpiringRange::new(self.table.range(range)?, self.now()))
    }

    /// The entries whose keys begin with `prefix`. As [`ExpiringTable::range`].
    ///
    /// # Errors
    /// The table was dropped.
    pub fn prefix(&self, prefix: &[u8]) -> Result<ExpiringRange> {
        Ok(ExpiringRange::new(self.table.prefix(prefix)?, self.now()))
    }

    /// How many keys have not expired. Counts those that have and were not removed yet.
    ///
    /// # Errors
    /// The table was dropped; damage.
    pub fn len(&self) -> Result<u64> {
        self.snapshot()?.len()
    }

    /// Whether no key is there that has not expired.
    ///
    /// # Errors
    /// The table was dropped; damage.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.prefix(b"")?.next().transpose()?.is_none())
    }

    /// The newest settled version and the time now, held for reading: neither goes on.
    ///
    /// # Errors
    /// The table was dropped.
    pub fn snapshot(&self) -> Result<ExpiringSnapshot> {
        self.snapshot_of(&self.kv.snapshot(), self.clock.now())
    }

    /// The table in `snapshot`, at the time `moment`: for a version with a name, usually
    /// [`crate::NamedVersion::named_at`].
    ///
    /// # Errors
    /// The version does not see the table.
    pub fn snapshot_of(&self, snapshot: &Snapshot, moment: SystemTime) -> Result<ExpiringSnapshot> {
        Ok(ExpiringSnapshot::new(snapshot.table(&self.table)?, snapshot.table(&self.index)?, millis(moment)))
    }

    /// The table in a batch, which may write to other tables too.
    ///
    /// # Errors
    /// As [`Batch::table`].
    pub fn in_batch<'b, 'k>(&'b self, batch: &'b mut Batch<'k>) -> Result<ExpiringBatch<'b, 'k>> {
        batch.table(&self.table)?;
        batch.table(&self.index)?;
        Ok(ExpiringBatch::new(self, batch, self.now()))
    }

    fn written<T>(&self, write: impl FnOnce(&mut ExpiringBatch<'_, '_>) -> Result<T>) -> Result<T> {
        let mut batch = self.kv.begin()?;
        let value = write(&mut self.in_batch(&mut batch)?)?;
        let commit = batch.commit()?;
        self.kv.settle(commit)?;
        Ok(value)
    }

    /// Removes entries that have expired, at most `limit`, the oldest deadline first, in one batch.
    /// Settled on return. Snapshots and named versions keep what they see.
    ///
    /// # Errors
    /// As [`KvTable::delete`].
    pub fn expire(&self, limit: usize) -> Result<Swept> {
        let mut batch = self.kv.begin()?;
        let end = self.now().saturating_add(1).to_be_bytes();
        let (mut expired, mut more) = (Vec::new(), false);
        {
            let index = batch.table(&self.index)?;
            let mut entries = index.range(..&end[..]);
            while let Some((entry, _)) = entries.next_ref()? {
                if expired.len() == limit {
                    more = true;
                    break;
                }
                expired.push(entry.to_vec());
            }
        }
        for entry in &expired {
            batch.table(&self.index)?.delete(entry)?;
        }
        if seeded("kv-ttl-index-first") {
            let commit = batch.commit()?;
            self.kv.settle(commit)?;
            batch = self.kv.begin()?;
        }
        let mut keys = 0;
        for entry in &expired {
            let (deadline, key) = read::indexed(entry)?;
            let mut table = batch.table(&self.table)?;
            let head = table.part_of(key, |_| 0..DEADLINE_LEN as u64)?;
            // TTL-3
            if read::deadline_of(head.as_deref())? == Some(deadline) {
                keys += u64::from(table.delete(key)?);
            }
        }
        let commit = batch.commit()?;
        self.kv.settle(commit)?;
        Ok(Swept { keys, more })
    }

    /// Brings the table back to the version of this name, deadlines included: what has expired
    /// since is invisible at once. Settled on return.
    ///
    /// # Errors
    /// As [`Kv::restore_table`].
    pub fn restore(&self, version: &str) -> Result<()> {
        self.kv.restore_tables(&[&self.table, &self.index], version)
    }

    /// Verifies TTL-2: each deadline has its entry in the index, and each entry its deadline.
    ///
    /// # Errors
    /// The table was dropped; damage of entries.
    pub fn check(&self) -> Result<Vec<Finding>> {
        let snapshot = self.snapshot()?;
        let finding = |key: &[u8], detail: &str| Finding {
            room: "kv",
            kind: FindingKind::Damage,
            at: 0,
            object: Some(self.kv.name().into()),
            detail: format!("key \"{}\" of table {:?} {detail}", key.escape_ascii(), self.name()),
        };
        let mut findings = Vec::new();
        let mut entries = snapshot.table.range::<[u8]>(..);
        while let Some((key, value)) = entries.next_ref()? {
            let deadline = read::deadline_of(Some(value))?.unwrap_or(NEVER);
            if deadline != NEVER && !snapshot.index.contains(&read::index_key(deadline, key))? {
                findings.push(finding(key, "has a deadline that the index does not have"));
            }
        }
        let mut entries = snapshot.index.range::<[u8]>(..);
        while let Some((entry, _)) = entries.next_ref()? {
            let (deadline, key) = read::indexed(entry)?;
            let head = snapshot.table.part_of(key, |_| 0..DEADLINE_LEN as u64)?;
            if read::deadline_of(head.as_deref())? != Some(deadline) {
                findings.push(finding(key, "has not the deadline that the index has"));
            }
        }
        Ok(findings)
    }
}
