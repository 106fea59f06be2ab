//! A bitmap on media: one bit for each cluster of the store, from offset 0, in sealed words.
//!
//! A word carries 48 bits and their check, so that a change is one 8-byte store and a flipped bit
//! is found before it is used: a lost bit would hand out a cluster twice. A word of zeros has no
//! bit set. The bitmap's pages are part of the sparse file: a page is backed before its first bit
//! is set, and a page that was never backed reads as clear. Opening a store never scans it.
//!
//! A page that is a hole is not loaded: on memory the load would take file space for it, and kill
//! the process if there is none. The file system tells whether a page is a hole; once it is not,
//! the answer is remembered, since a page of a bitmap never becomes a hole again.
//!
//! Invariants
//!   SPACE-1  A page of the bitmap is backed, and its words are found good, before a bit in it is
//!            set.
//!   SPACE-7  A word of the bitmap is loaded only where its page is known to be backed, or the
//!            media has no holes.
//!
//! Threads: changes are made under the lock of [`crate::Space`]; reads may run at any time, and see
//! each word whole.

use crate::{CLUSTER, Result, error::Error};
use everbyte_media::sealed::{seal, unseal};
use everbyte_media::{Damage, Length, Media, Offset};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = 4096;
/// Bits in a word; the other 16 check them.
const BITS: u64 = 48;
/// Bytes of the store whose clusters have their bits in one word.
const WORD_COVERS: u64 = BITS * CLUSTER;
/// Bytes of the store whose clusters have their bits in one page: 1.5 GiB.
pub(crate) const PAGE_COVERS: u64 = PAGE / 8 * WORD_COVERS;
const FULL: u64 = (1 << BITS) - 1;

/// A bitmap of clusters at a fixed place of the store.
#[derive(Clone, Debug)]
pub struct Bitmap {
    at: u64,
    len: u64,
    /// One bit for each page of the bitmap that is known to be no hole.
    known: Arc<[AtomicU64]>,
}

/// Pages that are remembered as known at most: those for the first 96 TiB. The file system is
/// asked about other pages every time.
const KNOWN: u64 = 1 << 16;

/// The words of a bitmap, for one walk, which asks once about a page that is a hole.
struct BitmapWords<'b> {
    bitmap: &'b Bitmap,
    media: &'b Media,
    hole: Option<u64>,
}

impl BitmapWords<'_> {
    /// The bits of a word: clear if its page was never backed, `None` if the word is damaged.
    fn bits(&mut self, index: u64) -> Option<u64> {
        match self.word(index) {
            None | Some(0) => Some(0),
            Some(word) => unseal(word).map(|value| value >> 16),
        }
    }

    /// A word with its check bits; `None` if its page was never backed (SPACE-7).
    fn word(&mut self, index: u64) -> Option<u64> {
        let (at, page) = (self.bitmap.word_at(index), index * 8 / PAGE);
        if index * 8 >= self.bitmap.len || !self.media.holds(at, 8) || self.hole == Some(page) {
            return None;
        }
        if !self.bitmap.is_known(page) {
            if self.media.is_hole(self.bitmap.at + page * PAGE, PAGE) {
                self.hole = Some(page);
                return None;
            }
            self.bitmap.set_known(page);
        }
        Some(self.media.load(at))
    }
}

