//! Keys and values of the key-value cases: 24-byte keys in a random order that everybody shares,
//! 100-byte values.

/// Bytes of a key.
pub const KEY: usize = 24;
/// Bytes of a value.
pub const VALUE: usize = 100;

/// A small generator with a seed (SplitMix64): the same keys in the same order on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator of its own sequence.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a generator without an end is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `end`, which is far below 2^32.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        ((self.next() >> 32) * end) >> 32
    }
}

/// The key of number `number`: numbers in order are keys in a scattered order.
#[inline]
pub fn key(number: u64) -> [u8; KEY] {
    let mut key = *b"user00000000000000000000";
    let mut rest = Random::new(number).next();
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A value that says its number and version.
#[inline]
pub fn value(number: u64, version: u64) -> [u8; VALUE] {
    let mut value = [b'v'; VALUE];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value[8..16].copy_from_slice(&version.to_le_bytes());
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_differ_and_are_the_same_every_time() {
        let keys: BTreeSet<_> = (0..10_000).map(key).collect();
        assert_eq!(keys.len(), 10_000);
        assert_eq!(&key(0), b"user16294208416658607535");
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.below(50) < 50));
    }
}
