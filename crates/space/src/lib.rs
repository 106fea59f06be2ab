//! # everbyte-space: addresses in a store file, and the clusters that back them
//!
//! A store file is sparse and linear. Addresses are cheap, bytes are not: an owner reserves a
//! [`Span`] (a power of two, self-aligned) and backs it by whole [`CLUSTER`]s as it grows.
//! [`Space`] records the backed clusters in a persistent [`Bitmap`], asks the file system for file
//! space *before* it sets a bit, and gives file space back only after the checkpoint that settled
//! the release.
//!
//! Elsewhere: the owners of spans and the words that publish a change (`store`), blocks inside a
//! span (`heap`).

#![forbid(unsafe_code)]

mod bitmap;
mod error;
mod number;
mod prepare;
mod space;
mod span;
mod states;
mod zeroing;

pub use bitmap::Bitmap;
pub use error::{Error, Result};
pub use number::{Cluster, ObjectId};
pub use prepare::{PREPARE_STEP, PREPARED_MAX};
pub use space::{Space, SpaceLayout};
pub use span::{Span, Spans};
pub use zeroing::{KEPT_MAX, ZeroedParts};

/// The unit of backing, in bytes.
pub const CLUSTER: u64 = 64 << 10;

/// `bytes` rounded up to whole clusters; `None` where that overflows.
pub fn clusters_up(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(CLUSTER)
}
