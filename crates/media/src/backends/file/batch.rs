//! One batch: lines flushed since the last record was sealed, in the format of the next record.
//!
//! A line flushed again replaces its earlier bytes: the batch replays whole, so only the newest
//! value matters. If some words of a line are flushed, and later others, the first run stays and a
//! later run has all of these words. After the buffer and the index have reached their size, no
//! memory is allocated.
//!
//! Threads: owned by the holder of the log's lock (open batch) or by the writer (sealed batch).

use super::disk::Page;
use super::layout::{
    HEADER_WORDS, LINE_WORDS, RUN_MAX, RUN_WORDS, RecordHeader, padded, run_parts, run_word, words_mask,
};
use crate::bytes::mapping::Mapping;
use crate::museum::misplaced;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of the longest record of a log whose ring has `ring_len` bytes.
pub(crate) fn record_max(ring_len: u64) -> u64 {
    (ring_len / 4).clamp(4096, 1 << 20) & !4095
}

pub(crate) struct EpochBatch {
    pages: Box<[Page]>,
    /// Words in use, header included.
    used: usize,
    /// Index of the first word of the run being extended; 0 if a new run must begin.
    run: usize,
    index: Index,
}

impl EpochBatch {
    /// A batch of at most `bytes` bytes, a multiple of 4096.
    pub(crate) fn new(bytes: usize) -> EpochBatch {
        EpochBatch { pages: Page::buffer(bytes / 4096), used: HEADER_WORDS, run: 0, index: Index::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == HEADER_WORDS
    }

    /// Words in use, header included.
    #[inline(always)]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Words the buffer holds.
    pub(crate) fn capacity(&self) -> usize {
        self.pages.len() * 512
    }

    /// Bytes the record will take in the log.
    pub(crate) fn padded(&self) -> u64 {
        padded(self.payload_len())
    }

    fn payload_len(&self) -> u64 {
        ((self.used - HEADER_WORDS) * 8) as u64
    }

    fn words(&mut self) -> &mut [u64] {
        <[u64]>::mut_from_bytes(self.pages.as_mut_bytes()).expect("pages are whole aligned words")
    }

    /// Copies one line out of the mapping. The caller has checked that nine more words fit.
    #[inline]
    pub(crate) fn put_line(&mut self, line: u64, mapping: &Mapping) {
        let (slot, found) = self.index.find(line);
        if found && self.index.slots[slot].mask() == ALL {
            let at = self.index.slots[slot].at as usize;
            mapping.load_line(line * crate::LINE, self.line_mut(at));
            return;
        }
        let (mut used, mut run) = (self.used, self.run);
        let words = self.words();
        let extends = run != 0 && {
            let (first, count) = run_parts(words[run]);
            first + count == line && count < RUN_MAX
        };
        if extends {
            words[run] += 1;
        } else {
            words[used] = run_word(line, 1);
            (run, used) = (used, used + 1);
        }
        let target = words[used..used + LINE_WORDS].first_chunk_mut().expect("eight words");
        mapping.load_line(line * crate::LINE, target);
        (self.used, self.run) = (used + LINE_WORDS, run);
        self.index_line(slot, line, ALL, used);
    }

    /// Copies the words of one line that `mask` names. The caller has checked that nine more words
    /// fit.
    #[inline]
    pub(crate) fn put_words(&mut self, line: u64, mask: u8, mapping: &Mapping) {
        let (slot, found) = self.index.find(line);
        let known = if found { self.index.slots[slot].mask() } else { 0 };
        let at = self.index.slots[slot].at as usize;
        if mask & !known == 0 || misplaced("media-words-lost", || known != 0) {
            for word in bits(mask & known) {
                let place = (known & ((1 << word) - 1)).count_ones() as usize;
                self.words()[at + place] = mapping.load(line * crate::LINE + word * 8);
            }
            return;
        }
        let mask = mask | known;
        if mask == ALL {
            return self.put_line(line, mapping);
        }
        let used = self.used;
        let target = &mut self.words()[used..used + 1 + LINE_WORDS];
        target[0] = run_word(line, RUN_WORDS | u64::from(mask));
        for (target, word) in target[1..].iter_mut().zip(bits(mask)) {
            *target = mapping.load(line * crate::LINE + word * 8);
        }
        (self.used, self.run) = (used + 1 + mask.count_ones() as usize, 0);
        self.index_line(slot, line, mask, used + 1);
    }

    /// Records the place of the newest words of a line in the index.
    #[inline(always)]
    fn index_line(&mut self, slot: usize, line: u64, mask: u8, at: usize) {
        self.index.fill(slot, line, mask, at as u32);
        if self.index.is_crowded() {
            self.rebuild_index();
        }
    }

    /// Adds the record of a backed range. The caller has checked that two more words fit.
    pub(crate) fn put_allocation(&mut self, at: u64, len: u64) {
        let used = self.used;
        let words = self.words();
        words[used] = run_word(at / crate::LINE, 0);
        words[used + 1] = len;
        (self.used, self.run) = (used + 2, 0);
    }

    fn line_mut(&mut self, at: usize) -> &mut [u64; LINE_WORDS] {
        self.words()[at..].first_chunk_mut().expect("an indexed line is whole")
    }

    #[cold]
    fn rebuild_index(&mut self) {
        self.index.grow();
        let mut at = HEADER_WORDS;
        while at < self.used {
            let (line, count) = run_parts(self.words()[at]);
            at += 1;
            if let Some(mask) = words_mask(count) {
                let (slot, _) = self.index.find(line);
                self.index.fill(slot, line, mask, at as u32);
                at += mask.count_ones() as usize;
                continue;
            }
            for line in line..line + count {
                let (slot, _) = self.index.find(line);
                self.index.fill(slot, line, ALL, at as u32);
                at += LINE_WORDS;
            }
            if count == 0 {
                at += 1;
            }
        }
    }

    /// Fills in the header; returns the checksum and the record's bytes, padding included.
    pub(crate) fn seal(&mut self, mut header: RecordHeader) -> (u64, &[u8]) {
        header.payload_len = self.payload_len();
        let (len, padded) = (self.used * 8, self.padded() as usize);
        let bytes = self.pages.as_mut_bytes();
        bytes[len..padded].fill(0);
        bytes[..size_of::<RecordHeader>()].copy_from_slice(header.as_bytes());
        let checksum = crc32c::crc32c(&bytes[4..len]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        (checksum.into(), &bytes[..padded])
    }

    /// Empties the batch for its next use.
    pub(crate) fn reset(&mut self) {
        (self.used, self.run) = (HEADER_WORDS, 0);
        self.index.reset();
    }
}

/// The place of each line in the batch: open addressing, emptied in constant time by a new
/// generation, and in the first-level cache as long as batches are small. Neighbouring lines have
/// neighbouring slots, so that a page misses the cache a few times and not once a line.
struct Index {
    slots: Vec<Slot>,
    /// The part of `slots` in use, minus one; a power of two minus one.
    mask: usize,
    generation: u32,
    count: usize,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Line number in 48 bits, and above it the mask of its words.
    line: u64,
    generation: u32,
    at: u32,
}

impl Slot {
    #[inline(always)]
    fn mask(&self) -> u8 {
        (self.line >> MASK_SHIFT) as u8
    }
}

const MASK_SHIFT: u32 = 56;
/// All words of a line.
pub(super) const ALL: u8 = 0xff;

/// The numbers of the bits set, in order.
#[inline(always)]
pub(super) fn bits(mut mask: u8) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < 8).then_some(bit.into())
    })
}

