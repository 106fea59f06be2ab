//! The positions of a new store: all follow from its declared maximum and the size of its log.

use crate::layout::{FEATURE_ADDRESSES, Record, Superblock};
use crate::{Error, Result};
use everbyte_media::{Geometry, HEAD_END, Length, Offset};
use everbyte_space::{Bitmap, CLUSTER, SpaceLayout};

const PAGE: u64 = 4096;
/// Records in the table of a store.
pub(crate) const SLOTS: u64 = 256;
/// The largest store: what the media head can declare.
const MAX_MAX: u64 = 1 << 46;

/// The smallest maximum of a store with more addresses than that.
const MAX_MIN: u64 = 512 << 10;
/// The fewest addresses of such a store.
const ADDRESSES_MIN: u64 = 1 << 30;

/// The positions of a new store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Declared maximum in bytes.
    pub max: u64,
    /// One past the last address that a span may have.
    pub addresses: u64,
    /// The object table.
    pub table_at: u64,
    /// The bitmaps, large enough for four times the addresses so that a store can be grown.
    pub space: SpaceLayout,
    /// The log of the `file` backend.
    pub log_at: u64,
    /// Its size.
    pub log_len: u64,
    /// The lowest address of a span.
    pub spans_at: u64,
}

impl Plan {
    /// Plans a store whose addresses are more than its maximum, so that several objects may each
    /// have a span for all of it: spans are powers of two that lie at multiples of themselves. The
    /// log gets a sixteenth of the maximum, or less.
    ///
    /// # Errors
    /// [`Error::BadOption`] if `max` is too small for what every store needs and some clusters, or
    /// too large.
    pub fn spacious(max: u64, log_len: u64) -> Result<Plan> {
        if max < MAX_MIN {
            let detail = format!("a maximum of {max} bytes (`--max`) is too small; ask for at least {MAX_MIN}");
            return Err(Error::BadOption { detail });
        }
        let addresses = max.min(MAX_MAX).next_power_of_two().saturating_mul(4).clamp(ADDRESSES_MIN, MAX_MAX);
        let log_len = log_len.min(max / 16 / PAGE * PAGE);
        Plan::with(max, addresses, log_len)
    }

    /// Plans a store of at most `max` bytes with a log of `log_len` bytes (0: none; the media will
    /// never be `file`). It has as many addresses, and no more.
    ///
    /// # Errors
    /// [`Error::BadOption`] if `max` is too small for what every store needs and one cluster, or
    /// too large.
    pub fn new(max: u64, log_len: u64) -> Result<Plan> {
        Plan::with(max, max / CLUSTER * CLUSTER, log_len)
    }

    fn with(max: u64, addresses: u64, log_len: u64) -> Result<Plan> {
        if max > MAX_MAX {
            let detail = format!("a maximum of {max} bytes is beyond the largest, 64 TiB");
            return Err(Error::BadOption { detail });
        }
        let max = max / CLUSTER * CLUSTER;
        let log_len = log_len.checked_next_multiple_of(PAGE).filter(|&len| len <= MAX_MAX);
        let log_len = log_len.ok_or_else(|| Error::BadOption { detail: "the log is larger than any store".into() })?;
        let bitmap_len = Bitmap::len_for(addresses.saturating_mul(4).clamp(1, MAX_MAX));
        let table_at = HEAD_END;
        let bitmap_at = (table_at + SLOTS * size_of::<Record>() as u64).next_multiple_of(PAGE);
        let used_at = bitmap_at + bitmap_len;
        let log_at = used_at + bitmap_len;
        let spans_at = (log_at + log_len).next_multiple_of(CLUSTER);
        if spans_at + CLUSTER > addresses {
            let detail = format!(
                "a maximum of {max} bytes is too small: superblock, bitmaps and log take {spans_at}; ask for at least {}",
                (spans_at + CLUSTER).next_power_of_two()
            );
            return Err(Error::BadOption { detail });
        }
        let space = SpaceLayout { bitmap_at, used_at, bitmap_len };
        Ok(Plan { max, addresses, table_at, space, log_at, log_len, spans_at })
    }

    /// The geometry for `OpenOptions::create`: superblocks, heads and the object table exist from
    /// the beginning.
    pub fn geometry(&self) -> Geometry {
        Geometry { max: self.addresses, len: self.space.bitmap_at, log_at: self.log_at, log_len: self.log_len }
    }

    /// The superblock that records these positions.
    pub(crate) fn superblock(&self, identity: [u8; 16]) -> Superblock {
        Superblock {
            sequence: 1,
            identity,
            max: Length::new(self.max),
            addresses: if self.addresses == self.max { 0 } else { self.addresses },
            features: if self.addresses == self.max { 0 } else { FEATURE_ADDRESSES },
            cluster: Length::new(CLUSTER),
            table_at: Offset::new(self.table_at),
            table_slots: SLOTS,
            bitmap_at: Offset::new(self.space.bitmap_at),
            used_at: Offset::new(self.space.used_at),
            bitmap_len: Length::new(self.space.bitmap_len),
            log_at: Offset::new(self.log_at),
            log_len: Length::new(self.log_len),
            spans_at: Offset::new(self.spans_at),
            ..Superblock::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_store_and_the_default_one() {
        let tiny = Plan::new(1 << 20, 64 << 10).unwrap();
        assert_eq!((tiny.space.bitmap_at, tiny.log_at, tiny.spans_at), (80 << 10, 88 << 10, 192 << 10));
        let usual = Plan::new(4 << 40, 64 << 20).unwrap();
        let bitmap = Bitmap::new(usual.space.bitmap_at, usual.space.bitmap_len);
        assert!((16 << 40..(16 << 40) + (2 << 30)).contains(&bitmap.capacity()), "room to grow to 16 TiB");
        assert!(usual.spans_at < 160 << 20);
    }

    #[test]
    fn several_spans_for_the_whole_maximum_have_addresses() {
        for max in [1 << 20, 100 << 20, 1 << 30, 3 << 38, 1 << 40, 12 << 40] {
            let plan = Plan::spacious(max, 256 << 20).unwrap();
            assert!(
                plan.addresses >= 4 * plan.max.next_power_of_two() && plan.spans_at <= plan.max.next_power_of_two()
            );
            assert!(plan.log_len <= max / 16 && plan.max == max);
        }
        assert_eq!(Plan::spacious(1 << 46, 0).unwrap().addresses, 1 << 46, "there are no more");
        assert!(Plan::spacious(256 << 10, 0).is_err());
    }

    #[test]
    fn sizes_that_cannot_be_are_refused_with_what_would_do() {
        for (max, log) in [(0, 0), (128 << 10, 0), (1 << 20, 1 << 20), (u64::MAX, 0), (1 << 40, u64::MAX)] {
            let error = Plan::new(max, log).unwrap_err();
            assert!(matches!(error, Error::BadOption { .. }), "{error}");
        }
        assert!(Plan::new(192 << 10, 0).is_ok());
    }
}
