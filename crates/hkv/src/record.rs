//! Records: a key and its value in one block, written once and never changed.

use crate::layout::{RECORD_HEAD, RecordHead};
use crate::{Error, Result};
use everbyte_heap::Heap;
use everbyte_media::{Damage, LINE, Media, sums_agree};
use everbyte_tx::Tx;
use std::cmp::Ordering;
use zerocopy::{FromZeros, IntoBytes};

/// A new record, not written yet.
pub(crate) struct Draft {
    /// The record, and zeros up to the end of a line: one of which a part is written past the cache
    /// is slow.
    lines: Vec<u8>,
    len: usize,
    checksum: u32,
}

/// Records of at least this length are written past the cache: they are seldom read soon. Their
/// blocks are whole lines.
const LONG: usize = 256;

impl Draft {
    pub(crate) fn new(hash: u64, key: &[u8], value: &[u8]) -> Result<Draft> {
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| Error::TooLarge { len: bytes.len() });
        let mut head = RecordHead { hash, key_len: len(key)?, value_len: len(value)?, ..RecordHead::new_zeroed() };
        let len = size_of::<RecordHead>() + key.len() + value.len();
        let whole = len.next_multiple_of(LINE as usize);
        let mut lines = Vec::with_capacity(whole);
        [head.as_bytes(), key, value].iter().for_each(|part| lines.extend_from_slice(part));
        let checksum = crc32c::crc32c(&lines); // `RecordHead::sum`, at once
        head.checksum = checksum;
        lines[..size_of::<RecordHead>()].copy_from_slice(head.as_bytes());
        lines.resize(whole, 0);
        Ok(Draft { lines, len, checksum })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    pub(crate) fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Writes it to a block and flushes it; no fence.
    pub(crate) fn write(&self, media: &Media, at: u64) {
        if self.len >= LONG {
            media.copy_nt(at, &self.lines);
        } else {
            media.write(at, &self.lines[..self.len]);
            media.flush(at, self.len());
        }
    }

    /// Writes it to a block of the transaction's own, and returns the block's offset.
    pub(crate) fn make(&self, tx: &Tx<'_>) -> Result<u64> {
        let block = tx.allocate(self.len())?;
        tx.media().write(block.at, &self.lines[..self.len]);
        Ok(block.at.get())
    }
}

/// A record at an offset that blocks can have; its key and value are not read yet.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub at: u64,
    pub head: RecordHead,
}

/// Bytes of a record that are prefetched before its length is known.
const EXPECTED: u64 = 320;

impl Record {
    /// A hint that the record at `at`, which may be any number, is read soon: prefetches its lines
    /// together.
    pub(crate) fn expect(heap: &Heap, at: u64) {
        (0..EXPECTED).step_by(64).for_each(|line| heap.media().prefetch(at.wrapping_add(line)));
    }

    /// The record at `at`, which may be any number.
    pub(crate) fn read(heap: &Heap, at: u64) -> Result<Record> {
        let damaged = |detail| Error::from(Damage::at(at, detail).of_object(heap.object().name()));
        if !at.is_multiple_of(8) || !heap.encloses(at, RECORD_HEAD) {
            return Err(damaged("a slot leads outside the heap"));
        }
        let record = Record { at, head: heap.media().get(at) };
        if !heap.encloses(at, record.len()) {
            return Err(damaged("a record reaches beyond the heap"));
        }
        Ok(record)
    }

    pub(crate) fn key_len(&self) -> u64 {
        u64::from(self.head.key_len)
    }

    pub(crate) fn value_len(&self) -> u64 {
        u64::from(self.head.value_len)
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        RECORD_HEAD + self.key_len() + self.value_len()
    }

    /// Whether its checksum is right.
    pub(crate) fn is_whole(&self, heap: &Heap) -> bool {
        sums_agree(self.head.sum(&self.key(heap), &self.value(heap)), self.head.checksum)
    }

    /// Reads it whole and verifies its checksum and its block; returns its key.
    pub(crate) fn verify(&self, heap: &Heap) -> Result<Vec<u8>> {
        let damaged = |detail| Err(Error::from(Damage::at(self.at, detail).of_object(heap.object().name())));
        if heap.size_of(self.at)? < self.len() {
            return damaged("a record is longer than its block");
        }
        if !self.is_whole(heap) {
            return damaged("a record's checksum is wrong");
        }
        Ok(self.key(heap))
    }

    /// How its key compares with `key`.
    pub(crate) fn compare(&self, heap: &Heap, key: &[u8]) -> Ordering {
        heap.media().compare(self.at + RECORD_HEAD, self.key_len(), key)
    }

    pub(crate) fn key(&self, heap: &Heap) -> Vec<u8> {
        heap.media().read_vec(self.at + RECORD_HEAD, self.head.key_len as usize)
    }

    pub(crate) fn value(&self, heap: &Heap) -> Vec<u8> {
        heap.media().read_vec(self.at + RECORD_HEAD + self.key_len(), self.head.value_len as usize)
    }
}
