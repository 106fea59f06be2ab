//! The bytes of files: reading, writing, resizing, holes.
//!
//! | a write | how it changes the file | fences |
//! |---|---|---|
//! | behind the end | bytes and slots where nothing reads them, then the size | 2 |
//! | of pages that one slot maps exactly | new pages, then one word of the slot | 2 |
//! | of other pages | new pages, then words under undo records | 3 |
//! | of up to 512 bytes inside a page | words under undo records | 3 |
//! | in a mapped range | bytes at their place under undo records, in bulk | 3 |
//! | in a small file | words under undo records; behind its end as above | 3 or 2 |
//!
//! Invariants
//!   FS-9   Each write is whole or absent after a crash.
//!   FS-10  Times are stored before the fence that the change waits for: a crash may keep new times
//!          with old bytes, and never new bytes with old times.
//!   FS-11  Bytes of the last page behind the end of the file are undefined on media; a write or a
//!          resize that moves the end over them zeroes them first.
//!
//! No shared page is stored to (FS-20). All stores to data pages are: `write::change_bytes`,
//! `in_place::put` and `write::append`, each to a page that is not shared; those of a [`FileMap`],
//! whose pages are not shared while it lives (FS-30); `zero_tail`, after `own_tail`; and stores to
//! pages that were taken for the change.

mod allocate;
mod in_place;
mod inline;
mod large;
mod map;
mod map_range;
mod read;
mod replace;
mod resize;
mod seek;
mod share;
mod shift;
mod supply;
mod write;

pub use allocate::Allocate;
pub use large::FilePages;
pub use map::{FileMap, MapOptions};

use crate::core::Core;
use crate::extents::{Extents, Piece};
use crate::layout::{FILE_MAX, PAGE, Place, STATE_INLINE, inode};
use crate::node::{Node, Writing};
use crate::order::{Blank, Fresh, NewRun};
use crate::{Error, FileKind, Result, seal};
use everbyte_media::sealed::seal_low;
use everbyte_media::seeded;
use std::ops::Range;

/// Refuses a range that ends beyond the largest file.
fn require_range(at: u64, len: u64) -> Result<u64> {
    let end = at.checked_add(len).filter(|&end| end <= FILE_MAX);
    end.ok_or(Error::TooLarge { len: at.saturating_add(len), max: FILE_MAX })
}

/// Locks a regular file to change it.
fn lock<'n>(core: &'n Core, node: &'n Node) -> Result<Writing<'n>> {
    let state = require_regular(core, node, node.write(core)?)?;
    core.sums.touch(node.ino);
    Ok(state)
}

/// Locks a regular file whose pages are going to be shared; it may belong to a snapshot.
fn lock_source<'n>(core: &'n Core, node: &'n Node) -> Result<Writing<'n>> {
    require_regular(core, node, node.write_index(core)?)
}

fn require_regular<'n>(core: &Core, node: &Node, state: Writing<'n>) -> Result<Writing<'n>> {
    match node.kind(core)? {
        FileKind::Regular => Ok(state),
        FileKind::Directory => Err(Error::IsADirectory { ino: node.ino }),
        _ => Err(Error::NotAFile { ino: node.ino }),
    }
}

fn is_inline(core: &Core, node: &Node) -> bool {
    node.state_word(core).flags & STATE_INLINE != 0
}

/// Stores the times of a change of the bytes: of the last modification, and of the last change
/// (FS-10).
fn store_times(core: &Core, node: &Node, [modified, changed]: [u64; 2]) -> Fresh<()> {
    let media = core.media();
    let _section = media.section();
    media.store(node.at + inode::MODIFIED, modified);
    media.store(node.at + inode::CHANGED, changed);
    Blank::new(()).flush_unless(media, "fs-times-unflushed", node.at + inode::MODIFIED, 16)
}

