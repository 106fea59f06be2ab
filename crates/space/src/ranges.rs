//! Ranges that never overlap, each with something known of it.

use std::collections::BTreeMap;
use std::ops::Range;

/// By their start: their end, and what is known.
pub(crate) struct Ranges<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Ranges<T> {
    fn default() -> Ranges<T> {
        Ranges(BTreeMap::new())
    }
}

impl<T: Copy> Ranges<T> {
    /// Adds a range; what was known of parts of it is known no more.
    pub(crate) fn add(&mut self, range: Range<u64>, known: T) {
        self.cut(&range);
        if !range.is_empty() {
            self.0.insert(range.start, (range.end, known));
        }
    }

    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, T)> {
        let below = self.0.range(..range.end).rev().map(|(&start, &(end, known))| (start..end, known));
        let empty = range.is_empty();
        below.take_while(move |(found, _)| !empty && found.end > range.start)
    }

    /// Whether any of these bytes is in.
    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        self.overlapping(range).next().is_some()
    }

    /// What lies in `range`, in order.
    pub(crate) fn within(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.parts(range).into_iter().map(|(part, _)| part).collect()
    }

    fn parts(&self, range: &Range<u64>) -> Vec<(Range<u64>, T)> {
        let inside = |(whole, known): (Range<u64>, T)| (whole.start.max(range.start)..whole.end.min(range.end), known);
        let mut found: Vec<_> = self.overlapping(range).map(inside).collect();
        found.reverse();
        found
    }

    /// Takes out what lies in `range`, and what is known of it; what sticks out of it stays. In
    /// order.
    pub(crate) fn cut(&mut self, range: &Range<u64>) -> Vec<(Range<u64>, T)> {
        let inside = self.parts(range);
        let found: Vec<_> = self.overlapping(range).collect();
        for (whole, known) in found {
            self.0.remove(&whole.start);
            for rest in [whole.start..range.start, range.end..whole.end].into_iter().filter(|rest| !rest.is_empty()) {
                self.0.insert(rest.start, (rest.end, known));
            }
        }
        inside
    }

    /// Takes out all that `may` be. In order.
    pub(crate) fn take(&mut self, mut may: impl FnMut(T) -> bool) -> Vec<Range<u64>> {
        let ready = self.0.iter().filter(|(_, (_, known))| may(*known)).map(|(&start, &(end, _))| start..end);
        let ready: Vec<_> = ready.collect();
        for range in &ready {
            self.0.remove(&range.start);
        }
        ready
    }

    /// Takes out the lowest bytes that `may` be, `most` at once.
    pub(crate) fn take_some(&mut self, most: u64, mut may: impl FnMut(T) -> bool) -> Option<Range<u64>> {
        let (&start, &(end, _)) = self.0.iter().find(|(_, (_, known))| may(*known))?;
        let some = start..end.min(start + most);
        self.cut(&some);
        Some(some)
    }

    /// Where the lowest begins.
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of(|_| true)
    }

    /// Bytes of what `may` be.
    pub(crate) fn bytes_of(&self, may: impl Fn(T) -> bool) -> u64 {
        self.0.iter().filter(|(_, (_, known))| may(*known)).map(|(start, (end, _))| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_used_again_is_cut_out() {
        let mut ranges = Ranges::default();
        ranges.add(0..100, 'a');
        ranges.add(200..300, 'b');
        let cut = [50..60, 90..210, 250..400].map(|range| ranges.cut(&range));
        assert_eq!(cut.concat(), [(50..60, 'a'), (90..100, 'a'), (200..210, 'b'), (250..300, 'b')]);
        assert_eq!(ranges.bytes(), 50 + 30 + 40);
        assert_eq!(ranges.take_some(20, |known| known == 'a'), Some(0..20));
        let taken = [ranges.take(|known| known == 'b'), ranges.take(|_| true)];
        assert_eq!(taken.concat(), [210..250, 20..50, 60..90]);
        assert_eq!(ranges.bytes(), 0);
    }

    proptest! {
        /// They agree with a plain list of bytes after every change.
        #[test]
        fn agree_with_bytes(changes in prop::collection::vec((0u64..40, 0u64..20, prop::option::of(0u8..3)), 1..40)) {
            let (mut ranges, mut plain) = (Ranges::default(), [None; 64]);
            for (start, len, known) in changes {
                let (range, bytes) = (start..start + len, start as usize..(start + len) as usize);
                prop_assert_eq!(ranges.overlaps(&range), plain[bytes.clone()].iter().any(Option::is_some));
                let inside = plain[bytes.clone()].iter().flatten().count() as u64;
                match known {
                    Some(known) => ranges.add(range, known),
                    None => prop_assert_eq!(ranges.cut(&range).iter().map(|(part, _)| part.end - part.start).sum::<u64>(), inside),
                }
                plain[bytes].fill(known);
                prop_assert_eq!(ranges.bytes(), plain.iter().flatten().count() as u64);
            }
            for known in 0..3 {
                let bytes = ranges.take(|found| found == known).into_iter().flatten().map(|at| at as usize);
                let found: Vec<_> = bytes.collect();
                let expected: Vec<_> = (0..64).filter(|&at| plain[at] == Some(known)).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
