//! Sealed words: eight bytes that change by one store and still prove themselves.
//!
//! The upper 48 bits are the value (a multiple of 64 KiB, or a count shifted up by 16), the lower
//! 16 a check of them. A torn store cannot happen (a word is whole), a flipped bit is found, and
//! zeros are not a sealed word.

use everbyte_media::sums_agree;

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
}
