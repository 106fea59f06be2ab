//! [`Extents`]: the pages of one file, as its index in memory and as slots on media.
//!
//! A slot is two words, a run of the file's pages and their place. On media slots have no order;
//! the index has. Eight lie in the inode, further ones in pages of a chain that begins there. A
//! slot is in use if both words are not zero.
//!
//! Invariants
//!   FS-6  Slots in use cover each page of a file once at most.
//!   FS-7  A slot with one word of zeros, and pages behind the end of the file that are not marked
//!         as unwritten, are left by a crash. Recovery clears them; nothing reads them.

use crate::Result;
use crate::change::Change;
use crate::layout::{
    EXTENT, INLINE_EXTENTS, LIST_EXTENTS, LIST_HEAD, PAGE, PLACE_SEALED, PLACE_SHARED, PLACE_UNWRITTEN, Place, Run,
    STATE_INLINE, State, inode,
};
use crate::order::{Blank, Fresh, NewRun, publish};
pub(crate) use crate::pieces::Piece;
use crate::pieces::{PieceAt, Pieces};
use crate::space::Space;
use everbyte_media::{Damage, Flusher, Media};
use everbyte_store::Object;
use std::collections::HashSet;
use std::ops::Range;

/// The bytes of an object in which a volume's pages lie.
#[derive(Clone, Copy)]
pub(crate) struct Pages<'m> {
    pub media: &'m Media,
    pub start: u64,
    /// One past the last page.
    pub end: u64,
}

impl<'m> Pages<'m> {
    pub(crate) fn of(object: &'m Object) -> Pages<'m> {
        let start = object.prime().get();
        Pages { media: object.media(), start, end: (object.backed().get() - start) / PAGE }
    }

    fn at(&self, page: u64) -> u64 {
        self.start + page * PAGE
    }

    /// The place of a word that leads to `pages` pages.
    pub(crate) fn place(&self, at: u64, word: u64, pages: u64) -> Result<Place, Damage> {
        match Place::of(word) {
            Some(place) if place.tier == 0 && place.class == 0 && place.page + pages <= self.end => Ok(place),
            _ => Err(Damage::at(at, "a place of the volume fails its check, or lies outside")),
        }
    }
}

/// The extents of a file.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    pieces: Pieces,
}

/// The slots of a file as recovery found them.
pub(crate) struct Loaded {
    pub extents: Extents,
    /// Slots with one word of zeros.
    pub torn: Vec<u64>,
}

/// Changes of an index that follow a commit.
#[derive(Default)]
pub(crate) struct Remapped {
    removed: Vec<u64>,
    added: Vec<(u64, Piece)>,
    /// Pages that the file has more, or less if below 0.
    pub net: i64,
    /// Pages that the file no longer has.
    pub freed: Vec<(u64, u64)>,
}

impl Extents {
    /// Reads the slots of the inode at `at`. Changes nothing; never panics.
    pub(crate) fn load(pages: Pages<'_>, at: u64) -> Result<Loaded, Damage> {
        let media = pages.media;
        let mut slots = Slots::default();
        if State::of(media.load(at + inode::STATE)).flags & STATE_INLINE != 0 {
            return Ok(Loaded { extents: Extents::default(), torn: slots.torn });
        }
        for slot in 0..INLINE_EXTENTS {
            slots.read(pages, slot_at(pages.start, at, |_| 0, slot), slot)?;
        }
        let mut link = at + inode::LIST;
        let (mut list, mut seen) = (Vec::new(), HashSet::new());
        while media.load(link) != 0 {
            let page = pages.place(link, media.load(link), 1)?.page;
            if !seen.insert(page) {
                return Err(Damage::at(at + inode::LIST, "the chain of extents is a circle"));
            }
            let first = INLINE_EXTENTS + list.len() as u32 * LIST_EXTENTS;
            list.push(page);
            for slot in first..first + LIST_EXTENTS {
                slots.read(pages, slot_at(pages.start, at, |_| page, slot), slot)?;
            }
            link = pages.at(page);
        }
        let Slots { mut pieces, torn } = slots;
        pieces.sort_unstable_by_key(|(first, _)| *first);
        if let Some(two) = pieces.windows(2).find(|two| two[0].0 + two[0].1.len > two[1].0) {
            let at = slot_at(pages.start, at, |index| list[index as usize], two[0].1.slot.max(two[1].1.slot));
            return Err(Damage::at(at, "two extents hold one page of the file (FS-6)"));
        }
        Ok(Loaded { extents: Extents { pieces: Pieces::new(&pieces, &list) }, torn })
    }

