//! [`Pieces`]: the extents of one file in memory, in the order of the file, and the slots of its
//! inode and its chain that are free.
//!
//! An extent takes 20 bytes. The few of most files lie in one vector; those of a file with a chain
//! lie in vectors of up to [`CHUNK`], so that one more moves a few kilobytes at most. A slot is
//! free if no extent has it.

use crate::layout::{INLINE_EXTENTS, LIST_EXTENTS, Place};
use std::ops::Range;

/// Extents of a vector of a large file.
const CHUNK: usize = 128;

/// A run of pages in memory; its first page of the file is its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Pages.
    pub len: u64,
    /// Their place in the volume.
    pub place: Place,
    pub slot: u32,
}

/// A place in the index, until that changes: chunk, and index in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceAt(usize, usize);

const FIRST_BITS: u32 = 36;
const PAGE_BITS: u32 = 36;

/// A piece and its key in 20 bytes: two words as [`crate::layout`] has them, without their checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed([u32; 5]);
const _: () = assert!(size_of::<Packed>() == 20);

impl Packed {
    fn of(first: u64, piece: Piece) -> Packed {
        let Piece { len, place, slot } = piece;
        let run = first | len << FIRST_BITS;
        let high = u64::from(place.tier) | u64::from(place.class) << 4 | u64::from(place.flags) << 8;
        let place = place.page | high << PAGE_BITS;
        Packed([run as u32, (run >> 32) as u32, place as u32, (place >> 32) as u32, slot])
    }

    fn run(self) -> u64 {
        u64::from(self.0[0]) | u64::from(self.0[1]) << 32
    }

    fn first(self) -> u64 {
        self.run() & ((1 << FIRST_BITS) - 1)
    }

    fn both(self) -> (u64, Piece) {
        let place = u64::from(self.0[2]) | u64::from(self.0[3]) << 32;
        let nibble = |at: u32| (place >> (PAGE_BITS + at) & 15) as u8;
        let page = place & ((1 << PAGE_BITS) - 1);
        let place = Place { page, tier: nibble(0), class: nibble(4), flags: nibble(8) };
        (self.first(), Piece { len: self.run() >> FIRST_BITS, place, slot: self.0[4] })
    }
}

/// The pieces of a file.
#[derive(Debug)]
pub(crate) enum Pieces {
    /// Those of an inode without a chain.
    Few(Vec<Packed>),
    /// Those of an inode with a chain.
    Many(Box<Many>),
}
const _: () = assert!(size_of::<Option<Pieces>>() == 24);

/// The pieces of a file with a chain.
#[derive(Debug, Default)]
pub(crate) struct Many {
    /// In order; none is empty.
    chunks: Vec<Vec<Packed>>,
    /// The chain.
    chain: Vec<Listed>,
    /// Free slots of the inode, a bit each.
    free: u64,
    free_count: u32,
    /// No page of the chain before this one has a free slot.
    first_free: u32,
}
const _: () = assert!(size_of::<Many>() == 64);

/// A page of a chain.
#[derive(Clone, Copy, Debug)]
struct Listed {
    page: u64,
    /// Free slots, a bit each.
    free: [u64; 4],
}
const _: () = assert!(LIST_EXTENTS <= 256 && INLINE_EXTENTS <= 64);

/// Pushes onto a vector that most often stays small: an eighth of it is room to spare.
fn push<T>(vector: &mut Vec<T>, value: T) {
    if vector.len() == vector.capacity() {
        vector.reserve_exact((vector.len() / 8).max(1));
    }
    vector.push(value);
}

impl Default for Pieces {
    fn default() -> Pieces {
        Pieces::Few(Vec::new())
    }
}

impl Pieces {
    /// The pieces that the slots of a file have, in order, and the pages of its chain.
    pub(crate) fn new(pieces: &[(u64, Piece)], list: &[u64]) -> Pieces {
        let packed = |part: &[(u64, Piece)]| part.iter().map(|&(first, piece)| Packed::of(first, piece)).collect();
        if list.is_empty() {
            return Pieces::Few(packed(pieces));
        }
        let chunks = pieces.chunks(CHUNK).map(packed).collect();
        let chain = list.iter().map(|&page| Listed::new(page)).collect();
        let mut many = Many::new(chunks, chain);
        pieces.iter().for_each(|(_, piece)| many.take_slot(piece.slot));
        Pieces::Many(Box::new(many))
    }

