//! Repair of inodes: state, size, owner, chains of extents, slots, extended attributes.
//!
//! A page that several owners claim, and that they do not share, stays with the first of: chains
//! and extended attributes, directories, other files; and of these with the lowest inode. In the
//! other files it becomes a hole.

use super::draft::{Draft, File, one_flip};
use crate::extents::{Piece, SLOT_FLAGS, slot_at};
use crate::layout::{
    EXTENT, FILE_MAX, INLINE, INLINE_EXTENTS, Inode, LIST_EXTENTS, PAGE, PLACE_SEALED, Place, Run, STATE_GIANT,
    STATE_INLINE, STATE_LARGE, STATE_SNAPSHOT, State, inode,
};
use crate::page_size::PageSize;
use crate::recover::require_plausible_parts;
use crate::xattr::run as xattr;
use crate::{FileKind, Ino, sums};
use everbyte_media::sealed::{seal_low, unseal_low};
use std::collections::{HashMap, HashSet};

/// Flags that a slot's place may have.
const PLACES: &[u8] = &SLOT_FLAGS;

/// Repairs the words of a live inode that do not lead anywhere. `kinds` tells the types of files as
/// names have them. `None`: the inode is free.
pub(super) fn header(
    draft: &mut Draft<'_>,
    kinds: &HashMap<Ino, FileKind>,
    created: i64,
    (ino, at): (Ino, u64),
) -> Option<File> {
    let state = corrected_state(draft, kinds, (ino, at));
    if state.mode == 0 && ino != Ino::ROOT {
        return None;
    }
    correct_size(draft, ino, at);
    let mut new = state;
    let kind = match FileKind::of_mode(state.mode) {
        Some(kind) if ino != Ino::ROOT || kind == FileKind::Directory => kind,
        _ => {
            let told = if ino == Ino::ROOT { Some(FileKind::Directory) } else { kinds.get(&ino).copied() };
            let kind = told.unwrap_or(FileKind::Regular);
            let permissions = if kind == FileKind::Directory { 0o700 } else { 0o600 };
            new.mode = kind.bits() | permissions;
            draft.note(
                ino,
                at,
                format!("the type of inode {ino} is damaged: it is a {} now, for its owner alone", word(kind)),
            );
            kind
        }
    };
    new.flags = flags(draft, ino, at, kind, new.flags);
    if new.word() != draft.load(at) {
        draft.set(at, new.word());
    }
    owner(draft, created, (ino, at), kind);
    let snapshot = snapshot(draft, ino, at);
    Some(File { at, kind, snapshot, chain: Vec::new(), pages: Vec::new() })
}

/// The state of an inode, or that of the only word that differs from it in one bit and can be one.
pub(super) fn state(draft: &Draft<'_>, at: u64) -> Option<State> {
    let word = draft.load(at);
    let can_be = |word: u64| {
        let is_free = |state: State| state.mode == 0 && state.flags == 0;
        State::checked(word).filter(|&state| is_free(state) || require_plausible_parts(state, 0).is_ok())
    };
    State::checked(word).or_else(|| one_flip(word, can_be))
}

/// [`state`], stored where a bit of it is corrected. One that is damaged further is made anew for
/// a file that has a name, and free for others: their slots may be those of a file that was
/// removed.
fn corrected_state(draft: &mut Draft<'_>, kinds: &HashMap<Ino, FileKind>, (ino, at): (Ino, u64)) -> State {
    let word = draft.load(at);
    if let Some(state) = state(draft, at) {
        if State::checked(word).is_none() {
            draft.note(ino, at, format!("the state of inode {ino} is corrected"));
            draft.set(at, state.word());
        }
        return state;
    }
    let (found, generation) = (draft.inode(at), State::of(word).generation);
    let holds_itself = ino == Ino::ROOT || [found.snapshot, found.parent] == [ino.0; 2];
    let kind = if holds_itself { Some(FileKind::Directory) } else { kinds.get(&ino).copied() };
    let state = match kind {
        Some(kind) => {
            let permissions = if kind == FileKind::Directory { 0o700 } else { 0o600 };
            let holds_bytes = matches!(kind, FileKind::Regular | FileKind::Link);
            let inline = if holds_bytes && !has_slots(draft, at) { STATE_INLINE } else { 0 };
            let snapshot = if found.snapshot == 0 { 0 } else { STATE_SNAPSHOT };
            let kind_word = self::word(kind);
            let detail = format!("the state of inode {ino} is damaged: it is a {kind_word} now, for its owner alone");
            draft.note(ino, at, detail);
            State { mode: kind.bits() | permissions, flags: inline | snapshot, generation }
        }
        None => {
            draft.note(ino, at, format!("the state of inode {ino} is damaged, and it has no name: it is free now"));
            State { mode: 0, flags: 0, generation }
        }
    };
    draft.set(at, state.word());
    state
}

