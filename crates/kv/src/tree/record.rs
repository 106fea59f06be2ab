//! The sums of a record and of the chunks of a long value.
//!
//! The first word of a leaf's record has two sums: of key and value, and of the key and the value's
//! length (the *head sum*). A value longer than [`CHUNK`] is followed in its block by a table with
//! a sum for each chunk; the record's sum then covers the key and the table. So a part is verified
//! by the table and the chunks that it touches.

use crate::tree::layout::{CHUNK, RecordSums};
use crate::tree::sum::Sum;
use std::cell::Cell;

thread_local! {
    static FETCHED: Cell<u64> = const { Cell::new(0) };
}

/// Bytes that this thread has copied out of blocks of keys and values, since it began. Values in
/// leaves do not count: they are short.
pub fn fetched() -> u64 {
    FETCHED.get()
}

/// Counts bytes that are copied.
#[inline]
pub(crate) fn count_fetched(len: usize) {
    FETCHED.set(FETCHED.get() + len as u64);
}

/// Offset of the table in the block of a value of `len` bytes, and its bytes. No table: zero bytes.
pub(crate) const fn table(len: u64) -> (u64, usize) {
    let sums = if len > CHUNK { len.div_ceil(CHUNK) } else { 0 };
    (len.next_multiple_of(8), sums as usize * 4)
}

/// Bytes of the block of a value of `len` bytes.
pub(crate) const fn block_len(len: u64) -> u64 {
    let (at, size) = table(len);
    if size == 0 { len } else { at + size as u64 }
}

/// The table of a value: the sum of each chunk. Empty for a value of one chunk.
pub(crate) fn table_of(value: &[u8]) -> Vec<u8> {
    if value.len() as u64 <= CHUNK {
        return Vec::new();
    }
    value.chunks(CHUNK as usize).flat_map(|chunk| Sum::NONE.and(chunk).value().to_le_bytes()).collect()
}

/// The sum of a record: `key` continued by the value, or by its table if it has one.
#[inline]
pub(crate) fn record_sum(key: Sum, value: &[u8]) -> u32 {
    if value.len() as u64 <= CHUNK { key.and(value).value() } else { key.and(&table_of(value)).value() }
}

/// The head sum: `key` continued by the value's length.
#[inline]
pub(crate) fn head_sum(key: Sum, value_len: u64) -> u32 {
    key.and(&value_len.to_le_bytes()).value()
}

/// The first word of a leaf's record.
#[inline]
pub(crate) fn record_word(key: Sum, value: &[u8]) -> u64 {
    let sums = RecordSums { whole: record_sum(key, value), head: head_sum(key, value.len() as u64) };
    zerocopy::transmute!(sums)
}
