//! Opening a tree and closing it.
//!
//! Opening, step by step, each idempotent:
//!   1. the commit word chooses the state; its checksum must hold
//!   2. if the state belongs to the newest version, its ledger is applied again
//!   3. unless the tree was closed, the versions that may have been under way join the void list
//!      (VER-1): those of one batch (SAVE-3), for a batch's stores survive only with the commit
//!      before it
//!
//! So the cost is bounded by what was in flight. The void list has room for 256 ranges, one for
//! each crash between two commits; when it is full, the tree is scrubbed first, which reads all of
//! it.
//!
//! Closing marks the version as the newest that any store belongs to, so that the next opening has
//! nothing to void. The mark is made only by a process whose opening was complete: one that failed
//! may not have voided what a crash cut short. The mark also says whether any process before has
//! died, where memory outlives one: this one may not have flushed all that it left in the caches.

use crate::error::{Error, Result, damaged};
use crate::tree::build::Items;
use crate::tree::format::{HEADER_AT, format};
use crate::tree::handle::{OpenTree, Tally, Tree};
use crate::tree::layout::*;
use crate::tree::ledger::apply_drops;
use crate::tree::node::Node;
use crate::tree::number::Version;
use crate::tree::outside;
use crate::tree::pins::{KeyCounts, Pins, Published};
use crate::tree::version::Voids;
use crate::tree::voids::{load_voids, void_unfinished};
use crate::tree::writer::Writer;
use arc_swap::ArcSwap;
use everbyte_heap::{Heap, Op};
use everbyte_media::lock_order::RankedMutex;
use everbyte_media::museum::unless;
use everbyte_media::{Checked, Format, Offset, seeded, sums_agree};
use everbyte_store::Object;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use zerocopy::IntoBytes;

/// Trees opened by this process.
static TREES: AtomicU64 = AtomicU64::new(0);

impl Tree {
    /// Writes an empty tree into a new object; to be called before the object's name is published.
    ///
    /// # Errors
    /// Out of space; I/O.
    pub(crate) fn format(object: &Object) -> Result<()> {
        format(object)
    }

    /// Opens the tree of `object`: replays the last version's ledger and voids the version a crash
    /// cut short. The cost does not depend on how much the tree holds.
    ///
    /// A tree is opened once at a time; clones share it.
    ///
    /// # Errors
    /// Open already, damage, a newer format, I/O.
    pub(crate) fn open(object: Object) -> Result<Tree> {
        open(object, false)
    }

    /// As [`Tree::open`], for measurement: where fences settle, batches flush and fence nothing.
    ///
    /// # Errors
    /// As [`Tree::open`].
    pub(crate) fn open_volatile(object: Object) -> Result<Tree> {
        let volatile = object.media().fences_settle();
        open(object, volatile)
    }
}

/// The header of the tree of `object`, verified.
pub(crate) fn read_header(object: &Object) -> Result<TreeHeader> {
    let (media, header_at) = (object.media(), object.prime() + HEADER_AT);
    let header: TreeHeader = media.get(header_at);
    if header.magic != TREE_MAGIC {
        return damaged(header_at.get(), "no tree in this object");
    }
    if header.format > TREE_FORMAT {
        return Err(Error::NewerFormat { format: Format::new(header.format, TREE_FORMAT) });
    }
    if header.format < TREE_FORMAT {
        return damaged(
            header_at.get(),
            "a tree of format 1, 2, 3 or 4, which no release wrote; export it with the build that made it",
        );
    }
    if !header.checksum_agrees() || !header.area.is_aligned(8) || !media.holds(header.area, AREA) {
        return damaged(header_at.get(), "the tree's header fails its checksum");
    }
    Ok(header)
}

fn open(object: Object, volatile: bool) -> Result<Tree> {
    let claim = object.claim()?;
    let header = read_header(&object)?;
    let (media, header_at) = (object.media().clone(), object.prime() + HEADER_AT);
    let page = outside::page(&object); // BESIDE-2
    // The death of a process, without the machine, may have left the commit in the caches: later
    // stores of recovery must not survive without it. The data that it commits was fenced before
    // it.
    media.reflush(header_at + COMMIT_AT, CLOSED_AT + 8 - COMMIT_AT);
    media.reflush(header.area + VOID_COUNT_AT, AREA - VOID_COUNT_AT);
    media.fence();
    let commit = media.load(header_at + COMMIT_AT);
    let (version, chosen) = (commit >> 1, (commit & 1) as usize);
    let state: State = media.get(header_at + STATES_AT[chosen]);
    if !state.checksum_agrees() || state.version > version || version == 0 || version >> 62 != 0 {
        return damaged((header_at + COMMIT_AT).get(), "the commit word chooses a state that fails its checksum");
    }
    let voids = load_voids(&media, header.area.get(), Version::new(version))?;
    media.require_readable(header.area, AREA)?; // an empty list of voids would make a version real
    let heap = Heap::open(object)?;
    let newest = Published {
        version: Version::new(version),
        root: state.root.get(),
        keys: KeyCounts { all: state.keys, main: state.main_keys },
    };
    let writer = new_writer(newest, chosen);
    let shared = OpenTree {
        heap,
        media,
        header: header_at.get(),
        area: header.area.get(),
        pins: Pins::new(newest),
        voids: ArcSwap::from_pointee(Voids::default()),
        writer: RankedMutex::new(writer),
        pending: Mutex::new(VecDeque::new()),
        counts: Tally::default(),
        held: Default::default(),
        number: next_number(),
        holder: AtomicU64::new(crate::tree::thread::NONE),
        opened: AtomicBool::new(seeded("tree-failed-opening-closes")),
        volatile,
        _claim: claim,
    };
    let section = shared.media.section();
    if state.version == version {
        replay(&shared, state, chosen)?;
    }
    Node::open(&shared.media, state.root.get())?;
    void_unfinished(&shared, voids, Version::new(version))?;
    unless("tree-named-versions-unpinned", || shared.hold_named(newest));
    drop(section);
    let tree = Tree { shared: Arc::new(shared) };
    {
        // A cleared tree hangs below its successor's root: go on freeing it.
        let mut batch = tree.batch();
        let root = Node::open(&tree.shared.media, state.root.get())?;
        batch.list_dead(&root);
    }
    if let Some(page) = page {
        tree.shared.pins.show(page);
    }
    tree.shared.opened.store(true, Relaxed);
    Ok(tree)
}

