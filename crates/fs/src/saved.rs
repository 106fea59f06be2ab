//! The saved state: the free pages and the free inodes of a volume that was closed.
//!
//! Closing, a fence between the steps:
//!   1. the state is stored to pages that are free, which form a chain
//!   2. the word at [`SAVED_AT`] is published
//!
//! Opening:
//!   1. the state is read into memory; its pages are free from then on
//!   2. the word is cleared and the opening counted, both in one line; a fence, before anything of
//!      the volume changes
//!
//! Invariants
//!   FS-24  The word leads to a state only from the end of a closing to the fence of the next
//!          opening. Nothing of the volume changes in between.
//!   FS-25  A state is used only if all of it agrees: checksums, the volume's identity, its size,
//!          the count of openings, and sections that this program knows. If not, the volume is
//!          scanned.

use crate::core::Core;
use crate::extents::Pages;
use crate::format::first_free;
use crate::free_pages::FreePages;
use crate::layout::{
    GROUP_INODES, GROUP_PAGES, Head, LIST_HEAD, OPENED_AT, PAGE, Place, SAVED_AT, SAVED_INODES, SAVED_MAGIC,
    SAVED_PAGES, SavedHead, SavedSection,
};
use crate::recover::{Scan, VolumeRecovery};
use crate::shared_pages::SharedPages;
use crate::table::InodeTable;
use crate::{Error, Ino, Result};
use everbyte_media::{Checked, Damage, PublishWord, seeded};
use everbyte_store::Object;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of the state in one page, behind the link to the next.
const PART: usize = (PAGE - LIST_HEAD) as usize;
/// Bytes of the head.
const HEAD: usize = size_of::<SavedHead>();

/// The words of each section of a state.
pub(crate) struct Saved {
    pages: Vec<u64>,
    inodes: Vec<u64>,
}

/// Reads the saved state, if there is one that can be used (FS-25). Changes nothing.
pub(crate) fn load(object: &Object, head: &Head) -> Option<Saved> {
    let pages = Pages::of(object);
    let media = pages.media;
    let mut link = pages.start + SAVED_AT;
    let mut bytes = Vec::new();
    let mut wanted = HEAD;
    while bytes.len() < wanted {
        let page = pages.place(link, media.load(link), 1).ok().filter(|place| place.flags == 0)?.page;
        link = pages.start + page * PAGE;
        bytes.extend_from_slice(&media.read_vec(link + LIST_HEAD, PART));
        if wanted == HEAD {
            wanted += usize::try_from(read_head(object, head, &bytes)?.len).ok()?;
        }
    }
    let saved = read_head(object, head, &bytes)?;
    let content = &bytes[HEAD..wanted];
    let found = sections(content, saved.sections)?;
    let is_whole = crc32c::crc32c(content) == saved.content
        && count(&found.pages) == saved.free_pages
        && count(&found.inodes) == saved.free_inodes
        && found.pages.len() as u64 * 64 == pages.end.next_multiple_of(512);
    is_whole.then_some(found)
}

/// The head, if the state is of this volume, as it is now.
fn read_head(object: &Object, head: &Head, bytes: &[u8]) -> Option<SavedHead> {
    let pages = Pages::of(object);
    let (saved, _) = SavedHead::read_from_prefix(bytes).ok()?;
    let is_of_this = saved.magic == SAVED_MAGIC
        && saved.checksum_agrees()
        && saved.uuid == head.uuid
        && saved.opened == pages.media.load(pages.start + OPENED_AT)
        && saved.pages == pages.end;
    // So that a chain with a circle ends: at most a word for each page, and bits of all inodes.
    (is_of_this && saved.len <= pages.end * 8 + (16 << 20)).then_some(saved)
}