/// Corrects one bit of the size. One that is damaged further becomes that of the bytes that the
/// file has: see [`pages`].
fn correct_size(draft: &mut Draft<'_>, ino: Ino, at: u64) {
    let at = at + inode::SIZE;
    let word = draft.load(at);
    let size = |word: u64| unseal_low(word).filter(|&size| size <= FILE_MAX);
    if unseal_low(word).is_none()
        && let Some(size) = one_flip(word, size)
    {
        draft.note(ino, at, format!("the size of inode {ino} is corrected: it is {size}"));
        draft.set_number(at, size);
    }
}

/// The snapshot that an inode belongs to: its owner's line has a checksum, and decides; if that
/// line was damaged the flag does.
fn snapshot(draft: &mut Draft<'_>, ino: Ino, at: u64) -> u64 {
    let (state, found) = (State::of(draft.load(at)), draft.inode(at));
    let is_flagged = state.flags & STATE_SNAPSHOT != 0;
    if is_flagged == (found.snapshot != 0) {
        return found.snapshot;
    }
    draft.note(
        ino,
        at,
        format!("the flag of snapshots of inode {ino} is damaged: the inode's snapshot is {}", found.snapshot),
    );
    draft.set(at, State { flags: state.flags ^ STATE_SNAPSHOT, ..state }.word());
    found.snapshot
}

/// A kind as text.
pub(super) fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Pipe => "pipe",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character device",
        FileKind::BlockDevice => "block device",
    }
}

/// The flags of an inode as they can be.
fn flags(draft: &mut Draft<'_>, ino: Ino, at: u64, kind: FileKind, found: u16) -> u16 {
    let mut flags = found;
    let mode = kind.bits();
    let is_known = |flags: u16| require_plausible_parts(State { mode, flags, generation: 0 }, 0).is_ok();
    for bit in (0..16).map(|bit| 1 << bit).filter(|bit| found & bit != 0) {
        let alone = if bit == STATE_INLINE { bit } else { bit | STATE_SNAPSHOT };
        if !is_known(alone) {
            flags &= !bit;
        }
    }
    if PageSize::of_flags(flags).is_none() {
        flags &= !(STATE_LARGE | STATE_GIANT);
    }
    let holds_bytes = matches!(kind, FileKind::Regular | FileKind::Link);
    let is_inline = flags & STATE_INLINE != 0;
    if is_inline && (!holds_bytes || draft.number(at + inode::SIZE) > INLINE && has_slots(draft, at)) {
        flags &= !STATE_INLINE;
    }
    if flags != found {
        draft.note(ino, at, format!("flags {found:#x} of inode {ino} are damaged: it has {flags:#x} now"));
    }
    flags
}

/// Whether the inline bytes of an inode are slots, all of them whole.
fn has_slots(draft: &Draft<'_>, at: u64) -> bool {
    let slots: Vec<u64> = (0..u64::from(INLINE_EXTENTS)).map(|slot| at + inode::INLINE + slot * EXTENT).collect();
    let used: Vec<u64> = slots.into_iter().filter(|&at| draft.load(at) != 0 || draft.load(at + 8) != 0).collect();
    !used.is_empty()
        && used.iter().all(|&at| Run::of(draft.load(at)).is_some() && Place::of(draft.load(at + 8)).is_some())
}

