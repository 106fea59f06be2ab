//! A hash map of numbers.

/// Entries, in buckets.
#[derive(Debug)]
pub struct Map([Vec<(u64, u64)>; 32]);

impl Map {
    /// A map without entries.
    pub fn empty() -> Self {
        Self(Default::default())
    }

    /// Sets the value of `key`; answers the old one.
    pub fn insert(&mut self, key: u64, value: u64) -> Option<u64> {
        let old = self.remove(key);
        self.0[bucket(key)].push((key, value));
        old
    }

    /// Takes the value of `key` away.
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        let index = self.0[bucket(key)].iter().position(|entry| entry.0 == key)?;
        Some(self.0[bucket(key)].swap_remove(index).1)
    }

    /// The value of `key`.
    pub fn get(&self, key: u64) -> Option<u64> {
        self.0[bucket(key)].iter().find(|entry| entry.0 == key).map(|entry| entry.1)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|bucket| bucket.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn bucket(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59) as usize
}
