//! A space on anonymous media, and owners of its clusters.

use everbyte_media::{Media, Options};
use everbyte_space::{CLUSTER, Space, SpaceLayout};
use std::ops::Range;

/// The first offset behind the bitmaps.
pub(crate) const FIRST: u64 = 1 << 20;
/// The word that an owner stores at the start of each of its clusters.
pub(crate) const OWNED: u64 = 7;

/// A space of 64 MiB.
pub(crate) fn space() -> Space {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    Space::new(media, SpaceLayout { bitmap_at: 16 << 10, used_at: 20 << 10, bitmap_len: 4096 })
}

/// Backs clusters, checks that they read as zeros, and stores [`OWNED`] to each.
pub(crate) fn back(space: &Space, range: Range<u64>) {
    let zeroed = space.reserve(&range).unwrap();
    space.prepare(&range, &zeroed);
    space.set_backed(&range);
    space.media().fence();
    for at in range.step_by(CLUSTER as usize) {
        assert_eq!(space.media().read_vec(at, 64), [0; 64], "SPACE-3 at {at:#x}");
        space.media().store(at, OWNED);
        space.media().flush(at, 8);
    }
}
