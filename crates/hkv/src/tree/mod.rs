//! [`Tree`]: a B+tree in nodes of four lines, committed by one word.
//!
//! A log record (`log_record`) makes an insertion, an update or a deletion. An insertion fills an
//! unused slot and changes the order of the leaf; an update changes one place; a deletion the order
//! alone.
//!
//! A leaf without a free slot is first split, as is each full node above it: half of a node goes to
//! a new one, by a log record, or two new ones replace it, in a transaction (`split`). A leaf that
//! has become sparse is joined with a neighbour, by a log record if possible (`join`). So a tree
//! grows and shrinks by steps that each leave it whole.
//!
//! Invariants
//!   HKV-4  Keys stand in order; those of a node lie from its `low` on and below the `low` of the
//!          next one.
//!   HKV-5  The bounds of a node never widen: a new node replaces one that is to hold more keys. So
//!          `skip` stays true.
//!   HKV-6  The record at a `low` belongs to the leaf with that `low`; inner nodes over the leaf
//!          name it too.
//! And HKV-3 (`hash`).
//!
//! Threads: any; one changes, or several read. A thread that waits for the disk holds no lock.

mod check;
pub(crate) mod join;
mod node;
mod order;
mod path;
mod scan;
pub(crate) mod split;
mod view;

use crate::base::{Base, after_change};
use crate::layout::{Node as Bytes, PLACE_AT, PREFIX_AT, RootHead, TOP_AT, TREE_MAGIC, TreeRoot};
use crate::log_record::LogState;
use crate::raw::Raw;
use crate::record::Draft;
use crate::{Error, Result};
use everbyte_heap::Heap;
use everbyte_media::lock_order::{RankedRwLock, RankedWriteGuard, rank};
use everbyte_store::Object;
use everbyte_store::raw::{AsStore, IntoObject};
use everbyte_tx::Undo;
use node::Node;
use order::Order;
pub use scan::Direction;
use view::View;
use zerocopy::FromZeros;

/// Levels of a tree at most: far more than any tree has.
const LEVELS_MAX: u32 = 40;

/// A key-value store in a tree, which also lists keys in their order. Keys and values are byte
/// strings of at most 4 GiB - 1.
pub struct Tree {
    pub(crate) base: Base,
    state: RankedRwLock<{ rank::ENGINE }, TreeState>,
}

/// The state in memory.
struct TreeState {
    /// The topmost node.
    top: u64,
    log: LogState,
}

impl Tree {
    /// Creates an object with an empty store, in a span of so many bytes (a power of two; `None`:
    /// the largest free one). Settled on return; a crash leaves it whole or absent. HEAPO's
    /// `heapo_kv_init`.
    ///
    /// # Errors
    /// As `Store::create_object`.
    pub fn create(store: &impl AsStore, name: &str, span: Option<u64>) -> Result<Tree> {
        Tree::open(Base::create(store.as_store(), name, TREE_MAGIC, span, Tree::format)?)
    }

    /// An empty tree: one leaf.
    fn format(undo: &Undo) -> Result<()> {
        Ok(undo.run(|tx| {
            let leaf = tx.allocate(size_of::<Bytes>() as u64)?;
            tx.media().put(leaf.at, &Bytes { order: Order::of(0).0, ..Bytes::new_zeroed() });
            let root = tx.allocate(size_of::<TreeRoot>() as u64)?;
            let head = RootHead::new(TREE_MAGIC, [0; 2]);
            tx.media().put(root.at, &TreeRoot { head, top: leaf.at, reserved_top: [0; 56] });
            Ok::<_, Error>(tx.store(tx.heap().object().root_at().get(), root.at.get())?)
        })?)
    }

