//! Walks the heap: lists allocated and free bytes, and checks that the tables agree. Changes
//! nothing on media.

use crate::classes::{self, PAGE};
use crate::heap::HeapState;
use crate::layout::{self, CLUSTER, ClusterKind, HEADER, ZONE_CLUSTERS};
use crate::zone::words_of;
use crate::{Block, Heap, Result};
use everbyte_media::{Length, Offset};
use everbyte_store::{Finding, FindingKind};
use std::collections::BTreeSet;

/// The bytes of the object by their use in the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In the heap's clusters.
    pub total: u64,
    /// Allocated blocks.
    pub blocks: u64,
    /// Bytes of them.
    pub allocated: u64,
    /// Tables, directories, header and log.
    pub system: u64,
    /// Free in runs: for blocks of their class.
    pub free_in_runs: u64,
    /// Free pages, for blocks of any size.
    pub free_pages: u64,
    /// Free pages that the object does not back at present: given back to the file system, or about
    /// to be.
    pub released: u64,
    /// The longest run of free pages.
    pub longest_free: u64,
    /// In clusters whose record is damaged: neither allocated nor free.
    pub damaged: u64,
}

impl Heap {
    /// Calls `each` with every allocated block, in the order of addresses. Cost: all tables, a
    /// 128th of the heap.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if a table cannot be found. Damaged records are skipped;
    /// [`Heap::check`] names them.
    pub fn blocks(&self, mut each: impl FnMut(Block)) -> Result<()> {
        let inner = &*self.inner;
        (0..inner.end()).try_for_each(|cluster| {
            if let Ok(Some(kind)) = inner.kind_on_media(cluster) {
                inner.blocks_of(cluster, kind, &mut each)?;
            }
            inner.zone_record(cluster).map(|_| ())
        })
    }

    /// The used and free bytes of the heap on media. Cost as [`Heap::blocks`].
    ///
    /// # Errors
    /// As [`Heap::blocks`].
    pub fn usage(&self) -> Result<Usage> {
        let inner = &*self.inner;
        let mut usage = Usage { total: inner.end() * CLUSTER, ..Usage::default() };
        let mut longest = 0;
        for cluster in 0..inner.end() {
            let (mut blocks, mut bytes) = (0, 0);
            let kind = inner.kind_on_media(cluster)?;
            if let Some(kind) = kind {
                inner
                    .blocks_of(cluster, kind, &mut |block| (blocks, bytes) = (blocks + 1, bytes + block.size.get()))?;
            }
            usage.blocks += blocks;
            usage.allocated += bytes;
            let mut free_here = 0;
            match kind {
                None => usage.damaged += CLUSTER,
                Some(ClusterKind::System) => usage.system += CLUSTER,
                Some(ClusterKind::Run(class)) if bytes > 0 => {
                    usage.free_in_runs += (u64::from(classes::count_of(class)) - blocks) * classes::size_of(class);
                }
                Some(ClusterKind::Run(_)) => free_here = layout::PAGES_USED,
                Some(ClusterKind::Pages) => {
                    let used = inner.media.load(inner.zone_record(cluster)? + layout::PAGE_WORD);
                    free_here = !used & layout::PAGES_USED;
                }
            }
            if free_here == layout::PAGES_USED && !inner.object.is_backed(inner.at(cluster)) {
                usage.released += CLUSTER;
            }
            usage.free_pages += u64::from(free_here.count_ones()) * PAGE;
            for page in 0..16 {
                longest = if free_here >> page & 1 == 1 { longest + PAGE } else { 0 };
                usage.longest_free = usage.longest_free.max(longest);
            }
        }
        usage.system += inner.plan.system_pages * PAGE;
        Ok(usage)
    }