fn count(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// The sections of a state, each of them once.
fn sections(mut content: &[u8], count: u32) -> Option<Saved> {
    let (mut pages, mut inodes) = (None, None);
    for _ in 0..count {
        let (section, rest) = SavedSection::read_from_prefix(content).ok()?;
        let (bytes, rest) = rest.split_at_checked(usize::try_from(section.len).ok()?)?;
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let place = match section.kind {
            SAVED_PAGES => &mut pages,
            SAVED_INODES => &mut inodes,
            _ => return None,
        };
        if place.replace(words).is_some() {
            return None;
        }
        content = rest;
    }
    Some(Saved { pages: pages?, inodes: inodes? })
}

/// Ends the validity of the saved state, and counts the opening. Nothing of the volume has changed
/// before; ordered on return (FS-24). The word is stored and flushed also where it is 0: a process
/// that died may have left it so in the caches alone.
pub(crate) fn invalidate(object: &Object) {
    if seeded("fs-saved-kept") {
        return;
    }
    let (media, start) = (object.media(), object.prime().get());
    {
        let _section = media.section();
        media.store(start + SAVED_AT, 0);
        media.store(start + OPENED_AT, media.load(start + OPENED_AT).wrapping_add(1));
        media.flush_unless("fs-saved-clear-unflushed", start + SAVED_AT, 16);
    }
    media.fence();
}

impl Saved {
    /// What a scan would have found. `None` if the state contradicts the inode table.
    pub(crate) fn scan(self, object: &Object, head: &Head) -> Option<Scan> {
        let fixed = first_free(head.lanes) - 2 - GROUP_PAGES;
        let free = FreePages::saved(self.pages);
        if free.next_free(0).is_some_and(|page| page < fixed) || free.next_free(Pages::of(object).end).is_some() {
            return None;
        }
        let table = InodeTable::open(object, |page, count| match (page..page + count).any(|page| free.is_free(page)) {
            true => Err(Error::from(Damage::default())),
            false => Ok(()),
        });
        let table = table.ok()?;
        let (words, is_free) = (&self.inodes, |ino: u64| self.inodes[(ino / 64) as usize] >> (ino % 64) & 1 == 1);
        if words.len() as u64 * 64 != table.len() * GROUP_INODES || is_free(0) || is_free(Ino::ROOT.0) {
            return None;
        }
        let of_word = |(index, &word): (usize, &u64)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| Ino(index as u64 * 64 + bit))
        };
        table.give_all(words.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(of_word).collect());
        let shared = SharedPages::default();
        Some(Scan { table, free, shared, recovery: VolumeRecovery { saved: true, ..VolumeRecovery::default() } })
    }
}

/// Saves the state of a volume that no other thread uses; ordered on return. Without room for it
/// nothing is saved, and the next opening scans.
pub(crate) fn save(core: &Core) -> Result<()> {
    let (media, start) = (core.media(), core.at(0));
    let needed = |core: &Core| {
        let bits = core.end_page().next_multiple_of(512) + core.table.len() * GROUP_INODES;
        (HEAD as u64 + 2 * size_of::<SavedSection>() as u64 + bits / 8).div_ceil(PART as u64)
    };
    while core.free_count() < needed(core) {
        match core.grow(needed(core)) {
            Err(Error::NoSpace { .. }) => return Ok(()),
            outcome => outcome?,
        }
    }
    // The pages of the state are among the free ones.
    let (free, inodes) = (core.free_pages(), core.table.free_bits());
    let parts = [(SAVED_PAGES, free.words()), (SAVED_INODES, &inodes[..])];
    let mut bytes = vec![0; HEAD];
    for (kind, words) in parts {
        let section = SavedSection { kind, reserved: 0, len: words.len() as u64 * 8 };
        bytes.extend_from_slice(section.as_bytes());
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    }
    let head = SavedHead {
        magic: SAVED_MAGIC,
        checksum: 0,
        sections: parts.len() as u32,
        len: (bytes.len() - HEAD) as u64,
        content: crc32c::crc32c(&bytes[HEAD..]),
        reserved_word: 0,
        uuid: core.head.uuid,
        opened: media.load(start + OPENED_AT),
        pages: core.end_page(),
        free_pages: free.count(),
        free_inodes: core.table.free_count(),
        reserved: [0; 16],
    };
    bytes[..HEAD].copy_from_slice(head.sealed().as_bytes());
    let runs = core.take_runs(needed(core))?;
    let places: Vec<u64> = runs.iter().flat_map(|&(first, count)| first..first + count).collect();
    {
        let _section = media.section();
        for (index, part) in bytes.chunks(PART).enumerate() {
            let mut page = [0; PAGE as usize];
            let next = places.get(index + 1).map_or(0, |&next| Place::page(next).word());
            page[..8].copy_from_slice(&next.to_le_bytes());
            page[LIST_HEAD as usize..][..part.len()].copy_from_slice(part);
            media.copy_nt_unless("fs-saved-unflushed", core.at(places[index]), &page);
        }
    }
    let ordered = media.fence_after_unless("fs-saved-unfenced", ());
    PublishWord::new((start + SAVED_AT).into()).publish(media, Place::page(places[0]).word(), &ordered);
    media.fence();
    Ok(())
}
