//! SHA-1, by which clients name scripts. It protects nothing.

/// The hash as 40 hexadecimal digits.
pub(crate) fn sha1_hex(bytes: &[u8]) -> String {
    sha1(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let (whole, rest) = bytes.as_chunks::<64>();
    whole.iter().for_each(|block| mix(&mut state, block));
    let mut tail = [0; 128];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let size = if rest.len() < 56 { 64 } else { 128 };
    tail[size - 8..size].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    tail[..size].as_chunks::<64>().0.iter().for_each(|block| mix(&mut state, block));
    let mut hash = [0; 20];
    hash.as_chunks_mut::<4>().0.iter_mut().zip(state).for_each(|(part, word)| *part = word.to_be_bytes());
    hash
}

fn mix(state: &mut [u32; 5], block: &[u8; 64]) {
    let mut words = [0_u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for at in 16..80 {
        words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (round, word) in words.into_iter().enumerate() {
        let (function, constant) = match round / 20 {
            0 => (b & c | !b & d, 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next = a.rotate_left(5).wrapping_add(function).wrapping_add(e).wrapping_add(constant).wrapping_add(word);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    for (word, part) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes_come_out() {
        assert_eq!(sha1_hex(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(sha1_hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(sha1_hex(&[b'a'; 1_000_000]), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }
}