fn owner(draft: &mut Draft<'_>, created: i64, (ino, at): (Ino, u64), kind: FileKind) {
    let (state, found) = (State::of(draft.load(at)), draft.inode(at));
    if found.checksum == found.owner_sum() {
        return;
    }
    let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
    let mask = if kind == FileKind::Directory { 0o700 } else { 0o600 };
    let mode = kind.bits() | state.mode & mask;
    let lost = if is_device { ", and its device is lost" } else { "" };
    draft.note(
        ino,
        at + inode::OWNER,
        format!(
            "the owner of inode {ino} fails its checksum: it belongs to root, with rights {:04o}{lost}",
            mode & 0o7777
        ),
    );
    draft.set(at, State { mode, ..state }.word());
    let snapshot = if state.flags & STATE_SNAPSHOT == 0 { 0 } else { found.snapshot };
    let lost = Inode { uid: 0, gid: 0, project: 0, device: 0, born: created, snapshot, reserved: [0; 8], ..found };
    draft.set_owner(at, lost);
}

/// Offset of a slot of a file.
fn slot_of(draft: &Draft<'_>, file: &File, slot: u32) -> u64 {
    slot_at(draft.pages.start, file.at, |index| file.chain[index as usize], slot)
}

/// Number of slots of a file.
fn slots(file: &File) -> u32 {
    INLINE_EXTENTS + file.chain.len() as u32 * LIST_EXTENTS
}

/// Whether the file's bytes lie in its inode.
pub(super) fn is_inline(draft: &Draft<'_>, file: &File) -> bool {
    State::of(draft.load(file.at)).flags & STATE_INLINE != 0
}

/// Walks the chain of extents, and gives its pages an owner. A link that fails ends it.
pub(super) fn chain(draft: &mut Draft<'_>, ino: Ino, file: &mut File) {
    let mut link = file.at + inode::LIST;
    let mut seen = HashSet::new();
    while draft.load(link) != 0 {
        let found = draft.place(link, 1, &[0]).ok().filter(|(place, _)| seen.insert(place.page));
        let found = found.filter(|(place, _)| draft.own(place.page, 1, false).is_empty());
        let Some((place, word)) = found else {
            draft.note(
                ino,
                link,
                format!(
                    "the chain of extents of inode {ino} is damaged: it ends here, and the extents behind are holes"
                ),
            );
            draft.set(link, 0);
            return;
        };
        if word != draft.load(link) {
            draft.note(ino, link, format!("a link of the chain of extents of inode {ino} is corrected"));
            draft.set(link, word);
        }
        file.chain.push(place.page);
        link = draft.at(place.page);
    }
}

/// Verifies the extended attributes, and gives their run an owner. Damaged ones are dropped.
pub(super) fn xattrs(draft: &mut Draft<'_>, ino: Ino, file: &File) {
    let at = file.at + inode::ATTRIBUTES;
    if draft.load(at) == 0 {
        return;
    }
    // Other words of the inode do not matter here, so media has what the draft has.
    let is_whole = xattr::read(draft.pages, file.at).is_ok();
    let run = xattr::run(draft.pages, file.at).ok().flatten().filter(|_| is_whole);
    let refused = run.is_none_or(|(first, count, shared)| !draft.own(first, count, shared).is_empty());
    if refused {
        draft.note(
            ino,
            at,
            format!("the extended attributes of inode {ino} are damaged, or lie in pages of others: they are gone"),
        );
        draft.set(at, 0);
    }
}

/// A slot that is whole.
#[derive(Clone, Copy)]
struct Found {
    at: u64,
    run: Run,
    place: Place,
}

