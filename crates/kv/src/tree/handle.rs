//! [`Tree`]: the versioned tree of one object, its readers and its one writer.
//!
//! A version, step by step (`TreeBatch::commit`):
//!   1. entries, new nodes and end stamps stored under version v, flushed; where root, count or
//!      space change, the other state and its ledger too
//!   2. fence
//!   3. the commit word (v and which state counts) stored and flushed
//!   4. fence: nothing later survives without the commit; where a fence settles too, v is published
//!      here
//!   5. the ledger applied: bits of the heap, slots emptied; flushed, ordered by the fence of the
//!      next version
//!   6. elsewhere the barrier (`Tree::settle`), then v is published and readers see it
//!
//! Invariants
//!   TREE-1  Nothing that a committed version sees is overwritten: only empty slots, end stamps and
//!           `order` change.
//!   TREE-2  A slot is reused only after an earlier fence has ordered its emptiness, and is emptied
//!           only when its end is at or below the oldest version that is published or pinned.
//!   TREE-3  Readers see settled versions only; versions are published in order, after what settles
//!           them.
//!   TREE-4  A block is freed once: with the dead entry that owns it. An entry that is live when
//!           its node is replaced has moved, and the copy owns.
//!   TREE-5  A ledger is replayed only for the version it belongs to. Earlier ones have been
//!           applied: their effects were flushed before the fence of step 2 of the version after
//!           them.
//!   TREE-6  A fence orders what its own thread flushed. A thread that begins a version after a
//!           ledger which another thread applied flushes the effects of that ledger again before
//!           its first fence.
//!
//! Threads: any number of readers, which take no lock; one writer, by a mutex. The paper:
//! Venkataraman, Tolia, Ranganathan, Campbell: Consistent and Durable Data Structures (FAST 2011).
//!
//! Design: docs/design/tree.md

use crate::error::{Error, Result};
use crate::tree::batch::TreeBatch;
use crate::tree::cursor::Cursor;
use crate::tree::key::TableNumber;
use crate::tree::layout::Slot;
use crate::tree::node::{Node, Query, below};
use crate::tree::number::Version;
use crate::tree::pins::{Pins, Published, Ticket};
use crate::tree::version::{Held, View, Voids};
use crate::tree::writer::Writer;
use crate::ttl::Clock;
use arc_swap::ArcSwap;
use everbyte_heap::Heap;
use everbyte_media::lock_order::{RankedMutex, rank};
use everbyte_media::{Media, Offset, Unsettled};
use everbyte_store::Claim;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Versions that may be committed and not settled.
pub(super) const UNSETTLED_MAX: u64 = 256;

/// Attempts to read one version of another process's tree.
const ATTEMPTS_OUTSIDE: usize = 1000;

/// A versioned tree. Cheap to clone; clones are one tree.
#[derive(Clone)]
pub(crate) struct Tree {
    pub(crate) shared: Arc<OpenTree>,
}

pub(crate) struct OpenTree {
    pub heap: Heap,
    pub media: Media,
    /// Offset of the tree's header.
    pub header: u64,
    /// Offsets of the ledgers and the void list.
    pub area: u64,
    pub pins: Pins,
    pub voids: ArcSwap<Voids>,
    pub writer: RankedMutex<{ rank::ENGINE }, Writer>,
    /// Committed and not yet known to be settled, oldest first.
    pub pending: Mutex<VecDeque<Published>>,
    pub counts: Tally,
    /// Since when the oldest version in use holds space back.
    pub held: crate::tree::age::Held,
    /// Distinguishes the commits of this opened tree from those of another.
    pub number: u64,
    /// The thread that has a batch ([`crate::tree::thread`]).
    pub holder: AtomicU64,
    /// Nothing is flushed or fenced, for measurement ([`crate::raw::open_volatile`]).
    pub volatile: bool,
    /// Whether opening is complete: only then may closing say that nothing is to be voided.
    pub opened: AtomicBool,
    /// The object is this tree's alone until it is dropped.
    pub _claim: Claim,
}

/// Counters since the tree was opened.
#[derive(Default)]
pub(crate) struct Tally {
    pub commits: AtomicU64,
    pub rebuilds: AtomicU64,
    pub splits: AtomicU64,
    pub merges: AtomicU64,
    pub freed: AtomicU64,
}

