//! Making a tree and opening one.
//!
//! Opening, step by step, each idempotent:
//!   1. the commit word chooses the state; its checksum must hold
//!   2. if the state belongs to the newest version, its ledger is applied again
//!   3. unless the tree was closed, the first version that may have been under way joins the void
//!      list (VER-1): only one can have been, for a version's stores survive only with the commit
//!      before it
//!
//! So the cost is bounded by what was in flight. The void list has room for 256 ranges, one for
//! each crash between two commits; when it is full, the tree is scrubbed first, which reads all of
//! it.
//!
//! Closing marks the version as the newest that any store belongs to, so that the next opening has
//! nothing to void. The mark is made only by a process whose opening was complete: one that failed
//! may not have voided what a crash cut short.

use crate::error::{Error, Result, damaged};
use crate::tree::batch::Writer;
use crate::tree::build::{Items, image, size_for};
use crate::tree::commit::apply_drops;
use crate::tree::handle::{OpenTree, Tally, Tree};
use crate::tree::hash::OffsetSet;
use crate::tree::layout::*;
use crate::tree::node::Node;
use crate::tree::number::Version;
use crate::tree::pins::{Pins, Published};
use crate::tree::sum::sum;
use crate::tree::version::{Held, Life, View, Voids};
use arc_swap::ArcSwap;
use everbyte_heap::{Heap, Op};
use everbyte_media::lock_order::RankedMutex;
use everbyte_media::museum::unless;
use everbyte_media::{Checked, Format, LINE, Media, Offset, PublishWord, seeded, sums_agree};
use everbyte_store::Object;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use zerocopy::{FromZeros, IntoBytes};

/// The engine's part of the prime page.
const HEADER_AT: u64 = 2048;
/// Trees opened by this process.
static TREES: AtomicU64 = AtomicU64::new(0);
/// The version of a new, empty tree.
const FIRST: Version = Version::new(1);

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
        open(object)
    }
}

fn format(object: &Object) -> Result<()> {
    let (media, header_at) = (object.media().clone(), object.prime() + HEADER_AT);
    let _section = media.section();
    Heap::format(object)?;
    let heap = Heap::open(object.clone())?;
    let area = heap.reserve(AREA)?;
    media.zero(area.at, AREA);
    media.flush(area.at, AREA);
    let mut items = Items::default();
    let leaf = heap.reserve(size_for(0, 0, 0) as u64)?;
    media.copy_nt(leaf.at, &image(0, FIRST, leaf.size.to_usize() & !(LINE as usize - 1), &items, 0..0));
    items.bytes.extend_from_slice(&u64::from(sum(b"")).to_le_bytes());
    let item = crate::tree::build::Item {
        start: FIRST,
        end: Version::NONE,
        flags: 0,
        key_len: 0,
        value: leaf.at.get(),
        record: 0..8,
        key_sum: 0,
    };
    items.list.push(item);
    let root = heap.reserve(size_for(1, 1, 8) as u64)?;
    media.copy_nt(root.at, &image(1, FIRST, root.size.to_usize() & !(LINE as usize - 1), &items, 0..1));
    let ops = [area, leaf, root].map(|block| heap.op_allocate(&block));
    let words = ops.map(u64::from);
    media.copy_nt(area.at + LEDGERS_AT[0], words.as_bytes());
    let mut state = State::new_zeroed();
    (state.version, state.root, state.ledger, state.ops) = (FIRST, root.at, area.at + LEDGERS_AT[0], ops.len() as u64);
    state.ledger_sum = crc32c::crc32c(words.as_bytes());
    state = state.sealed();
    media.put(header_at + STATES_AT[0], &state);
    media.zero(header_at + STATES_AT[1], size_of::<State>() as u64);
    let mut header = TreeHeader::new_zeroed();
    (header.magic, header.format, header.area) = (TREE_MAGIC, TREE_FORMAT, area.at);
    header = header.sealed();
    media.put(header_at, &header);
    media.store(header_at + COMMIT_AT, FIRST.commit_word(0));
    media.store(header_at + CLOSED_AT, 0);
    media.flush(header_at, size_of::<TreePage>() as u64);
    // The object's name is published behind a fence of the store: until then no reader looks here,
    // so one order suffices.
    media.fence();
    heap.apply(&ops);
    heap.finish(&ops);
    Ok(())
}