/// A number for an opened tree.
pub(crate) fn next_number() -> u64 {
    TREES.fetch_add(1, Relaxed)
}

/// The writer of a tree that was opened at this version, whose state lies in slot `chosen`.
pub(crate) fn new_writer(newest: Published, chosen: usize) -> Writer {
    let version = newest.version.get();
    Writer {
        committed: newest,
        state: chosen,
        next: newest.version.next(),
        opened: version,
        graveyard: VecDeque::new(),
        recent: Default::default(),
        applied_by: crate::tree::thread::NONE,
        unlisted: version,
        scanned: Default::default(),
        sweep: Some(Vec::new()),
        digging: Vec::new(),
        suspicious: true,
        adopted: Default::default(),
        horizon: 0,
        long_ledgers: [None, None],
        unfinished: Vec::new(),
        poor: Vec::new(),
        cannot_mend: false,
        missed: false,
        merges_before: 0,
        items: Items::default(),
        dirty: Default::default(),
        touched: Vec::new(),
        prefetched: Default::default(),
    }
}

/// Applies the newest version's ledger again: it may not have been applied when the crash came.
/// Then the same version gets a state without a ledger: this process may hand out what the ledger
/// freed, and where a long one lies.
fn replay(shared: &OpenTree, mut state: State, chosen: usize) -> Result<()> {
    let media = &shared.media;
    let count = state.ops.checked_add(state.drops).filter(|&count| count <= media.len() / 8);
    let Some(count) = count.filter(|count| state.ledger.is_aligned(8) && media.holds(state.ledger, count * 8)) else {
        return damaged(state.ledger.get(), "the ledger leads outside the store");
    };
    let words: Vec<u64> = (0..count).map(|index| media.load(state.ledger + index * 8)).collect();
    if !sums_agree(crc32c::crc32c(words.as_bytes()), state.ledger_sum) {
        return damaged(state.ledger.get(), "the ledger fails its checksum");
    }
    let (ops, drops) = words.split_at(state.ops as usize);
    let ops: Vec<Op> = ops.iter().map(|&word| Op::from(word)).collect();
    for &op in &ops {
        shared.heap.validate(op)?;
    }
    if let Some(&wild) = drops.iter().find(|&&slot| slot % 8 != 0 || !media.holds(slot, SLOT)) {
        return damaged(wild, "the ledger empties a slot outside the store");
    }
    unless("tree-ledger-not-replayed", || shared.heap.apply(&ops));
    unless("tree-drops-not-replayed", || apply_drops(shared, drops));
    media.fence();
    if !words.is_empty() {
        let other = 1 - chosen;
        (state.ledger, state.ops, state.drops) = (Offset::new(shared.area + LEDGERS_AT[other]), 0, 0);
        state.ledger_sum = crc32c::crc32c(&[]);
        state = state.sealed();
        media.copy_nt(shared.header + STATES_AT[other], state.as_bytes());
        let ordered = media.fence_after(state);
        shared.commit_word().publish(media, ordered.version.commit_word(other), &ordered);
        media.fence();
        shared.writer.lock().state = other;
        shared.heap.finish(&ops);
    }
    Ok(())
}

impl Drop for OpenTree {
    /// A clean close: the next opening has nothing to void. Nothing depends on it. A batch that was
    /// leaked has neither been committed nor taken back: that is no clean close.
    fn drop(&mut self) {
        let has_batch = *self.holder.get_mut() != crate::tree::thread::NONE;
        if !*self.opened.get_mut() || has_batch {
            return;
        }
        let writer = self.writer.get_mut();
        let version = writer.committed.version;
        let mark = version.get() | if writer.suspicious { AFTER_DEATH } else { 0 };
        if self.media.load(self.header + COMMIT_AT) >> 1 == version.get() {
            let _section = self.media.section();
            self.media.store(self.header + CLOSED_AT, mark);
            self.media.flush(self.header + CLOSED_AT, 8);
            let _ = self.media.barrier();
        }
    }
}
