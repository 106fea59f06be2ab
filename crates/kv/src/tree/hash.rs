//! Sets and maps of offsets, hashed by one multiplication: offsets come from our own allocator, not
//! from strangers.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

#[derive(Default)]
pub(crate) struct OffsetHasher(u64);

impl Hasher for OffsetHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }
    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

pub(crate) type OffsetSet = HashSet<u64, BuildHasherDefault<OffsetHasher>>;
pub(crate) type OffsetMap<V> = HashMap<u64, V, BuildHasherDefault<OffsetHasher>>;
