//! # everbyte-suite: what the crates do together
//!
//! Tests in real processes with real input. Parts they share: the input (`debian`), a client and
//! the server's process (`process`), the twin that knows what may be found after a kill (`twin`),
//! and a writer of batches that say themselves how many there should be (`acked`).

#![forbid(unsafe_code)]

pub mod acked;
pub mod debian;
pub mod process;
pub mod twin;

/// A small generator of random numbers, seeded.
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)] // it never ends, so it is no iterator
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