    /// Verifies the tables; with `reachable`, the starts of all blocks with a reference, also that
    /// no block is leaked and no reference leads to a free block. No thread may change the heap
    /// meanwhile. An empty list: no findings.
    pub fn check(&self, reachable: Option<&BTreeSet<u64>>) -> Vec<Finding> {
        let inner = &*self.inner;
        let mut findings = Vec::new();
        let mut add = |kind, at, detail: String| {
            findings.push(Finding { room: "heap", kind, at, object: Some(inner.name()), detail });
        };
        let mut open = 0; // pages that a block which started earlier still has to cover
        let mut seen = BTreeSet::new();
        for cluster in 0..inner.end() {
            let record = match inner.zone_record(cluster) {
                Ok(record) => record,
                Err(error) => {
                    if cluster % ZONE_CLUSTERS == 0 {
                        add(FindingKind::Damage, inner.at(cluster), error.to_string());
                    }
                    continue;
                }
            };
            let kind = match layout::unseal_kind(inner.media.load(record), cluster) {
                Some(kind) => kind,
                None => {
                    add(FindingKind::Damage, record, "the record of this cluster is not whole".into());
                    open = 0;
                    continue;
                }
            };
            if kind != ClusterKind::Pages && open > 0 {
                add(FindingKind::Damage, record, "a large block reaches into a cluster of another kind".into());
                open = 0;
            }
            inner.check_record(cluster, kind, &mut open, &mut add);
            if !inner.object.is_backed(inner.at(cluster))
                && (kind == ClusterKind::System || inner.has_blocks(record, kind))
            {
                // HEAP-11
                add(FindingKind::Damage, record, "blocks are allocated in a cluster that is not backed".into());
            }
            let collected = inner.blocks_of(cluster, kind, &mut |block| {
                seen.insert(block.at);
                if reachable.is_some_and(|reachable| !reachable.contains(&block.at.get())) {
                    add(
                        FindingKind::Leak,
                        block.at.get(),
                        format!("{} bytes are allocated and no pointer leads to them", block.size),
                    );
                }
            });
            if let Err(error) = collected {
                add(FindingKind::Damage, record, error.to_string());
            }
        }
        inner.check_tables(&mut add);
        for &at in reachable.into_iter().flatten().filter(|&&at| !seen.contains(&at.into())) {
            add(FindingKind::DoubleUse, at, "a reference leads here, and no block is allocated".into());
        }
        findings
    }
}

impl HeapState {
    fn kind_on_media(&self, cluster: u64) -> Result<Option<ClusterKind>> {
        Ok(layout::unseal_kind(self.media.load(self.zone_record(cluster)?), cluster))
    }

    /// Whether any block or page of a cluster is in use.
    fn has_blocks(&self, record: u64, kind: ClusterKind) -> bool {
        let words = match kind {
            ClusterKind::System => 0,
            ClusterKind::Pages => 1,
            ClusterKind::Run(class) => words_of(class),
        };
        (0..words).any(|word| self.media.load(layout::bitmap_at(record, word)) != 0)
    }

