//! The checksum of keys and records: four lanes of multiply and fold, 8 bytes a step each.
//!
//! It finds damage, not malice: every step is a bijection of its lane, so any change of a single word changes the sum,
//! and others pass with a chance of 2^-32. Much cheaper than a CRC on the short records that make up a tree.
//! Format: docs/formats/tree.md, section 5.

const LANES: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];

#[inline(always)]
fn step(lane: u64, word: u64, factor: u64) -> u64 {
    let product = (lane ^ word).wrapping_mul(factor);
    product ^ product >> 29
}

/// 64 bits of `bytes`, continuing `seed`.
#[inline]
pub(crate) fn sum(seed: u64, bytes: &[u8]) -> u64 {
    let mut lanes = LANES.map(|lane| lane ^ seed);
    let word = |chunk: &[u8]| u64::from_le_bytes(*chunk.first_chunk().expect("eight bytes"));
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        for (index, lane) in lanes.iter_mut().enumerate() {
            *lane = step(*lane, word(&block[index * 8..]), LANES[index]);
        }
    }
    let mut rest = blocks.remainder().chunks_exact(8);
    for (index, chunk) in (&mut rest).enumerate() {
        lanes[index] = step(lanes[index], word(chunk), LANES[index]);
    }
    let tail = rest.remainder();
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    lanes[3] = step(lanes[3], u64::from_le_bytes(last), LANES[0]);
    // The length keeps trailing zeros apart.
    let mut all = bytes.len() as u64;
    for (lane, factor) in lanes.into_iter().zip(LANES) {
        all = step(all, lane, factor);
    }
    all ^ all >> 32
}

/// The checksum kept with a separator of an inner node.
pub(crate) fn inner_sum(separator: &[u8]) -> u32 {
    sum(0, separator) as u32
}

#[cfg(test)]
mod tests {
    use super::sum;

    /// The format is fixed: these values are on media.
    #[test]
    fn sums_do_not_change() {
        assert_eq!(sum(0, b""), 8777229360527013918);
        assert_eq!(sum(0, b"Oslo"), 7327074567414135057);
        assert_eq!(sum(7, &[0xab; 100]), 6831708232166082062);
    }

    #[test]
    fn every_flipped_bit_and_every_lost_zero_shows() {
        let bytes: Vec<u8> = (0..133_u8).collect();
        for len in 0..bytes.len() {
            let whole = sum(1, &bytes[..len]) as u32;
            let mut longer = bytes[..len].to_vec();
            longer.push(0);
            assert_ne!(sum(1, &longer) as u32, whole);
            for bit in 0..len * 8 {
                let mut flipped = bytes[..len].to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(sum(1, &flipped) as u32, whole, "bit {bit} of {len} bytes");
            }
        }
    }
}
