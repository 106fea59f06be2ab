//! The most breaches that rules which count permit.

/// Indefinite pronouns.
pub(super) const PRONOUNS: usize = 0;
/// Sentences opened by a relative clause.
pub(super) const OPENERS: usize = 40;
/// Lines of prose over 100 columns.
pub(super) const COLUMNS: usize = 2;
/// Terms of the glossary that name several types.
pub(super) const TERMS: usize = 0;
/// Types called `Inner`, `Shared`, `Kind` or `Table`.
pub(super) const BARE_TYPES: usize = 0;
/// Invariant ids that several headers define.
pub(super) const IDS: usize = 0;
/// Files that may import each other in a circle.
pub(super) const CIRCLE_FILES: usize = 5;
/// Circles of more files.
pub(super) const CIRCLES: usize = 0;
