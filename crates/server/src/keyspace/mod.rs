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
//! write is not served before it is settled. Beside further loops, which may tell of a version as
//! soon as it is settled, requests that come later in the iteration have a newer one (`renew`,
//! LOOP-2). Those that had come before may be answered from the older one: their clients could not
//! have heard of the newer one as they sent them.
//!
//! An error in the middle of a write dooms the batch, and with it what other commands of the
//! iteration wrote. `end_command` says so; those commands are then answered with errors, and for a
//! while iterations are *careful*: each command that writes is committed by itself, all are settled
//! together, so a full store refuses exactly those that do not fit.
//!
//! The tables behind it are told of in `tables.rs`; `keys.rs` has the operations on keys,
//! `ranges.rs` those on ranges of keys, and `collections.rs` those on elements. A deadline that has
//! passed by the clock of the iteration's beginning makes a key absent.
//!
//! Invariants
//!   ITER-1  No reply leaves before everything it tells of is settled.
//!   ITER-2  A write that was rolled back is never answered as done.
//!   ITER-3  A command happens whole or not at all.
//!
//! Design: docs/design/server-keyspace.md

mod capture;
mod check;
mod collections;
mod databases;
mod evict;
mod functions;
mod groups;
mod imports;
mod keys;
mod lists;
mod pinned;
mod ranges;
mod reads;
mod record;
mod removals;
mod replicated;
mod sorted_sets;
mod streams;
mod tables;
mod used;
mod uses;
mod writes;

use capture::{Capture, Committed};
use databases::Spaces;
use everbyte_kv::{Batch, Commit, Error, KEY_MAX, Kv, Result, Savepoint};
use everbyte_media::seeded;
use removals::Removals;
use std::cell::Cell;

pub use check::{KeyspaceFinding, KeyspaceSums, check};
pub(crate) use collections::{ElementSpan, HASH, HashedMember, hashed};
pub(crate) use evict::Hand;
pub(crate) use groups::{Consumer, Group, OpenGroup, Pending, PendingSpan, TOGETHER as PENDING_TOGETHER};
pub(crate) use imports::{Begun, take_back};
pub(crate) use lists::End;
pub(crate) use ranges::{KeySpan, Visited};
pub(crate) use reads::Settled;
pub(crate) use record::{Collection, ValueType, damaged};
pub(crate) use replicated::ReplicatedTables;
pub(crate) use sorted_sets::{ScoreSpan, decode_score, encode_score};
pub(crate) use streams::{EntryId, EntrySpan, Stream, decode_fields, encode_fields, push_field};
pub(crate) use tables::{DATABASES, LOCAL, Remembered, Tables};

/// Bytes of a key at most: what the tables put before one has room.
pub(crate) const KEY_SIZE_MAX: usize = KEY_MAX - 64;

/// See the head of this file.
pub(crate) struct Keyspace<'k> {
    kv: &'k Kv,
    tables: &'k Tables,
    remembered: Box<Remembered>,
    /// The database of the command under way.
    database: u8,
    /// Its space in the tables (`databases.rs`).
    space: u8,
    /// The spaces of the databases as the savepoint has them.
    spaces_at_savepoint: Spaces,
    /// Milliseconds since 1970 at the iteration's beginning.
    now: u64,
    /// Whether keys whose deadlines have passed are there still: another server decides.
    keeps_expired: bool,
    /// Changes by the command under way, if `tracks`.
    touched: Vec<Touch>,
    /// The first ones, which `new_changes` has returned.
    noted: usize,
    /// Whether changed keys are listed.
    tracks: bool,
    batch: Option<Batch<'k>>,
    /// Whether the batch holds writes.
    written: bool,
    /// Whether it held some before the command under way.
    written_before: bool,
    /// Whether the command under way has changed something.
    changed_by_command: bool,
    /// Whether the part of it under way has: a command of a transaction.
    changed_by_part: bool,
    /// The batch as it was before the transaction under way, if others had written to it.
    savepoint: Option<Savepoint>,
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
    settled: Option<Settled>,
    /// The changes, for replicas.
    capture: Capture,
    /// Keys removed behind their deadlines.
    expired: Removals,
    /// Keys removed to make room.
    evicted: Removals,
    /// Whether one is being removed.
    evicting: bool,
    /// Whether a key was met whose deadline has passed.
    met_expired: Cell<bool>,
}

