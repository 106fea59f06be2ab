//! Small seeded randomness (SplitMix64): the same on every machine and in every version, so that
//! seeds replay.

/// A stream of numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of that seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a stream without an end is not an iterator to loop over")]
    pub fn next(&mut self) -> u64 {
        step(&mut self.0)
    }

    /// A number below `limit`, which is not 0.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// An index into a list of `len` items, which is not empty.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Whether an event of so many percent happens.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `from`, which is not empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// A few of `from`, at least one, in its order.
    pub fn some<T: Copy>(&mut self, from: &[T]) -> Vec<T> {
        let mut chosen: Vec<T> = from.iter().copied().filter(|_| self.chance(30)).collect();
        if chosen.is_empty() {
            chosen.push(self.pick(from));
        }
        chosen
    }

    /// Puts `items` in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

/// The next number of a stream whose state is `state`: SplitMix64. The rivals of the benches, which
/// are written in C, draw from the same stream.
#[inline]
pub fn step(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// The last step of SplitMix64, which maps numbers to numbers one to one.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Benches and seeds of old failures depend on the stream.
    #[test]
    fn the_stream_is_that_of_splitmix64() {
        let mut random = Random::new(0);
        let drawn = [random.next(), random.next(), random.next()];
        assert_eq!(drawn, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    #[test]
    fn draws_stay_in_bounds_and_shuffles_keep_every_item() {
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.below(50) < 50 && random.index(3) < 3));
        let mut items: Vec<u64> = (0..100).collect();
        random.shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
