//! Sealed words: eight bytes that change by one store and carry a check of their value.
//!
//! A word is never torn, and a changed bit of it is found. There are three shapes:
//!
//! | functions | value | check | zeros |
//! |---|---|---|---|
//! | [`seal`], [`unseal`] | the upper 48 bits, or a multiple of 64 KiB | 16 bits below | not a sealed word |
//! | [`seal_low`], [`unseal_low`] | the lower 48 bits | 16 bits above | not a sealed word |
//! | [`seal_for`], [`unseal_for`] | 32 bits, and the place they are for | 32 bits above | not a sealed word |

use crate::sums_agree;

/// The check bits of a value: its CRC-32C, folded into half.
#[inline]
fn check_bits(value: u64) -> u64 {
    let bytes = value.to_le_bytes();
    let sum = (2..8).fold(ZERO, |sum, place| sum ^ FOLDED[place - 2][bytes[place] as usize]);
    sum.into()
}

/// The check bits of zero.
const ZERO: u16 = folded([0; 8]);
/// A checksum of a fixed length is linear: what each byte adds to that of zero, by its place; the
/// two lowest are zeros.
const FOLDED: [[u16; 256]; 6] = {
    let mut folds = [[0; 256]; 6];
    let mut index = 0;
    while index < 6 * 256 {
        let (place, byte) = (index / 256, index % 256);
        let mut bytes = [0; 8];
        bytes[place + 2] = byte as u8;
        folds[place][byte] = folded(bytes) ^ ZERO;
        index += 1;
    }
    folds
};

/// CRC-32C, bit by bit, and the exclusive or of its halves.
const fn folded(bytes: [u8; 8]) -> u16 {
    const REVERSED: u32 = 0x82f6_3b78;
    let (mut sum, mut bit) = (u32::MAX, 0);
    while bit < 64 {
        let odd = (sum ^ (bytes[bit / 8] >> (bit % 8)) as u32) & 1;
        sum = (sum >> 1) ^ (odd * REVERSED);
        bit += 1;
    }
    (!sum ^ (!sum >> 16)) as u16
}

/// The word that carries `value`.
///
/// # Panics
/// If the low 16 bits of `value` are in use.
pub fn seal(value: u64) -> u64 {
    assert!(value & 0xffff == 0, "a sealed value has 48 bits, shifted up by 16: {value:#x}");
    value | check_bits(value)
}

/// The value of a sealed word; `None` if a bit of it has changed.
#[track_caller]
pub fn unseal(word: u64) -> Option<u64> {
    let value = word & !0xffff;
    sums_agree(word, value | check_bits(value)).then_some(value)
}

/// The word that carries `value` in its lower 48 bits.
///
/// # Panics
/// In debug builds, if the upper 16 bits of `value` are in use.
pub fn seal_low(value: u64) -> u64 {
    debug_assert!(value < LOW, "a value of 48 bits: {value:#x}");
    value | u64::from(crc32c::crc32c(&value.to_le_bytes())) << 48
}

/// The value of a word of [`seal_low`]; `None` if a bit of it has changed.
#[track_caller]
pub fn unseal_low(word: u64) -> Option<u64> {
    let value = word & (LOW - 1);
    sums_agree(word, seal_low(value)).then_some(value)
}

/// Values of [`seal_low`] are less.
const LOW: u64 = 1 << 48;

/// The word that carries `value` and a check of it and of its place. Never 0.
pub fn seal_for(place: u64, value: u32) -> u64 {
    u64::from(value) | u64::from(placed_check(value, place)) << 32
}

/// The value of a word of [`seal_for`]; `None` if a bit has changed or the word was sealed for
/// another place.
pub fn unseal_for(place: u64, word: u64) -> Option<u32> {
    let value = word as u32;
    ((word >> 32) as u32 == placed_check(value, place)).then_some(value)
}

fn placed_check(value: u32, place: u64) -> u32 {
    // The lowest bit is always set, so that a sealed word is never zeros.
    (mix(u64::from(value) << 32 ^ place ^ 0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1
}

/// Spreads every bit of a word over all of it.
pub fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let word = (word ^ word >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    word ^ word >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_is_the_folded_checksum_of_the_value() {
        for value in (0..64).map(|bit| (0x0123_4567_89ab_cdef_u64.rotate_left(bit) ^ 1 << bit) & !0xffff) {
            let sum = crc32c::crc32c(&value.to_le_bytes());
            assert_eq!(seal(value) & 0xffff, u64::from((sum ^ (sum >> 16)) & 0xffff), "{value:#x}");
        }
    }

    #[test]
    fn every_flipped_bit_is_found_and_zero_is_not_a_word() {
        for value in [0, 1 << 16, 0x1234_5678_0000, !0xffff] {
            let word = seal(value);
            assert_eq!(unseal(word), Some(value));
            for bit in 0..64 {
                assert_eq!(unseal(word ^ 1 << bit), None, "bit {bit} of {word:#x}");
            }
        }
        assert_eq!(unseal(0), None);
    }

    #[test]
    fn every_flipped_bit_of_the_other_shapes_is_found_too() {
        for value in [0, 1, 0x1234_5678, u32::MAX] {
            let (low, placed) = (seal_low(value.into()), seal_for(77, value));
            assert_eq!((unseal_low(low), unseal_for(77, placed)), (Some(value.into()), Some(value)));
            assert_eq!(unseal_for(78, placed), None, "another place");
            for bit in 0..64 {
                assert_eq!(unseal_low(low ^ 1 << bit), None, "bit {bit} of {low:#x}");
                assert_eq!(unseal_for(77, placed ^ 1 << bit), None, "bit {bit} of {placed:#x}");
            }
        }
        assert_eq!((unseal_low(0), unseal_for(0, 0)), (None, None));
    }
}