/// Figures of a tree since it was opened, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Live keys of the main table in the newest settled version.
    pub keys: u64,
    /// The newest settled version.
    pub version: Version,
    /// The oldest version some reader still pins.
    pub oldest: u64,
    /// For how long that version has kept the space of newer ones from coming back, since a commit
    /// or a call of this function noticed it. 0: no reader is behind the newest version. By the
    /// clock of [`crate::Kv::set_clock`].
    pub oldest_age: Duration,
    /// Versions committed.
    pub commits: u64,
    /// Nodes replaced by one or two new ones.
    pub rebuilds: u64,
    /// Those replaced by two.
    pub splits: u64,
    /// Levels of the newest settled version, leaves included.
    pub levels: u8,
    /// Nodes with few entries that were written anew with a neighbour.
    pub merges: u64,
    /// Blocks given back to the heap.
    pub freed: u64,
    /// Versions that a crash made void, as ranges not yet scrubbed.
    pub void_ranges: usize,
}

/// A committed version: ordered, and settled by `Tree::settle`.
#[derive(Clone, Copy, Debug)]
#[must_use = "a commit is durable only once it is settled"]
pub struct Commit {
    /// The opened tree that it belongs to.
    pub(crate) tree: u64,
    pub(crate) version: Unsettled<Version>,
}

