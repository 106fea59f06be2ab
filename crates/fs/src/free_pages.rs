//! [`FreePages`]: the free pages of a volume, in memory alone.
//!
//! A bit for each page, a count for each block of 512 pages (2 MiB, aligned in the object), and a
//! count of free blocks for each group of 512 blocks (1 GiB, aligned too). Short runs come from
//! blocks that are in use in part, and blocks from groups that are in use in part, so that whole
//! blocks and whole groups stay for large pages.
//! The bits are made from the inodes, or read from the saved state.
//!
//! Invariants
//!   FS-4  A page is freed once: it is in use when it is given back. Without a scan a damaged inode
//!         may lead to a free page, which stays free then.
//!
//! A page that a change has freed may be taken at once: a fence ended that change, so no store to
//! the page survives a crash without it.

use crate::layout::{GIANT_PAGES, LARGE_PAGES};

/// Pages of a block.
const BLOCK: u64 = LARGE_PAGES;
/// Blocks of a group.
const GROUP: usize = (GIANT_PAGES / LARGE_PAGES) as usize;
const WORD: u64 = 64;

/// Free pages of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FreePages {
    /// A set bit: the page is free.
    bits: Vec<u64>,
    /// Free pages of each block.
    blocks: Vec<u16>,
    /// Blocks of each group that are all free.
    groups: Vec<u16>,
    /// All free pages.
    free: u64,
    /// The block from which short runs are taken.
    current: usize,
    /// No page before this one is free.
    lowest: u64,
    /// The bits are saved ones, which no scan has compared with the inodes.
    is_saved: bool,
}

impl FreePages {
    /// No page at all.
    pub(crate) fn new() -> FreePages {
        FreePages::default()
    }

    /// The free pages that were saved: words of bits, for whole blocks.
    pub(crate) fn saved(bits: Vec<u64>) -> FreePages {
        let free_of = |words: &[u64]| words.iter().map(|word| word.count_ones() as u16).sum();
        let blocks: Vec<u16> = bits.chunks((BLOCK / WORD) as usize).map(free_of).collect();
        let free = blocks.iter().map(|&free| u64::from(free)).sum();
        let is_whole = |&&free: &&u16| u64::from(free) == BLOCK;
        let groups = blocks.chunks(GROUP).map(|group| group.iter().filter(is_whole).count() as u16).collect();
        FreePages { bits, blocks, groups, free, is_saved: true, ..FreePages::default() }
    }

    /// The bits, for whole blocks.
    pub(crate) fn words(&self) -> &[u64] {
        &self.bits
    }

    /// Whether no scan has compared the bits with the inodes.
    pub(crate) fn is_saved(&self) -> bool {
        self.is_saved
    }

    /// The first free page at or behind `from`.
    pub(crate) fn next_free(&self, from: u64) -> Option<u64> {
        let of_word = |word: u64, index: u64| index * WORD + u64::from(word.trailing_zeros());
        let first = self.bits.get((from / WORD) as usize)? >> (from % WORD) << (from % WORD);
        if first != 0 {
            return Some(of_word(first, from / WORD));
        }
        let words = self.bits.iter().zip(0..).skip((from / WORD) as usize + 1);
        words.map(|(&word, index)| (word, index)).find(|(word, _)| *word != 0).map(|(word, index)| of_word(word, index))
    }

    /// Number of free pages.
    pub(crate) fn count(&self) -> u64 {
        self.free
    }

    /// Whether a page is free.
    pub(crate) fn is_free(&self, page: u64) -> bool {
        self.bits.get((page / WORD) as usize).is_some_and(|word| word >> (page % WORD) & 1 == 1)
    }

    /// Pages become free: those of new clusters, or of a file.
    ///
    /// # Panics
    /// FS-4: if one of them is free already, and a scan has found that it is not.
    pub(crate) fn give(&mut self, first: u64, count: u64) {
        let end = first + count;
        self.lowest = self.lowest.min(first);
        let blocks = end.div_ceil(BLOCK) as usize;
        if blocks > self.blocks.len() {
            self.blocks.resize(blocks, 0);
            self.bits.resize(blocks * (BLOCK / WORD) as usize, 0);
            self.groups.resize(blocks.div_ceil(GROUP), 0);
        }
        for page in first..end {
            let word = &mut self.bits[(page / WORD) as usize];
            let is_free = *word >> (page % WORD) & 1 == 1;
            assert!(!is_free || self.is_saved, "FS-4: page {page} is freed twice");
            *word |= 1 << (page % WORD);
            let block = (page / BLOCK) as usize;
            self.blocks[block] += u16::from(!is_free);
            self.groups[block / GROUP] += u16::from(!is_free && self.is_whole(block));
            self.free += u64::from(!is_free);
        }
    }

