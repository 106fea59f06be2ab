//! [`Sums`]: the checksums of pages of data, by the number of the page.
//!
//! The word at [`SUMS_AT`] leads to a page of 512 words, each of those to a page of 512 words, each
//! of those again to one, and each of those to a page of 1024 sums of four bytes. Pages of the
//! table are added where a sum is stored.
//!
//! Invariants
//!   FS-43  The sum of a page is believed if an extent that leads to the page has the flag of
//!          sealed pages. That flag is stored after a fence that orders the sum.
//!   FS-44  A page of an extent with that flag is not stored to: the flag is cleared, and that is
//!          fenced, before any store.
//!
//! Threads: any. Sums are stored under one lock.

use crate::extents::{Extents, Pages, Piece};
use crate::layout::{PAGE, SUMS_AT, TABLE_WORDS};
use crate::order::publish;
use crate::space::Space;
use crate::{Ino, Result};
use everbyte_media::{Damage, Media};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sums of a page of them.
const SUMS: u64 = PAGE / 4;
/// Levels of pages of words above them.
const LEVELS: u32 = 3;

/// The part of the table that lies in memory.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Held by a thread that stores sums.
    storing: Mutex<()>,
    /// The file of which an extent is being sealed in several steps and that was not changed
    /// since; 0: none.
    sealing: AtomicU64,
}

/// The sum of a page's bytes.
pub(crate) fn sum_of(media: &Media, at: u64) -> u32 {
    let mut bytes = [0; PAGE as usize];
    media.read(at, &mut bytes);
    crc32c::crc32c(&bytes)
}

/// Whether the volume has checksums of data.
pub(crate) fn are_kept(pages: Pages<'_>) -> bool {
    pages.media.load(pages.start + SUMS_AT) != 0
}

/// The word of a level that leads towards the sum of `page`; level 0 leads to the sums.
fn index(level: u32, page: u64) -> u64 {
    page / SUMS / TABLE_WORDS.pow(level) % TABLE_WORDS
}

/// The sum of a page, as it is stored. `None`: none is.
pub(crate) fn load(pages: Pages<'_>, page: u64) -> Result<Option<u32>, Damage> {
    let mut at = pages.start + SUMS_AT;
    for level in (0..=LEVELS).rev() {
        let word = pages.media.load(at);
        if word == 0 {
            return Ok(None);
        }
        let found = pages.start + pages.place(at, word, 1)?.page * PAGE;
        at = match level.checked_sub(1) {
            Some(level) => found + 8 * index(level, page),
            None => found + page % SUMS / 2 * 8,
        };
    }
    Ok(Some((pages.media.load(at) >> (page % 2 * 32)) as u32))
}

/// Calls `each` with every page of the table and the word that leads to it. A word that fails its
/// check goes to `damaged`; the pages behind it are left out.
pub(crate) fn each_page(pages: Pages<'_>, each: &mut dyn FnMut(u64, u64) -> bool, damaged: &mut dyn FnMut(Damage)) {
    let mut open = vec![(pages.start + SUMS_AT, LEVELS)];
    while let Some((at, level)) = open.pop() {
        let word = pages.media.load(at);
        if word == 0 {
            continue;
        }
        match pages.place(at, word, 1) {
            Ok(place) if place.flags == 0 && each(place.page, at) => {
                let first = pages.start + place.page * PAGE;
                if let Some(level) = level.checked_sub(1) {
                    open.extend((0..TABLE_WORDS).map(|index| (first + 8 * index, level)));
                }
            }
            Ok(_) => damaged(Damage::at(at, "a word of the table of checksums leads to a page of another use")),
            Err(damage) => damaged(damage),
        }
    }
}

/// Refuses a page whose bytes are not those that were sealed.
pub(crate) fn require_whole(pages: Pages<'_>, ino: Ino, page: u64, of_file: u64, bytes: &[u8]) -> Result<(), Damage> {
    let at = pages.start + page * PAGE;
    let stored = load(pages, page)?;
    if stored == Some(crc32c::crc32c(bytes)) {
        return Ok(());
    }
    let offset = of_file * PAGE;
    Err(Damage::at(at, format!("4096 bytes of inode {ino} at its offset {offset} fail their checksum")))
}

