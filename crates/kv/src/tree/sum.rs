//! The checksum of keys and records: two lanes of multiply and fold, 16 bytes a step each.
//!
//! It finds damage, not malice: whatever changes passes with a chance of 2^-32. Much cheaper than a
//! CRC on the short records that make up a tree. Format: docs/formats/tree.md, section 5.

use crate::tree::key::TableNumber;
use everbyte_media::Window;

/// Odd constants without a pattern.
const KEYS: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];

/// The two halves of a product, folded: each bit of the result depends on all bits of both.
#[inline(always)]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// A sum over one or more byte strings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    lanes: [u64; 2],
    /// The lengths so far: they keep trailing zeros apart, and where one string ends and the next
    /// begins.
    len: u64,
}

impl Sum {
    pub(crate) const NONE: Sum = Sum { lanes: [KEYS[2], KEYS[3]], len: 0 };

    /// The beginning of the sum of a table's key.
    #[inline(always)]
    pub(crate) fn of_table(table: TableNumber) -> Sum {
        let [one, two] = Sum::NONE.lanes;
        Sum { lanes: [one ^ u64::from(table.0).wrapping_mul(KEYS[0]), two], len: 0 }
    }

    /// The beginning of a hash under `seed`.
    #[inline(always)]
    pub(crate) fn seeded(seed: [u64; 2]) -> Sum {
        let [one, two] = Sum::NONE.lanes;
        Sum { lanes: [one ^ seed[0], two ^ seed[1]], len: 0 }
    }

    /// The sum continued by another string.
    #[inline]
    pub(crate) fn and(self, bytes: &[u8]) -> Sum {
        let [mut one, mut two] = self.lanes;
        let mut blocks = bytes.chunks_exact(32);
        for block in &mut blocks {
            let [a, b, c, d] = words(block.first_chunk::<32>().expect("a block"));
            one = fold(one ^ a, b ^ KEYS[0]);
            two = fold(two ^ c, d ^ KEYS[1]);
        }
        let rest = blocks.remainder();
        if !rest.is_empty() {
            let word = |index: usize| match rest.get(index * 8..) {
                Some(tail) => first_word(tail),
                None => 0,
            };
            one = fold(one ^ word(0), word(1) ^ KEYS[0]);
            two = fold(two ^ word(2), word(3) ^ KEYS[1]);
        }
        Sum { lanes: [one, two], len: self.len.rotate_left(32) ^ bytes.len() as u64 }
    }

    /// The sum continued by `len` bytes of `window` from `offset`, which are copied into `into` on
    /// the way. Bytes that fill up the last word belong to the copy and must be zero.
    #[inline]
    pub(crate) fn copied(self, window: &Window<'_>, mut offset: usize, into: &mut [u8], len: usize) -> Sum {
        let [mut one, mut two] = self.lanes;
        let mut blocks = into.chunks_exact_mut(32);
        for block in &mut blocks {
            let words @ [a, b, c, d] = window.words::<4>(offset);
            // Word by word: vectors would be made of words on the stack, which stalls.
            for (place, word) in block.chunks_exact_mut(8).zip(words) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            one = fold(one ^ a, b ^ KEYS[0]);
            two = fold(two ^ c, d ^ KEYS[1]);
            offset += 32;
        }
        let rest = blocks.into_remainder();
        if !rest.is_empty() {
            let mut words = [0; 4];
            for (word, place) in words.iter_mut().zip(rest.chunks_exact_mut(8)) {
                [*word] = window.words::<1>(offset);
                place.copy_from_slice(&word.to_le_bytes());
                offset += 8;
            }
            one = fold(one ^ words[0], words[1] ^ KEYS[0]);
            two = fold(two ^ words[2], words[3] ^ KEYS[1]);
        }
        Sum { lanes: [one, two], len: self.len.rotate_left(32) ^ len as u64 }
    }

    /// The stored sum: 32 bits, of which the lowest byte is a key's fingerprint.
    #[inline]
    pub(crate) fn value(&self) -> u32 {
        let all = self.wide();
        (all ^ all >> 32) as u32
    }

    /// All 64 bits.
    #[inline]
    pub(crate) fn wide(&self) -> u64 {
        let [one, two] = self.lanes;
        fold(one ^ KEYS[1], two ^ self.len.wrapping_mul(KEYS[3]) ^ KEYS[0])
    }
}

#[inline(always)]
fn words(block: &[u8; 32]) -> [u64; 4] {
    std::array::from_fn(|index| u64::from_le_bytes(*block[index * 8..].first_chunk().expect("four words")))
}

/// The first eight bytes, with zeros for those that are not there.
#[inline(always)]
fn first_word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// The checksum of a key, whose lowest byte is its fingerprint, or of a separator.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    Sum::NONE.and(bytes).value()
}

#[cfg(test)]
mod tests {
    use super::{Sum, sum};

    /// The format is fixed: these values are on media.
    #[test]
    fn sums_do_not_change() {
        assert_eq!(sum(b""), 65279877);
        assert_eq!(sum(b"Oslo"), 2011238284);
        assert_eq!(Sum::NONE.and(b"Oslo").and(&[0xab; 100]).value(), 2328306675);
    }

    #[test]
    fn every_flipped_bit_and_every_lost_zero_shows() {
        let bytes: Vec<u8> = (0..133_u8).collect();
        let sum = |bytes: &[u8]| Sum::NONE.and(b"key").and(bytes).value();
        for len in 0..bytes.len() {
            let whole = sum(&bytes[..len]);
            let mut longer = bytes[..len].to_vec();
            longer.push(0);
            assert_ne!(sum(&longer), whole);
            for bit in 0..len * 8 {
                let mut flipped = bytes[..len].to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(sum(&flipped), whole, "bit {bit} of {len} bytes");
            }
        }
    }

    /// The boundary between one string and the next is part of the sum.
    #[test]
    fn a_moved_border_shows() {
        let sums: std::collections::BTreeSet<u32> =
            (0..=64).map(|at| Sum::NONE.and(&[0; 64][..at]).and(&[0; 64][at..]).value()).collect();
        assert_eq!(sums.len(), 65);
    }
}
