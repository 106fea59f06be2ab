//! Sealed pages: their checksums are stored, they are verified when they are read, and nothing is
//! stored to them.
//!
//! Sealing an extent, a fence between the steps:
//!   1. the sums of its pages are stored, in one call or in several
//!   2. the word of its place gets the flag
//!
//! An extent with shared pages is not sealed: another one may be, and its sums stay what they are.
//! Pages that are shared after they were sealed stay sealed. An extent of which a part is mapped is
//! not sealed either: its bytes change without a call.

use crate::core::Core;
use crate::extents::{Extents, Pages, Piece};
use crate::layout::{INLINE_EXTENTS, PLACE_SEALED, Place, STATE_INLINE, STATE_SNAPSHOT, State, inode};
use crate::node::Node;
use crate::volume::Volume;
use crate::{FileKind, Ino, Result, sums};
use everbyte_media::{Damage, seeded};
use std::ops::Range;

/// Nanoseconds for which a file was not changed before its extents are sealed.
pub const SEAL_AFTER: i64 = 10_000_000_000;

/// The most that one step does.
#[derive(Clone, Copy, Debug)]
pub struct StepLimits {
    /// Inodes that it looks at.
    pub inodes: u64,
    /// Pages that it reads.
    pub pages: u64,
}

impl Default for StepLimits {
    fn default() -> StepLimits {
        StepLimits { inodes: 1024, pages: 256 }
    }
}

/// Where the next step of sealing goes on: a pass visits every file once.
#[derive(Clone, Debug, Default)]
pub struct SealCursor {
    ino: u64,
    part: Option<Part>,
}

impl SealCursor {
    /// Whether a pass has ended, or none has begun.
    pub fn is_at_start(&self) -> bool {
        self.ino == 0
    }
}

/// An extent of which some pages have their sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    first: u64,
    piece: Piece,
    done: u64,
}

/// The place at which the next step of a scrub goes on.
#[derive(Clone, Debug, Default)]
pub struct ScrubCursor {
    ino: u64,
    page: u64,
}

impl ScrubCursor {
    /// Whether a scrub has ended, or none has begun.
    pub fn is_at_start(&self) -> bool {
        self.ino == 0
    }

    /// The inode that is read next.
    pub fn ino(&self) -> Ino {
        Ino(self.ino)
    }
}

/// The work of one step of a scrub.
#[derive(Clone, Debug, Default)]
pub struct Scrubbed {
    /// Sealed pages that were read.
    pub pages: u64,
    /// Pages that fail their checksums: the file, the offset in it, and the place.
    pub damaged: Vec<(Ino, u64, Damage)>,
}

/// Pages of files, of the volume and its snapshots; a page of several files counts for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SealedShare {
    /// Sealed pages.
    pub sealed: u64,
    /// Pages with bytes.
    pub written: u64,
}

impl Volume {
    /// Whether the volume has checksums of data, as an option of its making.
    pub fn has_checksums(&self) -> bool {
        sums::are_kept(Pages::of(self.core.object()))
    }

    /// Seals extents of files that have not changed for [`SEAL_AFTER`], as far as the limits go;
    /// returns the number of pages that it has read. Callers call it again and again from a thread
    /// of theirs. Does nothing in a volume without checksums.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`] without a page for checksums. Damaged files are passed over.
    pub fn seal_step(&self, cursor: &mut SealCursor, limits: &StepLimits, now: i64) -> Result<u64> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        if !self.has_checksums() {
            return Ok(0);
        }
        let mut left = limits.pages;
        for _ in 0..limits.inodes {
            if left == 0 {
                break;
            }
            cursor.ino = cursor.ino.max(1);
            let Some(at) = core.table.at(Ino(cursor.ino)) else {
                *cursor = SealCursor::default();
                break;
            };
            if is_ready(core, at, now) && !seal_file(core, Ino(cursor.ino), now, &mut cursor.part, &mut left)? {
                break; // the limit
            }
            cursor.part = None;
            cursor.ino += 1;
        }
        Ok(limits.pages - left)
    }

    /// Verifies the sealed pages of files, as far as `limits` go, and goes on where the last step
    /// ended.
    ///
    /// # Errors
    /// [`crate::Error::Store`] if a page of the volume could not be read.
    pub fn scrub_step(&self, cursor: &mut ScrubCursor, limits: &StepLimits) -> Result<Scrubbed> {
        let core = &*self.core;
        let mut done = Scrubbed::default();
        for _ in 0..limits.inodes {
            cursor.ino = cursor.ino.max(1);
            if core.table.at(Ino(cursor.ino)).is_none() {
                *cursor = ScrubCursor::default();
                break;
            }
            if !scrub_file(core, cursor, limits.pages, &mut done) {
                break;
            }
            *cursor = ScrubCursor { ino: cursor.ino + 1, page: 0 };
        }
        core.object().require_readable()?;
        Ok(done)
    }

    /// The sealed share of all files. Reads the slots of each.
    pub fn sealed_share(&self) -> SealedShare {
        let core = &*self.core;
        let mut share = SealedShare::default();
        for ino in core.table.numbers() {
            let at = core.table.at(ino).expect("the number is the table's");
            let state = State::of(core.media().load(at + inode::STATE));
            if FileKind::of_mode(state.mode) != Some(FileKind::Regular) {
                continue;
            }
            let Ok(loaded) = Extents::load(Pages::of(core.object()), at) else { continue };
            for (_, piece) in loaded.extents.pieces().filter(|(_, piece)| !piece.place.is_unwritten()) {
                share.written += piece.len;
                share.sealed += if piece.place.is_sealed() { piece.len } else { 0 };
            }
        }
        share
    }
}

