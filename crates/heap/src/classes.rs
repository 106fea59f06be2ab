//! Size classes: the block size for each request.
//!
//! Multiples of 16 up to 48, then of 64 (so that a block of a line or more starts at a line), four
//! to a doubling from 256 on: at most a quarter of a block is lost. The last two, seven and six
//! blocks to a run, serve what two pages do not hold and three would waste: the usual leaf of the
//! ordered store. Above [`SMALL_MAX`] blocks are runs of pages of 4 KiB.
//!
//! The numbers on media never change their meaning: new classes are added at the end.

/// Bytes of a page, the unit of large blocks.
pub const PAGE: u64 = 4096;
/// The largest block of a class; larger ones are runs of pages.
pub const SMALL_MAX: u64 = 10880;
/// The largest block of a class in heaps of formats 1 and 2.
pub const SMALL_MAX_BEFORE: u64 = 8192;
/// Bytes of a run: one cluster, cut into blocks of one class.
pub const RUN: u64 = 65536;
/// Number of classes.
pub const COUNT: usize = 29;
/// Words of bitmap that a record holds; a run has no more blocks than these have bits.
pub const BITMAP_WORDS: usize = 63;

/// Block sizes by class.
pub const SIZES: [u32; COUNT] = [
    16, 32, 48, 64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584,
    4096, 5120, 6144, 7168, 8192, 9344, 10880,
];

/// The class of a request of `(index - 1) * 16 + 1 ..= index * 16` bytes.
const BY_SIZE: [u8; (SMALL_MAX / 16) as usize + 1] = {
    let mut table = [0u8; (SMALL_MAX / 16) as usize + 1];
    let (mut index, mut class) = (0, 0);
    while index < table.len() {
        if index as u32 * 16 > SIZES[class] {
            class += 1;
        }
        table[index] = class as u8;
        index += 1;
    }
    table
};

/// The class of the smallest block that holds `size` bytes.
///
/// # Panics
/// If `size` is above [`SMALL_MAX`].
#[inline(always)]
pub fn class_of(size: u64) -> usize {
    BY_SIZE[size.div_ceil(16) as usize] as usize
}

/// Bytes of a block of this class.
#[inline(always)]
pub fn size_of(class: usize) -> u64 {
    SIZES[class] as u64
}

/// Blocks in a run of this class.
#[inline(always)]
pub fn count_of(class: usize) -> u32 {
    const COUNTS: [u16; COUNT] = {
        let mut counts = [0; COUNT];
        let mut class = 0;
        while class < COUNT {
            let blocks = RUN as u32 / SIZES[class];
            let most = (BITMAP_WORDS * 64) as u32;
            counts[class] = if blocks < most { blocks } else { most } as u16;
            class += 1;
        }
        counts
    };
    COUNTS[class] as u32
}

/// The block of this class that holds byte `offset` of its run, and the offset in the block.
#[inline(always)]
pub fn locate(class: usize, offset: u32) -> (u32, u32) {
    // A division by a number the compiler does not know costs more than all the rest of a small
    // free.
    const RECIPROCALS: [u64; COUNT] = {
        let mut all = [0; COUNT];
        let mut class = 0;
        while class < COUNT {
            all[class] = (1u64 << 32).div_ceil(SIZES[class] as u64);
            class += 1;
        }
        all
    };
    let index = ((u64::from(offset) * RECIPROCALS[class]) >> 32) as u32;
    (index, offset - index * SIZES[class])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_gets_the_smallest_block_that_holds_it() {
        for size in 1..=SMALL_MAX {
            let class = class_of(size);
            assert!(size_of(class) >= size, "{size}");
            assert!(class == 0 || size_of(class - 1) < size, "{size}");
            assert!(size <= 256 || size_of(class) * 4 <= size * 5 + 4, "{size} gets {}", size_of(class));
            assert!(size < 64 || size_of(class).is_multiple_of(64), "lines are not shared: {size}");
        }
        assert_eq!(class_of(0), 0);
    }

    #[test]
    fn the_reciprocal_divides_exactly() {
        for (class, size) in SIZES.into_iter().enumerate() {
            for offset in 0..RUN as u32 {
                assert_eq!(locate(class, offset), (offset / size, offset % size));
            }
        }
    }

    #[test]
    fn the_bitmap_has_a_bit_for_every_block() {
        assert!((0..COUNT).all(|class| count_of(class) as usize <= BITMAP_WORDS * 64));
        assert_eq!((count_of(0), count_of(3), count_of(26)), (4032, 1024, 8));
        assert_eq!((count_of(27), count_of(28)), (7, 6));
    }
}
