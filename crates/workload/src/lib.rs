//! # everbyte-workload: generators and seeds of tests and benches
//!
//! One generator of random numbers ([`Random`]), one way to take seeds and lengths of runs from the
//! environment, generators of keys ([`Keys`]) and of skewed ranks ([`Zipf`]), and two checks of
//! recorded histories: that transactions are serialisable ([`history`]), and that calls on one
//! object are linearizable ([`linearizable`]). With the feature `schedules`, threads in orders that
//! shuttle chooses.
//!
//! | variable | meaning |
//! |---|---|
//! | `EVERBYTE_SEED` | the seed of a random test, decimal or `0x` and hexadecimal; the test runs that program alone |
//! | `EVERBYTE_SOAK` | a long run; a test of many programs takes the number as their count |
//! | `EVERBYTE_ROUND` | which of the long runs, so that each draws other programs |
//!
//! A random test prints the line that repeats it: `replay: EVERBYTE_SEED=0x.. cargo test ..`.
//!
//! ```
//! use everbyte_workload::Random;
//!
//! let (mut one, mut two) = (Random::new(7), Random::new(7));
//! assert_eq!(one.next(), two.next());
//! assert!(one.below(50) < 50);
//! ```

#![forbid(unsafe_code)]

pub mod history;
mod keys;
pub mod linearizable;
mod random;
#[cfg(feature = "schedules")]
pub mod schedules;
mod seeds;
mod zipf;

pub use keys::Keys;
pub use random::{Random, mix, step};
pub use seeds::{given_seed, is_long, long_or, programs, round, seed, soak};
pub use zipf::Zipf;
