//! The check of a volume: every inode, every page, every name. Changes nothing.

use crate::core::Core;
use crate::extents::{Extents, Pages};
use crate::format::first_free;
use crate::layout::{GROUP_PAGES, PAGE, PAGE_LINES, STATE_SNAPSHOT, State, inode};
use crate::names;
use crate::quota::usage::{Key, Used};
use crate::quota::{self, list};
use crate::recover::{damaged_state, require_plausible};
use crate::size;
use crate::snapshot::published::Published;
use crate::table::InodeTable;
use crate::volume::Volume;
use crate::xattr::run as xattr;
use crate::{FileKind, Ino, sums};
use everbyte_media::Damage;
use everbyte_store::{Finding, FindingKind};
use std::collections::{HashMap, HashSet};

/// The names that lead to each inode, as the directories have them.
#[derive(Default)]
struct Reached {
    /// Names of each inode.
    names: HashMap<Ino, u64>,
    /// Subdirectories of each directory.
    subdirectories: HashMap<Ino, u64>,
    /// Every name: the directory, and the inode.
    names_in: Vec<(Ino, Ino)>,
    /// The directory of each directory.
    parents: HashMap<Ino, Ino>,
    /// The root of the snapshot that each live inode belongs to; 0: none.
    snapshots: HashMap<Ino, u64>,
    /// Files that are freed when they are held no more.
    leaving: HashSet<Ino>,
    /// The directory of snapshots, and the roots that it leads to.
    published: Published,
}

/// The extents that lead to a page.
struct Owner {
    ino: Ino,
    is_shared: bool,
    /// Extents but the first.
    others: u32,
}

type Owners = HashMap<u64, Owner>;

impl Volume {
    /// Verifies the volume: extents within it, pages that several extents lead to, counts of links,
    /// names that lead to live inodes of their type, directories that hang together, and pages:
    /// each is free or has an owner. No other thread may change the volume meanwhile.
    pub fn check(&self) -> Vec<Finding> {
        self.check_files().into_iter().map(|(_, finding)| finding).collect()
    }

    /// As [`Volume::check`], each finding with the inode that it is about.
    pub fn check_files(&self) -> Vec<(Ino, Finding)> {
        self.check_files_with(&|_, _| ())
    }

