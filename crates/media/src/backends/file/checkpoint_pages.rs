//! Buffers and lists of pages that live from checkpoint to checkpoint.

use super::disk::Page;

#[derive(Default)]
pub(crate) struct CheckpointPages {
    /// Pages of the checkpoint in progress.
    pub pages: Vec<u64>,
    pub copies: Box<[Page]>,
    /// Pages of the newest checkpoint, in order.
    pub cleaned: Vec<u64>,
    /// Pages of earlier checkpoints that the checkpoint after did not find dirty again: candidates
    /// for release.
    pub cold: Vec<u64>,
    /// Bytes of the log that are backed, if more than the ring has.
    pub log_backed: u64,
}

impl CheckpointPages {
    /// The newest checkpoint cleaned `pages`, in order. The pages of the one before that are not
    /// among them become cold.
    pub(crate) fn cool(&mut self) {
        let known = self.cold.len();
        let mut pages = self.pages.iter().peekable();
        self.cold.extend(self.cleaned.iter().filter(|page| {
            while pages.next_if(|next| next < page).is_some() {}
            pages.peek() != Some(page)
        }));
        if known > 0 {
            self.cold.sort_unstable();
            self.cold.dedup();
        }
        std::mem::swap(&mut self.pages, &mut self.cleaned);
    }
}