/// Publishes a size, after the fence of the bytes and slots that it covers, and of the times. A
/// smaller size is fenced with relaxed commit, too: bytes that it leaves may be zeroed, and slots
/// cleared, next.
fn publish_size<T>(core: &Core, node: &Node, size: u64, covered: Fresh<T>) {
    let media = core.media();
    let is_smaller = size < node.size(core) && !seeded("fs-relaxed-shrink");
    let ordered = media.fence_after_unless("fs-size-unfenced", covered);
    let _section = media.section();
    everbyte_media::PublishWord::new((node.at + inode::SIZE).into()).publish(media, seal_low(size), &ordered);
    match is_smaller {
        true => media.fence(),
        false => core.freeze.fence_growth(media, node.at + inode::SIZE),
    }
}

/// Refuses to free or to move pages of a mapped range (FS-30).
fn require_unmapped(core: &Core, node: &Node, pages: &Range<u64>) -> Result<()> {
    match core.maps.meet(node, pages) && !seeded("fs-mapped-freed") {
        true => Err(Error::Mapped { ino: node.ino }),
        false => Ok(()),
    }
}

/// Whether other extents lead to a page of the file, too: it is not stored to (FS-20). A page that
/// has the flag and one extent is stored to as others are.
fn is_shared(core: &Core, (first, piece): (u64, Piece), page: u64) -> bool {
    piece.place.is_shared() && core.is_shared(piece.place.page + (page - first)) && !seeded("fs-share-in-place")
}

/// Gives the file a last page of its own if others lead there, too, before the end moves over it:
/// bytes behind this end may be bytes of another file; and clears the page's seal (FS-44). The
/// content stays the same, so a crash may fall between this change and the one that it is for. A
/// shared page of a mapping that takes none stays: the call is refused (FS-30).
fn own_tail(core: &Core, node: &Node, extents: &mut Extents, size: u64) -> Result<()> {
    let page = size / PAGE;
    let Some(found) = extents.find(page).filter(|_| !size.is_multiple_of(PAGE)) else { return Ok(()) };
    if !is_shared(core, found, page) {
        return match found.1.place.is_sealed() {
            true => seal::open(core, node, extents, &(page..page + 1)),
            false => Ok(()),
        };
    }
    require_unmapped(core, node, &(page..page + 1))?;
    seal::verify(core, node.ino, found, page)?;
    let mut content = [0; PAGE as usize];
    read_page(core, extents, size, page, &mut content);
    let own = core.take_run(1)?;
    let run = NewRun { first: page, len: 1, place: Place::page(own) };
    let change = |extents: &mut Extents| {
        extents.reserve_for(core, node.at, &(page..page + 1), &[run])?;
        let new = core.copy_pages_unless("fs-own-tail-unflushed", own, &content).with(vec![run]);
        let mut change = core.change();
        let remapped = extents.remap(core, node.at, &mut change, page..page + 1, &new);
        change.commit()?;
        Ok::<_, Error>(remapped)
    };
    let remapped = change(extents).inspect_err(|_| core.give_pages(own, 1))?;
    extents.apply(&remapped);
    core.give_runs(&remapped.freed);
    Ok(())
}

/// Zeroes the last page of a file behind its end, before the end moves over it (FS-11). The page
/// is the file's own, see [`own_tail`].
fn zero_tail(core: &Core, extents: &Extents, size: u64) -> Fresh<()> {
    if size.is_multiple_of(PAGE) {
        return Fresh::linked(());
    }
    let (media, len) = (core.media(), PAGE - size % PAGE);
    if let Some((first, piece)) = extents.find(size / PAGE).filter(|(_, piece)| !piece.place.is_unwritten()) {
        debug_assert!(!is_shared(core, (first, piece), size / PAGE), "FS-20");
        let at = core.at(piece.place.page + (size / PAGE - first)) + size % PAGE;
        let _section = media.section();
        media.zero(at, len);
        return Blank::new(()).flush_unless(media, "fs-tail-unflushed", at, len);
    }
    Fresh::linked(())
}

/// Reads a page of a file as it is: holes, unwritten pages and bytes behind the end are zeros.
fn read_page(core: &Core, extents: &Extents, size: u64, page: u64, into: &mut [u8; PAGE as usize]) {
    into.fill(0);
    let len = size.saturating_sub(page * PAGE).min(PAGE) as usize;
    if let Some((first, piece)) = extents.find(page).filter(|(_, piece)| !piece.place.is_unwritten()) {
        core.media().read(core.at(piece.place.page + (page - first)), &mut into[..len]);
    }
}
