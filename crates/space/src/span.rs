//! Spans: the addresses that an owner may ever use. A span is a power of two and self-aligned, so
//! one mask finds the owner of an address. A span costs nothing until it is backed.

use crate::CLUSTER;
use everbyte_media::{Length, Offset};
use std::collections::BTreeMap;
use std::ops::Range;

/// A reserved range of addresses: `len` is a power of two of at least one cluster, `at` a multiple
/// of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    at: u64,
    len: u64,
}

impl Span {
    /// The span `at..at+len`, if these numbers make one. For numbers that come from media.
    pub fn new(at: impl Into<Offset>, len: impl Into<Length>) -> Option<Span> {
        let (at, len) = (at.into().get(), len.into().get());
        let good = len.is_power_of_two() && len >= CLUSTER && at.is_multiple_of(len) && at.checked_add(len).is_some();
        good.then_some(Span { at, len })
    }

    /// Its first address: the prime page of its owner.
    pub fn at(self) -> u64 {
        self.at
    }

    /// Its size in bytes.
    #[allow(clippy::len_without_is_empty)] // a span is never empty
    pub fn len(self) -> u64 {
        self.len
    }

    /// One past its last address.
    pub fn end(self) -> u64 {
        self.at + self.len
    }

    /// Its addresses.
    pub fn range(self) -> Range<u64> {
        self.at..self.end()
    }

    /// Whether `at..at+len` lies inside.
    pub fn holds(self, at: impl Into<Offset>, len: impl Into<Length>) -> bool {
        let (at, len) = (at.into().get(), len.into().get());
        at >= self.at && at.checked_add(len).is_some_and(|end| end <= self.end())
    }

    /// Whether the two share an address.
    pub fn overlaps(self, other: Span) -> bool {
        self.at < other.end() && other.at < self.end()
    }
}

/// The taken spans, in order of address, and the place of the lowest free one by size, so that the
/// cost of a choice does not grow with their number.
#[derive(Clone, Debug)]
pub struct Spans {
    /// Start and size of each.
    taken: BTreeMap<u64, u64>,
    /// By the logarithm of a size: below this address no span of that size is free.
    from: [u64; 64],
}

impl Default for Spans {
    fn default() -> Spans {
        Spans { taken: BTreeMap::new(), from: [0; 64] }
    }
}

impl Spans {
    /// Takes a span.
    ///
    /// # Errors
    /// The start of a taken span that overlaps it; nothing has changed.
    pub fn insert(&mut self, span: Span) -> Result<(), u64> {
        if let Some(other) = self.overlapping(span) {
            return Err(other.at);
        }
        self.taken.insert(span.at, span.len);
        Ok(())
    }

    /// Gives a span back that was taken.
    pub fn remove(&mut self, span: Span) {
        self.taken.remove(&span.at);
        for (bits, from) in self.from.iter_mut().enumerate() {
            *from = (*from).min(span.at >> bits << bits);
        }
    }

    /// The highest span taken that shares an address with `span`.
    fn overlapping(&self, span: Span) -> Option<Span> {
        let (&at, &len) = self.taken.range(..span.end()).next_back()?;
        Some(Span { at, len }).filter(|other| other.overlaps(span))
    }

    /// The lowest free span of `len` bytes within `within`. `None`: there is none. `within.start`
    /// is always the same.
    ///
    /// # Panics
    /// If `len` is not a power of two of at least one cluster.
    pub fn choose(&mut self, within: Range<u64>, len: impl Into<Length>) -> Option<Span> {
        let len = len.into().get();
        assert!(len.is_power_of_two() && len >= CLUSTER, "a span is a power of two of at least {CLUSTER} bytes: {len}");
        let bits = len.ilog2() as usize;
        let mut at = within.start.max(self.from[bits]).checked_next_multiple_of(len)?;
        loop {
            let span = Span::new(at, len).filter(|span| span.end() <= within.end)?;
            self.from[bits] = at;
            match self.overlapping(span) {
                None => return Some(span),
                Some(other) => at = other.end().checked_next_multiple_of(len)?,
            }
        }
    }

    /// The largest free span within `within`; the lowest of equals.
    pub fn choose_largest(&mut self, within: Range<u64>) -> Option<Span> {
        let size = within.end.checked_sub(within.start)?;
        let top = size.checked_ilog2()?;
        (CLUSTER.ilog2()..=top).rev().find_map(|bits| self.choose(within.clone(), 1 << bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_self_aligned_powers_of_two_are_spans() {
        assert!(Span::new(0x20000, 0x20000).is_some());
        for (at, len) in [(0x10000, 0x20000), (0, 0x8000), (0, 0x30000), (0, 0), (1 << 63, 1 << 63), (8, 0x10000)] {
            assert_eq!(Span::new(at, len), None, "{at:#x} + {len:#x}");
        }
    }

    #[test]
    fn the_largest_is_half_of_the_store_then_half_of_the_rest() {
        let within = 192 << 10..4 << 20;
        let mut spans = Spans::default();
        let mut sizes = vec![];
        while let Some(span) = spans.choose_largest(within.clone()) {
            sizes.push(span.len() >> 10);
            spans.insert(span).unwrap();
        }
        assert_eq!(sizes, [2048, 1024, 512, 256, 64]);
    }

    proptest! {
        /// Chosen spans are free, the lowest, and within; a refusal means that really no place is
        /// left. Spans given back are chosen again.
        #[test]
        fn choices_are_free_and_the_lowest(
            start in 0u64..100,
            changes in prop::collection::vec((0u32..7, prop::option::weighted(0.3, any::<prop::sample::Index>())), 1..60),
        ) {
            let within = start * CLUSTER..(256 * CLUSTER);
            let mut spans = Spans::default();
            let mut taken: Vec<Span> = vec![];
            for (bits, back) in changes {
                if let (Some(back), false) = (back, taken.is_empty()) {
                    spans.remove(taken.swap_remove(back.index(taken.len())));
                }
                let len = CLUSTER << bits;
                let fits = |at: u64| {
                    let span = Span::new(at, len).filter(|span| at >= within.start && span.end() <= within.end);
                    span.filter(|span| taken.iter().all(|other| !other.overlaps(*span)))
                };
                let lowest = (0..within.end).step_by(len as usize).find_map(fits);
                prop_assert_eq!(spans.choose(within.clone(), len), lowest);
                if let Some(span) = lowest {
                    prop_assert_eq!(spans.insert(span), Ok(()));
                    prop_assert_eq!(spans.insert(span), Err(span.at()));
                    taken.push(span);
                }
            }
        }
    }
}