impl Tree {
    /// The value of `key` at the newest settled version. Takes no lock.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn get(&self, table: TableNumber, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.newest(|seen| self.shared.get(&self.shared.brief_view(seen.version), seen.root, table, key))
    }

    /// The result of `read` in the newest settled version; again if the reader was overtaken by
    /// more versions than the limit allows (PIN-2).
    #[inline]
    pub(crate) fn newest<T>(&self, mut read: impl FnMut(Published) -> Result<T>) -> Result<T> {
        let pins = &self.shared.pins;
        let mut attempts = 0;
        loop {
            let (ticket, seen) = self.pin()?;
            // Also where `read` panics: it may call a closure of the caller.
            let pin = BriefPin { pins, ticket };
            let result = read(seen);
            if !pins.is_over(&pin.ticket) {
                return result;
            }
            // The other process may show nonsense.
            attempts += 1;
            if attempts == ATTEMPTS_OUTSIDE && pins.is_outside() {
                return Err(Error::Expired { version: seen.version });
            }
        }
    }

    /// Pins the newest settled version, of this process's tree or another's.
    #[inline]
    fn pin(&self) -> Result<(Ticket, Published)> {
        let pins = &self.shared.pins;
        if pins.is_outside() { self.shared.pin_outside() } else { Ok(pins.pin()) }
    }

    /// Pins the newest settled version of this process's own tree.
    pub(crate) fn snapshot(&self) -> TreeSnapshot {
        let (ticket, seen) = self.shared.pins.pin();
        self.pinned(ticket, seen)
    }

    /// As [`Tree::snapshot`], also of a tree that another process writes.
    ///
    /// # Errors
    /// [`Error::Unpublished`]; damage.
    pub(crate) fn newest_snapshot(&self) -> Result<TreeSnapshot> {
        let (ticket, seen) = self.pin()?;
        Ok(self.pinned(ticket, seen))
    }

    fn pinned(&self, ticket: Ticket, seen: Published) -> TreeSnapshot {
        TreeSnapshot(Arc::new(Pinned {
            shared: Arc::clone(&self.shared),
            view: self.shared.view(seen.version),
            ticket,
            seen,
        }))
    }

    /// Pins an older version, which a name keeps. The caller has a batch, so that the name stays
    /// meanwhile.
    pub(crate) fn snapshot_of(&self, seen: Published) -> TreeSnapshot {
        TreeSnapshot(Arc::new(Pinned {
            shared: Arc::clone(&self.shared),
            view: self.shared.view(seen.version),
            ticket: self.shared.pins.hold(seen.version),
            seen,
        }))
    }

    /// Takes back the pin of a version that had a name.
    pub(crate) fn release_version(&self, version: Version) {
        self.shared.release_version(version);
    }

    /// Waits for the writer's turn and begins a version.
    ///
    /// Commits that no thread settles are settled here, [`UNSETTLED_MAX`] at a time: what they
    /// replaced would be kept for ever.
    ///
    /// # Panics
    /// If this thread has a batch of this tree already: it would wait for itself. [`Tree::begin`]
    /// returns an error instead.
    pub(crate) fn batch(&self) -> TreeBatch<'_> {
        self.begin().unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Tree::batch`].
    ///
    /// # Errors
    /// [`Error::OwnBatch`] if this thread has a batch of this tree already; [`Error::ReadOnly`] if
    /// another process writes the tree.
    pub(crate) fn begin(&self) -> Result<TreeBatch<'_>> {
        if self.shared.pins.is_outside() {
            return Err(Error::ReadOnly { object: self.shared.heap.object().name().into() });
        }
        if self.shared.holder.load(Relaxed) == crate::tree::thread::current() {
            return Err(Error::OwnBatch);
        }
        let behind = self
            .shared
            .pending
            .lock()
            .back()
            .copied()
            .filter(|newest| newest.version.get() > self.shared.pins.published().version.get() + UNSETTLED_MAX);
        if let Some(newest) = behind {
            // An error poisons the store: the next thread that settles or writes is told.
            let _ = self.settle(self.shared.commit_of(newest.version));
        }
        Ok(TreeBatch::begin(&self.shared))
    }

    /// Makes `commit` and all before it durable, and visible to readers.
    ///
    /// # Errors
    /// A poisoned store: whether the commit survives is unknown until the store is opened again. A
    /// commit of another tree, or of this one before it was opened again: nothing is settled.
    pub(crate) fn settle(&self, commit: Commit) -> Result<()> {
        self.require_own(commit)?;
        if commit.version.value <= self.shared.pins.published().version.get() {
            return Ok(());
        }
        let version = commit.version.settle(&self.shared.media)?;
        let mut pending = self.shared.pending.lock();
        let mut newest = None;
        while pending.front().is_some_and(|next| next.version <= version) {
            if let Some(passed) = std::mem::replace(&mut newest, pending.pop_front()) {
                self.shared.pins.pass(passed.version);
            }
        }
        // TREE-3: published under the lock, so a slower thread cannot publish an older version
        // later.
        if let Some(newest) = newest {
            self.shared.pins.publish(newest);
        }
        Ok(())
    }

    /// Refuses a commit of another tree, or of this one before it was opened again.
    pub(crate) fn require_own(&self, commit: Commit) -> Result<()> {
        if commit.tree == self.shared.number { Ok(()) } else { Err(Error::OtherTree) }
    }

    /// Sets how many commits behind the newest a reader may be; 0: any number.
    pub(crate) fn set_reader_limit(&self, commits: u64) {
        self.shared.pins.set_limit(commits);
    }

    /// Sets the clock of [`Stats::oldest_age`].
    pub(crate) fn set_clock(&self, clock: Arc<dyn Clock>) {
        self.shared.held.set_clock(clock);
    }

    /// Equal for all handles of one opened tree.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// Whether both are the same opened tree.
    pub(crate) fn is_same(&self, other: &Tree) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Live keys of the main table in the newest settled version.
    pub(crate) fn len(&self) -> u64 {
        self.shared.pins.published().keys.main
    }

    /// The number of levels of the newest settled version, leaves included; 0 if its root cannot be
    /// read.
    pub(crate) fn height(&self) -> u8 {
        let snapshot = self.snapshot();
        Node::open(&self.shared.media, snapshot.0.seen.root).map_or(0, |root| root.level + 1)
    }

    /// Figures.
    pub(crate) fn stats(&self) -> Stats {
        let oldest = self.shared.pins.oldest();
        let (seen, counts) = (self.shared.pins.published(), &self.shared.counts);
        Stats {
            keys: seen.keys.main,
            version: seen.version,
            oldest,
            oldest_age: self.shared.held.note(oldest, seen.version.get()),
            commits: counts.commits.load(Relaxed),
            rebuilds: counts.rebuilds.load(Relaxed),
            splits: counts.splits.load(Relaxed),
            levels: self.height(),
            merges: counts.merges.load(Relaxed),
            freed: counts.freed.load(Relaxed),
            void_ranges: self.shared.voids.load().0.len(),
        }
    }

    /// The heap that holds the tree's nodes.
    pub(crate) fn heap(&self) -> &Heap {
        &self.shared.heap
    }
}

impl OpenTree {
    /// Stores bytes to which nothing leads yet: past the cache, and so on their way to the medium.
    pub(crate) fn fill(&self, at: impl Into<Offset>, bytes: &[u8]) {
        if self.volatile { self.media.write(at, bytes) } else { self.media.copy_nt(at, bytes) }
    }

    pub(crate) fn view(&self, version: Version) -> View {
        View::new(version, Held::Owned(self.voids.load_full()))
    }

    /// A view for one look: it counts nothing that threads share.
    #[inline]
    pub(crate) fn brief_view(&self, version: Version) -> View {
        View::new(version, Held::Lent(self.voids.load()))
    }

    pub(crate) fn get(&self, view: &View, root: u64, table: TableNumber, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(view, root, table, key, &mut value)?.then_some(value))
    }
}

impl OpenTree {
    /// The leaf that covers the query's key, and the slot that holds it.
    #[inline]
    pub(crate) fn find(&self, view: &View, root: u64, query: &Query<'_>) -> Result<(Node<'_>, Option<(usize, Slot)>)> {
        let media = &self.media;
        let mut node = Node::open(media, root)?;
        // Levels fall at each step, so a damaged pointer cannot lead in circles.
        while !node.is_leaf() {
            let (_, child) = node.child_for(view, &query.full)?;
            node = below(media, &node, child)?;
        }
        let found = node.find(view, query)?;
        Ok((node, found))
    }
}

/// A settled version, held fast until its last clone and cursor are dropped: what it sees is not
/// reclaimed, whatever is written meanwhile.
#[derive(Clone)]
pub(crate) struct TreeSnapshot(pub(crate) Arc<Pinned>);

pub(crate) struct Pinned {
    pub(crate) shared: Arc<OpenTree>,
    pub(crate) view: View,
    ticket: Ticket,
    pub(crate) seen: Published,
}

impl Pinned {
    /// Refuses a version whose reader has fallen too far behind: asked after reading, and before
    /// what was read counts (PIN-2).
    #[inline]
    pub(crate) fn require_kept(&self) -> Result<()> {
        match self.shared.pins.is_over(&self.ticket) {
            false => Ok(()),
            true => Err(Error::Expired { version: self.seen.version }),
        }
    }
}

impl TreeSnapshot {
    /// The value of `key` at this version.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn get(&self, table: TableNumber, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.0.shared.get(&self.0.view, self.0.seen.root, table, key);
        self.0.require_kept()?;
        value
    }

    /// Refuses a version whose reader has fallen too far behind ([`Pinned::require_kept`]).
    pub(crate) fn require_kept(&self) -> Result<()> {
        self.0.require_kept()
    }

    /// Whether both are versions of one opened tree.
    pub(crate) fn is_beside(&self, other: &TreeSnapshot) -> bool {
        Arc::ptr_eq(&self.0.shared, &other.0.shared)
    }

    /// Whether this is a version of `tree`.
    pub(crate) fn is_of(&self, tree: &Tree) -> bool {
        Arc::ptr_eq(&self.0.shared, &tree.shared)
    }

    /// The name of the tree's object.
    pub(crate) fn object_name(&self) -> String {
        self.0.shared.heap.object().name().into()
    }

    /// Live keys of the main table at this version.
    pub(crate) fn len(&self) -> u64 {
        self.0.seen.keys.main
    }

    /// The version's number.
    pub(crate) fn version(&self) -> Version {
        self.0.seen.version
    }

    /// Whether no newer version is published.
    pub(crate) fn is_newest(&self) -> bool {
        self.0.shared.pins.is_newest(&self.0.ticket)
    }

    /// A cursor over this version, standing nowhere yet. It keeps the version by itself.
    pub(crate) fn cursor(&self) -> Cursor<'static> {
        Cursor::new(self.0.shared.media.clone(), self.0.view.clone(), self.0.seen.root, Some(self.clone()))
    }
}

/// The pin of one look.
struct BriefPin<'p> {
    pins: &'p Pins,
    ticket: Ticket,
}

impl Drop for BriefPin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pins.unpin(&self.ticket);
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.shared.pins.unpin(&self.ticket);
    }
}
