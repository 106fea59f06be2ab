//! [`Writer`]: what the writer of a tree keeps in memory between batches.

use crate::tree::build::Items;
use crate::tree::dirty::Dirty;
use crate::tree::handle::OpenTree;
use crate::tree::hash::OffsetSet;
use crate::tree::number::Version;
use crate::tree::pins::Published;
use crate::tree::prefetch::Prefetched;
use everbyte_heap::{Block, Op};
use everbyte_media::museum::unless;
use everbyte_media::seeded;
use std::collections::VecDeque;
/// The writer's volatile state between batches.
pub(crate) struct Writer {
    pub committed: Published,
    /// Which of the two states counts.
    pub state: usize,
    /// The number the next batch gets (VER-1).
    pub next: Version,
    /// The version the tree was opened at.
    pub opened: u64,
    /// Dead entries that own something, in the order of their ends.
    pub graveyard: VecDeque<Grave>,
    /// Slots emptied with no fence since: not yet to be reused (TREE-2).
    pub recent: OffsetSet,
    /// The thread that applied the last ledger: only its own fences order what it flushed (TREE-6).
    pub applied_by: u64,
    /// Nodes as old as this or older may hold dead entries that no grave names; 0: none does.
    pub unlisted: u64,
    /// Those of them that have been listed meanwhile.
    pub scanned: OffsetSet,
    /// The key at which the search for unlisted dead entries goes on.
    pub sweep: Option<Vec<u8>>,
    /// The way down from the grave in front to the entry at which reclaiming goes on.
    pub digging: Vec<Frame>,
    /// Whether the last process died: empty slots of older nodes may then be empty only in its
    /// caches.
    pub suspicious: bool,
    /// Nodes older than `opened` whose empty slots have been flushed since.
    pub adopted: OffsetSet,
    /// The last answer of `Pins::oldest`: never too new.
    pub horizon: u64,
    /// Ledgers too long for the area, kept reserved while their state counts.
    pub long_ledgers: [Option<Block>; 2],
    /// Operations of the ledger in force: a crash applies them again, so the blocks that they free
    /// are not reused yet.
    pub unfinished: Vec<Op>,
    /// Keys on whose way nodes are to be merged (`merge.rs`).
    pub poor: Vec<Vec<u8>>,
    /// Whether that failed and no space has come back since.
    pub cannot_mend: bool,
    /// Whether there were more of them than are noted.
    pub missed: bool,
    /// Merges before the last sweep that was to find those.
    pub merges_before: u64,
    pub items: Items,
    /// A clean one for the next batch.
    pub dirty: Dirty,
    /// An empty one for the next batch.
    pub touched: Vec<u64>,
    /// Leaves found ahead.
    pub prefetched: Prefetched,
}

/// A dead entry that owns blocks or a subtree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grave {
    pub end: Version,
    pub node: u64,
    pub index: usize,
}

/// A dead entry that is being reclaimed together with what lies below it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub node: u64,
    pub index: u16,
    /// Everything below goes, not only what is dead.
    pub whole: bool,
}
const _: () = assert!(size_of::<Frame>() == 16); // one for each link of a chain

impl Writer {
    /// Flushes again what another thread applied and flushed and has not fenced since, so that a
    /// fence of this thread orders it (TREE-6).
    #[cold]
    pub(crate) fn flush_applied(&self, shared: &OpenTree) {
        if seeded("tree-another-threads-ledger") {
            return;
        }
        shared.heap.flush(&self.unfinished);
        unless("tree-another-threads-drops", || self.recent.iter().for_each(|&slot| shared.media.flush(slot, 8)));
    }
}