fn open(object: Object) -> Result<Tree> {
    let claim = object.claim()?;
    let (media, header_at) = (object.media().clone(), object.prime() + HEADER_AT);
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
            "a tree of format 1 or 2, which no release wrote; export it with the build that made it",
        );
    }
    if !header.checksum_agrees() || !header.area.is_aligned(8) || !media.holds(header.area, AREA) {
        return damaged(header_at.get(), "the tree's header fails its checksum");
    }
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
    let newest = Published { version: Version::new(version), root: state.root.get(), keys: state.keys };
    let writer = Writer {
        committed: newest,
        state: chosen,
        next: Version::new(version + 1),
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
        items: Items::default(),
        dirty: Default::default(),
        touched: Vec::new(),
        prefetched: Default::default(),
    };
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
        number: TREES.fetch_add(1, Relaxed),
        holder: AtomicU64::new(crate::tree::thread::NONE),
        opened: AtomicBool::new(seeded("tree-failed-opening-closes")),
        _claim: claim,
    };
    let section = shared.media.section();
    if state.version == version {
        replay(&shared, state, chosen)?;
    }
    Node::open(&shared.media, state.root.get())?;
    void_unfinished(&shared, voids, Version::new(version))?;
    drop(section);
    let tree = Tree { shared: Arc::new(shared) };
    {
        // A cleared tree hangs below its successor's root: go on freeing it.
        let mut batch = tree.batch();
        let root = Node::open(&tree.shared.media, state.root.get())?;
        batch.list_dead(&root);
    }
    tree.shared.opened.store(true, Relaxed);
    Ok(tree)
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
    apply_drops(shared, drops);
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

/// Lists the version that may have been under way as void, and takes back the mark of a clean
/// close.
fn void_unfinished(shared: &OpenTree, mut voids: Voids, version: Version) -> Result<()> {
    let media = &shared.media;
    let closed = media.load(shared.header + CLOSED_AT) == version.get();
    shared.writer.lock().suspicious = !closed && media.fences_settle();
    let next = voids.0.last().map_or(version, |last| last.1.max(version)).next();
    if closed || seeded("tree-void-forgotten") {
        shared.set_voids(voids);
        shared.writer.lock().next = next;
    } else {
        voids.add(next);
        store_voids(shared, voids);
        shared.writer.lock().next = next.next();
    }
    if closed {
        media.store(shared.header + CLOSED_AT, 0);
        media.flush(shared.header + CLOSED_AT, 8);
        // Before anything of the next version: a crash then must not find the mark.
        media.fence();
    }
    Ok(())
}

fn load_voids(media: &Media, area: u64, version: Version) -> Result<Voids> {
    let count = media.load(area + VOID_COUNT_AT);
    if count > VOIDS_MAX as u64 {
        return damaged(area + VOID_COUNT_AT, "the void list is longer than its room");
    }
    let mut voids = Voids::default();
    for index in 0..count {
        let at = area + VOIDS_AT + index * VOID_RANGE;
        let VoidRange { first, last } = media.get(at);
        let after = voids.0.last().map_or(Version::NONE, |last| last.1);
        if first <= after || last < first || first > version.get() + VOIDS_MAX as u64 * 2 + (1 << 32) {
            return damaged(at, "the void list is not ascending");
        }
        voids.0.push((first, last));
    }
    Ok(voids)
}

