//! [`Core`]: the parts of an open volume that all its operations share.
//!
//! Threads: any. An operation that changes the volume enters `freeze` first; one that makes or
//! removes a snapshot has locked `snapshots` before. Then an operation locks the files that it
//! changes: a directory before the files in it, two files in the order of their numbers. An
//! operation that locks two directories, or moves one, holds the volume's tree lock for writing,
//! other changes of names hold it for reading. Below the locks of files lie those of the inode
//! table, of a lane, and of the free pages, each held for one call.

use crate::change::Change;
use crate::freeze::Freeze;
use crate::lanes::Lanes;
use crate::layout::Head;
use crate::maps::Maps;
use crate::node::Node;
use crate::nodes::Nodes;
use crate::parts::PartedLock;
use crate::space::Space;
use crate::sums::Sums;
use crate::table::InodeTable;
use crate::{Clock, Ino, PageSize, Result, VolumeRecovery};
use everbyte_media::WriteGuard;
use everbyte_store::Claim;
use parking_lot::Mutex;
use std::ops::Deref;
use std::sync::Arc;

/// The state that all clones of a volume share.
pub(crate) struct Core {
    pub space: Space,
    pub head: Head,
    pub lanes: Lanes,
    pub table: InodeTable,
    pub nodes: Nodes,
    /// The mapped ranges of files.
    pub maps: Maps,
    /// See the header of this file.
    pub tree: PartedLock<8>,
    /// Held by each call that changes the volume.
    pub freeze: Freeze,
    /// Serialises making and removing snapshots, and changes of quotas and of the size.
    pub snapshots: Mutex<()>,
    pub clock: Clock,
    /// Keeps the pages of the span read-only outside of sections.
    pub guard: WriteGuard,
    /// The page size of new files.
    pub page_size: PageSize,
    /// Checksums of data.
    pub sums: Sums,
    /// Sealed pages are verified when they are read.
    pub verifies: bool,
    /// The work that opening the volume did.
    pub recovery: VolumeRecovery,
    /// Makes a second opening an error.
    pub _claim: Claim,
}

impl Core {
    /// The present time.
    pub(crate) fn now(&self) -> i64 {
        (self.clock)()
    }

    /// The node of an inode.
    ///
    /// # Errors
    /// [`crate::Error::Stale`] if the volume has no such inode.
    pub(crate) fn node(&self, ino: Ino) -> Result<Arc<Node>> {
        self.nodes.get(ino, &self.table, &self.space)
    }

    /// A change of nothing, at the present time: the clock is read once a change.
    pub(crate) fn change(&self) -> Change<'_> {
        Change::new(&self.space, &self.lanes, self.now())
    }
}

impl Deref for Core {
    type Target = Space;

    fn deref(&self) -> &Space {
        &self.space
    }
}