    /// As [`Volume::check_files`]; `progress` receives the inodes that were read, and their total.
    pub fn check_files_with(&self, progress: &dyn Fn(u64, u64)) -> Vec<(Ino, Finding)> {
        let core = &*self.core;
        let mut findings = Vec::new();
        let mut report = |ino: Ino, at: u64, detail: String| {
            let object = Some(core.name().into());
            findings.push((ino, Finding { room: "fs", kind: FindingKind::Damage, at, object, detail }));
        };
        let pages = Pages::of(core.object());
        let mut owners = Owners::default();
        let mut reached = Reached::default();
        let mut live = HashSet::new();
        match Published::read(pages, &core.table) {
            Ok(published) => reached.published = published,
            Err(Damage { offset, detail, .. }) => report(Ino::ROOT, offset.unwrap_or(pages.start), detail),
        }
        let total = core.table.numbers().count() as u64;
        for ino in core.table.numbers() {
            if ino.0.is_multiple_of(256) {
                progress(ino.0, total);
            }
            let at = core.table.at(ino).expect("the number is the table's");
            let node = core.media().get::<crate::layout::Inode>(at);
            let Some(state) = State::checked(node.state) else {
                report(ino, at + inode::STATE, damaged_state(ino, at).detail);
                continue;
            };
            if state.mode == 0 {
                continue;
            }
            let Some(kind) = FileKind::of_mode(state.mode) else {
                report(ino, at, format!("inode {ino} has a mode of no kind"));
                continue;
            };
            live.insert(ino);
            if let Err(Damage { offset, detail, .. }) = require_plausible(core.media(), ino, at) {
                report(ino, offset.unwrap_or(at), detail);
            }
            let of = if state.flags & STATE_SNAPSHOT == 0 { 0 } else { node.snapshot };
            reached.snapshots.insert(ino, of);
            // A held file of a snapshot that was removed; what its names led to is free.
            let is_leaving = of != 0 && node.link_count() == 0;
            if is_leaving {
                reached.leaving.insert(ino);
            } else if of != node.snapshot || state.flags & STATE_SNAPSHOT != 0 && !reached.published.has(&node) {
                report(ino, at, format!("inode {ino} belongs to snapshot {}, which is none", node.snapshot));
            }
            if node.checksum != node.owner_sum() {
                report(ino, at + inode::OWNER, format!("the owner of inode {ino} fails its checksum"));
            }
            if let Err(Damage { offset, detail, .. }) = xattr::read(pages, at) {
                report(ino, offset.unwrap_or(at), format!("inode {ino}: {detail}"));
            }
            let xattrs = xattr::run(pages, at).ok().flatten();
            match Extents::load(pages, at) {
                Ok(loaded) => {
                    sums::verify_all(pages, ino, &loaded.extents, &mut |_, damage| {
                        report(ino, damage.offset.unwrap_or(at), damage.detail);
                    });
                    for &slot in &loaded.torn {
                        report(ino, slot, format!("a slot of inode {ino} has one word"));
                    }
                    check_pages(core, ino, at, node.file_size(), (&loaded.extents, xattrs), &mut owners, &mut report);
                    if kind == FileKind::Directory && !is_leaving {
                        read_names(core, ino, node.file_size(), &loaded.extents, &mut reached, &mut report);
                    }
                }
                Err(Damage { offset, detail, .. }) => {
                    report(ino, offset.unwrap_or(at), format!("inode {ino}: {detail}"))
                }
            }
        }
        sums::each_page(pages, &mut |_, _| true, &mut |damage: Damage| {
            report(Ino(0), damage.offset.unwrap_or(pages.start), damage.detail);
        });
        check_links(core, &live, &reached, &mut report);
        check_snapshots(core, &reached, &mut report);
        check_counts(core, &owners, &mut report);
        check_quotas(core, &owners, &mut report);
        if let Err(Damage { offset, detail, .. }) = size::read(pages) {
            report(Ino::ROOT, offset.unwrap_or(pages.start), detail);
        }
        if findings.is_empty() {
            check_free(core, &owners, &live, &mut findings);
        }
        findings
    }
}

/// Free pages and inodes are exactly those that nothing leads to, and that no file lives in.
fn check_free(core: &Core, owners: &Owners, live: &HashSet<Ino>, findings: &mut Vec<(Ino, Finding)>) {
    let mut report = |at: u64, detail: String| {
        let object = Some(core.name().into());
        findings.push((Ino(0), Finding { room: "fs", kind: FindingKind::Damage, at, object, detail }));
    };
    let (free, inodes) = (core.free_pages(), core.table.free_bits());
    let mut used: HashSet<u64> = (0..first_free(core.head.lanes) - 2 - GROUP_PAGES).collect();
    let read = InodeTable::open(core.object(), |page, count| {
        used.extend(page..page + count);
        Ok(())
    });
    if let Err(error) = read {
        return report(core.at(0), error.to_string());
    }
    let list = list::run(Pages::of(core.object())).ok().flatten();
    used.extend(list.into_iter().flat_map(|(page, count)| page..page + count));
    sums::each_page(Pages::of(core.object()), &mut |page, _| used.insert(page), &mut |_| ());
    let is_lost = |page: &u64| !free.is_free(*page) && !used.contains(page) && !owners.contains_key(page);
    let lost: Vec<u64> = (0..core.end_page()).filter(is_lost).collect();
    if let Some(&first) = lost.first() {
        report(core.at(first), format!("{} pages are neither free nor in use", lost.len()));
    }
    if let Some(page) = used.iter().find(|page| free.is_free(**page)) {
        report(core.at(*page), "a page of the inode table, the head or a lane counts as free".into());
    }
    for ino in core.table.numbers() {
        if (inodes[(ino.0 / 64) as usize] >> (ino.0 % 64) & 1 == 1) == live.contains(&ino) {
            let at = core.table.at(ino).expect("the number is the table's");
            report(at, format!("inode {ino} is live and counts as free, or the other way round"));
        }
    }
}