    /// Opens a store; recovers it first after a crash. The cost does not depend on its size.
    /// HEAPO's `heapo_kv_open`.
    ///
    /// # Errors
    /// [`Error::Store`] for an object of another kind, or one that is open already;
    /// [`Error::NewerFormat`], [`Error::Damaged`], [`Error::Tx`].
    pub fn open(object: impl IntoObject) -> Result<Tree> {
        let (base, _, log) = Base::open(object.into_object(), TREE_MAGIC, size_of::<TreeRoot>())?;
        let top = base.media().load(base.root + TOP_AT);
        let tree = Tree { base, state: RankedRwLock::new(TreeState { top, log }) };
        match tree.top(top)?.level() {
            ..LEVELS_MAX => Ok(tree),
            _ => Err(tree.base.damaged(top, "more levels than any tree has")),
        }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Media`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let state = self.state.read();
        let (_, found) = self.leaf(&state, key)?.rank(key)?;
        let value = found.map(|record| record.value(self.heap()));
        let seen = state.log.last;
        drop(state);
        self.base.settle(seen)?;
        Ok(value)
    }

    /// Adds a pair; `false`, without a change, if the key exists. Settled on return.
    ///
    /// # Errors
    /// [`Error::Tx`] without space, [`Error::TooLarge`], [`Error::Damaged`]: nothing has changed.
    /// [`Error::Media`]: unknown until the store is opened again.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let draft = Draft::new(0, key, value)?;
        let mut state = self.state.write();
        let (leaf, index) = loop {
            let leaf = self.leaf(&state, key)?;
            match leaf.rank(key)? {
                (_, Some(_)) => return self.answer(state, false),
                (_, None) if leaf.order.is_full() => self.split(&mut state, key)?,
                (index, None) => break (leaf, index),
            }
        };
        leaf.verify()?;
        let at = leaf.slot_at(leaf.order.count());
        let (prefix, order) = (node::prefix(key, leaf.skip), leaf.order.with(index).0);
        self.base.change(&mut state.log, Some(&draft), None, |place| {
            [(at + PLACE_AT, place), (at + PREFIX_AT, prefix), (leaf.at, order)]
        })?;
        self.answer(state, true)
    }

    /// Replaces the value of a key; `false`, without a change, if the key does not exist. Settled
    /// on return.
    ///
    /// # Errors
    /// As [`Tree::insert`].
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let draft = Draft::new(0, key, value)?;
        let mut state = self.state.write();
        let leaf = self.leaf(&state, key)?;
        let (index, Some(old)) = leaf.rank(key)? else { return self.answer(state, false) };
        leaf.verify()?;
        let at = leaf.slot_at(index) + PLACE_AT;
        self.base.change(&mut state.log, Some(&draft), Some(old.at), |place| [(at, place)])?;
        self.answer(state, true)
    }

    /// Removes a key; `false` if it does not exist. Settled on return.
    ///
    /// # Errors
    /// As [`Tree::insert`].
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        let mut state = self.state.write();
        let leaf = self.leaf(&state, key)?;
        let (index, Some(old)) = leaf.rank(key)? else { return self.answer(state, false) };
        leaf.verify()?;
        let order = leaf.order.without(index);
        self.base.change(&mut state.log, None, Some(old.at), |_| [(leaf.at, order.0)])?;
        if join::is_sparse(order.count()) {
            after_change(self.join(&mut state, key))?;
        }
        self.answer(state, true)
    }

    /// Levels of nodes: 1 while all keys are in one leaf.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn levels(&self) -> Result<u32> {
        Ok(self.top(self.state.read().top)?.level() + 1)
    }

    /// Bytes that changes have stored to the log since the opening.
    pub fn logged(&self) -> u64 {
        self.base.logged(&self.state.read().log)
    }

    fn heap(&self) -> &Heap {
        self.base.heap()
    }

    fn top(&self, at: u64) -> Result<Node> {
        Node::read(&self.base, at, None)
    }

    /// The leaf of a key.
    fn leaf(&self, state: &TreeState, key: &[u8]) -> Result<View<'_>> {
        let mut view = View::of(&self.base, state.top, None)?;
        while view.level > 0 {
            view = view.child(view.child_of(key)?)?;
        }
        Ok(view)
    }

    fn answer(&self, state: RankedWriteGuard<'_, TreeState>, value: bool) -> Result<bool> {
        let seen = state.log.last;
        self.base.answer(state, seen, value)
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tree({})", self.object().name())
    }
}

impl Raw for Tree {
    fn object(&self) -> &Object {
        self.base.object()
    }
}