impl Bitmap {
    /// The bitmap in `at..at+len`, both multiples of 4096.
    pub fn new(at: impl Into<Offset>, len: impl Into<Length>) -> Bitmap {
        let (at, len) = (at.into().get(), len.into().get());
        assert!(at.is_multiple_of(PAGE) && len.is_multiple_of(PAGE), "a bitmap is whole pages");
        let words = (len / PAGE).min(KNOWN).div_ceil(64);
        Bitmap { at, len, known: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    fn is_known(&self, page: u64) -> bool {
        let word = self.known.get((page / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (page % 64) & 1 == 1)
    }

    fn set_known(&self, page: u64) {
        if let Some(word) = self.known.get((page / 64) as usize) {
            word.fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
    }

    /// Records that the file system has given space for a page of the bitmap.
    pub(crate) fn set_page_backed(&self, page: &Range<u64>) {
        self.set_known((page.start - self.at) / PAGE);
    }

    fn words<'b>(&'b self, media: &'b Media) -> BitmapWords<'b> {
        BitmapWords { bitmap: self, media, hole: None }
    }

    /// Bytes of a bitmap with bits for at least `capacity` bytes of store.
    pub fn len_for(capacity: u64) -> u64 {
        capacity.div_ceil(PAGE_COVERS) * PAGE
    }

    /// Bytes of store that it has bits for.
    pub fn capacity(&self) -> u64 {
        Bitmap::capacity_of(self.len)
    }

    /// Bytes of store that a bitmap of `len` bytes has bits for.
    pub fn capacity_of(len: impl Into<Length>) -> u64 {
        let len = len.into().get();
        (len / 8).saturating_mul(WORD_COVERS)
    }

    /// The pages of the bitmap itself with the bits of `range`.
    pub(crate) fn pages(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let first = range.start / PAGE_COVERS;
        let end = range.end.div_ceil(PAGE_COVERS);
        let at = self.at;
        (first..end).map(move |page| at + page * PAGE..at + (page + 1) * PAGE)
    }

    fn word_at(&self, index: u64) -> u64 {
        self.at + index * 8
    }

    /// Whether the bit of the cluster that holds `at` is set; the bits of a damaged word count as
    /// set, so that none of its clusters is handed out.
    pub fn test(&self, media: &Media, at: impl Into<Offset>) -> bool {
        let at = at.into().get();
        let bit = at / CLUSTER;
        self.words(media).bits(bit / BITS).is_none_or(|bits| bits >> (bit % BITS) & 1 == 1)
    }

    /// The offsets of damaged words with bits of `range`.
    pub fn damaged(&self, media: &Media, range: Range<u64>) -> Vec<u64> {
        let mut found = self.words(media);
        let bad = words(&range).filter(|(index, _)| found.bits(*index).is_none());
        bad.map(|(index, _)| self.word_at(index)).collect()
    }

    /// Refuses a range with bits in a damaged word.
    pub(crate) fn require_good(&self, media: &Media, range: &Range<u64>) -> Result<()> {
        match self.damaged(media, range.clone()).first() {
            None => Ok(()),
            Some(&at) => Err(Error::from(Damage::at(at, "the bitmap of clusters").of_file(media.path()))),
        }
    }

    /// Sets or clears the clusters of `range` and flushes; no fence. Damaged words are left for
    /// `check` to report.
    pub(crate) fn change(&self, media: &Media, range: &Range<u64>, set: bool) {
        assert!(range.end <= self.capacity(), "SPACE-1: {range:x?} is beyond the capacity of the bitmap");
        let mut found = self.words(media);
        for (index, mask) in words(range) {
            let Some(old) = found.bits(index) else { continue };
            let new = if set { old | mask } else { old & !mask };
            let at = self.word_at(index);
            if new != old {
                media.store(at, seal(new << 16));
                media.flush(at, 8);
            } else if found.word(index).is_some() {
                // the bits agree, but a process that died may have left them in the caches
                media.reflush(at, 8);
            }
        }
    }

    /// Flushes the words with the bits of `range` again: a process that died may have left them in
    /// the caches. The caller fences.
    pub fn reflush(&self, media: &Media, range: &Range<u64>) {
        let reflush_some = |some: Range<u64>| {
            if !some.is_empty() {
                media.reflush(some.start, some.end - some.start);
            }
        };
        let (mut found, mut pending) = (self.words(media), 0..0);
        for (index, _) in words(range) {
            if found.word(index).is_none() {
                continue;
            }
            let at = self.word_at(index);
            if pending.end != at {
                reflush_some(pending);
                pending = at..at;
            }
            pending.end = at + 8;
        }
        reflush_some(pending);
    }

    /// One past the last cluster of `range` whose bit is set, or the start of `range`; clusters of
    /// a damaged word count as set. Reads the words from the end of `range` down to that cluster.
    pub fn end(&self, media: &Media, range: Range<u64>) -> u64 {
        let chunks = (range.start / PAGE_COVERS..range.end.div_ceil(PAGE_COVERS)).rev();
        let mut ends = chunks.filter_map(|page| {
            let page = (page * PAGE_COVERS).max(range.start)..((page + 1) * PAGE_COVERS).min(range.end);
            self.set_runs(media, page).last().map(|run| run.end)
        });
        ends.next().unwrap_or(range.start)
    }

    /// The runs of clusters within `range` whose bits are set, in order, as ranges of store
    /// offsets. Clusters of a damaged word count as set.
    pub fn set_runs(&self, media: &Media, range: Range<u64>) -> Vec<Range<u64>> {
        self.runs(media, range, true)
    }

    /// The runs of clusters within `range` whose bits are clear, as [`Bitmap::set_runs`].
    pub fn clear_runs(&self, media: &Media, range: Range<u64>) -> Vec<Range<u64>> {
        self.runs(media, range, false)
    }

    fn runs(&self, media: &Media, range: Range<u64>, set: bool) -> Vec<Range<u64>> {
        let (mut runs, mut found): (Vec<Range<u64>>, _) = (Vec::new(), self.words(media));
        for (index, mask) in words(&range) {
            let bits = found.bits(index).unwrap_or(FULL);
            let mut hits = mask & if set { bits } else { !bits };
            while hits != 0 {
                let first = hits.trailing_zeros();
                let count = (hits >> first).trailing_ones();
                let start = index * WORD_COVERS + u64::from(first) * CLUSTER;
                let end = start + u64::from(count) * CLUSTER;
                match runs.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => runs.push(start..end),
                }
                hits &= u64::MAX << (first + count); // at most bit 48: the upper 16 are never hit
            }
        }
        runs
    }
}

/// The words with the bits of `range`, each with a mask of these bits.
fn words(range: &Range<u64>) -> impl Iterator<Item = (u64, u64)> + use<> {
    let whole = range.start.is_multiple_of(CLUSTER) && range.end.is_multiple_of(CLUSTER);
    assert!(whole, "a bit is for a whole cluster: {range:x?}");
    let (first, end) = (range.start / CLUSTER, range.end / CLUSTER);
    let last_word = if first < end { end.div_ceil(BITS) } else { first / BITS };
    (first / BITS..last_word).map(move |index| {
        let low = first.max(index * BITS) - index * BITS;
        let high = end.min(index * BITS + BITS) - index * BITS;
        let mask = (FULL << low) & (FULL >> (BITS - high));
        (index, mask)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::Options;
    use proptest::prelude::*;

    const AT: u64 = 64 << 10;

    fn bitmap() -> (Media, Bitmap) {
        (Media::anonymous(1 << 20, &Options::default()).unwrap(), Bitmap::new(AT, 4096))
    }

    proptest! {
        /// The bitmap agrees with a plain set of clusters after every change.
        #[test]
        fn agrees_with_a_set(changes in prop::collection::vec((0u64..300, 0u64..140, any::<bool>()), 1..40)) {
            let (media, bitmap) = bitmap();
            let mut plain = [false; 512];
            for (first, count, set) in changes {
                bitmap.change(&media, &(first * CLUSTER..(first + count) * CLUSTER), set);
                plain[first as usize..(first + count) as usize].fill(set);
                for (cluster, &is) in plain.iter().enumerate() {
                    prop_assert_eq!(bitmap.test(&media, cluster as u64 * CLUSTER), is);
                }
                for set in [true, false] {
                    let runs = bitmap.runs(&media, 0..512 * CLUSTER, set);
                    let mut from_runs = [!set; 512];
                    for run in &runs {
                        from_runs[(run.start / CLUSTER) as usize..(run.end / CLUSTER) as usize].fill(set);
                    }
                    prop_assert_eq!(from_runs, plain);
                    prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
                    let end = runs.last().map_or(0, |run| run.end);
                    prop_assert!(!set || bitmap.end(&media, 0..512 * CLUSTER) == end);
                }
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_found_and_its_clusters_count_as_taken() {
        let (media, bitmap) = bitmap();
        bitmap.change(&media, &(3 * CLUSTER..5 * CLUSTER), true);
        for (index, bit) in (0..64).flat_map(|bit| [(0, bit), (1, bit)]) {
            let at = AT + index * 8;
            let good = media.load(at);
            media.store(at, good ^ 1 << bit);
            assert_eq!(bitmap.damaged(&media, 0..bitmap.capacity()), [at], "bit {bit} of word {index}");
            let first = index * WORD_COVERS;
            assert!(bitmap.test(&media, first) && bitmap.test(&media, first + WORD_COVERS - 1));
            assert!(bitmap.require_good(&media, &(first..first + CLUSTER)).is_err());
            assert!(bitmap.clear_runs(&media, first..first + WORD_COVERS).is_empty());
            media.store(at, good);
        }
        assert!(bitmap.damaged(&media, 0..bitmap.capacity()).is_empty());
    }
}
