//! Spans: the addresses an owner may ever use. A span is a power of two and self-aligned, so that "whose is this
//! address" is one mask, and reserving one costs nothing until it is backed.

use crate::CLUSTER;
use std::ops::Range;

/// A reserved range of addresses: `len` is a power of two of at least one cluster, `at` a multiple of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    at: u64,
    len: u64,
}

impl Span {
    /// The span `at..at+len`, if that is one. For numbers that come from media.
    pub fn new(at: u64, len: u64) -> Option<Span> {
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
    pub fn holds(self, at: u64, len: u64) -> bool {
        at >= self.at && at.checked_add(len).is_some_and(|end| end <= self.end())
    }

    /// Whether the two share an address.
    pub fn overlaps(self, other: Span) -> bool {
        self.at < other.end() && other.at < self.end()
    }
}

/// The lowest free span of `len` bytes within `within`, given those taken. `None`: there is none.
///
/// # Panics
/// If `len` is not a power of two of at least one cluster.
pub fn choose_span(within: Range<u64>, taken: &[Span], len: u64) -> Option<Span> {
    assert!(len.is_power_of_two() && len >= CLUSTER, "a span is a power of two of at least {CLUSTER} bytes: {len}");
    let mut at = within.start.checked_next_multiple_of(len)?;
    loop {
        let span = Span::new(at, len).filter(|span| span.end() <= within.end)?;
        match taken.iter().filter(|other| other.overlaps(span)).map(|other| other.end()).max() {
            None => return Some(span),
            Some(end) => at = end.checked_next_multiple_of(len)?,
        }
    }
}

/// The largest free span within `within`; the lowest of equals.
pub fn choose_largest(within: Range<u64>, taken: &[Span]) -> Option<Span> {
    let size = within.end.checked_sub(within.start)?;
    let top = size.checked_ilog2()?;
    (CLUSTER.ilog2()..=top).rev().find_map(|bits| choose_span(within.clone(), taken, 1 << bits))
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
        let mut taken = vec![];
        let mut sizes = vec![];
        while let Some(span) = choose_largest(within.clone(), &taken) {
            sizes.push(span.len() >> 10);
            taken.push(span);
        }
        assert_eq!(sizes, [2048, 1024, 512, 256, 64]);
    }

    proptest! {
        /// Chosen spans never overlap and lie within; a refusal means that really no place is left.
        #[test]
        fn choices_are_free(start in 0u64..100, sizes in prop::collection::vec(0u32..7, 1..60)) {
            let within = start * CLUSTER..(256 * CLUSTER);
            let mut taken: Vec<Span> = vec![];
            for bits in sizes {
                let len = CLUSTER << bits;
                match choose_span(within.clone(), &taken, len) {
                    Some(span) => {
                        prop_assert!(span.at() >= within.start && span.end() <= within.end);
                        prop_assert!(taken.iter().all(|other| !other.overlaps(span)));
                        taken.push(span);
                    }
                    None => {
                        for at in (0..within.end).step_by(len as usize) {
                            let span = Span::new(at, len).unwrap();
                            prop_assert!(at < within.start || span.end() > within.end || taken.iter().any(|o| o.overlaps(span)));
                        }
                    }
                }
            }
        }
    }
}
