//! The set of pages with flushed lines that no checkpoint has written yet.
//!
//! One bit per page makes the test of a flush cheap; a list lets a checkpoint visit dirty pages
//! only.
//!
//! Threads: owned by the holder of the log's lock.

/// Pages are copied, written and released whole.
pub(crate) const PAGE: u64 = 4096;
pub(crate) const LINES_PER_PAGE: u64 = PAGE / crate::LINE;

const LEAF_WORDS: usize = 512; // 32768 pages, 128 MiB of store, per leaf of the bitmap

/// A set of page numbers.
pub(crate) struct DirtyPages {
    leaves: Vec<Option<Box<[u64; LEAF_WORDS]>>>,
    list: Vec<u64>,
}

impl DirtyPages {
    pub(crate) fn new(max: u64) -> DirtyPages {
        let leaves = (max / PAGE).div_ceil((LEAF_WORDS * 64) as u64) as usize;
        DirtyPages { leaves: (0..leaves).map(|_| None).collect(), list: Vec::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, page: u64) {
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        let leaf = self.leaves[word / LEAF_WORDS].get_or_insert_with(|| Box::new([0; LEAF_WORDS]));
        let word = &mut leaf[word % LEAF_WORDS];
        if *word & bit == 0 {
            *word |= bit;
            self.list.push(page);
        }
    }

    pub(crate) fn contains(&self, page: u64) -> bool {
        let word = (page / 64) as usize;
        let leaf = self.leaves.get(word / LEAF_WORDS).and_then(Option::as_ref);
        leaf.is_some_and(|leaf| leaf[word % LEAF_WORDS] & 1 << (page % 64) != 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Moves the set into `list`, which is empty and keeps its memory for the next round.
    pub(crate) fn take(&mut self, list: &mut Vec<u64>) {
        assert!(list.is_empty());
        std::mem::swap(&mut self.list, list);
        for &page in &*list {
            let word = (page / 64) as usize;
            if let Some(leaf) = &mut self.leaves[word / LEAF_WORDS] {
                leaf[word % LEAF_WORDS] = 0;
            }
        }
    }
}
