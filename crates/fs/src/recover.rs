//! Opening a volume: which inodes and which pages are free, where no saved state tells it.
//!
//! Lanes have been undone before. Steps, each idempotent:
//!   1. the inode table is read
//!   2. after a crash the words that change alone are flushed again: those of the inode table, of
//!      the table of checksums, and of each inode and its chain; a fence
//!   3. each live inode: without a name it is freed, since no process holds it, and so are those of
//!      snapshots that are not published (FS-22); slots that a crash left behind its end are
//!      cleared; its pages are marked
//!   4. a fence, before any page has a new use
//!
//! Invariants
//!   FS-13  A process that ended between a store and its flush leaves words that this one reads and
//!          that a later power cut could still take away. All words that change without an undo
//!          record are flushed again before anything rests on them.
//!   FS-12  A page is free unless the inode table, the table of checksums, the list of quotas, a
//!          lane or the slots of a live inode lead to it. Several slots lead to it only if all of
//!          them have the flag of shared pages (FS-20).
//!   FS-46  An inode is freed by its state and links, and pages are cut by its size, only if the
//!          checks of these words agree. Else the file is damaged, and its pages stay its own.

use crate::extents::{Extents, Pages};
use crate::format::first_free;
use crate::free_pages::FreePages;
use crate::lanes::Lanes;
use crate::layout::{
    FILE_MAX, GROUP_PAGES, Head, INLINE, INODE, Inode, LINE, PAGE, STATE_GIANT, STATE_INLINE, STATE_LARGE,
    STATE_PROJECT, STATE_SNAPSHOT, State, inode, number,
};
use crate::quota::list;
use crate::quota::usage::{Counters, Key, Owner, Used};
use crate::shared_pages::SharedPages;
use crate::snapshot::published::Published;
use crate::table::InodeTable;
use crate::xattr::run as xattr;
use crate::{Error, FileKind, Ino, PageSize, Result, sums};
use everbyte_media::sealed::unseal_low;
use everbyte_media::{Damage, Media, seeded};
use everbyte_store::Object;

/// The work of opening a volume after a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeRecovery {
    /// The state that [`crate::Volume::close`] saved was used: no inode was read.
    pub saved: bool,
    /// Changes that were interrupted, and undone.
    pub undone: usize,
    /// Files without a name that were open then, and removed.
    pub orphans: Vec<Ino>,
    /// Files of snapshots whose making or removal was interrupted, and removed.
    pub snapshot_files: u64,
    /// Runs of pages behind the end of a file that were freed.
    pub trimmed: u64,
    /// A copy of the head was damaged, and written again.
    pub head_repaired: bool,
    /// Files whose extents are damaged; other files can be used.
    pub damaged: Vec<Ino>,
}

/// The result of a scan.
pub(crate) struct Scan {
    pub table: InodeTable,
    pub free: FreePages,
    pub shared: SharedPages,
    /// The pages and inodes of each owner, in a volume with quotas.
    pub used: Vec<(Key, Used)>,
    pub recovery: VolumeRecovery,
}

