//! Quotas: how many pages and inodes the files of a user, a group or a project may have together.
//!
//! A file is charged to its user, its group and its project: one inode, every page that its extents
//! and its attributes lead to, and the pages of its chain and of its names. A page that several
//! files share is charged to each of them. Files of snapshots are charged to no one.
//!
//! Limits lie on media in a list (`list`), which each change of a limit writes anew. Usage is
//! counted in memory (`usage`), and only while the volume has a limit: the first one counts all
//! files. Opening counts them in its scan, or reads what closing has saved.
//!
//! Invariants
//!   FS-26  While a volume has limits, the counters are what its live files have, and no counter
//!          that a call has raised passes a hard limit.
//!   FS-27  A call is charged before its words change, and given back its charge if it is refused.

pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod usage;

pub use limits::{Quota, QuotaKind, QuotaLimit, QuotaLimits};

use crate::core::Core;
use crate::extents::{Extents, Pages};
use crate::layout::{Inode, PAGE, Place, STATE_SNAPSHOT, State};
use crate::order::Fresh;
use crate::recover::damaged_state;
use crate::table::InodeTable;
use crate::volume::Volume;
use crate::xattr::run as xattr;
use crate::{Error, Result};
use usage::{Delta, Owner, Used};

impl Volume {
    /// The limits that the volume has, and the usage of their owners, by kind and number.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the list of limits is damaged.
    pub fn quotas(&self) -> Result<Vec<Quota>> {
        let core = &*self.core;
        core.read_quotas()?;
        core.object().require_readable()?;
        Ok(core.quotas.all())
    }

    /// Sets the limits of a user, a group or a project; limits of 0 remove them. Usage that is
    /// above a limit already stays, and cannot grow. The first limit of a volume counts all files;
    /// changes wait meanwhile. Whole or absent after a crash; ordered on return.
    ///
    /// # Errors
    /// [`Error::BadOption`] if a soft limit is above its hard one, if the bytes are no multiple of
    /// 4096, or if the volume has [`Volume::QUOTAS_MAX`] limits; [`Error::NoSpace`];
    /// [`Error::Damaged`] if the list of limits or a file is damaged: nothing has changed.
    pub fn set_quota(&self, kind: QuotaKind, id: u32, limits: &QuotaLimits) -> Result<()> {
        require_valid(limits)?;
        let core = &*self.core;
        let _one = core.snapshots.lock();
        let _frozen = core.freeze.stop();
        let mut all = core.read_quotas()?;
        let has_limits = *limits != QuotaLimits::default();
        match all.binary_search_by_key(&(kind, id), |(key, _)| *key) {
            Ok(index) if has_limits => all[index].1 = *limits,
            Ok(index) => _ = all.remove(index),
            Err(index) if has_limits => all.insert(index, ((kind, id), *limits)),
            Err(_) => return Ok(()),
        }
        if all.len() > Volume::QUOTAS_MAX {
            let detail = format!("a volume has limits of up to {} owners", Volume::QUOTAS_MAX);
            return Err(Error::BadOption { detail });
        }
        if core.quotas.is_on() || all.is_empty() {
            replace(core, &all)?;
        } else {
            let used = count(Pages::of(core.object()), &core.table).map_err(|damage| damage.of_object(core.name()))?;
            replace(core, &all)?;
            core.quotas.load(used);
        }
        core.quotas.set_limits(&all);
        Ok(())
    }

    /// Removes all limits, also where their list is damaged. Ordered on return.
    ///
    /// # Errors
    /// [`Error::NoSpace`] for the change's records: nothing has changed.
    pub fn remove_quotas(&self) -> Result<()> {
        let core = &*self.core;
        let _one = core.snapshots.lock();
        let _frozen = core.freeze.stop();
        replace(core, &[])?;
        core.quotas.set_limits(&[]);
        Ok(())
    }

    /// Owners that may have limits.
    pub const QUOTAS_MAX: usize = list::MAX;
}

fn require_valid(limits: &QuotaLimits) -> Result<()> {
    let bad = |detail: &str| Err(Error::BadOption { detail: detail.into() });
    for limit in [limits.bytes, limits.inodes] {
        if limit.hard > 0 && limit.soft > limit.hard {
            return bad("a soft limit is not above the hard one");
        }
    }
    if !limits.bytes.soft.is_multiple_of(PAGE) || !limits.bytes.hard.is_multiple_of(PAGE) {
        return bad("limits of bytes are multiples of 4096");
    }
    Ok(())
}

impl Core {
    /// The limits on media.
    fn read_quotas(&self) -> Result<list::Limits> {
        list::read(Pages::of(self.object())).map_err(|damage| damage.of_object(self.name()).into())
    }
}

/// Writes a new list, which takes the place of the old one; ordered on return. No other change
/// runs.
///
/// One change, a fence between the steps:
///   1. the new list is written to new pages
///   2. the word at [`crate::layout::QUOTAS_AT`] leads to the new list
fn replace(core: &Core, all: &[(usage::Key, QuotaLimits)]) -> Result<()> {
    // The pages of a damaged list stay in use until a scan.
    let old = list::run(Pages::of(core.object()));
    let at = list::word_at(core.at(0));
    let mut change = core.change();
    let new = if all.is_empty() { None } else { Some(write(core, all)?) };
    let taken = match &new {
        Some((place, count)) => {
            change.link(at, place);
            Some((place.page, *count))
        }
        None => {
            change.set(at, 0);
            None
        }
    };
    change.commit().inspect_err(|_| taken.iter().for_each(|&run| core.give_runs(&[run])))?;
    match old {
        Ok(old) => old.iter().for_each(|&run| core.give_runs(&[run])),
        Err(_) => core.require_scan(),
    }
    Ok(())
}

fn write(core: &Core, all: &[(usage::Key, QuotaLimits)]) -> Result<(Fresh<Place>, u64)> {
    let bytes = list::bytes(all);
    let count = (bytes.len() as u64).div_ceil(PAGE);
    let page = core.take_run(count)?;
    Ok((core.copy_pages_unless("fs-quota-unflushed", page, &bytes), count))
}

/// Counts what the files of a volume have, while nothing changes them.
pub(crate) fn count(pages: Pages<'_>, table: &InodeTable) -> Result<Vec<(usage::Key, Used)>, everbyte_media::Damage> {
    let mut counters = usage::Counters::default();
    for ino in table.numbers() {
        let at = table.at(ino).expect("the number is the table's");
        let inode: Inode = pages.media.get(at);
        let state = State::checked(inode.state).ok_or_else(|| damaged_state(ino, at))?;
        if state.mode != 0 && state.flags & STATE_SNAPSHOT == 0 {
            let extents = Extents::load(pages, at)?.extents.page_count();
            let xattrs = xattr::run(pages, at)?.map_or(0, |(_, count, _)| count);
            counters.add(Owner::of(&inode), extents + xattrs);
        }
    }
    Ok(counters.into_used())
}

impl Delta {
    /// A new file with these pages.
    pub(crate) fn new_file(owner: Owner, pages: u64) -> Delta {
        Delta { owner, pages: pages as i64, inodes: 1 }
    }
}
