//! [`Section`] and [`Mark`]: the values that bracket stores and name a position in their order.

/// A position in the order of fences: everything that its thread had flushed when it was taken. See
/// [`crate::Media::settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "a mark has no use but to be settled"]
pub struct Mark(pub(crate) u64);

/// While a section is open no page of the mapping is released, so a store that has not been flushed
/// stays.
///
/// Every crate stores and flushes inside one section. Sections may nest and cost nothing on shared
/// mappings.
#[must_use = "the section ends when this is dropped"]
pub struct Section<'m> {
    pub(crate) _gate: Option<parking_lot::RwLockReadGuard<'m, ()>>,
}
