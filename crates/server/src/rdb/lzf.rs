//! Strings compressed by LZF: literal bytes, and copies of bytes before.

use super::{Result, malformed};

/// Bytes that come of one byte at most: a copy of 264 bytes is 3.
const GROWTH_MAX: usize = 88;

/// The `size` bytes that were compressed.
pub(super) fn decompress(mut input: &[u8], size: usize) -> Result<Vec<u8>> {
    if size > input.len().saturating_mul(GROWTH_MAX) {
        return malformed("a compressed string is too long for its bytes");
    }
    let mut out = Vec::with_capacity(size);
    while let Some((&control, rest)) = input.split_first() {
        input = rest;
        if control < 32 {
            let Some((bytes, rest)) = input.split_at_checked(usize::from(control) + 1) else { return cut() };
            out.extend_from_slice(bytes);
            input = rest;
            continue;
        }
        let mut count = usize::from(control >> 5);
        if count == 7 {
            let Some((&more, rest)) = input.split_first() else { return cut() };
            count += usize::from(more);
            input = rest;
        }
        let Some((&low, rest)) = input.split_first() else { return cut() };
        input = rest;
        let back = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
        let Some(start) = out.len().checked_sub(back) else {
            return malformed("a compressed string copies bytes before its first");
        };
        // Copies may overlap what they write.
        for place in start..start + count + 2 {
            let byte = out[place];
            out.push(byte);
        }
        if out.len() > size {
            break;
        }
    }
    if out.len() == size { Ok(out) } else { malformed("a compressed string has another size than it says") }
}

fn cut<T>() -> Result<T> {
    malformed("a compressed string ends early")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_out_and_odd_ones_are_refused() {
        // Two literals, then a copy of 9 bytes from two before.
        assert_eq!(decompress(&[1, b'a', b'b', 0xe0, 0, 1], 11).unwrap(), b"abababababa");
        for (bytes, size) in [
            (&[1, b'a', b'b', 0xe0, 0, 1][..], 12),
            (&[1, b'a', b'b', 0xe0, 0, 1], 10),
            (&[1, b'a', b'b', 0xe0, 0, 2], 11),
            (&[1, b'a'], 2),
            (&[0xe0], 9),
            (&[0x20], 3),
            (&[], 1 << 40),
        ] {
            assert!(decompress(bytes, size).is_err(), "{bytes:?}");
        }
    }
}
