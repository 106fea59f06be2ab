//! Values moved out of the blocks of an older version into blocks of this one.
//!
//! Blocks are looked at from a list, not by recursion, so a long list does not overflow the stack:
//!   1. a block is entered: it is checked, the block that it becomes is allocated, and the
//!      blocks that it points to are put on the list
//!   2. when all that is done it is left: its value is made, with pointers to what was made before,
//!      and it is freed
//!
//! Invariants
//!   MOVE-1  Bytes are read as a type only where the plan says so, in a block that is large enough.
//!   MOVE-2  A block that changes is left once, after everything that it points to by strong
//!           pointers. Nothing stores to it, so a crash or a roll-back finds it as it was.
//!   MOVE-3  The new value takes over all that the old value owned: a block is freed
//!           without dropping its value.
//!   MOVE-4  An object that is being moved has no strong count yet, so weak pointers to it are not
//!           upgraded.

use super::migrated::{Migrated, MigratedType};
use super::plan::{Part, PartId, PartKind, Plan, ROOT, Step};
use crate::transaction::counts::ByPlace;
use crate::transaction::running::Running;
use crate::{Journal, MemPool};
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;

/// Counts before a counted value.
const COUNTS: usize = 16;

/// Reasons for which values cannot be moved.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The pool is damaged at a store offset.
    Damaged(u64, String),
    /// Strong pointers lead from the object at a store offset to itself.
    Circle(u64),
}

/// How a block is pointed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Owned,
    Counted,
    Weak,
    /// An array of so many.
    Elements(u64),
    /// A ring.
    Ring(Ring),
}

/// The words of a stored queue, without its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    len: u64,
    cap: u64,
    first: u64,
}

/// A block that a pointer has led to.
#[derive(Clone, Copy)]
pub(super) struct Met {
    /// From the pool's base.
    at: u64,
    part: PartId,
    how: How,
}

pub(super) enum Todo {
    Enter(Met),
    Leave(Met),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockState {
    /// Only weak pointers have led to it.
    Awaited,
    Entered,
    Left,
}

/// The future of a block.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub part: PartId,
    pub state: BlockState,
    /// The new offset of its value, and the number of bytes there.
    pub new: u64,
    pub room: u64,
}

/// A running migration; see [`crate::PSafe::moved`].
#[doc(hidden)]
pub struct Moving<'m, P: MemPool> {
    pub(super) plan: &'m Plan<P>,
    journal: Journal<P>,
    pub(super) blocks: RefCell<ByPlace<u64, Block>>,
    /// Values made by functions of the program, by part.
    pub(super) made: RefCell<ByPlace<u64, u64>>,
    bytes_made: Cell<u64>,
    bytes_freed: Cell<u64>,
}

