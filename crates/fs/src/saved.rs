//! The saved state of a volume that was closed: free pages, free inodes, the counts of shared
//! pages, and what the owners of quotas have.
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
    GROUP_INODES, GROUP_PAGES, Head, LINE, LIST_HEAD, OPENED_AT, PAGE, Place, SAVED_AT, SAVED_INODES, SAVED_MAGIC,
    SAVED_PAGES, SAVED_SHARED, SAVED_USAGE, SavedHead, SavedSection, TABLE_AT,
};
use crate::order::publish;
use crate::quota::list;
use crate::quota::usage::{Key, Used};
use crate::recover::{Scan, VolumeRecovery};
use crate::shared_pages::SharedPages;
use crate::table::InodeTable;
use crate::{Error, Ino, QuotaKind, Result, sums};
use everbyte_media::{Checked, Damage, seeded};
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
    shared: Vec<u64>,
    used: Option<Vec<u64>>,
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
    // So that a chain with a circle ends.
    (is_of_this && saved.len <= pages.end * PAGE).then_some(saved)
}

fn count(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// The sections of a state, each of them once.
fn sections(mut content: &[u8], count: u32) -> Option<Saved> {
    let (mut pages, mut inodes, mut shared, mut used) = (None, None, None, None);
    for _ in 0..count {
        let (section, rest) = SavedSection::read_from_prefix(content).ok()?;
        let (bytes, rest) = rest.split_at_checked(usize::try_from(section.len).ok()?)?;
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let place = match section.kind {
            SAVED_PAGES => &mut pages,
            SAVED_INODES => &mut inodes,
            SAVED_SHARED => &mut shared,
            SAVED_USAGE => &mut used,
            _ => return None,
        };
        if place.replace(words).is_some() {
            return None;
        }
        content = rest;
    }
    if !content.is_empty() {
        return None;
    }
    Some(Saved { pages: pages?, inodes: inodes?, shared: shared.unwrap_or_default(), used })
}

/// Ends the validity of the saved state, and counts the opening. Nothing of the volume has changed
/// before; ordered on return (FS-24). The word is stored and flushed also where it is 0: a process
/// that died may have left it so in the caches alone. The same flush covers the other words of the
/// line: those of the snapshots, the quotas and the size change alone, without a record (FS-13).
pub(crate) fn invalidate(object: &Object) {
    if seeded("fs-saved-kept") {
        return;
    }
    let (media, start) = (object.media(), object.prime().get());
    {
        let _section = media.section();
        media.store(start + SAVED_AT, 0);
        media.store(start + OPENED_AT, media.load(start + OPENED_AT).wrapping_add(1));
        media.flush_unless("fs-saved-clear-unflushed", start + TABLE_AT, LINE);
    }
    media.fence();
}

impl Saved {
    /// The result that a scan would have. `None` if the state contradicts the inode table.
    pub(crate) fn scan(mut self, object: &Object, head: &Head) -> Option<Scan> {
        let fixed = first_free(head.lanes) - 2 - GROUP_PAGES;
        let free = FreePages::saved(std::mem::take(&mut self.pages));
        if free.next_free(0).is_some_and(|page| page < fixed) || free.next_free(Pages::of(object).end).is_some() {
            return None;
        }
        let table = InodeTable::open(object, |page, count| match (page..page + count).any(|page| free.is_free(page)) {
            true => Err(Error::from(Damage::default())),
            false => Ok(()),
        });
        let table = table.ok()?;
        let mut is_whole = true;
        let mut seen = std::collections::HashSet::new();
        let mut each = |page: u64, _| !free.is_free(page) && seen.insert(page);
        sums::each_page(Pages::of(object), &mut each, &mut |_| is_whole = false);
        if !is_whole {
            return None;
        }
        let (words, is_free) = (&self.inodes, |ino: u64| self.inodes[(ino / 64) as usize] >> (ino % 64) & 1 == 1);
        let is_of_table = words.len() as u64 * 64 == table.len() * GROUP_INODES && !words.is_empty();
        if !is_of_table || is_free(0) || is_free(Ino::ROOT.0) {
            return None;
        }
        let of_word = |(index, &word): (usize, &u64)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| Ino(index as u64 * 64 + bit))
        };
        table.give_all(words.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(of_word).collect());
        let shared = self.shared_pages(&free, Pages::of(object).end)?;
        let used = match list::run(Pages::of(object)) {
            Ok(None) => Vec::new(),
            Ok(Some((page, count))) if free.next_free(page).is_none_or(|free| free >= page + count) => {
                of_words(self.used.as_deref()?)?
            }
            _ => return None,
        };
        Some(Scan { table, free, shared, used, recovery: VolumeRecovery { saved: true, ..VolumeRecovery::default() } })
    }
}

