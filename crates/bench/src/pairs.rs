//! Keys and values of the key-value cases: 24-byte keys in one random order for all stores,
//! 100-byte values.

use everbyte_workload::Random;

/// Bytes of a key.
pub const KEY: usize = 24;
/// Bytes of a value.
pub const VALUE: usize = 100;

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
    }
}
