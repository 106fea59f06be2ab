//! The two traits that the owner of a trie implements.

use crate::Damaged;
use everbyte_media::Media;
use std::ops::Range;

/// The records that the entries of a trie lead to. Each is a block of 256 bytes and holds one name;
/// the rest of its bytes is the owner's.
pub trait Records {
    /// The range of records that lie outside of the trie's object.
    fn outside(&self) -> Range<u64>;

    /// Whether the record at `at` has this name. Every lookup calls this.
    fn has_name(&self, media: &Media, at: u64, name: &[u8]) -> bool;

    /// The name of the record at `at`, in any state of the record; `None` if it is damaged.
    fn name_of(&self, media: &Media, at: u64) -> Option<Vec<u8>>;

    /// Whether the record at `at` is free.
    fn is_free(&self, media: &Media, at: u64) -> bool;
}

/// The clusters of the object that holds a trie.
pub trait Clusters {
    /// The error of the owner.
    type Error: From<Damaged>;

    /// Backs one more cluster at the object's end `end` and returns its offset. It reads as zeros.
    /// Fenced on return: a crash leaves the cluster backed or absent.
    ///
    /// # Errors
    /// The owner's: the span or the disk is full. Nothing has changed.
    fn add_cluster(&self, end: u64) -> Result<u64, Self::Error>;
}
