//! [`Tier`]: the place of cold clusters below memory.

use crate::Result;

/// Numbered slots of one cluster each, below memory. The cold table says which slots are in use;
/// the tier only moves bytes.
pub trait Tier: Send + Sync {
    /// Makes sure of space for `slots` slots, so that a full tier is an error here and not at a
    /// store to memory.
    ///
    /// # Errors
    /// The tier is full; nothing has changed.
    fn reserve(&self, slots: u64) -> Result<()>;

    /// Writes a slot. [`Tier::sync`] settles it.
    ///
    /// # Errors
    /// The tier's.
    fn write(&self, slot: u32, bytes: &[u8]) -> Result<()>;

    /// Settles every slot that was written.
    ///
    /// # Errors
    /// The tier's.
    fn sync(&self) -> Result<()>;

    /// Reads a slot that holds the bytes of the cluster at `at`, and verifies their CRC-32C.
    ///
    /// # Errors
    /// The tier's, or damage of the slot.
    fn read(&self, slot: u32, checksum: u32, at: u64, into: &mut [u8]) -> Result<()>;
}
