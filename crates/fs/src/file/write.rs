//! Writing: each call is whole or absent after a crash.

use super::{
    in_place, inline, is_inline, is_shared, large, lock, own_tail, publish_size, read_page, replace, require_range,
    store_times, supply, zero_tail,
};
use crate::core::Core;
use crate::extents::{Extents, Piece};
use crate::layout::{INLINE, PAGE, PLACE_UNWRITTEN, Place, inode};
use crate::node::{Node, NodeState};
use crate::order::{Blank, Copier, Fresh, NewRun, coalesced};
use crate::volume::Volume;
use crate::{Held, Ino, PageSize, Result, seal};
use everbyte_media::seeded;
use std::ops::Range;

/// Bytes of the longest write that changes a page at its place. Its undo records are shorter than
/// a copy of the page, and its extent stays whole.
const IN_PLACE: u64 = 512;

impl Volume {
    /// Writes all of `bytes` to a regular file from offset `at` on. Ordered on return: durable at
    /// once where fences settle, else after [`Volume::settle`].
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`], [`crate::Error::TooLarge`], [`crate::Error::Stale`],
    /// [`crate::Error::IsADirectory`], [`crate::Error::NotAFile`]: nothing has changed.
    pub fn write(&self, ino: Ino, at: u64, bytes: &[u8]) -> Result<()> {
        write_at(&self.core, &*self.core.node(ino)?, at, bytes)
    }

    /// Writes all of `bytes` behind the end of a regular file, in one step with finding the end;
    /// returns the offset.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn append(&self, ino: Ino, bytes: &[u8]) -> Result<u64> {
        append_to(&self.core, &*self.core.node(ino)?, bytes)
    }
}

impl Held {
    /// [`Volume::write`] to this file.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        write_at(&self.core, &self.node, at, bytes)
    }

    /// [`Volume::append`] to this file.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn append(&self, bytes: &[u8]) -> Result<u64> {
        append_to(&self.core, &self.node, bytes)
    }
}

fn write_at(core: &Core, node: &Node, at: u64, bytes: &[u8]) -> Result<()> {
    let _change = core.freeze.enter();
    let mut state = lock(core, node)?;
    write(core, node, &mut state, at, bytes)
}

fn append_to(core: &Core, node: &Node, bytes: &[u8]) -> Result<u64> {
    let _change = core.freeze.enter();
    let mut state = lock(core, node)?;
    let at = node.size(core);
    write(core, node, &mut state, at, bytes)?;
    Ok(at)
}

/// Writes to a file whose lock the caller holds.
pub(crate) fn write(core: &Core, node: &Node, state: &mut NodeState, at: u64, bytes: &[u8]) -> Result<()> {
    let end = require_range(at, bytes.len() as u64)?;
    if bytes.is_empty() {
        return Ok(());
    }
    core.object().require_readable()?;
    if is_inline(core, node) {
        if end <= INLINE {
            return inline::write(core, node, at, bytes);
        }
        inline::to_pages(core, node, state)?;
    }
    let size = node.size(core);
    let extents = state.extents(core, node)?;
    if end <= size && bytes.len() as u64 <= IN_PLACE && at / PAGE == (end - 1) / PAGE {
        let plain = extents.find(at / PAGE).filter(|(_, piece)| !piece.place.is_unwritten());
        let plain = plain.filter(|&found| !is_shared(core, found, at / PAGE));
        if let Some((first, piece)) = plain {
            if piece.place.is_sealed() {
                seal::open(core, node, extents, &(at / PAGE..at / PAGE + 1))?;
            }
            let page_at = core.at(piece.place.page + (at / PAGE - first));
            return change_bytes(core, node, page_at + at % PAGE, bytes);
        }
    }
    if end <= size
        && let Some(outcome) = replace::exactly(core, node, extents, at, bytes)
    {
        return outcome;
    }
    if at >= size {
        own_tail(core, node, extents, size)?;
    }
    let reserved = large::reserve(core, node, extents, &(at / PAGE..end.div_ceil(PAGE)))?;
    let is_free_behind = end <= size.next_multiple_of(PAGE)
        || extents.last().is_none_or(|(first, piece)| first + piece.len <= size.div_ceil(PAGE));
    // A hole in the last page would get a page before its bytes are ordered.
    let is_last_written = size.is_multiple_of(PAGE)
        || extents.find(size / PAGE).is_some_and(|(_, piece)| !piece.place.is_unwritten())
        || seeded("fs-append-over-hole");
    let outcome = if at >= size && is_free_behind && is_last_written {
        append(core, node, extents, size, at, bytes)
    } else {
        overwrite(core, node, extents, size, at, bytes)
    };
    outcome.inspect_err(|_| large::release(core, node, extents, &reserved))
}

/// Changes a few bytes of a page at their place, under undo records.
fn change_bytes(core: &Core, node: &Node, at: u64, bytes: &[u8]) -> Result<()> {
    let mut change = core.change().of_bytes();
    if !seeded("fs-map-equal-skipped") {
        change.flush(at, bytes.len() as u64);
    }
    let end = at + bytes.len() as u64;
    for word_at in (at & !7..end).step_by(8) {
        let mut word = core.media().load(word_at).to_le_bytes();
        let (from, to) = (word_at.max(at), (word_at + 8).min(end));
        word[(from - word_at) as usize..(to - word_at) as usize]
            .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
        change.add(word_at, u64::from_le_bytes(word));
    }
    change.add(node.at + inode::MODIFIED, change.now());
    change.add(node.at + inode::CHANGED, change.now());
    change.commit()
}

/// Writes behind the end: nothing reads the bytes or the slots before the size covers them.
fn append(core: &Core, node: &Node, extents: &mut Extents, size: u64, at: u64, bytes: &[u8]) -> Result<()> {
    let media = core.media();
    let end = at + bytes.len() as u64;
    let last = extents.find(size / PAGE).filter(|_| !size.is_multiple_of(PAGE));
    let in_place = last.map(|(first, piece)| core.at(piece.place.page + (size / PAGE - first)));
    // Pages that the file does not have yet.
    let first = size.div_ceil(PAGE).max(at / PAGE);
    let count = end.div_ceil(PAGE).saturating_sub(first);
    let charge = core.charge(node.at, count as i64)?;
    let runs = take_behind(core, extents, first, count)?;
    if let Err(error) = extents.reserve_slots(core, node.at, runs.len()) {
        runs.iter().for_each(|run| core.give_pages(run.place.page, run.len));
        return Err(error);
    }
    let _section = media.section();
    let mut covered = Fresh::linked(());
    if let Some(page_at) = in_place {
        let page_end = size.next_multiple_of(PAGE);
        let gap = at.min(page_end) - size;
        if gap > 0 {
            media.zero(page_at + size % PAGE, gap); // FS-11
            covered = Blank::new(()).flush_unless(media, "fs-gap-unflushed", page_at + size % PAGE, gap);
        }
        if at < page_end {
            let part = &bytes[..(page_end.min(end) - at) as usize];
            media.copy_nt_unless("fs-append-unflushed", page_at + at % PAGE, part);
        }
    }
    let zeros = |_: u64, page: &mut [u8; PAGE as usize]| page.fill(0);
    let runs = store_pages(core, Blank::new(runs), at, bytes, zeros);
    let covered = covered.and(extents.add_behind(core, node.at, &runs));
    publish_size(core, node, end, covered.and(store_times(core, node, [core.now() as u64; 2])));
    charge.keep();
    Ok(())
}

/// Takes pages for the pages `first..first + count` of a file, adjacent to its last ones if they
/// are free.
fn take_behind(core: &Core, extents: &Extents, first: u64, count: u64) -> Result<Vec<NewRun>> {
    let mut runs = Vec::new();
    let mut done = 0;
    if let Some((before, piece)) = extents.last().filter(|(before, piece)| before + piece.len == first && count > 0) {
        let page = piece.place.page + (first - before);
        done = core.take_pages_at(page, count);
        if done > 0 {
            runs.push(NewRun { first, len: done, place: Place::page(page) });
        }
    }
    match core.take_runs(count - done) {
        Ok(taken) => {
            for (page, len) in taken {
                supply::push_runs(&mut runs, first + done, len, Place::page(page));
                done += len;
            }
            Ok(runs)
        }
        Err(error) => {
            runs.iter().for_each(|run| core.give_pages(run.place.page, run.len));
            Err(error)
        }
    }
}

/// Stores the bytes of a write to the pages of `runs`, whole pages past the cache. `old` gives the
/// page that lies under the first or the last one in part.
fn store_pages(
    core: &Core,
    runs: Blank<Vec<NewRun>>,
    at: u64,
    bytes: &[u8],
    old: impl Fn(u64, &mut [u8; PAGE as usize]),
) -> Fresh<Vec<NewRun>> {
    let (mut copier, end) = (Copier::new(core.media()), at + bytes.len() as u64);
    let mut edge = [0; PAGE as usize];
    for run in runs.iter() {
        let mut page = run.first;
        while page < run.first + run.len {
            let (start, to) = (page * PAGE, core.at(run.place.page + (page - run.first)));
            if start >= at && start + PAGE <= end {
                // Whole pages, as many as the run has.
                let count = (run.first + run.len - page).min((end - start) / PAGE);
                let from = &bytes[(start - at) as usize..(start - at + count * PAGE) as usize];
                copier.copy_nt_unless("fs-data-unflushed", to, from);
                page += count;
                continue;
            }
            old(page, &mut edge);
            let (from, until) = (start.max(at), (start + PAGE).min(end));
            edge[(from - start) as usize..(until - start) as usize]
                .copy_from_slice(&bytes[(from - at) as usize..(until - at) as usize]);
            copier.copy_nt_unless("fs-edge-unflushed", to, &edge);
            page += 1;
        }
    }
    copier.finish(runs)
}

/// Writes to pages that the file has, at least in part: to new pages, which then take their place.
/// Unwritten pages are kept: nothing reads their bytes. Pages that may not move stay, and their
/// bytes change under undo records of the same change.
fn overwrite(core: &Core, node: &Node, extents: &mut Extents, size: u64, at: u64, bytes: &[u8]) -> Result<()> {
    let media = core.media();
    let end = at + bytes.len() as u64;
    let pages = at / PAGE..end.div_ceil(PAGE);
    // Bytes that are copied to a new page are those that were sealed.
    let edges = [pages.start, pages.end - 1].into_iter().filter(|page| page * PAGE < at || (page + 1) * PAGE > end);
    for page in edges {
        if let Some(found) = extents.find(page) {
            seal::verify(core, node.ino, found, page)?;
        }
    }
    let stays = large::size_of(core, node) != PageSize::Small || core.maps.meet(node, &pages);
    if stays && !seeded("fs-seal-kept") {
        seal::clear(core, node, extents, &pages);
    }
    let staying = in_place::staying(core, node, extents, &pages)?;
    let mut range = in_place::replaced(&pages, &staying);
    let unwritten = unwritten(extents, &range);
    let mut linked: Vec<NewRun> = staying.iter().copied().filter(|run| range.contains(&run.first)).collect();
    let (new, supply) = supply::replace(core, &range, &unwritten, &linked)?;
    linked.extend(large::neighbours(extents, &mut range, &unwritten));
    if !range.is_empty() {
        let mut runs = [&new[..], &linked].concat();
        runs.sort_unstable_by_key(|run| run.first);
        let reserved = extents.reserve_for(core, node.at, &range, &coalesced(&runs));
        reserved.map_err(|error| supply.give_back(core, error))?;
    }
    let mut change = core.change();
    let _section = media.section();
    if at > size {
        let _before_the_commit = zero_tail(core, extents, size);
    }
    in_place::put(core, &mut change, &staying, (at, size), bytes);
    let runs = store_pages(core, new, at, bytes, |page, into| read_page(core, extents, size, page, into));
    let runs = runs.join(Fresh::linked(linked)).coalesced();
    let remapped = extents.remap(core, node.at, &mut change, range, &runs);
    change.charge(node.at, remapped.net, 0);
    let times = [inode::MODIFIED, inode::CHANGED].map(|word| node.word(core, word));
    if end > size {
        inline::set_size(&mut change, node, end);
    } else {
        let _before_the_commit = store_times(core, node, [change.now(); 2]);
    }
    change.commit().map_err(|error| {
        if end <= size && !seeded("fs-refused-times") {
            let _ = store_times(core, node, times); // the call has changed nothing
            media.fence();
        }
        supply.give_back(core, error)
    })?;
    extents.apply(&remapped);
    core.give_runs(&remapped.freed);
    Ok(())
}

/// The unwritten pages of a range, as written ones.
fn unwritten(extents: &Extents, range: &Range<u64>) -> Vec<NewRun> {
    let pieces = extents.overlapping(range.clone()).into_iter().filter(|(_, piece)| piece.place.is_unwritten());
    let written = |(first, piece): (u64, Piece)| {
        let (from, to) = (first.max(range.start), (first + piece.len).min(range.end));
        let flags = piece.place.flags & !PLACE_UNWRITTEN;
        let place = Place { page: piece.place.page + (from - first), flags, ..piece.place };
        NewRun { first: from, len: to - from, place }
    };
    pieces.map(written).collect()
}
