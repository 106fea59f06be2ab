//! [`FullKey`]: the keys of all tables in one order.
//!
//! A tree holds many tables. Its order is that of the table's number, 4 bytes with the highest
//! first, followed by the key: so a table is one range, and an empty tree is one for all of them.
//! Inner nodes and cursors know full keys only. A leaf's entry keeps the number in its slot and the
//! key in its record, so tables cost their entries no space.

/// Bits of a table's number in a slot.
pub(crate) const TABLE_BITS: u32 = 20;
/// Bytes of the number in a full key.
pub(crate) const TABLE_LEN: usize = size_of::<u32>();

/// The number of a table in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableNumber(pub u32);

impl TableNumber {
    /// The table that has no name.
    pub(crate) const MAIN: TableNumber = TableNumber(0);
    /// Versions that have names.
    pub(crate) const VERSIONS: TableNumber = TableNumber((1 << TABLE_BITS) - 2);
    /// The names of the others, and what each is.
    pub(crate) const CATALOGUE: TableNumber = TableNumber((1 << TABLE_BITS) - 1);

    /// The number as it begins a full key.
    #[inline]
    pub(crate) fn bytes(self) -> [u8; TABLE_LEN] {
        self.0.to_be_bytes()
    }
}

/// Full keys up to this length need no allocation.
const SHORT: usize = 60;

/// A table's number and a key, as one string.
#[derive(Clone)]
pub(crate) struct FullKey {
    short: [u8; SHORT],
    len: usize,
    /// The bytes of one that is longer.
    long: Vec<u8>,
}

impl FullKey {
    #[inline]
    pub(crate) fn new(table: TableNumber, key: &[u8]) -> FullKey {
        let (mut short, len) = ([0; SHORT], TABLE_LEN + key.len());
        if len > SHORT {
            return FullKey { short, len, long: [&table.bytes(), key].concat() };
        }
        short[..TABLE_LEN].copy_from_slice(&table.bytes());
        short[TABLE_LEN..len].copy_from_slice(key);
        FullKey { short, len, long: Vec::new() }
    }
}

impl std::ops::Deref for FullKey {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        if self.len > SHORT { &self.long } else { &self.short[..self.len] }
    }
}

/// The first bytes of a full key: enough for prefixes and heads.
pub(crate) struct FullHead {
    bytes: [u8; FullHead::ROOM],
    len: usize,
}

impl FullHead {
    const ROOM: usize = 40;

    /// Of a leaf's entry.
    pub(crate) fn of_entry(table: TableNumber, key: &[u8]) -> FullHead {
        let (mut bytes, len) = ([0; FullHead::ROOM], (TABLE_LEN + key.len()).min(FullHead::ROOM));
        bytes[..TABLE_LEN].copy_from_slice(&table.bytes());
        bytes[TABLE_LEN..len].copy_from_slice(&key[..len - TABLE_LEN]);
        FullHead { bytes, len }
    }

    /// Of a separator, which is part of a full key.
    pub(crate) fn of_separator(key: &[u8]) -> FullHead {
        let (mut bytes, len) = ([0; FullHead::ROOM], key.len().min(FullHead::ROOM));
        bytes[..len].copy_from_slice(&key[..len]);
        FullHead { bytes, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
