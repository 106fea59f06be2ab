//! Repair of a volume: damage is removed, and as much as can be is kept.
//!
//! A plan reads the whole volume and drafts the words of a volume without damage. Each action is a
//! line with its place, and the paths of the file. Running the plan, a fence between the steps:
//!   1. damaged lanes and copies of the head are written anew
//!   2. pages that nothing leads to get their new bytes
//!   3. all words change in one change ([`crate::change`])
//!
//! | damage | what is kept |
//! |---|---|
//! | a copy of the head | the other one; if both are damaged a head without a label, with a new identity |
//! | a lane | nothing: an interrupted change may be half done |
//! | a word of the inode table | all, if one bit is wrong; else the inodes behind it are lost |
//! | type, flags or size of an inode | the bytes that its extents lead to |
//! | owner of an inode | the file, for root alone |
//! | a link of a chain, an extent | the other extents; its pages become a hole |
//! | pages with two owners | the first one: see [`inodes`] |
//! | extended attributes | nothing |
//! | sealed pages that fail their checksums | the bytes as they are, without the seal |
//! | a word of the table of checksums | the files, without the seals that the checksums behind it made |
//! | a page of a directory | the other pages |
//! | a line of a directory | the name, if it can be read |
//! | an entry that leads to no file | nothing |
//! | a file without a name | the file, by its number in the directory `lost+found` |
//! | links, the directory that holds a directory | as the names say |
//! | the list of quotas | the limits of the other owners; none, if its head is lost |
//! | the size of the volume | it, if one bit is wrong; else the volume may fill its span |
//! | the word of the snapshots, a line of their list | the snapshots, by their numbers if need be |
//!
//! Invariants
//!   FS-41  A repair is one change: after a crash all of it is done or nothing but step 1 and bytes
//!          of pages without an owner.
//!   FS-42  After a repair the check finds nothing, and a second repair has nothing to do.

mod apply;
mod draft;
mod head;
mod inodes;
mod limits;
mod lines;
mod snapshots;
mod table;
mod tree;

use crate::extents::{Extents, Pages};
use crate::layout::{GROUP_INODES, GROUP_PAGES, Head, INODE, LANE_LEN, LANES_PAGE, PAGE, Place, SUMS_AT};
use crate::{FileKind, Ino, Result, format, sums};
use draft::{Draft, File, Note};
use everbyte_store::{Claim, Engine, Object, RepairStep, Token};
use std::collections::{BTreeMap, HashMap};
use tree::Tree;

/// The repair of a volume, planned and not yet done. No other part of this process has the volume
/// open meanwhile.
pub struct VolumeRepair {
    object: Object,
    _claim: Claim,
    head: Head,
    /// Copies of the head that are written anew.
    heads: Vec<u64>,
    /// Lanes that are formatted anew.
    lanes: Vec<u32>,
    /// Offsets of the inodes that the volume had before.
    inodes: Vec<u64>,
    /// Offsets of the pages of tables that the volume had before.
    tables: Vec<u64>,
    /// Existing words that change, in order.
    words: Vec<(u64, u64)>,
    /// Pages without an owner, with their new bytes.
    fresh: Vec<(u64, Vec<u8>)>,
    /// Runs of pages that have no owner after the repair.
    free: Vec<(u64, u64)>,
    /// Pages that the volume must have.
    needed: u64,
    steps: Vec<RepairStep>,
}