    /// The runs of pages that a damaged inode leads to, as far as its slots say.
    pub(crate) fn salvage(pages: Pages<'_>, at: u64) -> Vec<(u64, u64)> {
        let media = pages.media;
        let mut found = Vec::new();
        let mut slots: Vec<u64> =
            (0..u64::from(INLINE_EXTENTS)).map(|slot| at + inode::INLINE + slot * EXTENT).collect();
        let mut seen = HashSet::new();
        let mut link = at + inode::LIST;
        while let Ok(place) = pages.place(link, media.load(link), 1)
            && seen.insert(place.page)
        {
            found.push((place.page, 1));
            let first = pages.at(place.page);
            slots.extend((0..u64::from(LIST_EXTENTS)).map(|index| first + LIST_HEAD + index * EXTENT));
            link = first;
        }
        for at in slots {
            // Of a damaged word the fields as they are: keeping too many pages is harmless.
            let [run, place] = [media.load(at), media.load(at + 8)];
            if run != 0 && place != 0 {
                let (page, len) = (Place::raw_page(place), Run::raw_len(run));
                found.push((page.min(pages.end), len.min(pages.end - page.min(pages.end))));
            }
        }
        found
    }

    /// The pages of the file, in order.
    pub(crate) fn pieces(&self) -> impl DoubleEndedIterator<Item = (u64, Piece)> + '_ {
        self.pieces.iter()
    }

    /// Number of extents, and their bytes in memory beside those of this struct.
    pub(crate) fn indexed(&self) -> (usize, usize) {
        (self.pieces.len(), self.pieces.bytes())
    }

    /// Pages of the chain.
    pub(crate) fn list(&self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + '_ {
        self.pieces.list()
    }

    /// Pages that the file has, those of the chain among them.
    pub(crate) fn page_count(&self) -> u64 {
        self.pieces().map(|(_, piece)| piece.len).sum::<u64>() + self.list().len() as u64
    }

    /// The piece that holds a page of the file: its first page, and the piece.
    #[inline]
    pub(crate) fn find(&self, page: u64) -> Option<(u64, Piece)> {
        let (first, piece) = self.pieces.before(page + 1)?;
        (page < first + piece.len).then_some((first, piece))
    }

    /// The piece of exactly these pages, with its place in the index.
    #[inline]
    pub(crate) fn exact(&self, first: u64, len: u64) -> Option<(PieceAt, Piece)> {
        self.pieces.exact(first, len)
    }

    /// Offset of the word that holds the place of a piece.
    pub(crate) fn place_at(&self, space: &Space, inode_at: u64, piece: Piece) -> u64 {
        self.slot_at(space, inode_at, piece.slot) + 8
    }

    /// Brings the index up to a word of a place that is published.
    #[inline]
    pub(crate) fn replace(&mut self, at: PieceAt, place: Place) {
        self.pieces.replace(at, place);
    }

    /// The first piece that begins at `page` or behind it.
    pub(crate) fn next(&self, page: u64) -> Option<(u64, Piece)> {
        self.pieces.from(page).next()
    }

    /// The last piece.
    pub(crate) fn last(&self) -> Option<(u64, Piece)> {
        self.pieces().next_back()
    }

    /// The pieces that have pages in `range`.
    pub(crate) fn overlapping(&self, range: Range<u64>) -> Vec<(u64, Piece)> {
        let before = self
            .pieces
            .before(range.start)
            .filter(|(first, piece)| first + piece.len > range.start && !range.is_empty());
        before.into_iter().chain(self.pieces.range(range)).collect()
    }

    fn slot_at(&self, space: &Space, inode_at: u64, slot: u32) -> u64 {
        slot_at(space.at(0), inode_at, |index| self.pieces.listed(index), slot)
    }

    /// Makes sure that `count` slots are free. A page that is added to the chain for them is a
    /// change of its own: a chain may have empty slots.
    pub(crate) fn reserve_slots(&mut self, space: &Space, inode_at: u64, count: usize) -> Result<()> {
        while self.pieces.free_count() < count {
            let charge = space.charge(inode_at, 1)?;
            let page = space.take_run(1)?;
            let new = space.zero_pages(page, 1);
            let (media, link) =
                (space.media(), self.list().next_back().map_or(inode_at + inode::LIST, |last| space.at(last)));
            publish(media, link, &media.fence_after_unless("fs-chain-unfenced", new));
            media.fence_unless("fs-chain-left"); // the caller may be refused, and another one go on
            charge.keep();
            self.pieces.add_list(page);
        }
        Ok(())
    }

    /// [`Extents::reserve_slots`] for a [`Extents::remap`]: pieces that lie in the range give theirs.
    pub(crate) fn reserve_for(
        &mut self,
        space: &Space,
        inode_at: u64,
        range: &Range<u64>,
        runs: &[NewRun],
    ) -> Result<()> {
        let is_inside = |(first, piece): &(u64, Piece)| *first >= range.start && first + piece.len <= range.end;
        let given = self.overlapping(range.clone()).iter().filter(|piece| is_inside(piece)).count();
        self.reserve_slots(space, inode_at, (runs.len() + 1).saturating_sub(given))
    }

    /// Gives the pages `range` of the file the places of `runs`, which are in order, in `change`;
    /// pages of the range outside of all runs become holes. Slots were reserved by
    /// [`Extents::reserve_for`]. A page that a run leaves at its place is not freed.
    pub(crate) fn remap(
        &self,
        space: &Space,
        inode_at: u64,
        change: &mut Change<'_>,
        range: Range<u64>,
        runs: &Fresh<Vec<NewRun>>,
    ) -> Remapped {
        let mut done = Remapped::default();
        let mut spare = Vec::new();
        let mut slots = self.pieces.free_slots();
        let put = |change: &mut Change<'_>, done: &mut Remapped, run: NewRun, slot: u32| {
            let at = self.slot_at(space, inode_at, slot);
            change.add(at, Run { first: run.first, len: run.len }.word());
            change.add(at + 8, run.place.word());
            done.added.push((run.first, Piece { len: run.len, place: run.place, slot }));
        };
        let mut left_over = Vec::new();
        for (first, piece) in self.overlapping(range.clone()) {
            done.removed.push(first);
            done.net -= piece.len as i64;
            let cut = |from: u64, to: u64| NewRun {
                first: from,
                len: to - from,
                place: Place { page: piece.place.page + (from - first), ..piece.place },
            };
            let (lost, end) = (first.max(range.start)..(first + piece.len).min(range.end), first + piece.len);
            let place_of = |page: u64| piece.place.page + (page - first);
            let mut next = lost.start;
            let first_run = runs.partition_point(|run| run.first + run.len <= lost.start);
            for run in runs[first_run..].iter().take_while(|run| run.first < lost.end) {
                let from = run.first.max(lost.start);
                if place_of(from) == run.place.page + (from - run.first) {
                    done.freed.push((place_of(next), from - next));
                    next = (run.first + run.len).min(lost.end);
                }
            }
            done.freed.push((place_of(next), lost.end - next));
            let before = (first < range.start).then(|| cut(first, range.start));
            let behind = (end > range.end).then(|| cut(range.end, end));
            match (before, behind) {
                (Some(before), behind) => {
                    put(change, &mut done, before, piece.slot);
                    left_over.extend(behind);
                }
                (None, Some(behind)) => put(change, &mut done, behind, piece.slot),
                (None, None) => spare.push((first, Some(piece))),
            }
        }
        // A piece with the same pages keeps its slot: one word changes.
        let mut others = left_over;
        for &run in runs.iter() {
            let same = spare.binary_search_by_key(&run.first, |&(first, _)| first).ok();
            match same.and_then(|index| spare[index].1.take_if(|piece| piece.len == run.len)) {
                Some(piece) => put(change, &mut done, run, piece.slot),
                None => others.push(run),
            }
        }
        let mut spare = spare.into_iter().filter_map(|(_, piece)| piece).rev();
        for run in others {
            let slot = spare.next().map(|piece| piece.slot).or_else(|| slots.next());
            put(change, &mut done, run, slot.expect("slots were reserved"));
        }
        for piece in spare.rev() {
            let at = self.slot_at(space, inode_at, piece.slot);
            change.add(at, 0);
            change.add(at + 8, 0);
        }
        done.freed.retain(|&(_, count)| count > 0);
        done.net += done.added.iter().map(|(_, piece)| piece.len as i64).sum::<i64>();
        done
    }

    /// Brings the index up to a committed change.
    pub(crate) fn apply(&mut self, done: &Remapped) {
        done.removed.iter().for_each(|&first| self.pieces.remove(first));
        done.added.iter().for_each(|&(first, piece)| self.pieces.insert(first, piece));
    }

    /// Adds runs behind the end of the file by plain stores, flushed and not fenced: nothing reads
    /// them before the size covers them (FS-7). The last piece grows where the first run adjoins
    /// it.
    pub(crate) fn add_behind(&mut self, space: &Space, inode_at: u64, runs: &Fresh<Vec<NewRun>>) -> Fresh<()> {
        let media = space.media();
        let _section = media.section();
        let mut flusher = Flusher::new(media);
        for &run in runs.iter() {
            if let Some((first, mut piece)) = self.last()
                && first + piece.len == run.first
                && piece.place.page + piece.len == run.place.page
                && piece.place.flags == run.place.flags
                && piece.len + run.len <= crate::layout::RUN_LEN_MAX
            {
                piece.len += run.len;
                let at = self.slot_at(space, inode_at, piece.slot);
                media.store(at, Run { first, len: piece.len }.word());
                flusher.touch(at, 8);
                self.pieces.insert(first, piece);
                continue;
            }
            let slot = self.pieces.free_slots().next().expect("slots were reserved");
            let at = self.slot_at(space, inode_at, slot);
            media.store(at, Run { first: run.first, len: run.len }.word());
            media.store(at + 8, run.place.word());
            flusher.touch(at, EXTENT);
            self.pieces.insert(run.first, Piece { len: run.len, place: run.place, slot });
        }
        Blank::new(()).finish_unless(flusher, "fs-extent-unflushed")
    }

    /// Removes all pages from `page` on by plain stores, flushed and not fenced: the size no longer
    /// covers them (FS-7). Returns their places, for after the fence.
    pub(crate) fn cut_behind(&mut self, space: &Space, inode_at: u64, page: u64) -> Vec<(u64, u64)> {
        let media = space.media();
        let _section = media.section();
        let mut flusher = Flusher::new(media);
        let mut freed = Vec::new();
        while let Some((first, piece)) = self.last().filter(|(first, piece)| first + piece.len > page) {
            let at = self.slot_at(space, inode_at, piece.slot);
            if first < page {
                let kept = page - first;
                media.store(at, Run { first, len: kept }.word());
                flusher.touch(at, 8);
                self.pieces.insert(first, Piece { len: kept, ..piece });
                freed.push((piece.place.page + kept, piece.len - kept));
            } else {
                media.store(at, 0);
                media.store(at + 8, 0);
                flusher.touch(at, EXTENT);
                self.pieces.remove(first);
                freed.push((piece.place.page, piece.len));
            }
        }
        freed
    }

    /// Sets the flag of the slots that have written pages of the file in `range`: other extents are
    /// going to lead there (FS-21). Plain stores, flushed and not fenced: each word is valid alone.
    pub(crate) fn mark_shared(&mut self, space: &Space, inode_at: u64, range: Range<u64>) -> Fresh<()> {
        let media = space.media();
        let _section = media.section();
        let mut flusher = Flusher::new(media);
        for (first, piece) in self.overlapping(range) {
            if piece.place.flags & (PLACE_SHARED | PLACE_UNWRITTEN) != 0 {
                continue;
            }
            let place = Place { flags: piece.place.flags | PLACE_SHARED, ..piece.place };
            let at = self.slot_at(space, inode_at, piece.slot) + 8;
            media.store(at, place.word());
            flusher.touch(at, 8);
            self.pieces.insert(first, Piece { place, ..piece });
        }
        Blank::new(()).finish_unless(flusher, "fs-share-unflushed")
    }

    /// Gives the place of a piece other flags, by one store; flushed, not fenced.
    pub(crate) fn set_flags(&mut self, space: &Space, inode_at: u64, (first, piece): (u64, Piece), flags: u8) {
        let (media, place) = (space.media(), Place { flags, ..piece.place });
        let at = self.slot_at(space, inode_at, piece.slot) + 8;
        let _section = media.section();
        media.store(at, place.word());
        media.flush_unless("fs-seal-unflushed", at, 8);
        self.pieces.insert(first, Piece { place, ..piece });
    }

    /// Every run of pages that the file has, those of the chain among them.
    pub(crate) fn all_pages(&self) -> Vec<(u64, u64)> {
        self.flagged_pages().into_iter().map(|(page, count, _)| (page, count)).collect()
    }

    /// As [`Extents::all_pages`], each with whether its extent has the flag of shared pages.
    pub(crate) fn flagged_pages(&self) -> Vec<(u64, u64, bool)> {
        let pieces = self.pieces().map(|(_, piece)| (piece.place.page, piece.len, piece.place.is_shared()));
        pieces.chain(self.list().map(|page| (page, 1, false))).collect()
    }
}

