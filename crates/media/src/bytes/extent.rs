//! [`Extent`]: a range of store offsets that lies in one piece in the file.

/// `len` bytes at `at` in the store and at `file` in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub at: u64,
    pub file: u64,
    pub len: u64,
    /// The number of its slot in the map of chunks, from 1; 0 for the beginning of the file.
    pub slot: usize,
    /// The number of changes of that slot.
    pub changes: u64,
}

impl Extent {
    pub(crate) fn end(&self) -> u64 {
        self.at + self.len
    }

    /// The first `len` bytes of a file whose offsets equal the store's.
    pub(crate) fn identity(len: u64) -> Extent {
        Extent { at: 0, file: 0, len, slot: 0, changes: 0 }
    }
}