impl VolumeRepair {
    /// Plans the repair of the volume in an object. Undoes the changes that a crash interrupted, as
    /// opening does, and changes nothing else. `progress` receives the inodes done and their total.
    ///
    /// # Errors
    /// [`everbyte_store::Error::WrongEngine`], [`everbyte_store::Error::Claimed`],
    /// [`crate::Error::NewerFormat`], [`crate::Error::OldFormat`]; [`crate::Error::Damaged`] if
    /// neither a head nor the inode table tells where the parts of the volume lie.
    pub fn plan(object: Object, now: i64, progress: &dyn Fn(u64, Option<u64>)) -> Result<VolumeRepair> {
        object.require_engine(Engine::Fs)?;
        object.require_fingerprint(format::fingerprint())?;
        object.require_readable()?;
        let claim = object.claim()?;
        let pages = Pages::of(&object);
        let (head, heads) = head::mend(&object, now)?;
        let fixed = LANES_PAGE + u64::from(head.lanes) * LANE_LEN / PAGE + 2 + GROUP_PAGES;
        let mut draft = Draft::new(pages, fixed);
        for &at in &heads {
            draft.note(Ino(0), at, head::detail(&heads));
        }
        let lanes = apply::damaged_lanes(&object, head.lanes)?;
        for &lane in &lanes {
            let at = pages.start + (LANES_PAGE + u64::from(lane) * LANE_LEN / PAGE) * PAGE;
            draft.note(Ino(0), at, format!("lane {lane} of the journal is damaged: it is empty now, and a change that was interrupted may be half done"));
        }
        let tree = draft_tree(&mut draft, &head, now, progress);
        object.require_readable()?;
        let steps = steps(&draft.notes, &tree);
        let (words, fresh, needed) = (draft.changed(), draft.fresh(), draft.needed());
        let mut free: Vec<(u64, u64)> = Vec::new();
        for page in (fixed..pages.end).filter(|&page| !draft.is_owned(page)) {
            match free.last_mut().filter(|(first, count)| first + count == page) {
                Some((_, count)) => *count += 1,
                None => free.push((page, 1)),
            }
        }
        let of_group = |&group: &u64| (0..GROUP_INODES).map(move |index| group + index * INODE);
        let existing = tree.groups.iter().filter(|&&group| (group - pages.start) / PAGE < pages.end);
        let inodes = existing.flat_map(of_group).collect();
        let tables = std::mem::take(&mut draft.tables);
        drop(draft);
        Ok(VolumeRepair {
            object,
            _claim: claim,
            head,
            heads,
            lanes,
            inodes,
            tables,
            words,
            fresh,
            free,
            needed,
            steps,
        })
    }

    /// Whether the volume needs no repair.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// One step for each damage, with the part that is kept.
    pub fn steps(&self) -> &[RepairStep] {
        &self.steps
    }

    /// Names the plan and the state that it was made for.
    pub fn token(&self) -> Token {
        // A new identity is drawn anew by each plan.
        let uuid = if self.heads.len() == 2 { 0 } else { u128::from_le_bytes(self.head.uuid) };
        let words = self.words.iter().flat_map(|&(at, value)| [at, self.object.media().load(at), value]);
        let lanes = self.lanes.iter().map(|&lane| u64::from(lane));
        let first = [uuid as u64, (uuid >> 64) as u64, self.steps.len() as u64];
        first.into_iter().chain(self.heads.iter().copied()).chain(lanes).chain(words).collect()
    }
}

/// Drafts the words of a volume without damage.
fn draft_tree(draft: &mut Draft<'_>, head: &Head, now: i64, progress: &dyn Fn(u64, Option<u64>)) -> Tree {
    let groups = table::mend(draft, head.lanes);
    let limits = limits::quotas(draft);
    limits::size(draft);
    mend_sums(draft);
    let numbers: Vec<(Ino, u64)> = (1..groups.len() as u64 * GROUP_INODES)
        .map(|number| (Ino(number), groups[(number / GROUP_INODES) as usize] + number % GROUP_INODES * INODE))
        .collect();
    let kinds = kinds(draft, &numbers);
    let mut files: BTreeMap<Ino, File> = BTreeMap::new();
    for (index, &(ino, at)) in numbers.iter().enumerate() {
        files.extend(inodes::header(draft, &kinds, head.created, (ino, at)).map(|file| (ino, file)));
        if index % 256 == 0 {
            progress(index as u64 / 2, Some(numbers.len() as u64));
        }
    }
    let mut names = BTreeMap::new();
    let snapshots = snapshots::directory(draft, &files);
    if let Some(ino) = snapshots {
        let mut file = files[&ino].clone();
        inodes::chain(draft, ino, &mut file);
        inodes::pages(draft, ino, &mut file);
        files.insert(ino, file);
        names.insert(ino, snapshots::entries(draft, ino, &mut files));
    }
    drop_unpublished(draft, &mut files, snapshots, &names);
    for (&ino, file) in files.iter_mut().filter(|(ino, _)| Some(**ino) != snapshots) {
        inodes::chain(draft, ino, file);
        inodes::xattrs(draft, ino, file);
    }
    for is_directory in [true, false] {
        let all = files.iter_mut().filter(|(ino, _)| Some(**ino) != snapshots).zip(1..);
        for ((&ino, file), done) in all {
            if is_directory == (file.kind == FileKind::Directory) {
                inodes::pages(draft, ino, file);
            }
            if done % 256 == 0 {
                progress((numbers.len() as u64 + done) / 2, Some(numbers.len() as u64));
            }
        }
    }
    draft.set_owners_known();
    limits::rewrite(draft, &limits);
    let directories: Vec<Ino> =
        files.iter().filter(|(_, file)| file.kind == FileKind::Directory).map(|(ino, _)| *ino).collect();
    for ino in directories.into_iter().filter(|&ino| Some(ino) != snapshots) {
        let found = lines::mend(draft, ino, &files[&ino], &|ino| files.contains_key(&ino));
        names.insert(ino, found);
    }
    let mut tree = Tree { files, names, snapshots, groups, now };
    tree.mend(draft);
    tree
}