/// Reads the whole volume; see the header.
///
/// # Errors
/// [`Error::Damaged`] if the inode table is damaged. Damage of one file makes that file unusable.
pub(crate) fn scan(object: &Object, head: &Head) -> Result<Scan> {
    let pages = Pages::of(object);
    let media = pages.media;
    let mut free = FreePages::new();
    let fixed = first_free(head.lanes);
    let tables = fixed - 2 - GROUP_PAGES;
    free.give(tables, pages.end - tables);
    let mut words = Vec::new(); // pages of words of the inode table
    let table = InodeTable::open(object, |page, count| {
        words.extend((count < GROUP_PAGES).then_some(page));
        free.take_at(page, count).map_err(|page| {
            let damage = Damage::at(pages.start + page * PAGE, "two parts of the inode table share it");
            Error::from(damage.of_object(object.name()))
        })
    })?;
    // Pages behind a damaged word are not found, and what is sealed by them cannot be read.
    let mut of_sums = Vec::new();
    let mut each = |page, at| {
        of_sums.push(at);
        free.take_at(page, 1).is_ok()
    };
    sums::each_page(pages, &mut each, &mut |_| ());
    if object.store().may_follow_a_death() {
        Lanes::reflush(media, pages.start, head.lanes);
        if !seeded("fs-group-unadopted") {
            words.iter().for_each(|page| media.reflush(pages.start + page * PAGE, PAGE));
        }
        if !seeded("fs-seal-table-unadopted") {
            of_sums.iter().for_each(|&at| media.reflush(at, 8));
        }
        for ino in table.numbers() {
            reflush(pages, table.at(ino).expect("the number is the table's"));
        }
        media.fence_unless("fs-reflush-unfenced"); // FS-13
    }
    let mut recovery = VolumeRecovery::default();
    // No inode of a snapshot is freed if the list of snapshots cannot be read.
    let published = Published::read(pages, &table).ok();
    let is_left = |ino: Ino, at: u64, state: State| {
        let inode: Inode = media.get(at);
        state.flags & STATE_SNAPSHOT != 0
            && ino != Ino::ROOT
            && inode.snapshot != 0
            && inode.checksum == inode.owner_sum()
            && published.as_ref().is_some_and(|published| !published.has(&inode))
    };
    let has_quotas = take_list(pages, &mut free);
    let mut counters = Counters::default();
    let mut shared = SharedPages::default(); // the number of extents with the flag, of all pages
    let mut numbers = Vec::new();
    for ino in table.numbers() {
        let at = table.at(ino).expect("the number is the table's");
        let Some(state) = State::checked(media.load(at + inode::STATE)) else {
            recovery.damaged.push(ino); // FS-46
            continue;
        };
        if state.mode == 0 {
            numbers.push(ino);
            continue;
        }
        let is_left = is_left(ino, at, state); // FS-22
        let has_no_link = unseal_low(media.load(at + inode::LINKS)) == Some(0);
        if is_left || has_no_link && ino != Ino::ROOT {
            let gone = State { mode: 0, flags: 0, generation: state.generation.wrapping_add(1) };
            let _section = media.section();
            media.store(at + inode::STATE, gone.word());
            media.flush(at + inode::STATE, 8);
            match is_left {
                true => recovery.snapshot_files += 1,
                false => recovery.orphans.push(ino),
            }
            numbers.push(ino);
            continue;
        }
        match mark(pages, (&mut free, &mut shared), ino, at) {
            Ok((trimmed, count)) => {
                recovery.trimmed += trimmed;
                if has_quotas && state.flags & STATE_SNAPSHOT == 0 {
                    counters.add(Owner::of(&media.get(at)), count);
                }
            }
            Err(_) => recovery.damaged.push(ino),
        }
    }
    shared.lower_all();
    // Pages that a damaged file still leads to are not given away: a repair may want them.
    for &ino in &recovery.damaged {
        let at = table.at(ino).expect("the number is the table's");
        let xattrs = xattr::run(pages, at).ok().flatten().map(|(page, count, _)| (page, count));
        for (page, count) in Extents::salvage(pages, at).into_iter().chain(xattrs) {
            for page in page..page + count {
                if free.take_from(page, 1) == 0 {
                    shared.raise(page, 1);
                }
            }
        }
    }
    media.fence();
    table.give_all(numbers);
    Ok(Scan { table, free, shared, used: counters.into_used(), recovery })
}

/// Marks the pages of the list of quotas. Returns whether the volume has one.
fn take_list(pages: Pages<'_>, free: &mut FreePages) -> bool {
    match list::run(pages) {
        Ok(None) => false,
        Ok(Some((page, count))) => free.take_at(page, count).is_ok(),
        Err(_) => {
            // The first page is kept for a repair.
            let place = pages.place(list::word_at(pages.start), pages.media.load(list::word_at(pages.start)), 1);
            place.iter().for_each(|place| _ = free.take_from(place.page, 1));
            false
        }
    }
}

/// Flushes the words of an inode that change alone: its first line, its inline bytes, its slots.
pub(crate) fn reflush(pages: Pages<'_>, at: u64) {
    let state = State::of(pages.media.load(at + inode::STATE));
    let is_paged = state.mode != 0 && state.flags & STATE_INLINE == 0;
    pages.media.reflush(at, if state.mode != 0 { INODE } else { LINE });
    if !is_paged || pages.media.load(at + inode::LIST) == 0 || seeded("fs-list-unadopted") {
        return;
    }
    for page in Extents::load(pages, at).iter().flat_map(|loaded| loaded.extents.list()) {
        pages.media.reflush(pages.start + page * PAGE, PAGE);
    }
}

/// Refuses the inode of a live file that contradicts itself.
pub(crate) fn require_plausible(media: &Media, ino: Ino, at: u64) -> Result<(), Damage> {
    let state = State::checked(media.load(at + inode::STATE)).ok_or_else(|| damaged_state(ino, at))?;
    let number = |name: &str, offset: u64| {
        let damage = || Damage::at(at + offset, format!("the {name} of inode {ino} fails its check"));
        unseal_low(media.load(at + offset)).ok_or_else(damage)
    };
    number("count of links", inode::LINKS)?;
    let outcome = require_plausible_parts(state, number("size", inode::SIZE)?);
    outcome.map_err(|wrong| Damage::at(at, format!("inode {ino} {wrong}")))
}