    fn chunks(&self) -> &[Vec<Packed>] {
        match self {
            Pieces::Few(few) => std::slice::from_ref(few),
            Pieces::Many(many) => &many.chunks,
        }
    }

    fn chain(&self) -> &[Listed] {
        match self {
            Pieces::Few(_) => &[],
            Pieces::Many(many) => &many.chain,
        }
    }

    /// Pages of the chain, in the order of their slots.
    pub(crate) fn list(&self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + '_ {
        self.chain().iter().map(|listed| listed.page)
    }

    /// A page of the chain.
    pub(crate) fn listed(&self, index: u32) -> u64 {
        self.chain()[index as usize].page
    }

    /// The pieces in the order of the file.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, Piece)> + '_ {
        self.chunks().iter().flatten().map(|packed| packed.both())
    }

    /// The place of the first piece that begins at `page` or behind it: chunk, and index in it.
    fn position(&self, page: u64) -> (usize, usize) {
        let chunks = self.chunks();
        let chunk = chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last.first() < page));
        let index = chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(|packed| packed.first() < page));
        (chunk, index)
    }

    /// The pieces that begin at `page` or behind it.
    pub(crate) fn from(&self, page: u64) -> impl Iterator<Item = (u64, Piece)> + '_ {
        let (chunk, index) = self.position(page);
        let skipped = self.chunks().get(chunk).map_or(&[][..], |chunk| &chunk[index..]);
        let rest = self.chunks().get(chunk + 1..).unwrap_or_default();
        skipped.iter().chain(rest.iter().flatten()).map(|packed| packed.both())
    }

    /// The last piece that begins before `page`.
    #[inline]
    pub(crate) fn before(&self, page: u64) -> Option<(u64, Piece)> {
        let (chunk, index) = self.position(page);
        let chunks = self.chunks();
        let packed = match index.checked_sub(1) {
            Some(index) => chunks[chunk].get(index),
            None => chunks[..chunk].last().and_then(|chunk| chunk.last()),
        };
        packed.map(|packed| packed.both())
    }

    /// The piece of exactly these pages, and its place in the index.
    #[inline]
    pub(crate) fn exact(&self, first: u64, len: u64) -> Option<(PieceAt, Piece)> {
        let (chunk, index) = self.position(first);
        let (begins, piece) = self.chunks().get(chunk)?.get(index)?.both();
        ((begins, piece.len) == (first, len)).then_some((PieceAt(chunk, index), piece))
    }

    /// A piece that [`Pieces::exact`] has found has another place now.
    #[inline]
    pub(crate) fn replace(&mut self, PieceAt(chunk, index): PieceAt, place: Place) {
        let packed = match self {
            Pieces::Few(few) => &mut few[index],
            Pieces::Many(many) => &mut many.chunks[chunk][index],
        };
        let (first, piece) = packed.both();
        *packed = Packed::of(first, Piece { place, ..piece });
    }

    /// The pieces that begin in `range`.
    pub(crate) fn range(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Piece)> + '_ {
        self.from(range.start).take_while(move |(first, _)| *first < range.end)
    }

    /// Adds a piece, or changes the one that begins at its first page.
    pub(crate) fn insert(&mut self, first: u64, piece: Piece) {
        let (chunk, index) = self.position(first);
        let packed = Packed::of(first, piece);
        let is_there =
            self.chunks().get(chunk).and_then(|chunk| chunk.get(index)).is_some_and(|at| at.first() == first);
        let many = match self {
            Pieces::Few(few) if is_there => return few[index] = packed,
            Pieces::Few(few) => {
                few.reserve_exact(1);
                let index = if chunk == 0 { index } else { few.len() };
                return few.insert(index, packed);
            }
            Pieces::Many(many) => many,
        };
        if is_there {
            let Packed([.., slot]) = std::mem::replace(&mut many.chunks[chunk][index], packed);
            many.give_slot(slot);
            return many.take_slot(piece.slot);
        }
        many.take_slot(piece.slot);
        match many.chunks.len().checked_sub(1) {
            // Behind all others: a full vector stays full.
            Some(last) if chunk > last && many.chunks[last].len() < CHUNK => push(&mut many.chunks[last], packed),
            None => push(&mut many.chunks, vec![packed]),
            Some(last) if chunk > last => push(&mut many.chunks, vec![packed]),
            Some(_) if many.chunks[chunk].len() < CHUNK => many.chunks[chunk].insert(index, packed),
            Some(_) => {
                let behind = many.chunks[chunk].split_off(CHUNK / 2);
                many.chunks[chunk].shrink_to_fit();
                many.chunks.insert(chunk + 1, behind);
                match index.checked_sub(CHUNK / 2) {
                    Some(index) => many.chunks[chunk + 1].insert(index, packed),
                    None => many.chunks[chunk].insert(index, packed),
                }
            }
        }
    }

    /// Removes the piece that begins at a page, if there is one.
    pub(crate) fn remove(&mut self, first: u64) {
        let (chunk, index) = self.position(first);
        let found = self.chunks().get(chunk).and_then(|chunk| chunk.get(index));
        if found.is_none_or(|packed| packed.first() != first) {
            return;
        }
        match self {
            Pieces::Few(few) => _ = few.remove(index),
            Pieces::Many(many) => {
                let Packed([.., slot]) = many.chunks[chunk].remove(index);
                if many.chunks[chunk].is_empty() {
                    many.chunks.remove(chunk);
                }
                many.give_slot(slot);
            }
        }
    }

    /// Number of pieces.
    pub(crate) fn len(&self) -> usize {
        self.chunks().iter().map(Vec::len).sum()
    }

    /// Bytes in memory, beside those of this enum.
    pub(crate) fn bytes(&self) -> usize {
        let chunks: usize = self.chunks().iter().map(|chunk| chunk.capacity() * size_of::<Packed>()).sum();
        match self {
            Pieces::Few(_) => chunks,
            Pieces::Many(many) => {
                let vectors = many.chunks.capacity() * size_of::<Vec<Packed>>();
                chunks + vectors + size_of::<Many>() + many.chain.capacity() * size_of::<Listed>()
            }
        }
    }

    /// Number of free slots.
    pub(crate) fn free_count(&self) -> usize {
        match self {
            Pieces::Few(few) => INLINE_EXTENTS as usize - few.len(),
            Pieces::Many(many) => many.free_count as usize,
        }
    }

    /// The free slots, the inode's own first.
    pub(crate) fn free_slots(&self) -> impl Iterator<Item = u32> + '_ {
        let own = match self {
            Pieces::Few(few) => {
                let used = few.iter().fold(0, |used: u64, packed| used | 1 << packed.0[4]);
                !used & ((1 << INLINE_EXTENTS) - 1)
            }
            Pieces::Many(many) => many.free,
        };
        let first = if let Pieces::Many(many) = self { many.first_free } else { 0 };
        let bits = |word: u64, from: u32| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| from + bit);
        let of_page = move |(listed, index): (&Listed, u32)| {
            let from = INLINE_EXTENTS + index * LIST_EXTENTS;
            listed.free.into_iter().zip((from..).step_by(64)).flat_map(move |(word, from)| bits(word, from))
        };
        bits(own, 0).chain(self.chain().iter().zip(0..).skip(first as usize).flat_map(of_page))
    }

    /// The chain has one more page.
    pub(crate) fn add_list(&mut self, page: u64) {
        if matches!(self, Pieces::Few(_)) {
            let mut many = Many::new(Vec::new(), Vec::new());
            if let Pieces::Few(few) = std::mem::take(self)
                && !few.is_empty()
            {
                few.iter().for_each(|packed| many.take_slot(packed.0[4]));
                push(&mut many.chunks, few);
            }
            *self = Pieces::Many(Box::new(many));
        }
        if let Pieces::Many(many) = self {
            many.free_count += LIST_EXTENTS;
            push(&mut many.chain, Listed::new(page));
        }
    }
}

