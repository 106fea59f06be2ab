//! Writing a whole node: entries in key order become bytes, past the cache, in one go.

use crate::error::Result;
use crate::tree::key::{FullHead, TableNumber};
use crate::tree::layout::*;
use crate::tree::node::{Node, head_of, parts};
use crate::tree::number::Version;
use everbyte_media::{Checked, LINE};
use std::mem::offset_of;
use zerocopy::IntoBytes;

/// An entry on its way into a new node: its stamps and its finished record.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub start: Version,
    pub end: Version,
    /// Flags of the slot; the record's place is not yet known.
    pub flags: u64,
    /// The table of a leaf's entry.
    pub table: TableNumber,
    pub key_len: usize,
    pub value: u64,
    /// Record bytes in [`Items::bytes`].
    pub record: std::ops::Range<usize>,
    /// The low byte of the key's checksum: its fingerprint.
    pub key_sum: u8,
}

/// Entries and their records, gathered before it is decided how many nodes they fill.
#[derive(Default)]
pub(crate) struct Items {
    pub list: Vec<Item>,
    pub bytes: Vec<u8>,
}

impl Items {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
    }

    /// Takes over slot `index` of `node` as it is.
    pub(crate) fn copy(&mut self, node: &Node<'_>, index: usize) -> Result<()> {
        let slot = node.slot(index);
        let begin = self.bytes.len();
        node.record_into(&slot, &mut self.bytes)?;
        let key_sum = if node.is_leaf() { node.fingerprint(index) } else { 0 };
        let flags = slot.place & (KEY_OUT | VALUE_OUT | WHOLE);
        let item = Item {
            start: slot.start,
            end: slot.end,
            flags,
            table: if node.is_leaf() { slot.table() } else { TableNumber::MAIN },
            key_len: slot.key_len(),
            value: slot.value,
            record: begin..self.bytes.len(),
            key_sum,
        };
        self.list.push(item);
        Ok(())
    }

    /// The beginning of the full key: enough for heads and prefixes.
    fn full_head(&self, level: u8, item: &Item) -> FullHead {
        let key = self.key_head(item);
        if level == 0 { FullHead::of_entry(item.table, key) } else { FullHead::of_separator(key) }
    }

    /// The part of the stored key that the record holds: all of it, or the head of a long one.
    pub(crate) fn key_head<'s>(&'s self, item: &Item) -> &'s [u8] {
        let record = &self.bytes[item.record.clone()];
        match item.flags & KEY_OUT {
            0 => &record[RECORD_KEY_AT..][..item.key_len],
            _ => &record[RECORD_KEY_AT + offset_of!(LongKey, head)..][..OUT_KEY_HEAD],
        }
    }

    pub(crate) fn record_bytes(&self, range: std::ops::Range<usize>) -> usize {
        self.list[range].iter().map(|item| item.record.len()).sum()
    }
}

/// How many bytes a node of these entries asks for, and how many of them are room to append.
pub(crate) fn size_for(level: u8, count: usize, record_bytes: usize) -> (usize, usize) {
    let (_, _, records) = parts(level, count);
    let average = record_bytes.checked_div(count).unwrap_or(128);
    let room = match level {
        0 => (APPENDS * (average + LENGTH as usize)).clamp(1024, 4096),
        _ => (APPENDS * average).clamp(512, 4096),
    };
    ((records as usize + record_bytes + room).next_multiple_of(LINE as usize), room)
}

/// Most bytes of a leaf that is to be full: the largest block that is not rounded up to pages.
pub(crate) const LEAF_FILL: usize = 8 << 10;

/// Bytes of a leaf without room to append records.
pub(crate) fn leaf_size(count: usize, record_bytes: usize) -> usize {
    (parts(0, count).2 as usize + record_bytes).next_multiple_of(LINE as usize)
}

/// Whether so many entries go to a leaf that is to be full.
pub(crate) fn fits_leaf(count: usize, record_bytes: usize) -> bool {
    leaf_size(count, record_bytes) <= LEAF_FILL
}

