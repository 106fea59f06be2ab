//! Released ranges that wait for their checkpoint before they become holes in the file.

use everbyte_media::Mark;
use std::ops::Range;

/// Ranges with the mark that must be checkpointed before they may be punched; they never overlap.
#[derive(Default)]
pub(crate) struct Holes {
    waiting: Vec<(Range<u64>, Mark)>,
}

impl Holes {
    pub(crate) fn add(&mut self, range: Range<u64>, mark: Mark) {
        self.remove(&range);
        self.waiting.push((range, mark));
    }

    /// `range` is to be used again: it must not be punched any more.
    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        let mut rest = Vec::with_capacity(self.waiting.len() + 1);
        for (hole, mark) in self.waiting.drain(..) {
            if hole.end <= range.start || range.end <= hole.start {
                rest.push((hole, mark));
                continue;
            }
            if hole.start < range.start {
                rest.push((hole.start..range.start, mark));
            }
            if range.end < hole.end {
                rest.push((range.end..hole.end, mark));
            }
        }
        self.waiting = rest;
    }

    /// Takes out what may be punched now.
    pub(crate) fn take(&mut self, mut may: impl FnMut(Mark) -> bool) -> Vec<Range<u64>> {
        let (ready, rest): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|(_, mark)| may(*mark));
        self.waiting = rest;
        ready.into_iter().map(|(range, _)| range).collect()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.waiting.iter().map(|(range, _)| range.end - range.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::{Media, Options};

    #[test]
    fn what_is_used_again_is_cut_out() {
        let mark = Media::anonymous(4096, &Options::default()).unwrap().mark();
        let mut holes = Holes::default();
        holes.add(0..100, mark);
        holes.add(200..300, mark);
        holes.remove(&(50..60));
        holes.remove(&(90..210));
        holes.remove(&(250..400));
        assert_eq!(holes.bytes(), 50 + 30 + 40);
        assert_eq!(holes.take(|_| true), [0..50, 60..90, 210..250]);
        assert_eq!(holes.bytes(), 0);
    }
}
