//! Options of making and of opening a volume.

use crate::PageSize;
use everbyte_media::WriteWindows;
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970.
pub type Clock = fn() -> i64;

/// The system's clock.
pub fn system_clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or_else(|before| -(before.duration().as_nanos() as i64), |since| since.as_nanos() as i64)
}

/// Options of a new volume.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Up to 64 bytes.
    pub label: String,
    /// The volume's identity; `None`: a random one.
    pub uuid: Option<[u8; 16]>,
    /// Changes that may run at a time, 1 to 256.
    pub lanes: u32,
    /// User and group of the root directory.
    pub owner: (u32, u32),
    /// Bytes of the span, a power of two; `None`: the largest free one, half of the store's
    /// addresses for its first object.
    pub span: Option<u64>,
    /// The page size of new files, unless an opening says otherwise.
    pub page_size: PageSize,
    /// Bytes that the volume may have at most, see [`crate::Volume::set_size`]; 0: as many as its
    /// span has.
    pub size: u64,
    /// The clock of all times.
    pub clock: Clock,
    /// Keep checksums of data that does not change any more: see [`crate::Volume::seal_step`].
    pub checksums: bool,
}

impl Default for VolumeOptions {
    fn default() -> VolumeOptions {
        let (page_size, clock) = (PageSize::Small, system_clock as Clock);
        let (label, owner, checksums) = (String::new(), (0, 0), false);
        VolumeOptions { label, uuid: None, lanes: 8, owner, span: None, page_size, size: 0, clock, checksums }
    }
}

/// Options of opening a volume.
#[derive(Clone, Copy, Debug)]
pub struct OpenVolume {
    /// The clock of all times.
    pub clock: Clock,
    /// Files whose indexes are in memory at a time, beside those in use; see
    /// [`OpenVolume::FILES`].
    pub files: usize,
    /// The protection of the volume's pages against stray stores of this process, outside of the
    /// volume's own calls.
    pub windows: WriteWindows,
    /// Relaxed commit: a write behind the end of a file, and a growth of its size, return before
    /// their last fence. A crash may roll the newest such calls back, and keeps the order of calls.
    /// Durable after [`crate::Volume::settle`].
    pub relaxed: bool,
    /// The page size of new files; `None`: the volume's own.
    pub page_size: Option<PageSize>,
    /// Verify the checksums of sealed pages when they are read.
    pub verify: bool,
}

impl OpenVolume {
    /// Files that are indexed in memory unless the caller says otherwise: about a million, of at
    /// most 200 bytes each and 32 for each extent.
    pub const FILES: usize = 1 << 20;
}

impl Default for OpenVolume {
    fn default() -> OpenVolume {
        OpenVolume {
            clock: system_clock,
            files: OpenVolume::FILES,
            windows: WriteWindows::Default,
            relaxed: false,
            page_size: None,
            verify: true,
        }
    }
}
