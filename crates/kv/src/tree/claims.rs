//! [`Claims`]: where the records of a leaf's appended entries lie.
//!
//! Three claims share a word: for each, from the lowest bit, the offset in the leaf in units of 8
//! bytes (13 bits; 0: the slot was never filled) and the room in the same unit (8 bits). The
//! highest bit makes the number of ones even: a flipped bit shows.
//!
//! Invariants
//!   CLAIM-1  The claims of a leaf do not overlap, and all lie behind the records of its base.
//!   CLAIM-2  A claim is stored before the `start` of its slot, in one word with nothing else that
//!            changes then. So a crash leaves the old claim or the new one, and the record of an
//!            entry that a version sees always lies in its claim.

use crate::tree::layout::{APPENDS, CLAIM_WORDS};

/// Claims in a word.
const IN_WORD: usize = 3;
/// Bits of a claim.
const BITS: usize = 21;
/// Bits of the offset.
const OFFSET_BITS: usize = 13;
const _: () = assert!(APPENDS == IN_WORD * CLAIM_WORDS && IN_WORD * BITS == 63);

/// Room of an appended record in its leaf, the length in front of it included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Offset in the leaf; 0: none.
    pub at: u64,
    pub room: u64,
}

impl Claim {
    /// The word of a leaf's claims that holds the one of slot `append`.
    #[inline]
    pub(crate) fn word_of(append: usize) -> usize {
        append / IN_WORD
    }

    /// The claim of slot `append` in the word that holds it.
    #[inline]
    pub(crate) fn in_word(word: u64, append: usize) -> Claim {
        let bits = word >> (append % IN_WORD * BITS) & ((1 << BITS) - 1);
        Claim { at: (bits & ((1 << OFFSET_BITS) - 1)) * 8, room: (bits >> OFFSET_BITS) * 8 }
    }

    /// The end of the room.
    pub(crate) fn end(&self) -> u64 {
        self.at + self.room
    }
}

/// The claims of a leaf as they are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claims(pub [u64; CLAIM_WORDS]);

impl Claims {
    /// Whether no bit has flipped (one in each word is found).
    #[inline]
    pub(crate) fn are_sound(&self) -> bool {
        self.0.iter().all(|word| word.count_ones().is_multiple_of(2))
    }

    /// The claim of appended slot `append`.
    #[inline]
    pub(crate) fn get(&self, append: usize) -> Claim {
        Claim::in_word(self.0[Claim::word_of(append)], append)
    }

    /// The end of the last claim, or `base_end`.
    #[inline]
    pub(crate) fn end(&self, base_end: u64) -> u64 {
        (0..APPENDS).map(|append| self.get(append).end()).fold(base_end, u64::max)
    }

    /// The word that holds the claim of `append`, and what it becomes with `claim` there.
    pub(crate) fn with(&self, append: usize, claim: Claim) -> (usize, u64) {
        debug_assert!(claim.at.is_multiple_of(8) && claim.at / 8 < 1 << OFFSET_BITS);
        debug_assert!(claim.room.is_multiple_of(8) && claim.room / 8 < 1 << (BITS - OFFSET_BITS));
        let (word, shift) = (Claim::word_of(append), append % IN_WORD * BITS);
        let bits = (claim.at / 8) | ((claim.room / 8) << OFFSET_BITS);
        let kept = self.0[word] & !(((1 << BITS) - 1) << shift) & (u64::MAX >> 1);
        let next = kept | bits << shift;
        (word, next | u64::from(next.count_ones() % 2) << 63)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_claim_is_kept_and_each_flipped_bit_shows() {
        let mut claims = Claims([0; CLAIM_WORDS]);
        let of = |append: usize| Claim { at: 65_528 - append as u64 * 8, room: 2040 - append as u64 * 16 };
        for append in (0..APPENDS).rev() {
            assert_eq!(claims.get(append), Claim { at: 0, room: 0 });
            let (word, next) = claims.with(append, Claim { at: 8, room: 8 });
            claims.0[word] = next;
            let (word, next) = claims.with(append, of(append));
            claims.0[word] = next;
            assert!(claims.are_sound());
        }
        (0..APPENDS).for_each(|append| assert_eq!(claims.get(append), of(append)));
        assert_eq!(claims.end(100), (0..APPENDS).map(|append| of(append).end()).max().unwrap());
        assert_eq!(Claims([0; CLAIM_WORDS]).end(100), 100);
        for bit in 0..CLAIM_WORDS * 64 {
            let mut flipped = claims;
            flipped.0[bit / 64] ^= 1 << (bit % 64);
            assert!(!flipped.are_sound(), "bit {bit}");
        }
    }
}