/// A change of keys, with their database.
#[derive(Clone, Debug)]
pub(crate) enum Touch {
    /// A key has another value, or is gone.
    Changed(u8, Vec<u8>),
    /// A key was removed because its deadline has passed.
    Swept(u8, Vec<u8>),
    /// A key was removed to make room.
    Evicted(u8, Vec<u8>),
    /// Clients that wait for a key look at it, and those that watch it do not.
    Told(u8, Vec<u8>),
    /// A consumer group of a stream, or its last id, has changed, which is told as this event and
    /// is nothing else.
    Stream(u8, Vec<u8>, &'static str),
    /// All keys are gone.
    Cleared(u8),
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

/// Why a command cannot have what it asked for.
#[derive(Debug)]
pub(crate) enum KeyError {
    /// The key holds another type.
    WrongType,
    /// The store's error.
    Store(Error),
}

impl From<Error> for KeyError {
    fn from(error: Error) -> KeyError {
        KeyError::Store(error)
    }
}

/// A key as the tables hold it, behind the space. A cluster puts the key's slot first here, so that
/// a slot is one range; one server has one slot, and its keys are in the order of their bytes.
fn stored_key(key: &[u8]) -> &[u8] {
    key
}

/// The key in what `stored_key` made of it.
fn unstored_key(stored: &[u8]) -> &[u8] {
    stored
}

impl<'k> Keyspace<'k> {
    /// At the beginning of an iteration, at `now` milliseconds since 1970. `behind`: commits of
    /// earlier iterations are not settled yet. `remembered` is what the last one left.
    pub(crate) fn new(
        tables: &'k Tables,
        remembered: Box<Remembered>,
        now: u64,
        careful: bool,
        behind: bool,
    ) -> Keyspace<'k> {
        let mut remembered = remembered;
        remembered.spaces.begin(behind);
        remembered.functions.begin(behind);
        Keyspace {
            kv: &tables.kv,
            tables,
            database: 0,
            space: remembered.spaces.of(0),
            spaces_at_savepoint: remembered.spaces,
            remembered,
            now,
            keeps_expired: false,
            touched: Vec::new(),
            noted: 0,
            tracks: false,
            batch: None,
            written: false,
            written_before: false,
            changed_by_command: false,
            changed_by_part: false,
            savepoint: None,
            commit: None,
            careful,
            behind,
            may_write: false,
            exposed: false,
            settled: None,
            capture: Capture::default(),
            expired: Removals::default(),
            evicted: Removals::default(),
            evicting: false,
            met_expired: Cell::new(false),
        }
    }

    /// For commands that only read, and in a loop that does nothing else: they see this version.
    pub(crate) fn reading(tables: &'k Tables, remembered: Box<Remembered>, now: u64, settled: Settled) -> Keyspace<'k> {
        Keyspace { settled: Some(settled), ..Keyspace::new(tables, remembered, now, false, true) }
    }

    /// Facts, and the version, for the next iteration of such a loop.
    pub(crate) fn into_reading(self) -> (Box<Remembered>, Option<Settled>) {
        (self.remembered, self.settled)
    }

    /// Whether a key whose deadline has passed was met since this was asked last.
    pub(crate) fn take_met_expired(&self) -> bool {
        self.met_expired.take() && !seeded("server-loop-expires")
    }

    /// Changes are captured, for replicas.
    pub(crate) fn capture(&mut self) {
        self.capture.begin();
    }

    /// The commits of the iteration, with their changes.
    pub(crate) fn take_commits(&mut self) -> Vec<Committed> {
        self.capture.take_commits()
    }

    /// Facts for the next iteration.
    pub(crate) fn into_remembered(self) -> Box<Remembered> {
        self.remembered
    }

    /// Milliseconds since 1970 at the iteration's beginning.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Whether a deadline is not above the time at the iteration's beginning.
    pub(crate) fn has_passed(&self, deadline: u64) -> bool {
        deadline <= self.now && !self.keeps_expired
    }

    /// A random number.
    pub(crate) fn random(&mut self) -> u64 {
        self.remembered.random()
    }

    /// Notes that the command under way changes a key.
    fn touch(&mut self, key: &[u8]) {
        if self.tracks {
            self.touched.push(Touch::Changed(self.database, key.to_vec()));
        }
    }

    /// Notes that clients which wait for a key are to look at it.
    pub(crate) fn tell(&mut self, key: &[u8]) {
        if self.tracks {
            self.touched.push(Touch::Told(self.database, key.to_vec()));
        }
    }

    /// Notes a change of a consumer group or of a last id, as the event that tells of it.
    pub(crate) fn tell_stream(&mut self, key: &[u8], event: &'static str) {
        if self.tracks {
            self.touched.push(Touch::Stream(self.database, key.to_vec(), event));
        }
    }

    /// Notes that every key of the database goes.
    fn touch_all(&mut self) {
        if self.tracks {
            self.touched.push(Touch::Cleared(self.database));
        }
    }

    /// Notes that a key was removed because its deadline has passed.
    fn swept(&mut self, key: &[u8]) {
        self.expired.add();
        if self.tracks {
            self.touched.push(Touch::Swept(self.database, key.to_vec()));
        }
    }

    /// Whether changes are to be noted from the next command on.
    pub(crate) fn track(&mut self, tracks: bool) {
        self.tracks = tracks;
    }

    /// The changes by the command under way since this was asked last.
    pub(crate) fn new_changes(&mut self) -> &[Touch] {
        let first = std::mem::replace(&mut self.noted, self.touched.len());
        self.touched.get(first..).unwrap_or_default()
    }

    /// The number of changes by the command under way.
    pub(crate) fn touched_count(&self) -> usize {
        self.touched.len()
    }

    /// The changes by the command under way, without the first ones.
    pub(crate) fn touched_from(&self, first: usize) -> Vec<Touch> {
        self.touched.get(first..).unwrap_or_default().to_vec()
    }

    /// The changes by the command that has ended.
    pub(crate) fn take_touched(&mut self) -> Vec<Touch> {
        self.noted = 0;
        std::mem::take(&mut self.touched)
    }

    /// The batch, where reads must see it.
    fn reader(&mut self) -> Option<&mut Batch<'k>> {
        let builds = self.behind && (self.may_write || self.swap_unsettled() || seeded("server-unsettled-read"));
        if self.batch.is_none() && (self.commit.is_some() || builds) {
            self.batch = Some(self.kv.batch());
            self.exposed = self.exposed || !seeded("server-unsettled-read");
        }
        self.batch.as_mut()
    }

    /// The settled version that this iteration's reads see; `None` where no other can come up
    /// meanwhile.
    fn settled(&mut self) -> Option<&mut Settled> {
        self.behind.then(|| self.settled.get_or_insert_with(|| Settled::new(self.kv.snapshot())))
    }

    /// Requests have come: what they read is not older than what another loop has told by now.
    pub(crate) fn renew(&mut self) {
        self.settled.take_if(|settled| !settled.is_newest());
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
        (self.changed_by_command, self.changed_by_part) = (true, true);
        Ok(result)
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

    /// The command under way reads the newest state from here on, and its reply waits for it.
    pub(crate) fn read_newest(&mut self) {
        (self.may_write, self.exposed) = (true, true);
    }

    /// The reply to come tells of something that may not be settled.
    pub(crate) fn expose(&mut self) {
        self.exposed = true;
    }

    /// The command under way is a transaction: an error takes it back, and nothing before it.
    pub(crate) fn begin_transaction(&mut self) -> Result<()> {
        if self.written
            && let Some(batch) = &mut self.batch
        {
            self.savepoint = Some(batch.savepoint()?);
            self.capture.set_savepoint();
            self.spaces_at_savepoint = self.remembered.spaces;
            self.remembered.used.set_savepoint();
        }
        Ok(())
    }

    /// Called before each command of a transaction.
    pub(crate) fn begin_part(&mut self) {
        self.changed_by_part = false;
        if seeded("server-exec-split") && self.written {
            let _ = self.commit_batch();
        }
    }

    /// The part under way has changed something: a script, whose commands are parts themselves.
    pub(crate) fn note_part_changed(&mut self) {
        self.changed_by_part = true;
    }

    /// Whether that command has changed something, or spoiled the batch.
    pub(crate) fn part_changed(&self) -> bool {
        self.changed_by_part || self.batch.as_ref().is_some_and(Batch::is_doomed)
    }

    /// Called before each command; whether it may write.
    pub(crate) fn begin_command(&mut self, may_write: bool) {
        self.touched.clear();
        self.noted = 0;
        self.written_before = self.written;
        self.changed_by_command = false;
        self.savepoint = None;
        self.may_write = may_write;
    }

    /// Called after each command: whether what it and others wrote still stands. A command that
    /// `failed` after it had changed something takes the batch with it (ITER-3).
    pub(crate) fn end_command(&mut self, failed: bool) -> Verdict {
        let savepoint = self.savepoint.take();
        let failed = failed && !seeded("server-half-command");
        if failed && self.changed_by_command || self.batch.as_ref().is_some_and(Batch::is_doomed) {
            self.remembered.forget();
            if let (Some(savepoint), Some(batch)) = (savepoint, &mut self.batch)
                && (seeded("server-exec-kept") || batch.roll_back(savepoint).is_ok())
            {
                if !seeded("server-swap-kept") {
                    self.remembered.spaces = self.spaces_at_savepoint;
                }
                self.capture.roll_back();
                self.expired.roll_back();
                self.evicted.roll_back();
                self.remembered.used.roll_back();
                return Verdict::Kept;
            }
            self.batch = None;
            self.capture.forget();
            self.expired.forget();
            self.evicted.forget();
            self.remembered.used.forget();
            let lost = self.written_before;
            self.written = false;
            return if lost { Verdict::Lost } else { Verdict::Kept };
        }
        self.expired.keep();
        self.evicted.keep();
        if self.careful && self.written && !seeded("server-careful-together") {
            return match self.commit_batch() {
                Ok(()) => Verdict::Kept,
                Err(error) => Verdict::Refused(error),
            };
        }
        Verdict::Kept
    }

    /// A seeded bug: what follows is no longer one with what was written before.
    pub(crate) fn commit_apart(&mut self) {
        if self.written {
            let _ = self.commit_batch();
        }
    }

    fn commit_batch(&mut self) -> Result<()> {
        self.written = false;
        if let Some(batch) = self.batch.take() {
            let before = batch.follows();
            match batch.commit() {
                Ok(commit) => {
                    // A batch that changed nothing has no version of its own.
                    match commit.version() > before {
                        true => self.capture.committed(commit.version().get()),
                        false => self.capture.forget(),
                    }
                    self.commit = Some(commit);
                    self.expired.commit();
                    self.evicted.commit();
                    self.remembered.used.committed();
                    self.remembered.spaces.committed();
                }
                Err(error) => {
                    self.capture.forget();
                    self.expired.forget();
                    self.evicted.forget();
                    self.remembered.used.forget();
                    self.remembered.forget();
                    return Err(error);
                }
            }
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

    /// Keys that commits have removed behind their deadlines since this was asked last.
    pub(crate) fn take_expired(&mut self) -> u64 {
        self.expired.take()
    }

    /// Keys that commits have removed to make room since this was asked last.
    pub(crate) fn take_evicted(&mut self) -> u64 {
        self.evicted.take()
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