/// Flags that the place of a slot may have.
pub(crate) const SLOT_FLAGS: [u8; 5] = [0, PLACE_UNWRITTEN, PLACE_SHARED, PLACE_SEALED, PLACE_SEALED | PLACE_SHARED];

/// Offset of a slot in the store; `listed` tells a page of the chain.
pub(crate) fn slot_at(start: u64, inode_at: u64, listed: impl Fn(u32) -> u64, slot: u32) -> u64 {
    match slot.checked_sub(INLINE_EXTENTS) {
        None => inode_at + inode::INLINE + u64::from(slot) * EXTENT,
        Some(further) => {
            let (page, index) = (further / LIST_EXTENTS, further % LIST_EXTENTS);
            start + listed(page) * PAGE + LIST_HEAD + u64::from(index) * EXTENT
        }
    }
}

/// The slots of a file, as they are read.
#[derive(Default)]
struct Slots {
    pieces: Vec<(u64, Piece)>,
    torn: Vec<u64>,
}

impl Slots {
    fn read(&mut self, pages: Pages<'_>, at: u64, slot: u32) -> Result<(), Damage> {
        let [run, place] = [pages.media.load(at), pages.media.load(at + 8)];
        if run == 0 || place == 0 {
            if run != place {
                self.torn.push(at);
            }
            return Ok(());
        }
        let run = Run::of(run).ok_or_else(|| Damage::at(at, "the run of an extent fails its check"))?;
        let place = pages.place(at + 8, place, run.len)?;
        if !SLOT_FLAGS.contains(&place.flags) {
            return Err(Damage::at(at + 8, "the place of an extent has flags that this program does not know"));
        }
        self.pieces.push((run.first, Piece { len: run.len, place, slot }));
        Ok(())
    }
}