fn check_pages(
    core: &Core,
    ino: Ino,
    at: u64,
    size: u64,
    (extents, xattrs): (&Extents, Option<(u64, u64, bool)>),
    owners: &mut Owners,
    report: &mut impl FnMut(Ino, u64, String),
) {
    for (first, piece) in extents.pieces().filter(|(_, piece)| !piece.place.is_unwritten()) {
        if first + piece.len > size.div_ceil(PAGE) {
            report(ino, at, format!("inode {ino} has pages behind its end"));
        }
    }
    for (first, count, is_shared) in extents.flagged_pages().into_iter().chain(xattrs) {
        for page in first..first + count {
            let Some(owner) = owners.get_mut(&page) else {
                owners.insert(page, Owner { ino, is_shared, others: 0 });
                continue;
            };
            owner.others += 1;
            if !owner.is_shared || !is_shared {
                report(ino, core.at(page), format!("inodes {} and {ino} share a page", owner.ino));
            }
        }
    }
}

/// Compares the list of quotas, and what their owners have, with the files.
fn check_quotas(core: &Core, owners: &Owners, report: &mut impl FnMut(Ino, u64, String)) {
    let pages = Pages::of(core.object());
    if let Err(Damage { offset, detail, .. }) = list::read(pages) {
        return report(Ino::ROOT, offset.unwrap_or(pages.start), detail);
    }
    let Ok(Some((first, count))) = list::run(pages) else { return };
    if let Some((page, owner)) = (first..first + count).find_map(|page| Some((page, owners.get(&page)?))) {
        report(owner.ino, core.at(page), format!("inode {} has a page of the list of quotas", owner.ino));
    }
    let Ok(counted) = quota::count(pages, &core.table) else { return }; // reported with its inode
    let amounts = |used: Vec<(Key, Used)>| -> Vec<(Key, u64, u64)> {
        used.into_iter().map(|(key, used)| (key, used.pages, used.inodes)).collect()
    };
    let (found, held) = (amounts(counted), amounts(core.quotas.used()));
    if core.nodes.are_whole() && found != held {
        let other =
            found.iter().find(|amount| !held.contains(amount)).or(held.iter().find(|held| !found.contains(held)));
        if let Some(((kind, id), pages, inodes)) = other {
            let detail =
                format!("the counters of quotas differ from the files: {kind} {id}, {pages} pages, {inodes} inodes");
            report(Ino::ROOT, core.at(0), detail);
        }
    }
}

/// Compares the free and the shared pages in memory with those on media.
fn check_counts(core: &Core, owners: &Owners, report: &mut impl FnMut(Ino, u64, String)) {
    let (free, shared) = (core.free_pages(), core.shared_pages());
    let mut total = 0;
    for (&page, owner) in owners {
        let Owner { ino, others, .. } = *owner;
        if free.is_free(page) {
            report(ino, core.at(page), format!("a page of inode {ino} counts as free"));
        }
        if shared.of(page) < others {
            let counted = shared.of(page);
            report(
                ino,
                core.at(page),
                format!("a page of inode {ino} counts {counted} other extents and has {others}"),
            );
        }
        total += u64::from(others);
    }
    // The pages of damaged files count as shared where others have them.
    if core.nodes.are_whole() && total != shared.total() {
        let counted = shared.total();
        report(Ino::ROOT, core.at(0), format!("shared pages count {counted} extents and have {total}"));
    }
}