impl Saved {
    /// Pages that several extents lead to; none of them is free.
    fn shared_pages(&self, free: &FreePages, end: u64) -> Option<SharedPages> {
        let (words, []) = self.shared.as_chunks::<3>() else { return None };
        let runs: Vec<(u64, u64, u64)> = words.iter().map(|&[first, len, number]| (first, len, number)).collect();
        let shared = SharedPages::saved(&runs, end)?;
        let is_used = |&(first, len, _): &(u64, u64, u64)| free.next_free(first).is_none_or(|free| free >= first + len);
        runs.iter().all(is_used).then_some(shared)
    }
}

/// The pages and inodes of the owners of quotas: five words each.
fn of_words(words: &[u64]) -> Option<Vec<(Key, Used)>> {
    let (words, []) = words.as_chunks::<5>() else { return None };
    let owner = |&[key, pages, inodes, bytes_since, inodes_since]: &[u64; 5]| {
        let kind = *QuotaKind::ALL.get((key >> 32) as usize)?;
        Some(((kind, key as u32), Used { pages, inodes, since: [bytes_since as i64, inodes_since as i64] }))
    };
    words.iter().map(owner).collect()
}

/// The words of [`of_words`].
fn to_words(used: &[(Key, Used)]) -> Vec<u64> {
    let words = |&((kind, id), used): &(Key, Used)| {
        let [bytes_since, inodes_since] = used.since.map(|since| since as u64);
        [(kind as u64) << 32 | u64::from(id), used.pages, used.inodes, bytes_since, inodes_since]
    };
    used.iter().flat_map(words).collect()
}

/// Saves the state of a volume that no other thread uses; ordered on return. Without room for it
/// nothing is saved, and the next opening scans.
pub(crate) fn save(core: &Core) -> Result<()> {
    let (media, start) = (core.media(), core.at(0));
    let shared: Vec<u64> =
        core.shared_pages().runs().flat_map(|(first, len, number)| [first, len, number.into()]).collect();
    let used = core.quotas.is_on().then(|| to_words(&core.quotas.used()));
    let needed = |core: &Core| {
        let bits = core.end_page().next_multiple_of(512) + core.table.len() * GROUP_INODES;
        let words = (shared.len() + used.as_ref().map_or(0, Vec::len)) as u64;
        (HEAD as u64 + 4 * size_of::<SavedSection>() as u64 + bits / 8 + words * 8).div_ceil(PART as u64)
    };
    while core.takeable_count() < needed(core) {
        match core.grow(needed(core)) {
            Err(Error::NoSpace { .. } | Error::SizeReached { .. }) => return Ok(()),
            outcome => outcome?,
        }
    }
    // The pages of the state are among the free ones.
    let (free, inodes) = (core.free_pages(), core.table.free_bits());
    let mut parts = vec![(SAVED_PAGES, free.words()), (SAVED_INODES, &inodes[..])];
    parts.extend(used.as_ref().map(|used| (SAVED_USAGE, &used[..])));
    if !shared.is_empty() {
        parts.push((SAVED_SHARED, &shared));
    }
    let mut bytes = vec![0; HEAD];
    for &(kind, words) in &parts {
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
    let runs = core.take_runs((bytes.len() as u64).div_ceil(PART as u64))?;
    let places: Vec<u64> = runs.iter().flat_map(|&(first, count)| first..first + count).collect();
    let mut first = None;
    {
        let _section = media.section();
        for (index, part) in bytes.chunks(PART).enumerate() {
            let mut page = [0; PAGE as usize];
            let next = places.get(index + 1).map_or(0, |&next| Place::page(next).word());
            page[..8].copy_from_slice(&next.to_le_bytes());
            page[LIST_HEAD as usize..][..part.len()].copy_from_slice(part);
            let part = core.copy_pages_unless("fs-saved-unflushed", places[index], &page);
            first.get_or_insert(part);
        }
    }
    let first = first.expect("a state has a head");
    publish(media, start + SAVED_AT, &media.fence_after_unless("fs-saved-unfenced", first));
    media.fence();
    Ok(())
}
