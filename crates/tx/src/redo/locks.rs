//! The lock table: which bytes are being changed by whom, and when they were changed last.
//! Volatile.
//!
//! A lock stands for a stripe, the 64 bytes of a line, and for others that share its place in the
//! table. Its word is either free, with the timestamp of the last commit under it, or held, with
//! the holder and where the holder keeps what it will store.
//!
//! Keys are store offsets, or, for memory that is no store's, addresses with [`FOREIGN`] set.

use everbyte_media::LINE;
use std::sync::atomic::AtomicU64;
use zerocopy::FromZeros;

/// Bytes under one lock.
pub(super) const STRIPE: u64 = LINE;
/// Set in the key of a stripe that lies in no store.
pub(super) const FOREIGN: u64 = 1 << 63;
/// Locks: 8 MiB of data without two stripes under one. A megabyte of addresses, of which what is
/// used is backed.
const COUNT: usize = 1 << 17;

pub(super) struct Locks(Box<[AtomicU64; COUNT]>);

/// The meaning of a lock's word. A held one is newer than any time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(pub u64);

const HELD: u64 = 1 << 63;

impl Word {
    #[inline(always)]
    pub(super) fn free(version: u64) -> Word {
        Word(version)
    }

    #[inline(always)]
    pub(super) fn held(owner: u32, index: usize) -> Word {
        Word(HELD | u64::from(owner) << 32 | index as u64)
    }

    #[inline(always)]
    pub(super) fn is_held(self) -> bool {
        self.0 >= HELD
    }

    #[inline(always)]
    pub(super) fn is_held_by(self, owner: u32) -> bool {
        self.0 >> 32 == HELD >> 32 | u64::from(owner)
    }

    /// Whether the lock is free, and its words were changed last at `time` or before.
    #[inline(always)]
    pub(super) fn is_unchanged_since(self, time: u64) -> bool {
        self.0 <= time
    }

    /// Of a held lock: where its holder keeps the first stripe under it.
    #[inline(always)]
    pub(super) fn index(self) -> u32 {
        self.0 as u32
    }
}

impl Locks {
    pub(super) fn new() -> Locks {
        Locks(FromZeros::new_box_zeroed().expect("a megabyte of addresses"))
    }

    /// Which lock stands for a key.
    #[inline(always)]
    pub(super) fn index(key: u64) -> u32 {
        (key / STRIPE) as u32 & (COUNT as u32 - 1)
    }

    #[inline(always)]
    pub(super) fn word(&self, index: u32) -> &AtomicU64 {
        &self.0[index as usize & (COUNT - 1)]
    }
}