    /// The blocks that start in a cluster.
    fn blocks_of(&self, cluster: u64, kind: ClusterKind, each: &mut dyn FnMut(Block)) -> Result<()> {
        let record = self.zone_record(cluster)?;
        match kind {
            ClusterKind::System => {}
            ClusterKind::Run(class) => {
                let size = classes::size_of(class);
                for word in 0..words_of(class) {
                    let mut bits = self.media.load(layout::bitmap_at(record, word));
                    while bits != 0 {
                        let index = word as u64 * 64 + u64::from(bits.trailing_zeros());
                        bits &= bits - 1;
                        if index < u64::from(classes::count_of(class)) {
                            each(Block { at: Offset::new(self.at(cluster) + index * size), size: Length::new(size) });
                        }
                    }
                }
            }
            ClusterKind::Pages => {
                let word = self.media.load(record + layout::PAGE_WORD);
                for page in 0..16 {
                    if word >> page & 1 == 1 && word >> layout::START_SHIFT >> page & 1 == 1 {
                        let count = self.count_pages(cluster * 16 + page, &mut |cluster| self.zone_record(cluster))?;
                        each(Block {
                            at: Offset::new(self.at(cluster) + page * PAGE),
                            size: Length::new(count * PAGE),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Each zone that should have a table (HEAP-3) has one of its own, in a cluster of kind
    /// "system"; no other cluster is of that kind, but those of directories.
    fn check_tables(&self, add: &mut dyn FnMut(FindingKind, u64, String)) {
        let (end, mut tables, mut all_found) = (self.end(), BTreeSet::new(), true);
        for zone in 1..self.tabled(end) {
            let table = match self.table_of(zone, end) {
                Ok(table) => table,
                // The walk over the clusters has reported a table that is missing although its zone
                // has begun.
                Err(error) if zone * ZONE_CLUSTERS >= end => {
                    add(FindingKind::Damage, self.prime + HEADER, format!("the table of zone {zone}: {error}"));
                    all_found = false;
                    continue;
                }
                Err(_) => {
                    all_found = false;
                    continue;
                }
            };
            let of_system =
                self.kind_on_media((table - self.prime) / CLUSTER).is_ok_and(|kind| kind == Some(ClusterKind::System));
            if !tables.insert(table) || !of_system {
                add(FindingKind::Damage, table, format!("the table of zone {zone} lies where something else is"));
            }
        }
        let directories: Result<Vec<_>> = self.directories(end).collect();
        let Ok(directories) = directories.map(BTreeSet::from_iter) else { return };
        for cluster in (0..end).filter(|_| all_found) {
            let of_system = self.kind_on_media(cluster).is_ok_and(|kind| kind == Some(ClusterKind::System));
            let at = self.at(cluster);
            if of_system && !tables.contains(&at) && !directories.contains(&at) {
                let detail = "a growth that died has left this cluster to tables, and none is there: it stays unused";
                add(FindingKind::Note, at, detail.into());
            }
        }
    }

    fn check_record(
        &self,
        cluster: u64,
        kind: ClusterKind,
        open: &mut u64,
        add: &mut dyn FnMut(FindingKind, u64, String),
    ) {
        let record = self.record(cluster);
        match kind {
            ClusterKind::System => {}
            ClusterKind::Run(class) => {
                let count = classes::count_of(class) as usize;
                for word in 0..classes::BITMAP_WORDS {
                    let blocks = count.saturating_sub(word * 64).min(64);
                    let beyond = if blocks == 64 { 0 } else { u64::MAX << blocks };
                    // Words behind those of this class may remain of an earlier class: zeros.
                    let at = layout::bitmap_at(record, word);
                    if self.media.load(at) & beyond != 0 && word < words_of(class) {
                        add(
                            FindingKind::Damage,
                            at,
                            "the bitmap of a run has bits of blocks that there are not".into(),
                        );
                    }
                }
            }
            ClusterKind::Pages => {
                let word = self.media.load(record + layout::PAGE_WORD);
                if word >> layout::START_SHIFT & !(word & layout::PAGES_USED) != 0 {
                    let detail = "a block starts at a page that is not in use, or bits are set that mean nothing";
                    add(FindingKind::Damage, record + layout::PAGE_WORD, detail.into());
                }
                for page in 0..16 {
                    let number = cluster * 16 + page;
                    let (used, start) = (word >> page & 1 == 1, word >> layout::START_SHIFT >> page & 1 == 1);
                    if *open > 0 && (!used || start) {
                        add(FindingKind::Damage, self.prime + number * PAGE, "a large block ends too early".into());
                        *open = 0;
                    }
                    if used && start {
                        *open = self.count_pages(number, &mut |cluster| self.zone_record(cluster)).unwrap_or(1);
                    } else if used && *open == 0 && number >= self.plan.system_pages {
                        let detail = "a page is in use and belongs to no block";
                        add(FindingKind::Damage, self.prime + number * PAGE, detail.into());
                    }
                    *open = open.saturating_sub(1);
                }
            }
        }
    }
}