impl Listed {
    /// A page with free slots.
    fn new(page: u64) -> Listed {
        let word = |from: u32| u64::MAX >> (64 - LIST_EXTENTS.saturating_sub(from).min(64));
        Listed { page, free: [0, 64, 128, 192].map(word) }
    }
}

impl Many {
    /// All slots are free.
    fn new(chunks: Vec<Vec<Packed>>, chain: Vec<Listed>) -> Many {
        let free_count = INLINE_EXTENTS + chain.len() as u32 * LIST_EXTENTS;
        Many { chunks, chain, free: (1 << INLINE_EXTENTS) - 1, free_count, first_free: 0 }
    }

    /// The word with the bit of a slot, and the bit.
    fn bit(&mut self, slot: u32) -> (&mut u64, u64) {
        match slot.checked_sub(INLINE_EXTENTS) {
            None => (&mut self.free, 1 << slot),
            Some(further) => {
                let (page, index) = (further / LIST_EXTENTS, further % LIST_EXTENTS);
                (&mut self.chain[page as usize].free[index as usize / 64], 1 << (index % 64))
            }
        }
    }

    fn give_slot(&mut self, slot: u32) {
        let (word, bit) = self.bit(slot);
        *word |= bit;
        self.free_count += 1;
        if let Some(further) = slot.checked_sub(INLINE_EXTENTS) {
            self.first_free = self.first_free.min(further / LIST_EXTENTS);
        }
    }

