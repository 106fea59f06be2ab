//! Blocks of the name space: clusters of the object that holds it, each cut into blocks of one
//! kind.
//!
//! A bit for each node and container says that it is taken; records say so themselves, by their
//! state words. Which blocks are free is read when the first is asked for. The first cluster begins
//! with the prime page.
//!
//! Invariants
//!   NAMES-3  A bit changes only for a block that the doubt list on media names (`doubt`).

use super::layout::{Block, Head, Kind, SLAB_BITS, SLAB_BLOCKS, head, of_slab_word, slab_word};
use super::trie::Trie;
use crate::layout::STATE_FREE;
use crate::store::Inner;
use crate::{CLUSTER, Error, PRIME_LEN, Result, object};
use everbyte_media::Media;
use everbyte_space::{seal, unseal};
use std::collections::HashMap;

/// Bits in a word; the other 16 check them.
const BITS: u64 = 48;

/// One cluster of blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slab {
    at: u64,
    end: u64,
    pub kind: Kind,
}

impl Slab {
    /// The places of its blocks.
    pub fn blocks(self) -> impl Iterator<Item = u64> {
        let len = self.kind.size();
        let first = self.at + SLAB_BLOCKS;
        (0..(self.end - first) / len).map(move |index| first + index * len)
    }

    /// The word that holds a block's bit, and the bit.
    fn bit(self, block: u64) -> (u64, u64) {
        let index = (block - self.at - SLAB_BLOCKS) / self.kind.size();
        (self.at + SLAB_BITS + index / BITS * 8, 1 << (index % BITS))
    }

    /// Whether a block is taken.
    ///
    /// # Errors
    /// The place of a damaged word.
    pub fn is_taken(self, media: &Media, block: u64) -> Result<bool, u64> {
        let (at, bit) = self.bit(block);
        Ok(bits(media, at).ok_or(at)? & bit != 0)
    }
}

/// The bits of a word; zero where none was ever set, `None` if it is damaged.
fn bits(media: &Media, at: u64) -> Option<u64> {
    match media.load(at) {
        0 => Some(0),
        word => unseal(word).map(|value| value >> 16),
    }
}

/// Free blocks, the lowest last.
#[derive(Default)]
pub(super) struct Slabs {
    free: HashMap<Kind, Vec<u64>>,
}

