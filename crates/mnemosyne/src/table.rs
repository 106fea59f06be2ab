//! The table of regions: pages of pieces, a list that starts at the program's header. A new page is
//! allocated into the link of the last one.
//!
//! Threads: the caller holds the lock of [`Regions`](crate::Regions).

use crate::layout::{FREE, PAGE, PIECES, Piece};
use crate::{Error, Program, Result};
use everbyte_heap::Heap;
use everbyte_media::{Damage, Length, Media, Offset};
use std::mem::offset_of;

/// The most pages of a table.
const PAGES_MAX: usize = 1 << 16;

pub(crate) struct RegionTable {
    heap: Heap,
    /// The word with the offset of the first page.
    first: u64,
    pages: Vec<u64>,
    /// The pieces of all pages.
    pub pieces: Vec<Piece>,
}

impl RegionTable {
    pub(crate) fn read(program: &Program) -> Result<RegionTable> {
        let heap = program.heap().based_at(0);
        let mut table = RegionTable { heap, first: program.regions_at(), pages: Vec::new(), pieces: Vec::new() };
        loop {
            let link = table.link();
            let at = table.media().load(link);
            if at == 0 {
                return Ok(table);
            }
            if !at.is_multiple_of(64) || !table.heap.may_hold_blocks(at, PAGE) || table.pages.len() == PAGES_MAX {
                return Err(Error::from(
                    Damage::at(link, "the table of regions goes on outside the heap")
                        .of_object(table.heap.object().name()),
                ));
            }
            table.take_page(at);
        }
    }

    fn take_page(&mut self, at: u64) {
        let media = self.heap.media().clone();
        // an earlier process may have left it in the caches; the first step of recovery fences
        media.reflush(at, PAGE);
        self.pages.push(at);
        self.pieces.extend((1..=PIECES).map(|line| media.get::<Piece>(at + line * 64)));
    }

    /// The word with the offset of the page after the last one.
    fn link(&self) -> u64 {
        self.pages.last().copied().unwrap_or(self.first)
    }

    pub(crate) fn media(&self) -> &Media {
        self.heap.media()
    }

    /// Offset of a piece.
    pub(crate) fn at(&self, index: usize) -> u64 {
        self.pages[index / PIECES as usize] + (index as u64 % PIECES + 1) * 64
    }

    /// A free line; on a new page if no page has one.
    ///
    /// # Errors
    /// [`Error::Heap`]: no space.
    pub(crate) fn vacant(&mut self) -> Result<usize> {
        if let Some(index) = self.pieces.iter().position(|piece| piece.state == FREE) {
            return Ok(index);
        }
        let block = self.heap.alloc_set(PAGE, self.link(), 0)?;
        self.take_page(block.at.get());
        Ok(self.pieces.len() - PIECES as usize)
    }

    /// Writes a free line and then, ordered behind the other words, its state. Ordered on return.
    pub(crate) fn write(&mut self, index: usize, piece: Piece) {
        let at = self.at(index);
        let media = self.heap.media();
        let section = media.section();
        media.put(at, &Piece { state: FREE, ..piece });
        media.flush(at, 64);
        media.fence();
        drop(section);
        self.pieces[index] = piece;
        self.set(index, offset_of!(Piece, state), piece.state);
    }

    /// Stores one word of a line. Ordered on return.
    pub(crate) fn set(&mut self, index: usize, field: usize, value: u64) {
        let at = self.at(index) + field as u64;
        let media = self.heap.media();
        let _section = media.section();
        media.store(at, value);
        media.flush(at, 8);
        media.fence();
        let piece = &mut self.pieces[index];
        if field == offset_of!(Piece, len) {
            piece.len = Length::new(value);
        } else if field == offset_of!(Piece, at) {
            piece.at = Offset::new(value);
        } else {
            assert!(field == offset_of!(Piece, state), "no other word of a piece changes");
            piece.state = value;
        }
    }

    pub(crate) fn set_state(&mut self, index: usize, state: u64) {
        self.set(index, offset_of!(Piece, state), state);
    }

    pub(crate) fn set_len(&mut self, index: usize, len: u64) {
        self.set(index, offset_of!(Piece, len), len);
    }

    pub(crate) fn set_at(&mut self, index: usize, at: u64) {
        self.set(index, offset_of!(Piece, at), at);
    }
}
