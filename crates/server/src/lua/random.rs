//! The random numbers of scripts: those of `lrand48`, so that `math.randomseed` chooses Redis's.

/// The state: 48 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(u64);

impl Default for Random {
    fn default() -> Random {
        Random::new(0)
    }
}

impl Random {
    /// The numbers of a seed.
    pub(super) fn new(seed: u32) -> Random {
        Random(u64::from(seed) << 16 | 0x330e)
    }

    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        (self.0 >> 17) as u32
    }

    /// The next number, from 0 to below 1.
    pub(super) fn fraction(&mut self) -> f64 {
        const MAX: u32 = i32::MAX as u32;
        f64::from(self.next() % MAX) / f64::from(MAX)
    }
}
