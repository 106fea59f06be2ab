//! Chains: the buckets of one index, one line after the other.

use super::Hash;
use crate::layout::{BUCKET, SLOTS};
use crate::{Error, Result};
use everbyte_media::Damage;

/// Links of a chain at most: far more than any chain has, so that damage does not make a walk
/// endless.
const LINKS_MAX: u32 = 1 << 20;

/// One bucket, copied from media.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    pub at: u64,
    words: [u64; 8],
}

impl Bucket {
    /// The offsets and the words of its slots in use.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Bucket { at, words } = *self;
        (0..SLOTS).map(move |slot| (at + slot * 8, words[slot as usize])).filter(|&(_, word)| word != 0)
    }

    /// The words to change for its slots to be these.
    pub(super) fn changes(&self, wanted: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
        let places = (0..SLOTS).zip(wanted);
        places
            .filter(|&(slot, word)| self.words[slot as usize] != word)
            .map(|(slot, word)| (self.at + slot * 8, word))
            .collect()
    }

    /// Its first empty slot.
    pub(super) fn empty(&self) -> Option<u64> {
        (0..SLOTS).find(|&slot| self.words[slot as usize] == 0).map(|slot| self.at + slot * 8)
    }
}

/// A walk along a chain.
pub(super) struct Chain<'h> {
    hash: &'h Hash,
    next: u64,
    left: u32,
}

impl<'h> Chain<'h> {
    pub(super) fn of(hash: &'h Hash, first: u64) -> Chain<'h> {
        Chain { hash, next: first, left: LINKS_MAX }
    }

    /// All slots of the chain with a record.
    pub(super) fn slots(self) -> Result<Vec<(u64, u64)>> {
        let buckets: Vec<Bucket> = self.collect::<Result<_>>()?;
        Ok(buckets.iter().flat_map(Bucket::slots).collect())
    }
}

impl Iterator for Chain<'_> {
    type Item = Result<Bucket>;

    fn next(&mut self) -> Option<Result<Bucket>> {
        let at = self.next;
        if at == 0 {
            return None;
        }
        self.next = 0;
        let heap = self.hash.heap();
        let damaged = |detail| Err(Error::from(Damage::at(at, detail).of_object(heap.object().name())));
        if self.left == 0 {
            return Some(damaged("a chain of buckets has no end"));
        }
        let window = Some(at).filter(|at| at.is_multiple_of(BUCKET) && heap.may_hold_blocks(*at, BUCKET));
        let Some(window) = window.and_then(|at| heap.media().window(at, BUCKET)) else {
            return Some(damaged("no bucket can lie there"));
        };
        let words = window.words::<8>(0);
        (self.next, self.left) = (words[SLOTS as usize], self.left - 1);
        Some(Ok(Bucket { at, words }))
    }
}