/// Repairs the slots of a file and its size, and gives its pages an owner.
pub(super) fn pages(draft: &mut Draft<'_>, ino: Ino, file: &mut File) {
    let size = draft.number(file.at + inode::SIZE);
    let is_damaged = unseal_low(draft.load(file.at + inode::SIZE)).is_none();
    if is_inline(draft, file) {
        if size > INLINE || is_damaged {
            draft.note(
                ino,
                file.at + inode::SIZE,
                format!("the size of inode {ino} is {size}: its {INLINE} bytes are kept"),
            );
            draft.set_number(file.at + inode::SIZE, INLINE);
        }
        return;
    }
    let mut found: Vec<Found> =
        (0..slots(file)).filter_map(|slot| read_slot(draft, ino, slot_of(draft, file, slot))).collect();
    found.sort_by_key(|slot| slot.run.first);
    let mut kept: Vec<Found> = Vec::new();
    for slot in found {
        match kept.last().filter(|last| last.run.first + last.run.len > slot.run.first) {
            Some(_) => {
                let Run { first, len } = slot.run;
                draft.note(
                    ino,
                    slot.at,
                    format!("two extents hold page {first} of inode {ino}: {len} pages from there on are a hole"),
                );
                clear(draft, slot.at);
            }
            None => kept.push(slot),
        }
    }
    let end = kept.last().map_or(0, |last| last.run.first + last.run.len);
    size_of(draft, ino, file, (size, is_damaged), end);
    let size = draft.number(file.at + inode::SIZE);
    if file.kind == FileKind::Link && kept.iter().all(|slot| slot.run.first > 0) && size > 0 {
        draft.note(ino, file.at, format!("link {ino} has lost its target: it is an empty file now"));
        let state = State::of(draft.load(file.at));
        draft.set(file.at, State { mode: FileKind::Regular.bits() | state.mode & 0o600, ..state }.word());
        draft.set_number(file.at + inode::SIZE, 0);
        file.kind = FileKind::Regular;
    }
    let size = draft.number(file.at + inode::SIZE);
    let kept: Vec<Found> = kept.into_iter().filter_map(|slot| trim(draft, slot, size)).collect();
    let kept: Vec<Found> = kept.into_iter().flat_map(|slot| own(draft, ino, file, slot)).collect();
    if file.kind == FileKind::Directory {
        dense(draft, ino, file, kept);
    }
}

fn clear(draft: &mut Draft<'_>, at: u64) {
    draft.set(at, 0);
    draft.set(at + 8, 0);
}

/// Reads a slot. One with a word of 0 is cleared: a crash has left it.
fn read_slot(draft: &mut Draft<'_>, ino: Ino, at: u64) -> Option<Found> {
    let words = [draft.load(at), draft.load(at + 8)];
    if words.contains(&0) {
        if words != [0, 0] {
            clear(draft, at);
        }
        return None;
    }
    let run = Run::of(words[0]);
    match (run, draft.place(at + 8, run.map_or(1, |run| run.len), PLACES)) {
        (Some(run), Ok((place, word))) => {
            if word != words[1] {
                let Run { first, len } = run;
                draft.note(
                    ino,
                    at + 8,
                    format!("the place of {len} pages of inode {ino} from page {first} on is corrected"),
                );
                draft.set(at + 8, word);
            }
            let place = unseal(draft, ino, at, (run, place));
            Some(Found { at, run, place })
        }
        (run, _) => {
            let which = match run {
                Some(Run { first, len }) => format!("{len} pages from page {first} on are a hole"),
                None => "its pages are a hole".into(),
            };
            draft.note(ino, at, format!("an extent of inode {ino} is damaged: {which}"));
            clear(draft, at);
            None
        }
    }
}

/// Clears the seal of an extent with pages that fail their checksums.
fn unseal(draft: &mut Draft<'_>, ino: Ino, at: u64, (run, place): (Run, Place)) -> Place {
    if !place.is_sealed() {
        return place;
    }
    let piece = Piece { len: run.len, place, slot: 0 };
    let all = run.first..run.first + run.len;
    let fails = |&page: &u64| sums::verify_page(draft.pages, ino, (run.first, piece), page).is_err();
    let failed: Vec<u64> = all.filter(fails).collect();
    let Some(&first) = failed.first() else { return place };
    let (count, offset) = (failed.len(), first * PAGE);
    let page_at = draft.at(place.page + (first - run.first));
    draft.note(ino, page_at, format!("{count} sealed pages of inode {ino} from its offset {offset} on fail their checksums: their bytes are kept as they are, and have no seal"));
    let place = Place { flags: place.flags & !PLACE_SEALED, ..place };
    draft.set(at + 8, place.word());
    place
}

/// A size that the format allows.
fn size_of(draft: &mut Draft<'_>, ino: Ino, file: &File, (size, is_damaged): (u64, bool), end: u64) {
    let wrong = match file.kind {
        FileKind::Directory => return, // as its pages are
        FileKind::Link => size >= PAGE,
        FileKind::Regular => size > FILE_MAX,
        _ => false,
    };
    if wrong || is_damaged {
        let kept = if file.kind == FileKind::Link { PAGE - 1 } else { (end * PAGE).min(FILE_MAX) };
        draft.note(
            ino,
            file.at + inode::SIZE,
            format!("the size of inode {ino} is {size}: it is {kept} now, as its extents are"),
        );
        draft.set_number(file.at + inode::SIZE, kept);
    }
}

