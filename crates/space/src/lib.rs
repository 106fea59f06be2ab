//! # everbyte-space: where things lie in a store file, and what backs them
//!
//! A store file is sparse and linear. Addresses are cheap, bytes are not: an owner reserves a
//! [`Span`] (a power of two, self-aligned) and backs it by whole [`CLUSTER`]s as it grows.
//! [`Space`] keeps which clusters are backed in a persistent [`Bitmap`], asks the file system for
//! room *before* a bit says that there is some, and gives room back only after the checkpoint that
//! settled the release.
//!
//! What is elsewhere: who owns a span and when a change of it counts (`store`), blocks inside a
//! span (`heap`).

#![forbid(unsafe_code)]

mod ahead;
mod bitmap;
mod error;
mod keep;
mod ranges;
mod seal;
mod space;
mod span;

pub use ahead::{AHEAD, STEP};
pub use bitmap::Bitmap;
pub use error::{Error, Result};
pub use keep::{Cleared, HELD};
pub use seal::{seal, unseal};
pub use space::{Space, SpaceLayout};
pub use span::{Span, Spans};

/// The unit of backing, in bytes.
pub const CLUSTER: u64 = 64 << 10;

/// `bytes` rounded up to whole clusters; `None` where that overflows.
pub fn clusters_up(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(CLUSTER)
}