/// The first bytes of a node of `size` bytes: header, heads, slots, records. The rest is room to
/// append.
pub(crate) fn image(level: u8, birth: Version, size: usize, items: &Items, range: std::ops::Range<usize>) -> Vec<u8> {
    let list = &items.list[range.clone()];
    let (heads_at, slots_at, records_at) = parts(level, list.len());
    let prefix = common_prefix(items, level, list);
    let record_bytes = items.record_bytes(range);
    let mut bytes = vec![0; records_at as usize];
    bytes.reserve(record_bytes);
    for (index, item) in list.iter().enumerate() {
        let place = Slot::place(bytes.len(), item.key_len, item.flags, item.table);
        let slot = Slot { start: item.start, end: item.end, place, value: item.value };
        let head = head_of(items.full_head(level, item).bytes(), &prefix);
        put(&mut bytes, slots_at as usize + index * SLOT as usize, slot.as_bytes());
        put(&mut bytes, heads_at as usize + index * 8, &head.to_le_bytes());
        if level == 0 {
            bytes[FINGERPRINTS_AT + index] = item.key_sum;
        }
        bytes.extend_from_slice(&items.bytes[item.record.clone()]);
    }
    let mut header = NodeHeader {
        magic: NODE_MAGIC,
        level,
        prefix_len: prefix.len() as u8,
        base: list.len() as u16,
        reserved: 0,
        size: size as u32,
        base_end: bytes.len() as u32,
        birth,
        order: 0,
        checksum: 0,
        reserved2: 0,
        prefix: [0; PREFIX_MAX],
    };
    header.prefix[..prefix.len()].copy_from_slice(&prefix);
    header = header.sealed();
    put(&mut bytes, 0, header.as_bytes());
    bytes
}

fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    bytes[at..at + part.len()].copy_from_slice(part);
}

/// The common prefix of all keys, up to the header's space; sorted, so the first and the last
/// decide. The empty separators of a leftmost node do not count: their heads are 0 whatever the
/// prefix.
fn common_prefix(items: &Items, level: u8, list: &[Item]) -> Vec<u8> {
    let first = list.iter().find(|item| level == 0 || item.key_len > 0);
    let (Some(first), Some(last)) = (first, list.last()) else { return Vec::new() };
    // A node of one entry would take its whole key for a prefix and give every newcomer an extreme
    // head.
    if std::ptr::eq(first, last) {
        return Vec::new();
    }
    let [first, last] = [first, last].map(|item| items.full_head(level, item));
    let (first, last) = (first.bytes(), last.bytes());
    let same = first.iter().zip(last).take(PREFIX_MAX).take_while(|(a, b)| a == b).count();
    first[..same].to_vec()
}

/// The shortest key that is larger than `left` and not larger than `right`.
pub(crate) fn separator<'k>(left: &[u8], right: &'k [u8]) -> &'k [u8] {
    let same = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    &right[..(same + 1).min(right.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_separate() {
        for (left, right) in [("a", "b"), ("abc", "abd"), ("ab", "abc"), ("", "x"), ("abc", "b")] {
            let middle = separator(left.as_bytes(), right.as_bytes());
            assert!(left.as_bytes() < middle && middle <= right.as_bytes(), "{left} {right}");
        }
    }

    #[test]
    fn heads_are_monotone() {
        let mut keys: Vec<&[u8]> =
            vec![b"", b"a", b"ab", b"ab\0", b"ab\0\0\0\0\0\0\0\0", b"abz", b"ac", b"b", b"\xff\xff"];
        keys.sort();
        for prefix in [&b""[..], b"a", b"ab", b"ac", b"zz"] {
            let heads: Vec<u64> = keys.iter().map(|key| head_of(key, prefix)).collect();
            assert!(heads.is_sorted(), "NODE-2 with prefix {prefix:?}: {heads:?}");
            // A node of two keys that share the prefix gives the same heads a word at a time.
            let mut items = Items::default();
            for end in [&b"a"[..], b"z"] {
                let key = [prefix, end].concat();
                let begin = items.bytes.len();
                items.bytes.extend_from_slice(&[0; RECORD_KEY_AT]);
                items.bytes.extend_from_slice(&key);
                items.bytes.resize(items.bytes.len().next_multiple_of(8), 0);
                let record = begin..items.bytes.len();
                items.list.push(Item {
                    start: Version::new(1),
                    end: Version::NONE,
                    flags: 0,
                    table: TableNumber::MAIN,
                    key_len: key.len(),
                    value: 0,
                    record,
                    key_sum: 0,
                });
            }
            let media = everbyte_media::Media::anonymous(1 << 16, &Default::default()).unwrap();
            media.write(4096, &image(1, Version::new(1), 4096, &items, 0..2));
            let node = crate::tree::node::Node::open(&media, 4096).unwrap();
            let by_words: Vec<u64> = keys.iter().map(|key| node.query_head(key)).collect();
            assert_eq!(heads, by_words, "prefix {prefix:?}");
        }
    }
}
