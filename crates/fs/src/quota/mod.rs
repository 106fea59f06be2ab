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

pub(crate) mod list;
pub(crate) mod usage;

use crate::core::Core;
use crate::extents::{Extents, Pages};
use crate::layout::{Inode, PAGE, QUOTAS_AT, STATE_SNAPSHOT, State};
use crate::table::InodeTable;
use crate::volume::Volume;
use crate::xattr::run as xattr;
use crate::{Error, Result};
use usage::{Delta, Owner, Used};

/// A user, a group or a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuotaKind {
    /// The files of a user.
    User,
    /// The files of a group.
    Group,
    /// The files of a project; 0 is the one of all files that were given none.
    Project,
}

impl QuotaKind {
    /// All kinds.
    pub const ALL: [QuotaKind; 3] = [QuotaKind::User, QuotaKind::Group, QuotaKind::Project];
}

impl std::fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            QuotaKind::User => "user",
            QuotaKind::Group => "group",
            QuotaKind::Project => "project",
        })
    }
}

/// A limit of bytes, or of inodes; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimit {
    /// May be passed for the time of grace.
    pub soft: u64,
    /// Is not passed.
    pub hard: u64,
    /// Seconds that usage may stay above the soft limit; then it counts as the hard one.
    pub grace: u32,
}

/// The limits of one user, group or project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Of bytes, in whole pages of 4096.
    pub bytes: QuotaLimit,
    /// Of inodes.
    pub inodes: QuotaLimit,
}

/// The limits and the usage of one user, group or project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// User, group or project.
    pub kind: QuotaKind,
    /// Its number.
    pub id: u32,
    /// Its limits.
    pub limits: QuotaLimits,
    /// Bytes of its pages.
    pub bytes: u64,
    /// Its inodes.
    pub inodes: u64,
    /// Since when bytes and inodes are above their soft limits, in nanoseconds since 1970; 0: they
    /// are not.
    pub since: [i64; 2],
}

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
            list::replace(core, &all)?;
        } else {
            let used = count(Pages::of(core.object()), &core.table).map_err(|damage| damage.of_object(core.name()))?;
            list::replace(core, &all)?;
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
        list::replace(core, &[])?;
        core.quotas.set_limits(&[]);
        Ok(())
    }

    /// Owners that may have limits.
    pub const QUOTAS_MAX: usize = 16_384;
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

/// Counts what the files of a volume have, while nothing changes them.
pub(crate) fn count(pages: Pages<'_>, table: &InodeTable) -> Result<Vec<(usage::Key, Used)>, everbyte_media::Damage> {
    let mut counters = usage::Counters::default();
    for ino in table.numbers() {
        let at = table.at(ino).expect("the number is the table's");
        let inode: Inode = pages.media.get(at);
        let state = State::of(inode.state);
        if state.mode != 0 && state.flags & STATE_SNAPSHOT == 0 {
            let extents = Extents::load(pages, at)?.extents.page_count();
            let xattrs = xattr::run(pages, at)?.map_or(0, |(_, count, _)| count);
            counters.add(Owner::of(&inode), extents + xattrs);
        }
    }
    Ok(counters.into_used())
}

/// The place of the list of limits.
pub(crate) fn word_at(start: u64) -> u64 {
    start + QUOTAS_AT
}

impl Delta {
    /// A new file with these pages.
    pub(crate) fn new_file(owner: Owner, pages: u64) -> Delta {
        Delta { owner, pages: pages as i64, inodes: 1 }
    }
}
