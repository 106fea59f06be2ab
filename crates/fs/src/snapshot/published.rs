//! The snapshots that a volume has, as opening and the check read them.
//!
//! A word behind the head leads to the directory of snapshots, which no name leads to. Its entries
//! lead to the roots of snapshots. Each inode of a snapshot names the snapshot's root, so that one
//! entry publishes all of them, and its removal withdraws all.
//!
//! Invariants
//!   FS-22  An inode with the flag of snapshots is live only if it belongs to the directory of
//!          snapshots or to a root that an entry of that directory leads to. Opening frees others.
//!   FS-23  The number of a root has another use only after all inodes that name it are free.

use crate::Ino;
use crate::extents::{Extents, Pages};
use crate::layout::{Inode, PAGE, PAGE_LINES, SNAPSHOTS_AT, STATE_SNAPSHOT, State, inode, number};
use crate::names;
use crate::recover::{damaged_state, require_plausible};
use crate::table::InodeTable;
use everbyte_media::Damage;
use everbyte_media::sealed::unseal_low;
use std::collections::HashSet;

/// The directory of snapshots, and the roots that its entries lead to.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// The directory.
    pub directory: Option<Ino>,
    /// The directory and the roots.
    roots: HashSet<u64>,
}

/// The directory of snapshots; `None`: the volume has had no snapshot.
pub(crate) fn directory(pages: Pages<'_>) -> Result<Option<Ino>, Damage> {
    let at = pages.start + SNAPSHOTS_AT;
    match pages.media.load(at) {
        0 => Ok(None),
        word => match unseal_low(word) {
            Some(ino) => Ok(Some(Ino(ino))),
            None => Err(Damage::at(at, "the word that leads to the snapshots fails its check")),
        },
    }
}

impl Published {
    /// Reads the directory.
    pub(crate) fn read(pages: Pages<'_>, table: &InodeTable) -> Result<Published, Damage> {
        let Some(directory) = directory(pages)? else { return Ok(Published::default()) };
        let damaged = |detail: &str| Damage::at(pages.start + SNAPSHOTS_AT, detail);
        let at = table.at(directory).ok_or_else(|| damaged("the directory of snapshots lies outside"))?;
        let word = pages.media.load(at + inode::STATE);
        let state = State::checked(word).ok_or_else(|| damaged_state(directory, at))?;
        if state.mode == 0 || state.flags & STATE_SNAPSHOT == 0 {
            return Err(damaged("no directory of snapshots lies where one should"));
        }
        require_plausible(pages.media, directory, at)?;
        let extents = Extents::load(pages, at)?.extents;
        let mut roots = HashSet::from([directory.0]);
        for page in 0..number(pages.media.load(at + inode::SIZE)) / PAGE {
            let found = extents.find(page).ok_or_else(|| damaged("the directory of snapshots lacks a page"))?;
            let entry = |line: names::Line| {
                roots.insert(line.ino.0);
                Ok(())
            };
            let page_at = pages.start + (found.1.place.page + (page - found.0)) * PAGE;
            names::read_page(pages.media, page_at, page as u32 * PAGE_LINES, entry, |_| ())?;
        }
        Ok(Published { directory: Some(directory), roots })
    }

    /// Whether an inode with the flag of snapshots belongs to one that is published.
    pub(crate) fn has(&self, inode: &Inode) -> bool {
        self.roots.contains(&inode.snapshot)
    }

    /// Whether an inode is the root of a snapshot, or the directory of snapshots.
    pub(crate) fn is_root(&self, ino: Ino) -> bool {
        self.roots.contains(&ino.0)
    }
}
