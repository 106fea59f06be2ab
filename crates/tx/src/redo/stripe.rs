//! [`Stripe`]: a line under a lock of a transaction's, and the stores to them that wait for its
//! commit.

use super::locks::{STRIPE, Word};

/// Words of a stripe.
const WORDS: usize = STRIPE as usize / 8;

pub(super) struct Stripe {
    pub base: u64,
    values: [u64; WORDS],
    /// The lock as it was; a held word if another stripe of this transaction's came first.
    pub before: Word,
    pub lock: u32,
    /// The next stripe under the same lock.
    pub next: u32,
    /// All of its words are data of the engine's object: stores need not be looked at one by one.
    pub is_data: bool,
    /// Which bytes of the values wait, a bit for each. One number: it is looked at whole soon after
    /// it was changed.
    masks: u64,
}

/// No stripe is the next.
pub(super) const NONE: u32 = u32::MAX;

impl Stripe {
    #[inline]
    pub(super) fn new(base: u64, lock: u32, before: Word, is_data: bool) -> Stripe {
        Stripe { base, values: [0; WORDS], before, lock, next: NONE, is_data, masks: 0 }
    }

    /// Index of a word in its stripe.
    #[inline(always)]
    pub(super) fn word(key: u64) -> usize {
        (key % STRIPE / 8) as usize
    }

    /// Which bytes of a word wait, and the value that has them.
    #[inline]
    pub(super) fn waiting(&self, word: usize) -> (u8, u64) {
        ((self.masks >> (word * 8)) as u8, self.values[word])
    }

    /// Makes those bytes of a word wait, and what they replace no longer.
    #[inline]
    pub(super) fn put(&mut self, word: usize, mask: u8, value: u64) {
        let bits = BITS[mask as usize];
        self.values[word] = self.values[word] & !bits | value & bits;
        self.masks |= u64::from(mask) << (word * 8);
    }

    /// Makes whole words wait, from this one on.
    #[inline]
    pub(super) fn put_words(&mut self, word: usize, values: &[[u8; 8]]) {
        for (waiting, value) in self.values[word..].iter_mut().zip(values) {
            *waiting = u64::from_le_bytes(*value);
        }
        self.masks |= u64::MAX >> (64 - values.len() * 8) << (word * 8);
    }

    /// As it was when `waiting` said this.
    pub(super) fn put_back(&mut self, word: usize, (mask, value): (u8, u64)) {
        self.values[word] = value;
        self.masks = self.masks & !(0xff << (word * 8)) | u64::from(mask) << (word * 8);
    }

    /// The result of a load of a word whose bytes in memory are `memory`.
    #[inline]
    pub(super) fn over(&self, word: usize, memory: u64) -> u64 {
        let (mask, value) = self.waiting(word);
        let bits = BITS[mask as usize];
        memory & !bits | value & bits
    }

    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.masks != 0
    }

    /// The values, if all bytes of all words wait.
    #[inline]
    pub(super) fn whole(&self) -> Option<&[u64; WORDS]> {
        (self.masks == u64::MAX).then_some(&self.values)
    }

    /// Each store that waits: where, which bytes, value.
    #[inline]
    pub(super) fn each(&self, mut visit: impl FnMut(u64, u8, u64)) {
        let mut left = self.masks;
        while left != 0 {
            let word = left.trailing_zeros() as usize / 8;
            visit(self.base + word as u64 * 8, (left >> (word * 8)) as u8, self.values[word]);
            left &= !(0xff << (word * 8));
        }
    }
}

/// The bits of the bytes that a mask has.
const BITS: [u64; 256] = {
    let (mut table, mut mask) = ([0; 256], 0);
    while mask < 256 {
        let mut byte = 0;
        while byte < 8 {
            if mask >> byte & 1 == 1 {
                table[mask] |= 0xff << (byte * 8);
            }
            byte += 1;
        }
        mask += 1;
    }
    table
};
