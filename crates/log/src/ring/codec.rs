//! Torn bits: 64-bit words as a stream of bits, cut into 63-bit pieces, each carried by a ring word
//! whose bit 63 is free.
//!
//! Sixty-three words in, sixty-four out. The encoder as printed in the paper shifts by
//! `(64 - n) & 63` and loses bits from the 64th word on; this one shifts by `63 - n`.

use super::layout::TORN;

/// Words that one more word carries the bits 63 of.
const BLOCK: usize = 63;

/// Ring words that `words` payload words take in the torn-bit form, the record's first word left
/// out.
pub(crate) const fn encoded_len(words: u64) -> u64 {
    words + words.div_ceil(63)
}

/// Cuts words into pieces whose bits 63 are those of `sense`.
///
/// # Panics
/// If `out` is not as long as [`encoded_len`] says.
#[inline]
pub(crate) fn encode(words: &[u64], sense: u64, out: &mut [u64]) {
    assert_eq!(out.len() as u64, encoded_len(words.len() as u64), "words get one piece more for each 63");
    for (words, out) in words.chunks(BLOCK).zip(out.chunks_mut(BLOCK + 1)) {
        let mut rest = 0;
        for (pending, (&word, out)) in words.iter().zip(out.iter_mut()).enumerate() {
            *out = (rest | word << pending) & !TORN | sense;
            rest = word >> (63 - pending);
        }
        out[words.len()] = rest | sense;
    }
}

/// The `count` words that `pieces` carry; their bits 63 do not matter.
///
/// # Panics
/// If there are fewer pieces than [`encoded_len`] of `count`.
pub(crate) fn decode(pieces: &[u64], count: usize, into: &mut Vec<u64>) {
    let (mut index, mut used) = (0, 0);
    for _ in 0..count {
        into.push((pieces[index] & !TORN) >> used | pieces[index + 1] << (63 - used));
        (index, used) = (index + 1, used + 1);
        if used == 63 {
            (index, used) = (index + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths 1..10000, the 63rd and 64th word among them, which the printed encoder loses.
    #[test]
    fn torn_bit_round_trip_at_every_length() {
        let mut random = everbyte_workload::Random::new(1);
        let words: Vec<u64> = (0..10_000).map(|_| random.next()).collect();
        for len in (1..600).chain([999, 1000, 1001, 4095, 4096, 9_999, 10_000]) {
            check(&words[..len]);
        }
        for len in [1, 62, 63, 64, 65, 126, 127, 10_000] {
            check(&vec![u64::MAX; len]);
            check(&vec![TORN; len]);
            check(&vec![1; len]);
        }
    }

    fn check(words: &[u64]) {
        let mut pieces = vec![0; encoded_len(words.len() as u64) as usize];
        encode(words, 0, &mut pieces);
        assert!(pieces.iter().all(|piece| piece & TORN == 0));
        let turned: Vec<u64> = pieces.iter().map(|piece| piece | TORN).collect();
        for pieces in [pieces, turned] {
            let mut back = Vec::new();
            decode(&pieces, words.len(), &mut back);
            assert_eq!(back, words, "{} words", words.len());
        }
    }
}
