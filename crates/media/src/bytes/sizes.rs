//! Sizes that mapped memory has on every machine that Everbyte runs on.

/// Bytes of a word: the unit of atomic loads and stores.
pub(crate) const WORD: u64 = 8;
/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of a large page. Shared mappings begin at a multiple, so that large pages of the file are
/// mapped as such.
pub(crate) const LARGE: u64 = 2 << 20;