/// Cuts what a crash left behind the end of the file, as opening does.
fn trim(draft: &mut Draft<'_>, slot: Found, size: u64) -> Option<Found> {
    let end = size.div_ceil(PAGE);
    let Run { first, len } = slot.run;
    if slot.place.is_unwritten() || first + len <= end {
        return Some(slot);
    }
    if first >= end {
        clear(draft, slot.at);
        return None;
    }
    let run = Run { first, len: end - first };
    draft.set(slot.at, run.word());
    Some(Found { run, ..slot })
}

/// Gives the pages of a slot their owner; those that others have become holes.
fn own(draft: &mut Draft<'_>, ino: Ino, file: &File, slot: Found) -> Vec<Found> {
    let Found { at, run, place } = slot;
    let refused = draft.own(place.page, run.len, place.is_shared());
    if refused.is_empty() {
        return vec![slot];
    }
    let (first, count) = (run.first + (refused[0] - place.page), refused.len());
    draft.note(
        ino,
        draft.at(refused[0]),
        format!("{count} pages of inode {ino} from page {first} on belong to another owner, too, which keeps them: they are a hole"),
    );
    // The parts between them stay, as far as there are slots.
    clear(draft, at);
    let mut kept = Vec::new();
    let mut from = place.page;
    for end in refused.into_iter().chain([place.page + run.len]) {
        if end > from {
            let part = Run { first: run.first + (from - place.page), len: end - from };
            let place = Place { page: from, ..place };
            let free = (0..slots(file)).map(|slot| slot_of(draft, file, slot));
            let free = free.into_iter().find(|&at| draft.load(at) == 0 && draft.load(at + 8) == 0);
            match free {
                Some(at) => {
                    draft.set(at, part.word());
                    draft.set(at + 8, place.word());
                    kept.push(Found { at, run: part, place });
                }
                None => {
                    let Run { first, len } = part;
                    draft.note(
                        ino,
                        at,
                        format!("no slot is free for {len} pages of inode {ino} from page {first} on: they are a hole"),
                    );
                }
            }
        }
        from = end + 1;
    }
    kept
}

/// Makes the pages of a directory adjacent, from the first on. Unwritten ones go.
fn dense(draft: &mut Draft<'_>, ino: Ino, file: &mut File, kept: Vec<Found>) {
    let mut next = 0;
    let mut has_moved = false;
    for Found { at, run, place } in kept {
        if place.is_unwritten() {
            clear(draft, at);
            continue;
        }
        if run.first != next {
            has_moved = true;
            draft.set(at, Run { first: next, len: run.len }.word());
        }
        file.pages.extend(place.page..place.page + run.len);
        next += run.len;
    }
    let size = draft.number(file.at + inode::SIZE);
    if has_moved || draft.load(file.at + inode::SIZE) != seal_low(next * PAGE) {
        draft.note(
            ino,
            file.at + inode::SIZE,
            format!("directory {ino} lacks pages of its {size} bytes: {next} pages are kept"),
        );
        draft.set_number(file.at + inode::SIZE, next * PAGE);
    }
}

/// Adds a page of zeros to a directory; returns it.
pub(super) fn add_page(draft: &mut Draft<'_>, file: &mut File) -> u64 {
    let page = draft.take(1);
    let free = (0..slots(file)).map(|slot| slot_of(draft, file, slot));
    let free = free.into_iter().find(|&at| draft.load(at) == 0 && draft.load(at + 8) == 0);
    let at = free.unwrap_or_else(|| {
        let listed = draft.take(1);
        let link = file.chain.last().map_or(file.at + inode::LIST, |&last| draft.at(last));
        draft.set(link, Place::page(listed).word());
        file.chain.push(listed);
        slot_of(draft, file, slots(file) - LIST_EXTENTS)
    });
    let piece = Piece { len: 1, place: Place::page(page), slot: 0 };
    draft.set(at, Run { first: file.pages.len() as u64, len: piece.len }.word());
    draft.set(at + 8, piece.place.word());
    file.pages.push(page);
    draft.set_number(file.at + inode::SIZE, file.pages.len() as u64 * PAGE);
    page
}