impl<'m, P: MemPool> Moving<'m, P> {
    pub(super) fn new(plan: &'m Plan<P>, running: &Running) -> Moving<'m, P> {
        Moving {
            plan,
            journal: Journal::new(running),
            blocks: RefCell::default(),
            made: RefCell::default(),
            bytes_made: Cell::new(0),
            bytes_freed: Cell::new(0),
        }
    }

    /// The journal of the migration's transaction.
    pub fn journal(&self) -> &Journal<P> {
        &self.journal
    }

    pub(super) fn running(&self) -> &Running {
        self.journal.running()
    }

    pub(super) fn address(&self, at: u64) -> *mut u8 {
        (self.running().base() + at as usize) as *mut u8
    }

    /// Moves the root at `at` and all that it reaches; answers where the new one lies.
    pub(super) fn run(&self, at: u64) -> Result<u64, Fault> {
        let mut weak = Vec::new();
        let mut todo = vec![Todo::Enter(Met { at, part: ROOT, how: How::Owned })];
        loop {
            match todo.pop() {
                Some(Todo::Enter(met)) => self.enter(met, &mut todo, &mut weak)?,
                Some(Todo::Leave(met)) => self.leave(met),
                None => match weak.pop() {
                    // A live object that only weak pointers led to, since its strong ones were
                    // forgotten.
                    Some(met) if self.is_awaited(met) && self.count(met.at, 0) > 0 => {
                        todo.push(Todo::Enter(Met { how: How::Counted, ..met }));
                    }
                    // dead: the block is kept for its weak count
                    Some(met) if self.is_awaited(met) => self.running().free(met.at),
                    Some(_) => {}
                    None => return Ok(self.blocks.borrow()[&at].new),
                },
            }
        }
    }

    fn is_awaited(&self, met: Met) -> bool {
        self.blocks.borrow()[&met.at].state == BlockState::Awaited
    }

    /// The strong (0) or weak (1) count of the object at `at`.
    fn count(&self, at: u64, index: u64) -> u64 {
        self.running().word(at, index).load(Ordering::Relaxed)
    }

    pub(super) fn damaged(&self, at: u64, detail: impl Into<String>) -> Fault {
        Fault::Damaged(self.running().inner().object.prime().saturating_add(at).get(), detail.into())
    }

    fn enter(&self, met: Met, todo: &mut Vec<Todo>, weak: &mut Vec<Met>) -> Result<(), Fault> {
        let part = self.plan.part(met.part);
        let known = self.blocks.borrow().get(&met.at).copied();
        match (known, met.how) {
            (None, _) => self.prepare(met, part)?,
            (Some(block), _) if !self.plan.are_alike(block.part, met.part) => {
                return Err(self.damaged(met.at, "a block of two types"));
            }
            (Some(_), How::Owned | How::Elements(_) | How::Ring(_)) => {
                return Err(self.damaged(met.at, "a block with two owners"));
            }
            (Some(Block { state: BlockState::Entered, .. }), How::Counted) => {
                return Err(Fault::Circle(self.running().store_offset(met.at)));
            }
            (Some(Block { state: BlockState::Left, .. }), How::Counted) | (Some(_), How::Weak) => return Ok(()),
            (Some(Block { state: BlockState::Awaited, .. }), How::Counted) => {}
        }
        if met.how == How::Weak {
            weak.push(met);
            return Ok(());
        }
        self.blocks.borrow_mut().get_mut(&met.at).expect("prepared").state = BlockState::Entered;
        todo.push(Todo::Leave(met));
        for index in 0..met.how.extent().1 {
            self.follow(self.address(met.at).wrapping_add(met.how.place(index, part.stored.0)), met.part, todo)?;
        }
        Ok(())
    }

    /// Checks the block and allocates the one that it becomes.
    fn prepare(&self, met: Met, part: &Part<P>) -> Result<(), Fault> {
        let running = self.running();
        let (header, count) = met.how.extent();
        let found = self.block_size(met.at);
        let wanted = part.stored.0.checked_mul(met.how.places()).and_then(|bytes| bytes.checked_add(header));
        if found == 0 || wanted.is_none_or(|wanted| wanted as u64 > found) {
            let detail = format!("a pointer to what is no block of {wanted:?} bytes");
            return Err(self.damaged(met.at, detail)); // MOVE-1
        }
        self.bytes_freed.set(self.bytes_freed.get() + found);
        let bytes = part.size.checked_mul(count).and_then(|bytes| bytes.checked_add(header)).unwrap_or(usize::MAX / 2);
        let (new, room) = match met.how {
            How::Elements(_) | How::Ring(_) if bytes == 0 => (0, 0),
            _ => running.allocate_sized(bytes),
        };
        self.bytes_made.set(self.bytes_made.get() + room);
        if header > 0 {
            running.word(new, 0).store(0, Ordering::Relaxed); // MOVE-4
            running.word(new, 1).store(self.count(met.at, 1), Ordering::Relaxed);
        }
        let block = Block { part: met.part, state: BlockState::Awaited, new, room };
        self.blocks.borrow_mut().insert(met.at, block);
        Ok(())
    }

    /// An address in the pool, as an offset from its base.
    pub(super) fn offset(&self, at: *const u8) -> u64 {
        (at as usize).wrapping_sub(self.running().base()) as u64
    }

    /// Puts the blocks that the stored value at `from` points to on the list.
    pub(super) fn follow(&self, from: *const u8, id: PartId, todo: &mut Vec<Todo>) -> Result<(), Fault> {
        let part = self.plan.part(id);
        if part.same {
            return Ok(()); // it stays where it is
        }
        // SAFETY: MOVE-1; any bits are words.
        let word = |index: usize| unsafe { from.cast::<u64>().wrapping_add(index).read() };
        let mut meet = |at: u64, part: PartId, how: How| {
            if at != 0 {
                todo.push(Todo::Enter(Met { at, part, how }));
            }
        };
        match &part.kind {
            PartKind::Plain => {}
            PartKind::Fields(fields) => {
                for (offset, of) in fields {
                    self.follow(from.wrapping_add(*offset), *of, todo)?;
                }
            }
            PartKind::Variants(tag, variants) => {
                // SAFETY: MOVE-1: the tag lies at the start.
                let tag = unsafe { read_tag(from, tag) };
                let Some((_, fields)) = variants.iter().find(|(known, _)| *known == tag) else {
                    return Err(self.damaged(self.offset(from), format!("{tag} is no variant")));
                };
                for (offset, of) in fields {
                    self.follow(from.wrapping_add(*offset), *of, todo)?;
                }
            }
            PartKind::Array(of) => {
                let stride = self.plan.part(*of).stored.0;
                for index in 0..part.stored.0.checked_div(stride).unwrap_or(0) {
                    self.follow(from.wrapping_add(index * stride), *of, todo)?;
                }
            }
            PartKind::Option(of) => {
                // SAFETY: MOVE-1.
                if let Some(value) = unsafe { self.inside(from, *of) } {
                    self.follow(value, *of, todo)?;
                }
            }
            PartKind::Older(of, _) => self.follow(from, *of, todo)?,
            PartKind::Owned(of) => meet(word(0), *of, How::Owned),
            PartKind::Counted(of) => meet(word(0), *of, How::Counted),
            PartKind::Weak(of) => meet(word(0), *of, How::Weak),
            PartKind::Table(of) => self.follow_table(from, *of, todo)?,
            PartKind::Tree(of, shape) => self.follow_tree(from, (*of, *shape), todo)?,
            PartKind::Elements(of) => {
                let (at, len, room) = (word(0), word(1), word(2));
                if len > room || at == 0 && len > 0 {
                    return Err(self.damaged(self.offset(from), "a vector longer than its block"));
                }
                meet(at, *of, How::Elements(len));
            }
            PartKind::Ring(of) => {
                let (at, ring) = (word(0), Ring { len: word(1), cap: word(2), first: word(3) });
                if ring.len > ring.cap || ring.first >= ring.cap.max(1) || at == 0 && ring.cap > 0 {
                    return Err(self.damaged(self.offset(from), "a queue longer than its block"));
                }
                meet(at, *of, How::Ring(ring));
            }
        }
        Ok(())
    }

    /// Makes the value of a block, and frees the block (MOVE-3).
    fn leave(&self, met: Met) {
        let part = self.plan.part(met.part);
        let new = self.blocks.borrow()[&met.at].new;
        let (header, count) = met.how.extent();
        let (from, to) = (self.address(met.at), self.address(new));
        for index in 0..count {
            let from = from.wrapping_add(met.how.place(index, part.stored.0));
            let to = to.wrapping_add(header + index * part.size);
            // SAFETY: MOVE-1 for `from`; `to` lies in this transaction's own block, large enough
            // and aligned.
            unsafe { (part.build)(from, met.part, self, to) };
        }
        if header > 0 {
            self.running().word(new, 0).store(self.count(met.at, 0), Ordering::Relaxed);
        }
        self.blocks.borrow_mut().get_mut(&met.at).expect("entered").state = BlockState::Left;
        self.running().free(met.at);
    }

    /// Usable bytes of a block of the pool, or 0.
    pub(super) fn block_size(&self, at: u64) -> u64 {
        let inner = self.running().inner();
        let place = inner.object.prime().checked_add(at);
        place.and_then(|place| inner.undo.heap().size_of(place.get()).ok()).unwrap_or(0)
    }

    pub(super) fn count_freed(&self, bytes: u64) {
        self.bytes_freed.set(self.bytes_freed.get() + bytes);
    }

    /// A block of a map was made.
    pub(crate) fn count_made(&self, at: u64) {
        self.bytes_made.set(self.bytes_made.get() + self.block_size(at));
    }

    /// The changes made.
    pub(super) fn migrated(&self) -> Migrated {
        let made = self.made.borrow();
        let values = |part: PartId| made.get(&part.number()).copied().unwrap_or(0);
        let steps = self.plan.steps().map(|(part, Step { name, from, to })| MigratedType {
            name: (*name).into(),
            from: *from,
            to: *to,
            values: values(part),
        });
        Migrated {
            steps: steps.collect(),
            blocks: self.blocks.borrow().len() as u64,
            made: self.bytes_made.get(),
            freed: self.bytes_freed.get(),
        }
    }
}

impl How {
    /// Bytes before the values, and how many there are.
    fn extent(self) -> (usize, usize) {
        match self {
            How::Owned => (0, 1),
            How::Counted | How::Weak => (COUNTS, 1),
            How::Elements(count) => (0, count as usize),
            How::Ring(Ring { len, .. }) => (0, len as usize),
        }
    }

    /// Places for values, of which some may be unused.
    fn places(self) -> usize {
        match self {
            How::Ring(Ring { cap, .. }) => cap as usize,
            _ => self.extent().1,
        }
    }

    /// The place in the stored block of value `index`, of so many bytes each.
    fn place(self, index: usize, size: usize) -> usize {
        match self {
            How::Ring(Ring { cap, first, .. }) => ((first + index as u64) % cap) as usize * size,
            _ => self.extent().0 + index * size,
        }
    }
}

/// The tag of an enum.
///
/// # Safety
/// A tag of that type lies at `from`.
pub(super) unsafe fn read_tag(from: *const u8, tag: &str) -> i128 {
    macro_rules! read {
        ($($of:ident)*) => {
            match tag {
                // SAFETY: the caller's; any bits are an integer.
                $(stringify!($of) => (unsafe { from.cast::<$of>().read() }) as i128,)*
                // SAFETY: as above: C's `int`.
                _ => unsafe { from.cast::<std::ffi::c_int>().read() }.into(),
            }
        };
    }
    read!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize)
}
