//! Times of commands: a histogram whose ranges double, each cut into 16 equal parts.
//!
//! The ends of the ranges are those of Redis's LATENCY HISTOGRAM: 33 / 32 of a microsecond, and its
//! doubles. A percentile is the end of the part that holds it, at most a sixteenth above the true
//! one.
//!
//! Threads: the event loop alone.

use std::time::Duration;

/// Ranges of times; a longer time counts in the last one.
pub(crate) const RANGES: usize = 32;
/// Equal parts of a range.
const PARTS: usize = 16;
/// Nanoseconds of 512 parts of the first range.
const UNIT: u64 = 33_000;

/// See the head of this file.
#[derive(Clone)]
pub(crate) struct Times {
    counts: [u64; RANGES * PARTS],
    /// The sum of all times in nanoseconds.
    total: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { counts: [0; RANGES * PARTS], total: 0 }
    }
}

/// The part of a time.
fn part_of(nanoseconds: u64) -> usize {
    let before = nanoseconds.saturating_mul(512).div_ceil(UNIT).saturating_sub(1);
    let exponent = before.checked_ilog2().unwrap_or(0);
    if exponent < PARTS.ilog2() {
        return before as usize;
    }
    let shift = exponent - PARTS.ilog2();
    let (range, part) = (shift as usize + 1, (before >> shift) as usize % PARTS);
    if range < RANGES { range * PARTS + part } else { RANGES * PARTS - 1 }
}

/// The end of a part in nanoseconds.
fn part_end(part: usize) -> u64 {
    let (range, part) = (part / PARTS, (part % PARTS) as u64);
    let units = if range == 0 { part + 1 } else { (PARTS as u64 + part + 1) << (range - 1) };
    units * UNIT / 512
}

/// The end of a range in microseconds.
pub(crate) fn range_end(range: usize) -> u64 {
    (33 << range) / 32
}

/// The end of a range in seconds.
pub(crate) fn range_end_seconds(range: usize) -> f64 {
    (33_u64 << range) as f64 / 32e6
}

impl Times {
    /// Counts a time.
    pub(crate) fn add(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[part_of(nanoseconds)] += 1;
        self.total = self.total.saturating_add(nanoseconds);
    }

    /// Adds the times of another loop.
    pub(crate) fn absorb(&mut self, other: &Times) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.total = self.total.saturating_add(other.total);
    }

    /// How many were counted.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all in nanoseconds.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// How many fell into each range.
    pub(crate) fn ranges(&self) -> [u64; RANGES] {
        std::array::from_fn(|range| self.counts[range * PARTS..(range + 1) * PARTS].iter().sum())
    }

    /// The time in nanoseconds that so many in a hundred do not exceed; 0 where none was counted.
    pub(crate) fn percentile(&self, percent: f64) -> u64 {
        let wanted = ((percent / 100.0 * self.count() as f64).ceil() as u64).max(1);
        let mut sum = 0;
        let part = self.counts.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        part.map_or(0, part_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_ranges_whose_ends_double() {
        for (nanoseconds, end) in [(0, 1), (1031, 1), (1032, 2), (16_000, 16), (17_000, 33), (1_000_000, 1056)] {
            let mut times = Times::default();
            times.add(Duration::from_nanos(nanoseconds));
            let range = times.ranges().iter().position(|count| *count == 1).unwrap();
            assert_eq!(range_end(range), end, "{nanoseconds}");
        }
        assert_eq!(part_of(u64::MAX), RANGES * PARTS - 1);
        let mut times = Times::default();
        [Duration::MAX, Duration::MAX].into_iter().for_each(|time| times.add(time));
        assert_eq!((times.ranges()[RANGES - 1], times.total()), (2, u64::MAX));
    }

    /// Each part follows on the one before it, and no end lies more than a sixteenth above a time
    /// of its part.
    #[test]
    fn parts_are_narrow_and_leave_no_gap() {
        for part in 0..RANGES * PARTS - 1 {
            let end = part_end(part);
            assert_eq!((part_of(end), part_of(end + 1)), (part, part + 1), "{end}");
            assert!(part < PARTS || part_end(part + 1) - end <= end / 16 + 1, "{end}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_counted_times() {
        let mut times = Times::default();
        assert_eq!(times.percentile(50.0), 0);
        (1..=1000).for_each(|microseconds| times.add(Duration::from_micros(microseconds)));
        for (percent, least) in [(0.0, 1000), (50.0, 500_000), (99.0, 990_000), (99.9, 999_000), (100.0, 1_000_000)] {
            let found = times.percentile(percent);
            assert!((least..=least + least / 16).contains(&found), "p{percent}: {found}");
        }
        assert_eq!(times.count(), 1000);
    }
}
