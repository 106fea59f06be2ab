//! Blocks of the trie: clusters of the object that holds it, each divided into blocks of one kind.
//!
//! A bit for each node and each container marks it as taken; the state words of records tell the
//! same of records. The free blocks are read from media at the first request for one. The first
//! cluster begins with the prime page.
//!
//! Invariants
//!   NAMES-3  A bit changes only for a block that the intent list on media names (`intent`).

use crate::layout::{Block, BlockKind, Head, SLAB_BITS, SLAB_BLOCKS, head, of_slab_word, slab_word};
use crate::trie::Trie;
use crate::{Clusters, PRIME_LEN, Records, Result};
use everbyte_media::Media;
use everbyte_media::sealed::{seal, unseal};
use everbyte_space::CLUSTER;
use std::collections::HashMap;

/// Bits of blocks in a word; the other 16 check them.
const BITS: u64 = 48;

/// One cluster of blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slab {
    at: u64,
    end: u64,
    pub(crate) kind: BlockKind,
}

impl Slab {
    /// The offsets of its blocks.
    pub(crate) fn blocks(self) -> impl Iterator<Item = u64> {
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
    /// The offset of a damaged word.
    pub(crate) fn is_taken(self, media: &Media, block: u64) -> Result<bool, u64> {
        let (at, bit) = self.bit(block);
        Ok(bits(media, at).ok_or(at)? & bit != 0)
    }
}

/// The bits of a word; zero in a word that was never stored, `None` in a damaged one.
fn bits(media: &Media, at: u64) -> Option<u64> {
    match media.load(at) {
        0 => Some(0),
        word => unseal(word).map(|value| value >> 16),
    }
}

/// Free blocks by kind, the lowest last.
#[derive(Default)]
pub(crate) struct FreeBlocks {
    free: HashMap<BlockKind, Vec<u64>>,
}

impl<R: Records> Trie<R> {
    /// The slab of a cluster; `None` if the cluster is not divided yet.
    ///
    /// # Errors
    /// [`crate::Damaged`].
    pub(crate) fn slab(&self, cluster: u64) -> Result<Option<Slab>> {
        let at = self.slab_at(cluster);
        match self.media.load(at) {
            0 => Ok(None),
            word => match of_slab_word(word) {
                Some(kind) => Ok(Some(Slab { at, end: cluster + CLUSTER, kind })),
                None => Err(self.damaged(at, format!("a cluster of blocks begins with {word:#018x}"))),
            },
        }
    }

    pub(crate) fn slab_at(&self, cluster: u64) -> u64 {
        if cluster == self.start { cluster + PRIME_LEN } else { cluster }
    }

    fn slab_of(&self, block: Block) -> Result<Slab> {
        let slab = self.slab(block.at & !(CLUSTER - 1))?;
        let fits = slab.filter(|slab| slab.kind == block.kind && slab.blocks().any(|at| at == block.at));
        fits.ok_or_else(|| self.damaged(block.at, format!("no {:?} can lie here", block.kind)))
    }

    /// Makes sure that at least `count` blocks of a kind are free.
    ///
    /// # Errors
    /// As [`Clusters::add_cluster`]; [`crate::Damaged`]. Nothing has changed.
    pub(crate) fn reserve<C: Clusters>(&mut self, clusters: &C, kind: BlockKind, count: usize) -> Result<(), C::Error> {
        if self.free_blocks.is_none() {
            self.free_blocks = Some(self.read_free_blocks()?);
        }
        while self.free(kind).len() < count {
            let cluster = match self.undivided()? {
                // a crash interrupted `reserve` after the cluster was backed
                Some(cluster) => cluster,
                None => clusters.add_cluster(self.backed)?,
            };
            self.backed = self.backed.max(cluster + CLUSTER);
            let at = self.slab_at(cluster);
            self.set_word(at, slab_word(kind));
            self.media.fence();
            let slab = self.slab(cluster)?.expect("divided above");
            let mut blocks: Vec<u64> = slab.blocks().collect();
            blocks.reverse();
            let free = self.free(kind);
            blocks.append(free);
            *free = blocks;
        }
        Ok(())
    }

    /// A cluster that is backed and not divided.
    fn undivided(&self) -> Result<Option<u64>> {
        // Only the last cluster can be: `format` divides the first one.
        let last = self.backed - CLUSTER;
        Ok(self.slab(last)?.is_none().then_some(last))
    }

    fn free(&mut self, kind: BlockKind) -> &mut Vec<u64> {
        self.free_blocks.as_mut().expect("`reserve` has read them").free.entry(kind).or_default()
    }

    /// Takes a free block, in this process alone: nothing changes on media.
    ///
    /// # Panics
    /// If no earlier call of `reserve` covers the block.
    pub(crate) fn take(&mut self, kind: BlockKind) -> u64 {
        self.free(kind).pop().expect("an earlier call of `reserve` covers the block")
    }

    /// Reverses [`Trie::take`].
    pub(crate) fn give(&mut self, kind: BlockKind, block: u64) {
        self.free(kind).push(block);
    }

    fn read_free_blocks(&self) -> Result<FreeBlocks> {
        let mut blocks = FreeBlocks::default();
        for cluster in self.clusters() {
            let Some(slab) = self.slab(cluster)? else { continue };
            if self.reflushes {
                self.media.reflush(slab.at, SLAB_BLOCKS); // STORE-8; fenced before a block is used
            }
            for block in slab.blocks() {
                let taken = match slab.kind {
                    BlockKind::Record => !self.records.is_free(&self.media, block),
                    _ => slab.is_taken(&self.media, block).map_err(|at| self.damaged(at, "a word of bits".into()))?,
                };
                if !taken {
                    blocks.free.entry(slab.kind).or_default().push(block);
                }
            }
        }
        blocks.free.values_mut().for_each(|free| free.reverse());
        Ok(blocks)
    }

    /// Takes a free record, in this process alone: nothing changes on media.
    ///
    /// # Errors
    /// As [`Trie::prepare`].
    pub fn take_record<C: Clusters>(&mut self, clusters: &C) -> Result<u64, C::Error> {
        self.reserve(clusters, BlockKind::Record, 1)?;
        Ok(self.take(BlockKind::Record))
    }

    /// Reverses [`Trie::take_record`].
    pub fn give_record(&mut self, record: u64) {
        if self.free_blocks.is_some() {
            // otherwise the next read of the free blocks finds it
            self.give(BlockKind::Record, record);
        }
    }

    /// The records of every slab of records, in order.
    ///
    /// # Errors
    /// [`crate::Damaged`].
    pub fn record_places(&self) -> Result<Vec<u64>> {
        let mut places = Vec::new();
        for cluster in self.clusters() {
            if let Some(slab) = self.slab(cluster)?.filter(|slab| slab.kind == BlockKind::Record) {
                places.extend(slab.blocks());
            }
        }
        Ok(places)
    }

    /// Sets or clears the bits of blocks and flushes; no fence.
    pub(crate) fn mark(&self, blocks: &[Block], taken: bool) -> Result<()> {
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

    /// Writes the head of a new trie and divides its first cluster; flushed, not fenced.
    pub fn format(&self) {
        let at = self.start + head::AT;
        {
            let _section = self.media.section();
            self.media.put(at, &Head::new());
            self.media.flush(at, size_of::<Head>() as u64);
        }
        self.set_word(self.start + PRIME_LEN, slab_word(BlockKind::Container));
    }
}