fn read_names(
    core: &Core,
    ino: Ino,
    size: u64,
    extents: &Extents,
    reached: &mut Reached,
    report: &mut impl FnMut(Ino, u64, String),
) {
    let mut seen = HashSet::new();
    for page in 0..size / PAGE {
        let Some((first, piece)) = extents.find(page) else {
            report(ino, core.at(0), format!("page {page} of directory {ino} is missing"));
            break; // the size may be any number
        };
        let at = core.at(piece.place.page + (page - first));
        let mut entries = Vec::new();
        let entry = |line| {
            entries.push(line);
            Ok(())
        };
        let read = names::read_page(core.media(), at, page as u32 * PAGE_LINES, entry, |_| ());
        if let Err(Damage { offset, detail, .. }) = read {
            report(ino, offset.unwrap_or(at), format!("directory {ino}: {detail}"));
        }
        for entry in entries {
            let place = core.table.at(entry.ino);
            let state = place.map(|at| State::of(core.media().load(at + inode::STATE)));
            let text = String::from_utf8_lossy(&entry.name).into_owned();
            match state.filter(|state| state.mode != 0).map(|state| FileKind::of_mode(state.mode)) {
                None => report(ino, at, format!("the name `{text}` of directory {ino} leads to no file")),
                Some(kind) if kind != Some(entry.kind) => {
                    report(ino, at, format!("the name `{text}` of directory {ino} has another type than its file"));
                }
                Some(_) => (),
            }
            *reached.names.entry(entry.ino).or_default() += 1;
            if entry.kind == FileKind::Directory {
                *reached.subdirectories.entry(ino).or_default() += 1;
                if reached.parents.insert(entry.ino, ino).is_some() {
                    report(ino, at, format!("directory {} has two names", entry.ino));
                }
            }
            reached.names_in.push((ino, entry.ino));
            if !seen.insert(entry.name) {
                report(ino, at, format!("directory {ino} has the name `{text}` twice"));
            }
        }
    }
}

fn check_links(core: &Core, live: &HashSet<Ino>, reached: &Reached, report: &mut impl FnMut(Ino, u64, String)) {
    if !live.contains(&Ino::ROOT) {
        report(Ino::ROOT, core.at(0), "the volume has no root directory".into());
    }
    for &ino in live {
        let at = core.table.at(ino).expect("the number is the table's");
        let node: crate::layout::Inode = core.media().get(at);
        let is_directory = FileKind::of_mode(State::of(node.state).mode) == Some(FileKind::Directory);
        let names = reached.names.get(&ino).copied().unwrap_or(0);
        let expected = match is_directory {
            true => 2 + reached.subdirectories.get(&ino).copied().unwrap_or(0),
            false => names,
        };
        if names == 0 && node.link_count() == 0 || reached.leaving.contains(&ino) {
            continue; // held, or freed at the next opening
        }
        if node.link_count() != expected {
            report(
                ino,
                at + inode::LINKS,
                format!("inode {ino} counts {} links and has {expected}", node.link_count()),
            );
        }
        let is_hidden = reached.published.directory == Some(ino);
        if names == 0 && ino != Ino::ROOT && !is_hidden {
            report(ino, at, format!("no name leads to inode {ino}"));
        }
        let is_root = ino == Ino::ROOT || reached.published.is_root(ino);
        let parent = if is_root { Some(&ino) } else { reached.parents.get(&ino) };
        if is_directory && parent != Some(&Ino(node.parent)) {
            report(ino, at + inode::PARENT, format!("directory {ino} names {} as the one that holds it", node.parent));
        }
        if is_directory && !leads_to_root(reached, ino) {
            report(ino, at, format!("directory {ino} does not hang together with the root"));
        }
    }
}

/// Names lead to inodes of the same snapshot, those of the directory of snapshots to roots.
fn check_snapshots(core: &Core, reached: &Reached, report: &mut impl FnMut(Ino, u64, String)) {
    for &(directory, ino) in &reached.names_in {
        let (Some(&of), Some(&found)) = (reached.snapshots.get(&directory), reached.snapshots.get(&ino)) else {
            continue; // reported as a name that leads to no file
        };
        let expected = if reached.published.directory == Some(directory) { ino.0 } else { of };
        if found != expected {
            let at = core.table.at(ino).expect("the inode is live");
            report(ino, at, format!("a name of directory {directory} leads to inode {ino} of another snapshot"));
        }
    }
}

fn leads_to_root(reached: &Reached, mut ino: Ino) -> bool {
    for _ in 0..=reached.parents.len() {
        if ino == Ino::ROOT || reached.published.is_root(ino) {
            return true;
        }
        let Some(&parent) = reached.parents.get(&ino) else { return false };
        ino = parent;
    }
    false
}
