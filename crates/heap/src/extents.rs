//! Free pages as this process knows them: runs of adjacent pages, by place and by length.
//!
//! Best fit: the shortest run that is long enough, the lowest of equals, so that long runs stay
//! long.

use std::collections::{BTreeMap, BTreeSet};

/// Pages in a cluster.
pub(crate) const CLUSTER_PAGES: u32 = 16;

#[derive(Default)]
pub(crate) struct Extents {
    by_place: BTreeMap<u32, u32>,
    by_length: BTreeSet<(u32, u32)>,
    pages: u64,
}

impl Extents {
    /// Free pages in all.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// The longest run, in pages.
    #[cfg(test)]
    pub(crate) fn longest(&self) -> u32 {
        self.by_length.last().map_or(0, |&(len, _)| len)
    }

    /// Free pages directly below `end`.
    pub(crate) fn tail(&self, end: u32) -> u32 {
        self.by_place.range(..end).next_back().map_or(0, |(&at, &len)| if at + len == end { len } else { 0 })
    }

    /// Adds free pages, joining neighbours.
    ///
    /// # Panics
    /// If one of them is free already.
    pub(crate) fn insert(&mut self, mut at: u32, mut len: u32) {
        if len == 0 {
            return;
        }
        self.pages += u64::from(len);
        if let Some((&before, &count)) = self.by_place.range(..=at).next_back() {
            assert!(before + count <= at, "HEAP-4: page {at} is freed twice");
            if before + count == at {
                self.drop_run(before, count);
                (at, len) = (before, len + count);
            }
        }
        if let Some((&after, &count)) = self.by_place.range(at..).next() {
            assert!(at + len <= after, "HEAP-4: page {after} is freed twice");
            if at + len == after {
                self.drop_run(after, count);
                len += count;
            }
        }
        self.by_place.insert(at, len);
        self.by_length.insert((len, at));
    }

    /// Takes `count` adjacent pages.
    pub(crate) fn take(&mut self, count: u32) -> Option<u32> {
        let &(len, at) = self.by_length.range((count, 0)..).next()?;
        self.cut(at, len, at, count);
        Some(at)
    }

    /// Takes the pages of one whole cluster.
    pub(crate) fn take_cluster(&mut self) -> Option<u32> {
        let aligned = |&(len, at): &(u32, u32)| {
            let start = at.next_multiple_of(CLUSTER_PAGES);
            (start + CLUSTER_PAGES <= at + len).then_some((at, len, start))
        };
        // A run of 31 pages always holds a whole cluster; a few of the shorter ones are tried
        // before.
        let tried = self.by_length.range((CLUSTER_PAGES, 0)..).take(16).find_map(aligned);
        let (at, len, start) = tried.or_else(|| {
            self.by_length.range((2 * CLUSTER_PAGES - 1, 0)..).next().and_then(aligned).or_else(|| {
                // nearly full: tries all
                self.by_length.range((CLUSTER_PAGES, 0)..).find_map(aligned)
            })
        })?;
        self.cut(at, len, start, CLUSTER_PAGES);
        Some(start)
    }

    /// The runs of whole clusters among the free pages, from the highest.
    pub(crate) fn whole_clusters(&self) -> Vec<std::ops::Range<u32>> {
        let whole = |(&at, &len): (&u32, &u32)| {
            let range = at.next_multiple_of(CLUSTER_PAGES)..(at + len) / CLUSTER_PAGES * CLUSTER_PAGES;
            (range.start < range.end).then_some(range)
        };
        self.by_place.iter().rev().filter_map(whole).collect()
    }

    /// Whether all of these pages are free.
    pub(crate) fn holds(&self, at: u32, count: u32) -> bool {
        self.by_place.range(..=at).next_back().is_some_and(|(&start, &len)| at + count <= start + len)
    }

    /// Takes exactly these pages. `false`: not all of them are free, and nothing is taken.
    pub(crate) fn take_at(&mut self, at: u32, count: u32) -> bool {
        let Some((&start, &len)) = self.by_place.range(..=at).next_back() else { return false };
        let free = at + count <= start + len;
        if free {
            self.cut(start, len, at, count);
        }
        free
    }

    fn cut(&mut self, at: u32, len: u32, from: u32, count: u32) {
        self.drop_run(at, len);
        self.pages -= u64::from(count);
        for (at, len) in [(at, from - at), (from + count, at + len - from - count)] {
            if len > 0 {
                self.by_place.insert(at, len);
                self.by_length.insert((len, at));
            }
        }
    }

    fn drop_run(&mut self, at: u32, len: u32) {
        self.by_place.remove(&at);
        self.by_length.remove(&(len, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// After any sequence of takes and returns no page is handed out twice and none is lost.
        #[test]
        fn agrees_with_a_set_of_pages(steps in prop::collection::vec((0u32..4, 1u32..40), 1..80)) {
            let mut extents = Extents::default();
            extents.insert(3, 500);
            let mut free: Vec<bool> = (0..600).map(|page| (3..503).contains(&page)).collect();
            let mut held: Vec<(u32, u32)> = vec![];
            for (what, count) in steps {
                let taken = match what {
                    0 => extents.take(count).map(|at| (at, count)),
                    1 => extents.take_cluster().map(|at| (at, CLUSTER_PAGES)),
                    2 => extents.take_at(count * 7, count).then_some((count * 7, count)),
                    _ => {
                        if !held.is_empty() {
                            let (at, count) = held.swap_remove(count as usize % held.len());
                            extents.insert(at, count);
                            free[at as usize..(at + count) as usize].fill(true);
                        }
                        continue;
                    }
                };
                if let Some((at, count)) = taken {
                    let pages = &mut free[at as usize..(at + count) as usize];
                    prop_assert!(pages.iter().all(|free| *free));
                    prop_assert!(what != 1 || at % CLUSTER_PAGES == 0);
                    pages.fill(false);
                    held.push((at, count));
                }
                prop_assert_eq!(extents.pages(), free.iter().filter(|free| **free).count() as u64);
            }
            let longest = free.split(|free| !free).map(<[bool]>::len).max().unwrap_or(0);
            prop_assert_eq!(extents.longest() as usize, longest);
        }
    }
}
