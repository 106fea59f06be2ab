//! [`Opened`]: the findings of opening.

/// The findings of opening; see [`crate::Media::opened`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Opened by [`crate::OpenOptions::read_only`]: the file stays as it is.
    pub read_only: bool,
    /// Records of the log that were replayed: the store had not been closed.
    pub log_records: u64,
    /// Bytes of these records in the log.
    pub log_bytes: u64,
    /// Bytes of the ring of backend `file`; 0 before that backend first opens the store.
    pub log_room: u64,
    /// Offsets of the torn copies of the media head. The next head that is written replaces them.
    pub torn_heads: Vec<u64>,
}