const SLOTS_MIN: usize = 256;
/// Lines whose slots are neighbours: 256 bytes of slots.
const GROUP: u64 = 16;

impl Index {
    fn new() -> Index {
        Index { slots: vec![Slot::default(); SLOTS_MIN], mask: SLOTS_MIN - 1, generation: 1, count: 0 }
    }

    /// The slot of `line`, or the free slot for it.
    #[inline(always)]
    fn find(&self, line: u64) -> (usize, bool) {
        let group = (line / GROUP).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut slot = (group * GROUP + line % GROUP) as usize & self.mask;
        loop {
            let found = &self.slots[slot];
            if found.generation != self.generation {
                return (slot, false);
            }
            if found.line << (64 - MASK_SHIFT) == line << (64 - MASK_SHIFT) {
                return (slot, true);
            }
            slot = (slot + 1) & self.mask;
        }
    }

    #[inline(always)]
    fn fill(&mut self, slot: usize, line: u64, mask: u8, at: u32) {
        let old = &mut self.slots[slot];
        self.count += usize::from(old.generation != self.generation);
        *old = Slot { line: line | u64::from(mask) << MASK_SHIFT, generation: self.generation, at };
    }

    #[inline(always)]
    fn is_crowded(&self) -> bool {
        self.count * 2 > self.mask
    }

    fn grow(&mut self) {
        let size = (self.mask + 1) * 4;
        if self.slots.len() < size {
            self.slots.resize(size, Slot::default());
        }
        self.reset();
        self.mask = size - 1;
    }

