//! [`Cluster`] and [`ObjectId`]: numbers of a store that are no offsets.

use crate::CLUSTER;
use everbyte_media::{Length, Offset, number_type};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

number_type! {
    /// The number of a cluster of [`CLUSTER`] bytes, from the start of a store or of an object.
    ///
    /// ```
    /// use everbyte_media::Offset;
    /// use everbyte_space::{CLUSTER, Cluster};
    ///
    /// let prime = Offset::new(16 * CLUSTER);
    /// let third = Cluster::new(2);
    /// assert_eq!(third.offset(prime), prime + 2 * CLUSTER);
    /// assert_eq!(Cluster::of(third.offset(prime) + 5, prime), third);
    /// ```
    ///
    /// An offset is no cluster:
    ///
    /// ```compile_fail,E0277
    /// # use everbyte_media::Offset;
    /// # use everbyte_space::Cluster;
    /// fn release(cluster: impl Into<Cluster>) {}
    /// release(Offset::new(65536));
    /// ```
    pub struct Cluster;
}

number_type! {
    /// The id of an object: its number in its store, never used again.
    pub struct ObjectId;
}

impl Cluster {
    /// The cluster that holds `at`, counted from `start`.
    #[inline(always)]
    pub const fn of(at: Offset, start: Offset) -> Cluster {
        Cluster::new((at.get() - start.get()) / CLUSTER)
    }

    /// The offset of its first byte; the first cluster lies at `start`.
    #[inline(always)]
    pub fn offset(self, start: Offset) -> Offset {
        start + Length::new(self.get() * CLUSTER)
    }
}
