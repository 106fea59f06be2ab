//! [`Version`]: the number of a state of a tree.

use everbyte_media::number_type;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

number_type! {
    /// The number of a version of a tree: each commit makes the next one. 0 is none.
    pub struct Version;
}

impl Version {
    /// No version: of an empty slot, or of a pair that is still live.
    pub const NONE: Version = Version::new(0);

    /// The version after this one.
    #[inline(always)]
    pub const fn next(self) -> Version {
        Version::new(self.get() + 1)
    }

    /// The commit word that makes this version the newest, with its state in slot `state`.
    #[inline(always)]
    pub(crate) const fn commit_word(self, state: usize) -> u64 {
        self.get() << 1 | state as u64
    }
}