    fn take_slot(&mut self, slot: u32) {
        let (word, bit) = self.bit(slot);
        debug_assert!(*word & bit != 0, "the slot is free");
        *word &= !bit;
        self.free_count -= 1;
        while self.chain.get(self.first_free as usize).is_some_and(|listed| listed.free == [0; 4]) {
            self.first_free += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_workload::Random;
    use std::collections::BTreeMap;

    fn piece(random: &mut Random, slot: u32) -> Piece {
        let page = 1 + random.below(1 << 35);
        Piece { len: 1 + random.below(9), place: Place { page, tier: 3, class: 1, flags: 1 }, slot }
    }

    /// A map in order answers as the pieces do, and the free slots are those that no piece has.
    #[test]
    fn pieces_are_a_map_in_order() {
        everbyte_workload::programs(20, |random, is_long| {
            let (mut pieces, mut twin) = (Pieces::default(), BTreeMap::new());
            let (mut slots, span) = (INLINE_EXTENTS, random.pick(&[20, 4000, 1 << 36]));
            for step in 0..if is_long { 20_000 } else { 2000 } {
                let first = random.below(span);
                if pieces.free_count() == 0 {
                    pieces.add_list(step);
                    slots += LIST_EXTENTS;
                }
                if random.chance(70) {
                    let slot = pieces.free_slots().next().unwrap();
                    let new = piece(random, slot);
                    pieces.insert(first, new);
                    twin.insert(first, new);
                } else if let Some((&first, _)) = twin.range(first..).next() {
                    pieces.remove(first);
                    twin.remove(&first);
                }
                let both = |(&first, &piece): (&u64, &Piece)| (first, piece);
                assert_eq!(pieces.before(first), twin.range(..first).next_back().map(both));
                assert_eq!(pieces.from(first).next(), twin.range(first..).next().map(both));
                assert_eq!(pieces.iter().next_back(), twin.iter().next_back().map(both));
                assert_eq!(pieces.free_count(), slots as usize - twin.len());
                if step % 100 == 0 {
                    assert!(pieces.iter().eq(twin.iter().map(both)));
                    assert!(pieces.range(first..first + 50).eq(twin.range(first..first + 50).map(both)));
                    let used: Vec<u32> = twin.values().map(|piece| piece.slot).collect();
                    assert!(pieces.free_slots().eq((0..slots).filter(|slot| !used.contains(slot))));
                    let all: Vec<(u64, Piece)> = twin.iter().map(both).collect();
                    let loaded = Pieces::new(&all, &pieces.list().collect::<Vec<_>>());
                    assert!(loaded.iter().eq(pieces.iter()) && loaded.free_slots().eq(pieces.free_slots()));
                }
            }
        });
    }
}
