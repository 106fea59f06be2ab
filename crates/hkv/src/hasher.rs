//! The hash of keys: folded multiplications under a seed of the store's own. Part of the format: it
//! never changes.

/// Odd constants without structure: digits of pi.
const MIX: [u64; 3] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1];

fn fold(one: u64, two: u64) -> u64 {
    let product = u128::from(one) * u128::from(two);
    product as u64 ^ (product >> 64) as u64
}

/// The hash of `bytes` under `seed`.
pub(crate) fn hash(seed: [u64; 2], bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8]| {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(whole)
    };
    let mut state = seed[0] ^ MIX[0];
    let pairs = bytes.chunks(16);
    for pair in pairs {
        let (one, two) = pair.split_at(pair.len().min(8));
        state = fold(word(one) ^ state ^ MIX[1], word(two) ^ seed[1] ^ MIX[2]) ^ state.rotate_left(23);
    }
    fold(state ^ bytes.len() as u64, MIX[1] ^ seed[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Known values: stores on media depend on them.
    #[test]
    fn hashes_never_change() {
        let found = ["", "a", "Oslo", "0123456789abcdef", "0123456789abcdefg"].map(|key| hash([1, 2], key.as_bytes()));
        assert_eq!(found, EXPECTED, "{found:#x?}");
    }
    const EXPECTED: [u64; 5] =
        [0x1af858a5a3824548, 0xbb9bfc7c7d4324de, 0xd19e675c7e0a7267, 0xa6009c677173a5d3, 0x91db27a5e4574f14];

    #[test]
    fn keys_that_differ_in_a_bit_spread_over_all_bits() {
        let mut seen = HashSet::new();
        for len in 0..40 {
            let key = vec![0x5a_u8; len];
            assert!(seen.insert(hash([7, 9], &key)));
            for bit in 0..len * 8 {
                let mut other = key.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                let distance = (hash([7, 9], &key) ^ hash([7, 9], &other)).count_ones();
                assert!((12..=52).contains(&distance), "length {len}, bit {bit}: {distance} bits differ");
                assert!(seen.insert(hash([7, 9], &other)));
            }
        }
    }
}