impl Loaded {
    /// Clears what a crash left behind the end of a file (FS-7) by plain stores, flushed and not
    /// fenced. Returns the number of runs.
    pub(crate) fn trim(&mut self, pages: Pages<'_>, inode_at: u64, size: u64) -> u64 {
        let media = pages.media;
        let _section = media.section();
        let clear = |at: u64, run: u64| {
            media.store(at, run);
            if run == 0 {
                media.store(at + 8, 0);
            }
            media.flush_unless("fs-trim-unflushed", at, EXTENT);
        };
        let end = size.div_ceil(PAGE);
        let mut count = self.torn.len() as u64;
        self.torn.drain(..).for_each(|at| clear(at, 0));
        let behind: Vec<(u64, Piece)> =
            self.extents.pieces().filter(|(first, piece)| first + piece.len > end).collect();
        for (first, piece) in behind.into_iter().filter(|(_, piece)| !piece.place.is_unwritten()) {
            let at = slot_at(pages.start, inode_at, |index| self.extents.pieces.listed(index), piece.slot);
            count += 1;
            if first < end {
                clear(at, Run { first, len: end - first }.word());
                self.extents.pieces.insert(first, Piece { len: end - first, ..piece });
            } else {
                clear(at, 0);
                self.extents.pieces.remove(first);
            }
        }
        count
    }
}