    /// Forgets all lines. The next batch is expected to be about as large as this one.
    fn reset(&mut self) {
        let size = (self.count * 4).next_power_of_two().clamp(SLOTS_MIN, self.mask + 1);
        (self.mask, self.count) = (size - 1, 0);
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.slots.fill(Slot::default());
            self.generation = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The content of a sealed record, word by word, and the number of words of the record.
    fn decode(bytes: &[u8]) -> (BTreeMap<u64, u64>, usize) {
        let words: Vec<u64> = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let header = RecordHeader::read_from_bytes(&bytes[..64]).unwrap();
        assert_eq!(crc32c::crc32c(&bytes[4..64 + header.payload_len as usize]), header.checksum);
        let (mut at, end) = (HEADER_WORDS, HEADER_WORDS + header.payload_len as usize / 8);
        let mut found = BTreeMap::new();
        let mut whole = std::collections::BTreeSet::new();
        while at < end {
            let (first, count) = run_parts(words[at]);
            at += 1;
            if let Some(mask) = words_mask(count) {
                assert!(!whole.contains(&first), "words of line {first} after the whole of it");
                for word in bits(mask) {
                    found.insert(first * 8 + word, words[at]);
                    at += 1;
                }
                continue;
            }
            for line in first..first + count {
                assert!(whole.insert(line), "line {line} stands twice in one record");
                found.extend((0..8).map(|word| (line * 8 + word, words[at + word as usize])));
                at += LINE_WORDS;
            }
            at += usize::from(count == 0);
        }
        assert!(words[end..].iter().all(|&word| word == 0), "padding is zero");
        (found, end)
    }

    /// Random lines, words, runs and repetitions, from a few to a full buffer: each word has its
    /// newest value.
    #[test]
    fn a_batch_holds_the_newest_flushed_values() {
        let mapping = Mapping::anonymous(8 << 20, 8 << 20).unwrap();
        let mut batch = EpochBatch::new(1 << 20);
        let mut stream = everbyte_workload::Random::new(7);
        let mut random = |below: u64| stream.below(below);
        let mut stamp = 0;
        for round in 0..60 {
            let (puts, spread) = (1 << (round % 15), [10, 1000, 131_000][round % 3]);
            let mut expected = BTreeMap::new();
            let mut line = 0;
            for put in 0..puts {
                line = if random(3) == 0 { random(spread) } else { (line + 1) % spread };
                stamp += 1;
                mapping.store(line * crate::LINE + random(8) * 8, stamp);
                if batch.used() + 1 + LINE_WORDS > batch.capacity() {
                    break;
                }
                let mask = if round < 30 || random(4) == 0 { ALL } else { 1 << random(8) | 1 << random(8) };
                match mask {
                    ALL => batch.put_line(line, &mapping),
                    _ => batch.put_words(line, mask, &mapping),
                }
                for word in bits(mask) {
                    expected.insert(line * 8 + word, mapping.load(line * crate::LINE + word * 8));
                }
                if put % 100 == 99 && batch.used() + 2 <= batch.capacity() {
                    batch.put_allocation(1 << 20, 4096);
                }
            }
            let header = RecordHeader::read_from_bytes(&[0; 64]).unwrap();
            let padded = batch.padded();
            let (_, bytes) = batch.seal(header);
            assert_eq!(bytes.len() as u64, padded);
            let (found, _) = decode(bytes);
            // A newer value is right, too: a later run repeats words of a line as memory held them.
            let missing = expected.iter().find(|(word, value)| found.get(word).is_none_or(|found| found < value));
            assert!(missing.is_none(), "round {round}: {missing:?}");
            assert!(found.keys().all(|word| (0..8).any(|other| expected.contains_key(&(word / 8 * 8 + other)))));
            batch.reset();
            assert!(batch.is_empty());
        }
    }

    /// A word of a line costs two words, the same word again nothing.
    #[test]
    fn single_words_are_small() {
        let mapping = Mapping::anonymous(1 << 20, 1 << 20).unwrap();
        let mut batch = EpochBatch::new(1 << 16);
        for line in [3, 5, 3, 5] {
            batch.put_words(line, 0b100, &mapping);
        }
        assert_eq!(batch.used(), HEADER_WORDS + 4);
        batch.put_words(3, 0b10, &mapping); // both: the newest run has all recorded words
        assert_eq!(batch.used(), HEADER_WORDS + 7);
        mapping.store(3 * crate::LINE + 16, 9);
        batch.put_words(3, 0b100, &mapping);
        assert_eq!((batch.used(), batch.words()[HEADER_WORDS + 6]), (HEADER_WORDS + 7, 9));
    }
}
