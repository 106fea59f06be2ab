//! Figures of the volume, as `statfs` gives them.

use crate::files::Files;
use everbyte_fs::NAME_MAX;

/// Figures of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeStatus {
    /// Bytes of a block.
    pub block_size: u64,
    /// Blocks that the volume can have, by its size or its span.
    pub blocks: u64,
    /// Blocks of them that files can still take: those that are free now, and those by which the
    /// volume can grow as far as its size, its span and its store allow.
    pub free_blocks: u64,
    /// Inodes that the volume has now.
    pub inodes: u64,
    /// Inodes of them that are free; more are made where none is.
    pub free_inodes: u64,
    /// Bytes of the longest name.
    pub name_max: u64,
    /// The first 8 bytes of the volume's identity.
    pub id: u64,
    /// Whether changes are refused.
    pub read_only: bool,
}

impl Files {
    /// The figures of the volume.
    pub fn status(&self) -> VolumeStatus {
        let usage = self.volume().usage();
        let [a, b, c, d, e, f, g, h, ..] = self.volume().uuid();
        VolumeStatus {
            block_size: 4096,
            blocks: usage.pages_max,
            free_blocks: self.volume().available_pages().min(usage.pages_max),
            inodes: usage.inodes,
            free_inodes: usage.free_inodes,
            name_max: NAME_MAX as u64,
            id: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            read_only: self.is_read_only(),
        }
    }
}
