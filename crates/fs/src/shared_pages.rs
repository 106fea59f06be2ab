//! [`SharedPages`]: pages that several extents lead to, and how many others, in memory alone.
//!
//! Runs of pages with the same number. The runs are made anew at each opening, from the extents
//! that have the flag [`crate::layout::PLACE_SHARED`].
//!
//! Invariants
//!   FS-20  A page that several extents lead to is never stored to, and is freed with the last of
//!          them. All of these extents have the flag; one that has it may be alone.
//!   FS-21  An extent has the flag on media before another one leads to its pages: a fence lies
//!          between.
//!
//! Only the owner of a file's lock shares the file's pages. So a page that has one extent keeps it
//! while the lock of that file is held.

use std::collections::BTreeMap;

/// Pages with more than one extent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedPages {
    /// By first page: the length of a run, and a number, which is never 0.
    runs: BTreeMap<u64, (u64, u32)>,
}

impl SharedPages {
    /// Whether no page is shared.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs: first page, length, number.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        self.runs.iter().map(|(&first, &(len, number))| (first, len, number))
    }

    /// Runs that were saved. `None` if they are not in order, or lie behind `end`.
    pub(crate) fn saved(runs: &[(u64, u64, u64)], end: u64) -> Option<SharedPages> {
        let (mut shared, mut next) = (SharedPages::default(), 0);
        for &(first, len, number) in runs {
            let number = u32::try_from(number).ok().filter(|&number| number > 0)?;
            if first < next || len == 0 || len > end.checked_sub(first)? {
                return None;
            }
            next = first + len;
            shared.runs.insert(first, (len, number));
        }
        Some(shared)
    }

    /// The number of a page.
    pub(crate) fn of(&self, page: u64) -> u32 {
        let run = self.runs.range(..=page).next_back().filter(|(first, (len, _))| page < *first + len);
        run.map_or(0, |(_, &(_, number))| number)
    }

    /// The pages `first..first + count` as runs with one number each: first page, length, number.
    pub(crate) fn parts(&self, first: u64, count: u64) -> Vec<(u64, u64, u32)> {
        let end = first + count;
        let before = self.runs.range(..first).next_back();
        let mut parts = Vec::new();
        let mut next = first;
        for (&at, &(len, number)) in before.into_iter().chain(self.runs.range(first..end)) {
            let (from, to) = (at.max(next), (at + len).min(end));
            if from < to {
                parts.push((next, from - next, 0));
                parts.push((from, to - from, number));
                next = to;
            }
        }
        parts.push((next, end - next, 0));
        parts.retain(|&(_, len, _)| len > 0);
        parts
    }

    /// One extent more leads to these pages.
    pub(crate) fn raise(&mut self, first: u64, count: u64) {
        for (at, len, number) in self.cut_out(first, count) {
            self.runs.insert(at, (len, number + 1));
        }
        self.join(first, count);
    }

    /// One extent less leads to these pages.
    ///
    /// # Panics
    /// FS-20: if one of them has no other extent.
    pub(crate) fn lower(&mut self, first: u64, count: u64) {
        for (at, len, number) in self.cut_out(first, count) {
            assert!(number > 0, "FS-20: page {at} has one extent");
            if number > 1 {
                self.runs.insert(at, (len, number - 1));
            }
        }
        self.join(first, count);
    }

    /// Every page with a number has one less: the numbers counted all extents, and now others.
    pub(crate) fn lower_all(&mut self) {
        self.runs.retain(|_, (_, number)| *number > 1);
        self.runs.values_mut().for_each(|(_, number)| *number -= 1);
    }

    /// The number of pages that these extents would take if none were shared.
    pub(crate) fn total(&self) -> u64 {
        self.runs.values().map(|&(len, number)| len * u64::from(number)).sum()
    }

    /// [`SharedPages::parts`], which are removed.
    fn cut_out(&mut self, first: u64, count: u64) -> Vec<(u64, u64, u32)> {
        let parts = self.parts(first, count);
        self.split(first);
        self.split(first + count);
        parts.iter().for_each(|(at, _, _)| _ = self.runs.remove(at));
        parts
    }

    /// No run has pages on both sides of the start of `page`.
    fn split(&mut self, page: u64) {
        if let Some((&first, &(len, number))) = self.runs.range(..page).next_back()
            && page < first + len
        {
            self.runs.insert(first, (page - first, number));
            self.runs.insert(page, (first + len - page, number));
        }
    }

    /// Joins adjacent runs of the same number, as far as a change of these pages made them.
    fn join(&mut self, first: u64, count: u64) {
        let before = self.runs.range(..first).next_back().map(|(&at, _)| at);
        let inside = self.runs.range(first..=first + count).map(|(&at, _)| at);
        let starts: Vec<u64> = before.into_iter().chain(inside).collect();
        let mut last: Option<u64> = None;
        for at in starts {
            let (len, number) = self.runs[&at];
            match last.map(|last| (last, self.runs[&last])) {
                Some((last, (before, same))) if last + before == at && same == number => {
                    self.runs.remove(&at);
                    self.runs.insert(last, (before + len, number));
                }
                _ => last = Some(at),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_workload::Random;

    /// The numbers are those of a plain array, and adjacent runs differ.
    #[test]
    fn numbers_are_those_of_an_array() {
        let mut random = Random::new(everbyte_workload::seed(5, "-p everbyte-fs numbers_are"));
        let mut shared = SharedPages::default();
        let mut plain = [0_u32; 64];
        let mut held: Vec<(u64, u64)> = Vec::new();
        for _ in 0..everbyte_workload::long_or(5000, 100_000) {
            if random.chance(50) || held.is_empty() {
                let first = random.below(60);
                let run = (first, 1 + random.below(64 - first));
                shared.raise(run.0, run.1);
                (run.0..run.0 + run.1).for_each(|page| plain[page as usize] += 1);
                held.push(run);
            } else {
                let (first, count) = held.swap_remove(random.index(held.len()));
                shared.lower(first, count);
                (first..first + count).for_each(|page| plain[page as usize] -= 1);
            }
            if held.len() > 9 {
                held.drain(..).for_each(|(first, count)| shared.lower(first, count));
                plain = [0; 64];
                assert!(shared.is_empty());
            }
            assert!((0..64).all(|page| shared.of(page) == plain[page as usize]));
            assert_eq!(shared.total(), plain.iter().map(|&number| u64::from(number)).sum::<u64>());
            let mut next = 3;
            for (first, len, number) in shared.parts(3, 50) {
                assert!(first == next && (first..first + len).all(|page| plain[page as usize] == number));
                next = first + len;
            }
            assert_eq!(next, 53);
            let runs: Vec<_> = shared.runs.iter().collect();
            assert!(runs.windows(2).all(|pair| pair[0].0 + pair[0].1.0 < *pair[1].0 || pair[0].1.1 != pair[1].1.1));
        }
        held.drain(..).for_each(|(first, count)| shared.raise(first, count));
        let before = shared.total();
        shared.lower_all();
        assert!(shared.is_empty() || shared.total() < before);
    }
}