/// As [`require_whole`], of a page of a file if it is sealed.
pub(crate) fn verify_page(
    pages: Pages<'_>,
    ino: Ino,
    (first, piece): (u64, Piece),
    of_file: u64,
) -> Result<(), Damage> {
    if !piece.place.is_sealed() {
        return Ok(());
    }
    let page = piece.place.page + (of_file - first);
    let mut bytes = [0; PAGE as usize];
    pages.media.read(pages.start + page * PAGE, &mut bytes);
    require_whole(pages, ino, page, of_file, &bytes)
}

/// Calls `damaged` for each sealed page of a file that is damaged.
pub(crate) fn verify_all(pages: Pages<'_>, ino: Ino, extents: &Extents, damaged: &mut dyn FnMut(u64, Damage)) {
    for (first, piece) in extents.pieces().filter(|(_, piece)| piece.place.is_sealed()) {
        for of_file in first..first + piece.len {
            if let Err(damage) = verify_page(pages, ino, (first, piece), of_file) {
                damaged(of_file, damage);
            }
        }
    }
}

impl Sums {
    /// Stores the sums of the pages `first..first + count`; flushed, not fenced.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`] without a page for the table; [`crate::Error::Damaged`].
    pub(crate) fn store(&self, space: &Space, first: u64, count: u64) -> Result<()> {
        let _storing = self.storing.lock();
        let media = space.media();
        let mut page = first;
        while page < first + count {
            let sums = leaf(space, page)?;
            let end = (page / SUMS + 1) * SUMS;
            let part = page..end.min(first + count);
            let _section = media.section();
            if media.fences_settle() {
                // A process that died may have left stores to a mapping in the caches alone.
                media.flush(space.at(page), (part.end - page) * PAGE);
            }
            let bytes: Vec<u8> = part.clone().flat_map(|page| sum_of(media, space.at(page)).to_le_bytes()).collect();
            let at = sums + page % SUMS * 4;
            media.write(at, &bytes);
            media.flush_unless("fs-seal-sums-unflushed", at, bytes.len() as u64);
            page = part.end;
        }
        Ok(())
    }

    /// A file is going to be changed: an extent of it that is sealed in part is sealed anew.
    pub(crate) fn touch(&self, ino: Ino) {
        if self.sealing.load(Ordering::Relaxed) == ino.0 {
            self.sealing.store(0, Ordering::Relaxed);
        }
    }

    /// Notes the file that is sealed in several steps. The caller holds its lock.
    pub(crate) fn begin(&self, ino: Ino) {
        self.sealing.store(ino.0, Ordering::Relaxed);
    }

    /// Whether the file was not changed since [`Sums::begin`]. The caller holds its lock.
    pub(crate) fn is_untouched(&self, ino: Ino) -> bool {
        self.sealing.load(Ordering::Relaxed) == ino.0
    }
}

/// Offset of the page that has the sum of `page`; pages of the table are added: zeros first, then
/// the word that leads to them. After a crash in between they are free.
fn leaf(space: &Space, page: u64) -> Result<u64> {
    let (media, pages) = (space.media(), Pages::of(space.object()));
    let mut at = pages.start + SUMS_AT;
    for level in (0..=LEVELS).rev() {
        let word = media.load(at);
        let found = match word {
            0 => {
                let new = space.take_run(1)?;
                let zeros = space.zero_pages(new, 1);
                publish(media, at, &media.fence_after_unless("fs-seal-table-unfenced", zeros));
                media.fence();
                new
            }
            word => pages.place(at, word, 1).map_err(|damage| damage.of_object(space.name()))?.page,
        };
        at = space.at(found) + if level > 0 { 8 * index(level - 1, page) } else { 0 };
    }
    Ok(at)
}