impl Trie {
    /// The slab of a cluster; `None` if it is not cut yet.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub(super) fn slab(&self, cluster: u64) -> Result<Option<Slab>> {
        let at = self.slab_at(cluster);
        match self.media.load(at) {
            0 => Ok(None),
            word => match of_slab_word(word) {
                Some(kind) => Ok(Some(Slab { at, end: cluster + CLUSTER, kind })),
                None => Err(self.damaged(at, format!("a cluster of blocks begins with {word:#018x}"))),
            },
        }
    }

    fn slab_at(&self, cluster: u64) -> u64 {
        if cluster == self.entry.span.at() { cluster + PRIME_LEN } else { cluster }
    }

    fn slab_of(&self, block: Block) -> Result<Slab> {
        let slab = self.slab(block.at & !(CLUSTER - 1))?;
        let fits = slab.filter(|slab| slab.kind == block.kind && slab.blocks().any(|at| at == block.at));
        fits.ok_or_else(|| self.damaged(block.at, format!("no {:?} can lie here", block.kind)))
    }

    /// Sees to it that so many blocks of a kind are free.
    ///
    /// # Errors
    /// [`Error::SpanFull`], [`Error::OutOfSpace`], [`Error::Damaged`]: nothing has changed.
    pub(crate) fn reserve(&mut self, store: &Inner, kind: Kind, count: usize) -> Result<()> {
        if self.slabs.is_none() {
            self.slabs = Some(self.free_blocks()?);
        }
        while self.free(kind).len() < count {
            let cluster = match self.uncut()? {
                Some(cluster) => cluster, // a crash came between backing and cutting
                None => object::grow_by(store, &self.entry, self.backed, CLUSTER, None)?.start,
            };
            self.backed = self.backed.max(cluster + CLUSTER);
            let at = self.slab_at(cluster);
            self.set_word(at, slab_word(kind));
            self.media.fence();
            let slab = self.slab(cluster)?.expect("cut above");
            let mut blocks: Vec<u64> = slab.blocks().collect();
            blocks.reverse();
            let free = self.free(kind);
            blocks.append(free);
            *free = blocks;
        }
        Ok(())
    }

    /// A cluster that is backed and not cut.
    fn uncut(&self) -> Result<Option<u64>> {
        // Only the last can be, and the first, which is cut when the name space is made.
        let last = self.backed - CLUSTER;
        Ok(self.slab(last)?.is_none().then_some(last))
    }

    fn free(&mut self, kind: Kind) -> &mut Vec<u64> {
        self.slabs.as_mut().expect("read by `reserve`").free.entry(kind).or_default()
    }

    /// Takes a free block, in this process alone.
    ///
    /// # Panics
    /// If `reserve` was not asked for it.
    pub(crate) fn take(&mut self, kind: Kind) -> u64 {
        self.free(kind).pop().expect("`reserve` was asked for it")
    }

    /// Takes [`Trie::take`] back.
    pub(crate) fn give(&mut self, kind: Kind, block: u64) {
        self.free(kind).push(block);
    }

    fn free_blocks(&self) -> Result<Slabs> {
        let mut slabs = Slabs::default();
        for cluster in self.clusters() {
            let Some(slab) = self.slab(cluster)? else { continue };
            if self.adopting {
                self.media.adopt(slab.at, SLAB_BLOCKS); // STORE-8; fenced before a block is used
            }
            for block in slab.blocks() {
                let taken = match slab.kind {
                    Kind::Record => self.media.load(block) != STATE_FREE,
                    _ => slab.is_taken(&self.media, block).map_err(|at| self.damaged(at, "a word of bits".into()))?,
                };
                if !taken {
                    slabs.free.entry(slab.kind).or_default().push(block);
                }
            }
        }
        slabs.free.values_mut().for_each(|free| free.reverse());
        Ok(slabs)
    }

    /// Takes a free record, in this process alone.
    ///
    /// # Errors
    /// As [`Trie::reserve`].
    pub(crate) fn take_record(&mut self, store: &Inner) -> Result<u64> {
        self.reserve(store, Kind::Record, 1)?;
        Ok(self.take(Kind::Record))
    }

    /// Takes [`Trie::take_record`] back.
    pub(crate) fn give_record(&mut self, record: u64) {
        if self.slabs.is_some() {
            self.give(Kind::Record, record); // otherwise it is found free once that is asked
        }
    }

    /// Every record slab's records, in order.
    pub(crate) fn record_places(&self) -> Result<Vec<u64>> {
        let mut places = Vec::new();
        for cluster in self.clusters() {
            if let Some(slab) = self.slab(cluster)?.filter(|slab| slab.kind == Kind::Record) {
                places.extend(slab.blocks());
            }
        }
        Ok(places)
    }

    /// Sets or clears the bits of blocks and flushes; no fence.
    pub(super) fn mark(&self, blocks: &[Block], taken: bool) -> Result<(), Error> {
        let _section = self.media.section();
        for &block in blocks {
            let (at, bit) = self.slab_of(block)?.bit(block.at);
            let old = bits(&self.media, at).ok_or_else(|| self.damaged(at, "a word of bits".into()))?;
            let new = if taken { old | bit } else { old & !bit };
            self.media.store(at, seal(new << 16));
            self.media.flush(at, 8);
        }
        Ok(())
    }

    /// Writes the head of a new name space and cuts its first cluster; flushed, not fenced.
    pub(crate) fn format(&self) {
        let prime = self.entry.span.at();
        let at = prime + head::AT;
        {
            let _section = self.media.section();
            self.media.put(at, &Head::new());
            self.media.flush(at, size_of::<Head>() as u64);
        }
        self.set_word(prime + PRIME_LEN, slab_word(Kind::Container));
    }
}