/// Clears words of the table of checksums that are damaged, and gives its other pages an owner.
fn mend_sums(draft: &mut Draft<'_>) {
    let (mut damaged, pages) = (Vec::new(), draft.pages);
    let mut each = |page: u64, _| {
        draft.tables.push(draft.at(page));
        draft.own(page, 1, false).is_empty()
    };
    sums::each_page(pages, &mut each, &mut |damage| damaged.extend(damage.offset));
    for at in damaged {
        let detail = "a word of the table of checksums is damaged: the checksums behind it are gone";
        draft.note(Ino(0), at, detail);
        // The volume keeps a table.
        let place = if at == pages.start + SUMS_AT { Place::page(draft.take(1)).word() } else { 0 };
        draft.set(at, place);
    }
}

/// Frees inodes of snapshots that are not published, as opening does (FS-22).
fn drop_unpublished(
    draft: &mut Draft<'_>,
    files: &mut BTreeMap<Ino, File>,
    snapshots: Option<Ino>,
    names: &BTreeMap<Ino, Vec<lines::Found>>,
) {
    let listed = names.values().flatten().map(|entry| entry.ino.0);
    let roots: std::collections::HashSet<u64> = listed.chain(snapshots.map(|ino| ino.0)).collect();
    files.retain(|&ino, file| {
        let is_live = file.snapshot == 0 || roots.contains(&file.snapshot);
        if !is_live {
            if draft.notes.iter().any(|note| note.ino == ino) {
                let of = file.snapshot;
                draft.note(
                    ino,
                    file.at,
                    format!("inode {ino} belongs to snapshot {of}, which is none: it is free now"),
                );
            }
            tree::free(draft, file.at);
        }
        is_live
    });
}

/// The types of files as names have them, if an inode has none.
fn kinds(draft: &Draft<'_>, numbers: &[(Ino, u64)]) -> HashMap<Ino, FileKind> {
    let mode = |at: u64| inodes::state(draft, at).map_or(0, |state| state.mode);
    let has_none = |&(_, at): &(Ino, u64)| match inodes::state(draft, at) {
        Some(state) => state.mode != 0 && FileKind::of_mode(state.mode).is_none(),
        None => true,
    };
    if !numbers.iter().any(has_none) {
        return HashMap::new();
    }
    let directories = numbers.iter().filter(|(_, at)| FileKind::of_mode(mode(*at)) == Some(FileKind::Directory));
    let loaded = directories.filter_map(|&(_, at)| Extents::load(draft.pages, at).ok());
    let pages: Vec<u64> = loaded
        .flat_map(|loaded| {
            let pieces = loaded.extents.pieces().map(|(_, piece)| piece.place.page..piece.place.page + piece.len);
            pieces.flatten().collect::<Vec<u64>>()
        })
        .collect();
    pages.into_iter().flat_map(|page| lines::kinds(draft, page)).collect()
}

/// The lines of the report.
fn steps(notes: &[Note], tree: &Tree) -> Vec<RepairStep> {
    let index = tree.index();
    let step = |note: &Note| RepairStep::Mend {
        at: note.at,
        paths: tree.paths(&index, note.ino),
        detail: note.detail.clone(),
    };
    notes.iter().map(step).collect()
}
