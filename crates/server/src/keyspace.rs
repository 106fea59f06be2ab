//! The keys as one iteration of the event loop sees them.
//!
//! Until an iteration changes something it reads the settled store; its first change opens the
//! iteration's batch, and everything later in the iteration, of whichever client, goes through it:
//! reads see the iteration's own writes. `commit` ends the batch, and replies that tell of it leave
//! once it is settled.
//!
//! Earlier iterations may be unsettled still (`behind`). A command that may write then goes through
//! the batch from the start, for it must build on their writes; a command that only reads is given
//! the newest settled version, the same one for the rest of the iteration. That state was current
//! at some moment: no pending write has been acknowledged yet, and a connection with a pending
//! write is not served before it is settled.
//!
//! An error in the middle of a write dooms the batch, and with it what other commands of the
//! iteration wrote. `end_command` says so; those commands are then answered with errors, and for a
//! while iterations are *careful*: each command that writes is committed by itself, all are settled
//! together, so a full store refuses exactly those that do not fit.
//!
//! Invariants
//!   ITER-1  No reply leaves before everything it tells of is settled.
//!   ITER-2  A write that was rolled back is never answered as done.
//!   ITER-3  A command happens whole or not at all.

use everbyte_kv::{Batch, Commit, Error, KEY_MAX, Kv, Range, Result, Snapshot};
use everbyte_media::seeded;
use std::ops::Bound;

/// See the head of this file.
pub(crate) struct Keyspace<'k> {
    kv: &'k Kv,
    batch: Option<Batch<'k>>,
    /// Whether the batch holds writes.
    written: bool,
    /// Whether it held some before the command under way.
    written_before: bool,
    /// Whether the command under way has changed something.
    changed_by_command: bool,
    /// This iteration's last commit.
    commit: Option<Commit>,
    careful: bool,
    /// Whether commits of earlier iterations are not settled yet.
    behind: bool,
    /// Whether the command under way may write.
    may_write: bool,
    /// Whether commands have gone through a batch.
    exposed: bool,
    /// The version that reads see while `behind`, once there has been one.
    settled: Option<Snapshot>,
}

/// The effect of a command's end on the other commands of its iteration.
pub(crate) enum Verdict {
    /// Nothing.
    Kept,
    /// The command itself could not be committed: it did not happen.
    Refused(Error),
    /// The command failed, and nothing that the iteration wrote before it has happened either.
    Lost,
}

/// The first byte string behind everything that begins with `prefix`; `None` when there is none.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

impl<'k> Keyspace<'k> {
    /// At the beginning of an iteration. `behind`: commits of earlier iterations are not settled
    /// yet.
    pub(crate) fn new(kv: &'k Kv, careful: bool, behind: bool) -> Keyspace<'k> {
        Keyspace {
            kv,
            batch: None,
            written: false,
            written_before: false,
            changed_by_command: false,
            commit: None,
            careful,
            behind,
            may_write: false,
            exposed: false,
            settled: None,
        }
    }

    /// The batch, where reads must see it.
    fn reader(&mut self) -> Option<&mut Batch<'k>> {
        let builds = self.behind && (self.may_write || seeded("server-unsettled-read"));
        if self.batch.is_none() && (self.commit.is_some() || builds) {
            self.batch = Some(self.kv.batch());
            self.exposed = self.exposed || !seeded("server-unsettled-read");
        }
        self.batch.as_mut()
    }

    /// The settled version that this iteration's reads see; `None` where no other can come up
    /// meanwhile.
    fn settled(&mut self) -> Option<&Snapshot> {
        self.behind.then(|| &*self.settled.get_or_insert_with(|| self.kv.snapshot()))
    }

    /// Whether what the commands up to here did or saw may not be settled: their replies have to
    /// wait.
    pub(crate) fn unsettled(&self) -> bool {
        self.exposed
    }

    fn write<T>(&mut self, operation: impl FnOnce(&mut Batch<'k>) -> Result<T>) -> Result<T> {
        let batch = self.batch.get_or_insert_with(|| self.kv.batch());
        (self.written, self.exposed) = (true, true);
        let result = operation(batch)?;
        self.changed_by_command = true;
        Ok(result)
    }

    /// The value of a key.
    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(batch) = self.reader() {
            return batch.get(key);
        }
        match self.settled() {
            Some(settled) => settled.get(key),
            None => self.kv.get(key),
        }
    }

