//! Records: a key and its value in one block, written once and never changed.

use crate::layout::{RECORD_HEAD, RecordHead};
use crate::{Error, Result};
use everbyte_heap::Heap;
use everbyte_tx::Tx;
use std::cmp::Ordering;
use zerocopy::FromZeros;

/// A record that lies where blocks can; what its key and value hold is not looked at yet.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub at: u64,
    pub head: RecordHead,
}

impl Record {
    /// Allocates and writes a record, which is the transaction's own.
    pub(crate) fn make(tx: &Tx<'_>, hash: u64, key: &[u8], value: &[u8]) -> Result<u64> {
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| Error::TooLarge { len: bytes.len() });
        let mut head = RecordHead { hash, key_len: len(key)?, value_len: len(value)?, ..RecordHead::new_zeroed() };
        head.checksum = head.sum(key, value);
        let block = tx.allocate(RECORD_HEAD + key.len() as u64 + value.len() as u64)?;
        let media = tx.media();
        media.put(block.at, &head);
        media.write(block.at + RECORD_HEAD, key);
        media.write(block.at + RECORD_HEAD + key.len() as u64, value);
        Ok(block.at)
    }

    /// The record at `at`, which may be any number.
    pub(crate) fn read(heap: &Heap, at: u64) -> Result<Record> {
        let damaged = |detail| Error::Damaged { object: heap.object().name().into(), at, detail };
        if !at.is_multiple_of(8) || !heap.may_hold_blocks(at, RECORD_HEAD) {
            return Err(damaged("a slot leads outside the heap"));
        }
        let record = Record { at, head: heap.media().get(at) };
        if !heap.may_hold_blocks(at, RECORD_HEAD + record.key_len() + record.value_len()) {
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

    /// Reads it whole and verifies its checksum; its key.
    pub(crate) fn verify(&self, heap: &Heap) -> Result<Vec<u8>> {
        let damaged = |detail| Err(Error::Damaged { object: heap.object().name().into(), at: self.at, detail });
        if heap.size_of(self.at)? < RECORD_HEAD + self.key_len() + self.value_len() {
            return damaged("a record is longer than its block");
        }
        let key = self.key(heap);
        if self.head.sum(&key, &self.value(heap)) != self.head.checksum {
            return damaged("a record's checksum is wrong");
        }
        Ok(key)
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
