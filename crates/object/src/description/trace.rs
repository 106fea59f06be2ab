//! [`Tracer`]: walks a pool by the program's own types, each by its [`crate::PSafe::trace`].

use crate::transaction::open_pool::OpenPool;
use crate::verify::deep::report::FaultKind;
use crate::verify::deep::walk::HeapWalk;

/// Looks at a value.
pub(super) type See = unsafe fn(*const u8, &mut Tracer<'_>);

/// The contents of a block.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(super) see: See,
    /// Bytes of one value.
    pub(super) size: usize,
}

/// A walk in which each type visits its own pointers; see [`crate::PSafe::trace`].
pub struct Tracer<'t> {
    pub(super) base: usize,
    pub(super) prime: u64,
    pub(super) walk: HeapWalk<'t, Seen>,
}

impl<'t> Tracer<'t> {
    pub(crate) fn new(inner: &OpenPool, walk: HeapWalk<'t, Seen>) -> Tracer<'t> {
        Tracer { base: inner.base as usize, prime: inner.object.prime().get(), walk }
    }

    /// The store offset of `this`.
    pub(super) fn place(&self, this: *const u8) -> u64 {
        self.prime + (this as usize).wrapping_sub(self.base) as u64
    }

    /// Everything visited before [`Tracer::leave`] lies in this field.
    #[doc(hidden)]
    pub fn enter(&mut self, field: &'static str) {
        self.walk.trail.enter(field);
    }

    pub(crate) fn enter_index(&mut self, index: usize) {
        self.walk.trail.enter_index(index as u64);
    }

    /// The end of a field.
    #[doc(hidden)]
    pub fn leave(&mut self) {
        self.walk.trail.leave();
    }

    /// The bytes at `this` are no value of their type.
    #[doc(hidden)]
    pub fn invalid(&mut self, this: *const u8, what: &str) {
        let at = self.place(this);
        self.walk.fault(FaultKind::Value, at, what.into());
    }
}