    /// Whether a key exists; its value is not read.
    pub(crate) fn contains(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.size(key)?.is_some())
    }

    /// The size of a key's value, which is not read.
    pub(crate) fn size(&mut self, key: &[u8]) -> Result<Option<usize>> {
        let size = match self.reader() {
            Some(batch) => batch.len_of(key),
            None => match self.settled() {
                Some(settled) => settled.len_of(key),
                None => self.kv.len_of(key),
            },
        };
        Ok(size?.map(|size| size as usize))
    }

    /// The part of a key's value that `choose` names when it is told the size; no more of it is
    /// read.
    pub(crate) fn part(
        &mut self,
        key: &[u8],
        choose: impl FnMut(u64) -> std::ops::Range<u64>,
    ) -> Result<Option<Vec<u8>>> {
        if let Some(batch) = self.reader() {
            return batch.part_of(key, choose);
        }
        match self.settled() {
            Some(settled) => settled.part_of(key, choose),
            None => self.kv.part_of(key, choose),
        }
    }

    /// Prefetches the memory for the next puts, in that order: a hint to the store.
    pub(crate) fn prefetch(&mut self, keys: &[&[u8]]) {
        if self.careful {
            return; // each put has a batch of its own
        }
        self.exposed = true;
        // Damage shows when the keys are put.
        let _ = self.batch.get_or_insert_with(|| self.kv.batch()).prefetch(keys.iter().copied());
    }

    /// Refuses a key that is longer than keys can be. A command with several keys asks for all of
    /// them before it changes anything.
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<()> {
        match key.len() {
            ..=KEY_MAX => Ok(()),
            len => Err(Error::KeyTooLong { len, max: KEY_MAX }),
        }
    }

    /// Gives a key a value.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|batch| batch.put(key, value)).map(|_| ())
    }

    /// Deletes a key; whether it was there.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.write(|batch| batch.delete(key))
    }

    /// Deletes all keys.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.write(Batch::clear)
    }

    /// The number of keys.
    pub(crate) fn len(&mut self) -> Result<u64> {
        if let Some(batch) = self.reader() {
            return Ok(batch.len());
        }
        Ok(match self.settled() {
            Some(settled) => settled.len(),
            None => self.kv.len(),
        })
    }

    /// Visits keys and values in order while `each` says `true`.
    pub(crate) fn visit(
        &mut self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let mut range = self.range(from, to);
        while let Some((key, value)) = range.next_ref()? {
            if !each(key, value) {
                break;
            }
        }
        Ok(())
    }

    /// Visits keys in order while `each` says `true`; no value is read.
    pub(crate) fn visit_keys(
        &mut self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let mut range = self.range(from, to);
        while let Some(entry) = range.next_entry()? {
            if !each(entry.key()?) {
                break;
            }
        }
        Ok(())
    }

    fn range(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<'_> {
        self.reader();
        self.settled();
        match (&self.batch, &self.settled) {
            (Some(batch), _) => batch.range::<[u8]>((from, to)),
            (None, Some(settled)) => settled.range::<[u8]>((from, to)),
            (None, None) => self.kv.range::<[u8]>((from, to)),
        }
    }

    /// Called before each command; whether it may write.
    pub(crate) fn begin_command(&mut self, may_write: bool) {
        self.written_before = self.written;
        self.changed_by_command = false;
        self.may_write = may_write;
    }

    /// Called after each command: whether what it and others wrote still stands. A command that
    /// `failed` after it had changed something takes the batch with it (ITER-3).
    pub(crate) fn end_command(&mut self, failed: bool) -> Verdict {
        if failed && self.changed_by_command || self.batch.as_ref().is_some_and(Batch::is_doomed) {
            self.batch = None;
            let lost = self.written_before;
            self.written = false;
            return if lost { Verdict::Lost } else { Verdict::Kept };
        }
        if self.careful && self.written {
            return match self.commit_batch() {
                Ok(()) => Verdict::Kept,
                Err(error) => Verdict::Refused(error),
            };
        }
        Verdict::Kept
    }

    fn commit_batch(&mut self) -> Result<()> {
        self.written = false;
        if let Some(batch) = self.batch.take() {
            self.commit = Some(batch.commit()?);
        }
        Ok(())
    }

    /// Commits what the iteration changed; `committed` then says what is to be settled. On error
    /// nothing of the batch has happened, though what careful commands committed before it has.
    pub(crate) fn commit(&mut self) -> Result<()> {
        let result = if self.written { self.commit_batch() } else { Ok(()) };
        self.batch = None; // it holds the writer's iteration
        result
    }

    /// The iteration's last commit, to be settled.
    pub(crate) fn committed(&self) -> Option<Commit> {
        self.commit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_where_the_next_one_begins() {
        for (prefix, end) in [
            (&b""[..], None),
            (b"a", Some(&b"b"[..])),
            (b"ab", Some(b"ac")),
            (b"a\xff\xff", Some(b"b")),
            (b"\xff", None),
            (b"\0", Some(b"\x01")),
        ] {
            assert_eq!(after_prefix(prefix).as_deref(), end);
        }
    }
}