    /// Takes these pages. Returns the first of them that is not free, and takes none then.
    pub(crate) fn take_at(&mut self, first: u64, count: u64) -> Result<(), u64> {
        if let Some(taken) = (first..first + count).find(|&page| !self.is_free(page)) {
            return Err(taken);
        }
        for page in first..first + count {
            let block = (page / BLOCK) as usize;
            self.bits[(page / WORD) as usize] &= !(1 << (page % WORD));
            self.groups[block / GROUP] -= u16::from(self.is_whole(block));
            self.blocks[block] -= 1;
        }
        self.free -= count;
        Ok(())
    }

    /// Takes the free pages that follow each other from `first` on, up to `wanted`; their number.
    pub(crate) fn take_from(&mut self, first: u64, wanted: u64) -> u64 {
        let count = (first..first + wanted).take_while(|&page| self.is_free(page)).count() as u64;
        self.take_at(first, count).expect("they are free");
        count
    }

    /// Takes up to `wanted` adjacent pages: the first one, and their number. `None`: none is free.
    pub(crate) fn take(&mut self, wanted: u64) -> Option<(u64, u64)> {
        let block = self.choose(wanted)?;
        self.current = block;
        let first = self.next_free(block as u64 * BLOCK)?;
        Some((first, self.take_from(first, wanted)))
    }

    /// Takes `count` adjacent pages that begin at a multiple of `align`, as low as they are; the
    /// first one.
    pub(crate) fn take_aligned(&mut self, count: u64, align: u64) -> Option<u64> {
        self.lowest = self.next_free(self.lowest)?;
        let mut first = self.lowest;
        loop {
            first = first.next_multiple_of(align);
            match self.take_at(first, count) {
                Ok(()) => return Some(first),
                Err(taken) => first = self.next_free(taken + 1)?,
            }
        }
    }

    /// Takes a whole block of 512 pages, or a whole group of 512 blocks; the first page. A block
    /// comes from a group that is in use in part, if one has it.
    pub(crate) fn take_large(&mut self, count: u64) -> Option<u64> {
        let first = match count {
            LARGE_PAGES => self.whole_block()? as u64 * BLOCK,
            _ => self.groups.iter().position(|&whole| usize::from(whole) == GROUP)? as u64 * GIANT_PAGES,
        };
        self.take_at(first, count).ok().map(|()| first)
    }

    /// Whether all pages of a block are free.
    fn is_whole(&self, block: usize) -> bool {
        u64::from(self.blocks[block]) == BLOCK
    }

    /// A block that is all free, of a group in use in part if there is one.
    fn whole_block(&self) -> Option<usize> {
        let count = self.groups.len();
        let first = self.current / GROUP;
        let groups = (0..count).map(|step| (first + step) % count);
        let is_partly = |&group: &usize| self.groups[group] > 0 && usize::from(self.groups[group]) < GROUP;
        let group = groups.clone().find(is_partly).or_else(|| groups.clone().find(|&group| self.groups[group] > 0))?;
        (group * GROUP..self.blocks.len()).find(|&block| self.is_whole(block))
    }

