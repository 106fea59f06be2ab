//! Options of making and of opening a volume.

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
    /// The clock of all times.
    pub clock: Clock,
}

impl Default for VolumeOptions {
    fn default() -> VolumeOptions {
        VolumeOptions { label: String::new(), uuid: None, lanes: 8, owner: (0, 0), span: None, clock: system_clock }
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
}

impl OpenVolume {
    /// Files that are indexed in memory unless the caller says otherwise: about a million, of at
    /// most 200 bytes each and 32 for each extent.
    pub const FILES: usize = 1 << 20;
}

impl Default for OpenVolume {
    fn default() -> OpenVolume {
        OpenVolume { clock: system_clock, files: OpenVolume::FILES }
    }
}
