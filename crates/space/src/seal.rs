//! Sealed words: eight bytes that change by one store and still prove themselves.
//!
//! The upper 48 bits are the value (a multiple of 64 KiB, or a count shifted up by 16), the lower 16 a check of them.
//! A torn store cannot happen (a word is whole), a flipped bit is found, and zeros are not a sealed word.

/// The check bits of a value.
fn check_bits(value: u64) -> u64 {
    let sum = crc32c::crc32c(&value.to_le_bytes());
    u64::from((sum ^ (sum >> 16)) & 0xffff)
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
pub fn unseal(word: u64) -> Option<u64> {
    let value = word & !0xffff;
    (word == value | check_bits(value)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

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