/// The damage of an inode whose state fails its check.
pub(crate) fn damaged_state(ino: Ino, at: u64) -> Damage {
    Damage::at(at + inode::STATE, format!("the state of inode {ino} fails its check"))
}

/// As [`require_plausible`], of the parts of an inode.
pub(crate) fn require_plausible_parts(state: State, size: u64) -> Result<(), &'static str> {
    let is_inline = state.flags & STATE_INLINE != 0;
    let regular = Some(FileKind::Regular);
    match FileKind::of_mode(state.mode) {
        None => Err("has a mode of no kind"),
        _ if state.flags & !(STATE_INLINE | STATE_SNAPSHOT | STATE_PROJECT | STATE_LARGE | STATE_GIANT) != 0 => {
            Err("has flags that this program does not know")
        }
        kind if PageSize::of_flags(state.flags).is_none_or(|size| size > PageSize::Small && kind != regular) => {
            Err("has a page size that its file cannot have")
        }
        Some(FileKind::Directory) if is_inline || !size.is_multiple_of(PAGE) => {
            Err("is a directory with a page in part")
        }
        Some(FileKind::Link) if size >= PAGE => Err("is a link with a target that is too long"),
        _ if is_inline && size > INLINE => Err("has more bytes than fit into it"),
        _ if size > FILE_MAX => Err("is larger than a file may be"),
        _ => Ok(()),
    }
}

/// Clears what a crash left of one file, and marks its pages. Returns the number of runs that were
/// cleared, and that of its pages.
fn mark(
    pages: Pages<'_>,
    (free, shared): (&mut FreePages, &mut SharedPages),
    ino: Ino,
    at: u64,
) -> Result<(u64, u64), Damage> {
    require_plausible(pages.media, ino, at)?;
    let size = number(pages.media.load(at + inode::SIZE));
    let state = State::of(pages.media.load(at + inode::STATE));
    if state.flags & STATE_SNAPSHOT != 0 && pages.media.get::<Inode>(at).snapshot == 0 {
        // It was one bit of a live file; taken for a part of a snapshot, the file would be freed.
        return Err(Damage::at(at + inode::STATE, format!("inode {ino} belongs to a snapshot, and to none")));
    }
    let mut loaded = Extents::load(pages, at)?;
    let pages_found: u64 = loaded.extents.pieces().map(|(_, piece)| piece.len).sum();
    if state.mode == FileKind::Directory.bits() | state.mode & 0o7777 && pages_found < size / PAGE {
        return Err(Damage::at(at + inode::SIZE, format!("directory {ino} lacks a page")));
    }
    let trimmed = loaded.trim(pages, at, size);
    let mut taken: Vec<(u64, u64, bool)> = Vec::new();
    let xattrs = xattr::run(pages, at)?;
    for run in loaded.extents.flagged_pages().into_iter().chain(xattrs) {
        if let Err(page) = take(free, shared, run) {
            taken.into_iter().for_each(|run| give_back(free, shared, run));
            let place = pages.start + page * PAGE;
            return Err(Damage::at(place, format!("inode {ino} and another part of the volume share it")));
        }
        taken.push(run);
    }
    Ok((trimmed, taken.iter().map(|(_, count, _)| count).sum()))
}

/// Takes the pages of an extent. Returns the first of them that another extent has and that is not
/// shared, and takes none then.
fn take(free: &mut FreePages, shared: &mut SharedPages, (page, count, is_shared): (u64, u64, bool)) -> Result<(), u64> {
    if !is_shared {
        return free.take_at(page, count);
    }
    let parts = shared.parts(page, count);
    let fresh: Vec<_> = parts.into_iter().filter(|&(_, _, extents)| extents == 0).collect();
    let is_taken = |&(page, count, _): &(u64, u64, u32)| (page..page + count).find(|&page| !free.is_free(page));
    if let Some(page) = fresh.iter().find_map(is_taken) {
        return Err(page);
    }
    fresh.into_iter().for_each(|(page, count, _)| free.take_at(page, count).expect("they are free"));
    shared.raise(page, count);
    Ok(())
}

/// Undoes [`take`].
fn give_back(free: &mut FreePages, shared: &mut SharedPages, (page, count, is_shared): (u64, u64, bool)) {
    if !is_shared {
        return free.give(page, count);
    }
    shared.lower(page, count);
    let parts = shared.parts(page, count).into_iter();
    parts.filter(|&(_, _, extents)| extents == 0).for_each(|(page, count, _)| free.give(page, count));
}