/// Whether an inode may have extents to seal; without a lock, so that it is a guess.
fn is_ready(core: &Core, at: u64, now: i64) -> bool {
    let media = core.media();
    let state = State::of(media.load(at + inode::STATE));
    let is_file = FileKind::of_mode(state.mode) == Some(FileKind::Regular);
    if !is_file || state.flags & (STATE_INLINE | STATE_SNAPSHOT) != 0 || !is_old(core, at, now) {
        return false;
    }
    let slots = (0..u64::from(INLINE_EXTENTS)).map(|slot| media.load(at + inode::INLINE + 16 * slot + 8));
    let is_open = |word: u64| Place::of(word).is_some_and(|place| !place.is_unwritten() && !place.is_sealed());
    media.load(at + inode::LIST) != 0 || slots.into_iter().any(is_open)
}

fn is_old(core: &Core, at: u64, now: i64) -> bool {
    now.saturating_sub(core.media().load(at + inode::CHANGED) as i64) >= SEAL_AFTER
}

/// Seals the extents of one file. `false`: the limit is reached.
fn seal_file(core: &Core, ino: Ino, now: i64, part: &mut Option<Part>, left: &mut u64) -> Result<bool> {
    let Ok(node) = core.node(ino) else { return Ok(true) };
    let Ok(mut state) = node.write(core) else { return Ok(true) };
    let is_inline = node.state_word(core).flags & STATE_INLINE != 0;
    if is_inline || node.kind(core).ok() != Some(FileKind::Regular) || !is_old(core, node.at, now) {
        return Ok(true);
    }
    let Ok(extents) = state.extents(core, &node) else { return Ok(true) };
    core.object().require_readable()?;
    let mut next = 0;
    while let Some((first, piece)) = extents.next(next) {
        next = first + piece.len;
        let place = piece.place;
        let is_mapped = core.maps.meet(&node, &(first..next)) && !seeded("fs-seal-mapped");
        if place.is_unwritten() || place.is_sealed() || is_mapped || core.has_shared(place.page, piece.len) {
            continue;
        }
        let found =
            part.take().filter(|part| (part.first, part.piece) == (first, piece) && core.sums.is_untouched(ino));
        let done = found.map_or(0, |part| part.done);
        let count = (piece.len - done).min(*left);
        core.sums.store(core, place.page + done, count)?;
        *left -= count;
        if done + count < piece.len {
            core.sums.begin(ino);
            *part = Some(Part { first, piece, done: done + count });
            core.media().fence_unless("fs-seal-part-unfenced"); // another thread may take the next step
            return Ok(false);
        }
        core.media().fence_unless("fs-seal-unfenced"); // FS-43
        // Not fenced: before the page is stored to, the flag is cleared, and that is fenced.
        extents.set_sealed(core, node.at, (first, piece), true);
        if *left == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Verifies the sealed pages of one file, up to `limit` pages in all. `false`: the limit is
/// reached.
fn scrub_file(core: &Core, cursor: &mut ScrubCursor, limit: u64, done: &mut Scrubbed) -> bool {
    let (ino, pages) = (Ino(cursor.ino), Pages::of(core.object()));
    let Ok(node) = core.node(ino) else { return true };
    let Ok(state) = node.read_extents(core) else { return true };
    let extents = state.extents.as_ref().expect("they are loaded");
    for (first, piece) in extents.overlapping(cursor.page..u64::MAX >> 16) {
        if !piece.place.is_sealed() {
            continue;
        }
        for page in first.max(cursor.page)..first + piece.len {
            if done.pages == limit {
                cursor.page = page;
                return false;
            }
            done.pages += 1;
            if let Err(damage) = sums::verify_page(pages, ino, (first, piece), page) {
                done.damaged.push((ino, page * crate::layout::PAGE, damage.of_object(core.name())));
            }
        }
    }
    true
}

/// Verifies the pages of a range, and clears the seals of their extents, so that the pages may be
/// stored to (FS-44). Other pages of these extents are not verified.
///
/// # Errors
/// [`crate::Error::Damaged`] if a page fails its checksum: the seals stay.
pub(crate) fn open(core: &Core, node: &Node, extents: &mut Extents, pages: &Range<u64>) -> Result<()> {
    for (first, piece) in extents.overlapping(pages.clone()) {
        for page in first.max(pages.start)..(first + piece.len).min(pages.end) {
            verify(core, node.ino, (first, piece), page)?;
        }
    }
    clear(core, node, extents, pages);
    Ok(())
}

/// Clears the seals of the extents of a range of pages, also where a page is damaged: its bytes are
/// replaced.
pub(crate) fn clear(core: &Core, node: &Node, extents: &mut Extents, pages: &Range<u64>) {
    let mut sealed = extents.overlapping(pages.clone());
    sealed.retain(|(_, piece)| piece.place.is_sealed());
    if sealed.is_empty() {
        return;
    }
    for found in sealed {
        extents.set_sealed(core, node.at, found, false);
    }
    core.media().fence_unless("fs-unseal-unfenced"); // FS-44
}

/// Refuses a page of a file that is sealed and damaged.
pub(crate) fn verify(core: &Core, ino: Ino, found: (u64, Piece), of_file: u64) -> Result<()> {
    let verified = sums::verify_page(Pages::of(core.object()), ino, found, of_file);
    verified.map_err(|damage| damage.of_object(core.name()).into())
}

impl Extents {
    /// Sets or clears the flag of sealed pages of an extent; flushed, not fenced.
    fn set_sealed(&mut self, core: &Core, inode_at: u64, (first, piece): (u64, Piece), is_sealed: bool) {
        let flags = if is_sealed { PLACE_SEALED } else { piece.place.flags & !PLACE_SEALED };
        self.set_flags(core, inode_at, (first, piece), flags);
    }
}