/// Makes `voids` the list, on media and for new views. Ordered before everything stored later.
fn store_voids(shared: &OpenTree, mut voids: Voids) {
    let media = &shared.media;
    let _section = media.section();
    if voids.0.len() > VOIDS_MAX {
        shared.set_voids(voids.clone());
        scrub(shared, &voids);
        let last = voids.0.pop().expect("longer than its room");
        // The newest stays listed: its stamps may be in flight still, and numbers go on from it.
        voids.0 = vec![last];
        media.store(shared.area + VOID_COUNT_AT, 0);
        media.flush(shared.area + VOID_COUNT_AT, 8);
        media.fence();
    }
    let (Some(&(first, last)), index) = (voids.0.last(), voids.0.len() as u64 - 1) else { return };
    let at = shared.area + VOIDS_AT + index * VOID_RANGE;
    // A range that only grows changes in one word; a new one is whole before the count includes it.
    media.store(at + offset_of!(VoidRange, first) as u64, first.get());
    media.store(at + offset_of!(VoidRange, last) as u64, last.get());
    media.flush(at, VOID_RANGE);
    let ordered = media.fence_after(index + 1);
    PublishWord::new(Offset::new(shared.area + VOID_COUNT_AT)).publish(media, *ordered, &ordered);
    media.fence();
    shared.set_voids(voids);
}

/// Takes the stamps of void versions out of the whole tree. Readers see the same before and after.
///
/// The walk needs no order and keeps what is still to be visited in a list: dead entries form
/// chains of any length. A damaged node is passed over. It cannot be opened later either, so what
/// it holds is never taken for anything.
fn scrub(shared: &OpenTree, voids: &Voids) {
    let view = View::new(Version::new(u64::MAX >> 2), Held::Owned(Arc::new(voids.clone())));
    // Damaged pointers may lead in a circle: no inner node is visited twice.
    let (mut seen, mut rest) = (OffsetSet::default(), vec![(shared.root_in_force(), Life::Live)]);
    while let Some((at, life)) = rest.pop() {
        if let Ok(node) = Node::open(&shared.media, at)
            && (node.is_leaf() || seen.insert(at))
        {
            scrub_node(shared, &view, &node, life, &mut rest);
        }
    }
    shared.media.fence();
}

/// Takes the stamps of void versions out of one node; `rest` receives its children.
fn scrub_node(shared: &OpenTree, view: &View, node: &Node<'_>, life: Life, rest: &mut Vec<(u64, Life)>) {
    let media = &shared.media;
    // A stamp that a dead process already took out, but did not flush, must be out for good before
    // the list forgets it.
    media.reflush(node.slots(), node.count() as u64 * SLOT);
    for index in 0..node.count() {
        let (slot_at, slot) = (node.slot_at(index), node.slot(index));
        if slot.start == 0 {
            continue;
        }
        if view.void(slot.start) {
            media.store(slot_at + START_AT, 0);
            media.flush(slot_at + START_AT, 8);
            continue;
        }
        if view.void(slot.end) {
            media.store(slot_at + END_AT, 0);
            media.flush(slot_at + END_AT, 8);
        }
        if let (false, Some(life)) = (node.is_leaf(), life.below(view, &slot)) {
            rest.push((slot.value, life));
        }
    }
}

impl OpenTree {
    /// The root in force, for callers that may hold the writer's lock themselves.
    fn root_in_force(&self) -> u64 {
        let commit = self.media.load(self.header + COMMIT_AT);
        (self.media.get::<State>(self.header + STATES_AT[(commit & 1) as usize]).root).get()
    }
}

impl Drop for OpenTree {
    /// A clean close: the next opening has nothing to void. Nothing depends on it. A batch that was
    /// leaked has neither been committed nor taken back: that is no clean close.
    fn drop(&mut self) {
        let has_batch = *self.holder.get_mut() != crate::tree::thread::NONE;
        if !*self.opened.get_mut() || has_batch {
            return;
        }
        let version = self.writer.get_mut().committed.version;
        if self.media.load(self.header + COMMIT_AT) >> 1 == version.get() {
            let _section = self.media.section();
            self.media.store(self.header + CLOSED_AT, version.get());
            self.media.flush(self.header + CLOSED_AT, 8);
            let _ = self.media.barrier();
        }
    }
}