    /// The block for a run: for a long one a block that is all free, else the current one, else
    /// one in use in part, else any.
    fn choose(&self, wanted: u64) -> Option<usize> {
        let count = self.blocks.len();
        let from_here = || (0..count).map(|step| (self.current + step) % count);
        if wanted >= BLOCK
            && let Some(block) = self.whole_block()
        {
            return Some(block);
        }
        if self.blocks.get(self.current).is_some_and(|&free| free > 0) {
            return Some(self.current);
        }
        from_here().find(|&block| self.blocks[block] > 0 && !self.is_whole(block)).or_else(|| self.whole_block())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_workload::Random;

    #[test]
    fn short_runs_leave_whole_blocks_alone() {
        let mut free = FreePages::new();
        free.give(100, 2000); // the first block in part, three whole ones, a part
        let (first, count) = free.take(1).unwrap();
        assert_eq!((first, count), (100, 1));
        assert_eq!(free.take(10), Some((101, 10)));
        assert_eq!(free.take(512), Some((512, 512)), "a long run begins a whole block");
        assert_eq!(free.take_aligned(512, 512), Some(1024));
        assert_eq!(free.count(), 2000 - 11 - 1024);
    }

    /// Pages that come back below all that are free are found again.
    #[test]
    fn an_aligned_run_is_found_where_it_was_given_back() {
        let mut free = FreePages::new();
        free.give(0, 3 * 512);
        assert_eq!([0; 2].map(|_| free.take_aligned(512, 512)), [Some(0), Some(512)]);
        free.give(0, 512);
        assert_eq!(free.take_aligned(512, 512), Some(0));
        assert_eq!([0; 2].map(|_| free.take_aligned(512, 512)), [Some(1024), None]);
    }

    /// Of two groups, the first in use in part: blocks come from it until it has none.
    #[test]
    fn blocks_leave_whole_groups_alone() {
        let mut free = FreePages::new();
        free.give(10, 3 * GIANT_PAGES - 10);
        assert_eq!(free.take_large(GIANT_PAGES), Some(GIANT_PAGES));
        free.give(GIANT_PAGES, GIANT_PAGES);
        assert_eq!(free.take(1), Some((10, 1)));
        let mut blocks = Vec::new();
        while let Some(first) = free.take_large(LARGE_PAGES).filter(|&first| first < GIANT_PAGES) {
            assert!(first.is_multiple_of(LARGE_PAGES) && !blocks.contains(&first));
            blocks.push(first);
        }
        assert_eq!(blocks.len(), 511, "all but the one that a short run has");
        assert_eq!(free.take_large(GIANT_PAGES), Some(2 * GIANT_PAGES), "the other group has lost a block");
        assert_eq!(free.take_large(GIANT_PAGES), None);
        let again = FreePages::saved(free.words().to_vec());
        assert_eq!((&again.blocks, &again.groups, again.free), (&free.blocks, &free.groups, free.free));
        blocks.iter().for_each(|&first| free.give(first, LARGE_PAGES));
        assert_eq!(free.take(LARGE_PAGES).map(|(first, _)| first < GIANT_PAGES), Some(true));
    }

    /// Short runs come and go while the volume is four fifths full: nine tenths of the rest stay
    /// whole blocks.
    #[test]
    fn blocks_stay_whole_as_short_runs_come_and_go() {
        let (mut random, mut free) = (Random::new(11), FreePages::new());
        free.give(0, 64 * BLOCK);
        let mut runs: Vec<(u64, u64)> = Vec::new();
        while free.count() > 64 * BLOCK / 5 {
            runs.push(free.take(8).unwrap());
        }
        let count = runs.len();
        for _ in 0..40_000 {
            // A page is replaced: the new one first.
            let new = free.take(8).unwrap();
            let old = std::mem::replace(&mut runs[random.index(count)], new);
            free.give(old.0, old.1);
        }
        let whole = free.blocks.iter().filter(|&&free| u64::from(free) == BLOCK).count();
        assert!(whole as u64 * 10 >= free.count() / BLOCK * 9, "{whole} of {} free pages", free.count());
    }

    #[test]
    fn no_page_is_taken_twice_and_none_is_lost() {
        let mut random = Random::new(7);
        let mut free = FreePages::new();
        free.give(3, 3000);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for _ in 0..5000 {
            if random.below(2) == 0 && !taken.is_empty() {
                let (first, count) = taken.swap_remove(random.below(taken.len() as u64) as usize);
                free.give(first, count);
            } else if let Some((first, count)) = free.take(1 + random.below(40)) {
                assert!(taken.iter().all(|&(at, len)| first + count <= at || at + len <= first));
                taken.push((first, count));
            }
            let held: u64 = taken.iter().map(|&(_, count)| count).sum();
            assert_eq!(free.count() + held, 3000);
        }
    }
}
