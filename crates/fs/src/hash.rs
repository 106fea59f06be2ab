//! [`Seeded`]: the hash of the tables in memory, of names and of inode numbers.
//!
//! Each table has seeds of its own from the system's random numbers, so that a caller who chooses
//! names cannot make them collide. Sixteen bytes are one multiplication of 64 by 64 bits whose
//! halves are folded: a name costs a few nanoseconds where the standard library's hash costs
//! twenty.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The seeds of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeded {
    seeds: [u64; 2],
}

impl Default for Seeded {
    fn default() -> Seeded {
        let random = RandomState::new();
        Seeded { seeds: [random.hash_one(0), random.hash_one(1)] }
    }
}

impl BuildHasher for Seeded {
    type Hasher = Folded;

    #[inline]
    fn build_hasher(&self) -> Folded {
        Folded { state: self.seeds[0], seeds: self.seeds }
    }
}

/// A hash of the bytes so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folded {
    state: u64,
    seeds: [u64; 2],
}

#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

impl Hasher for Folded {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let (parts, rest) = bytes.as_chunks::<16>();
        let mut state = self.state ^ bytes.len() as u64; // zeros behind the last word are none of the name
        for part in parts {
            state = fold(word(&part[..8]) ^ self.seeds[1], word(&part[8..]) ^ state);
        }
        let (first, second) = rest.split_at(rest.len().min(8));
        self.state = fold(word(first) ^ self.seeds[1], word(second) ^ state);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.state = fold(number ^ self.seeds[1], self.state);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.state = self.state.wrapping_add(number as u64); // the length, which `write` mixes in
    }

    #[inline]
    fn finish(&self) -> u64 {
        fold(self.state ^ self.seeds[0], self.seeds[1] | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn hash(seeded: Seeded, bytes: &[u8]) -> u64 {
        let mut hasher = seeded.build_hasher();
        hasher.write(bytes);
        hasher.finish()
    }

    /// Names that differ in one byte, or in zeros at the end, spread over all buckets.
    #[test]
    fn names_spread() {
        let seeded = Seeded::default();
        let mut names: Vec<Vec<u8>> = (0..256).map(|len| vec![0; len]).collect();
        names.extend((0..50_000).map(|index| format!("message-{index:06}").into_bytes()));
        names.extend((0..255).flat_map(|at| (1..=255).map(move |byte| (at, byte))).map(|(at, byte)| {
            let mut name = vec![b'x'; 255];
            name[at] = byte;
            name
        }));
        names.sort_unstable();
        names.dedup();
        let all: HashSet<u64> = names.iter().map(|name| hash(seeded, name)).collect();
        assert_eq!(all.len(), names.len());
        let mut buckets = vec![0_u32; 1024];
        all.iter().for_each(|hash| buckets[(hash % 1024) as usize] += 1);
        let mean = (all.len() / 1024) as u32;
        let far = buckets.iter().filter(|&&count| count < mean / 2 || count > mean * 2).count();
        assert_eq!(far, 0, "{buckets:?}");
    }

    #[test]
    fn two_tables_have_different_hashes() {
        let [one, other] = [Seeded::default(), Seeded::default()].map(|seeded| hash(seeded, b"message"));
        assert_ne!(one, other);
    }
}
