//! [`FreePages`]: the free pages of a volume, in memory alone.
//!
//! A bit for each page, and a count for each block of 512 pages (2 MiB, aligned in the object).
//! Short runs come from blocks that are in use in part, so that whole blocks stay for large pages.
//! The bits are made from the inodes, or read from the saved state.
//!
//! Invariants
//!   FS-4  A page is freed once: it is in use when it is given back. Without a scan a damaged inode
//!         may lead to a free page, which stays free then.
//!
//! A page that a change has freed may be taken at once: a fence ended that change, so no store to
//! the page survives a crash without it.

/// Pages of a block.
const BLOCK: u64 = 512;
const WORD: u64 = 64;

/// Free pages of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FreePages {
    /// A set bit: the page is free.
    bits: Vec<u64>,
    /// Free pages of each block.
    blocks: Vec<u16>,
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
        FreePages { bits, blocks, free, is_saved: true, ..FreePages::default() }
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
        }
        for page in first..end {
            let word = &mut self.bits[(page / WORD) as usize];
            let is_free = *word >> (page % WORD) & 1 == 1;
            assert!(!is_free || self.is_saved, "FS-4: page {page} is freed twice");
            *word |= 1 << (page % WORD);
            self.blocks[(page / BLOCK) as usize] += u16::from(!is_free);
            self.free += u64::from(!is_free);
        }
    }

    /// Takes these pages. Returns the first of them that is not free, and takes none then.
    pub(crate) fn take_at(&mut self, first: u64, count: u64) -> Result<(), u64> {
        if let Some(taken) = (first..first + count).find(|&page| !self.is_free(page)) {
            return Err(taken);
        }
        for page in first..first + count {
            self.bits[(page / WORD) as usize] &= !(1 << (page % WORD));
            self.blocks[(page / BLOCK) as usize] -= 1;
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

    /// The block for a run: for a long one a block that is all free, else the current one, else
    /// one in use in part, else any.
    fn choose(&self, wanted: u64) -> Option<usize> {
        let count = self.blocks.len();
        let from_here = || (0..count).map(|step| (self.current + step) % count);
        let is_whole = |&block: &usize| u64::from(self.blocks[block]) == BLOCK;
        if wanted >= BLOCK
            && let Some(block) = from_here().find(is_whole)
        {
            return Some(block);
        }
        if self.blocks.get(self.current).is_some_and(|&free| free > 0) {
            return Some(self.current);
        }
        let partly = from_here().find(|block| self.blocks[*block] > 0 && !is_whole(block));
        partly.or_else(|| from_here().find(|&block| self.blocks[block] > 0))
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
