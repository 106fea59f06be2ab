//! One batch: lines flushed since the last record was sealed, in the very bytes of the record to come.
//!
//! A line flushed again replaces its earlier bytes: the batch replays whole, so only its newest value matters.
//! Nothing is allocated once the buffer and the index have reached their size.
//!
//! Threads: owned by whoever holds the log's lock (open batch) or by the one writer (sealed batch).

use super::layout::{HEADER_WORDS, LINE_WORDS, RUN_MAX, RecordHeader, padded, run_parts, run_word};
use crate::mapping::Mapping;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Aligned so that the record can be written past the page cache.
#[derive(Clone, FromBytes, IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)]
#[repr(C, align(4096))]
struct Page([u64; 512]);

pub(crate) struct Batch {
    pages: Box<[Page]>,
    /// Words in use, header included.
    used: usize,
    /// Index of the word that begins the run being extended; 0 when a new run must begin.
    run: usize,
    index: Index,
}

impl Batch {
    /// A batch of at most `bytes` bytes, a multiple of 4096.
    pub(crate) fn new(bytes: usize) -> Batch {
        let pages = <[Page]>::new_box_zeroed_with_elems(bytes / 4096).expect("a log buffer fits in memory");
        Batch { pages, used: HEADER_WORDS, run: 0, index: Index::new() }
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

    /// Copies one line out of the mapping. The caller has made sure that nine more words fit.
    #[inline]
    pub(crate) fn put_line(&mut self, line: u64, mapping: &Mapping) {
        let (slot, found) = self.index.find(line);
        if found {
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
        self.index.fill(slot, line, used as u32);
        if self.index.is_crowded() {
            self.rebuild_index();
        }
    }

    /// Notes that a range was backed. The caller has made sure that two more words fit.
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
            for line in line..line + count {
                let (slot, _) = self.index.find(line);
                self.index.fill(slot, line, at as u32);
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

/// Where each line of the batch lies: open addressing, emptied in constant time by a new generation, and small
/// enough for the first-level cache as long as the batch is small.
struct Index {
    slots: Vec<Slot>,
    /// The part of `slots` in use, minus one; a power of two minus one.
    mask: usize,
    generation: u32,
    count: usize,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    line: u64,
    generation: u32,
    at: u32,
}

const SLOTS_MIN: usize = 256;

impl Index {
    fn new() -> Index {
        Index { slots: vec![Slot::default(); SLOTS_MIN], mask: SLOTS_MIN - 1, generation: 1, count: 0 }
    }

    /// The slot of `line`, or the one where it belongs.
    #[inline(always)]
    fn find(&self, line: u64) -> (usize, bool) {
        let mut slot = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & self.mask;
        loop {
            let found = &self.slots[slot];
            if found.generation != self.generation {
                return (slot, false);
            }
            if found.line == line {
                return (slot, true);
            }
            slot = (slot + 1) & self.mask;
        }
    }

    #[inline(always)]
    fn fill(&mut self, slot: usize, line: u64, at: u32) {
        self.slots[slot] = Slot { line, generation: self.generation, at };
        self.count += 1;
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

    fn reset(&mut self) {
        (self.mask, self.count) = (SLOTS_MIN - 1, 0);
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

    /// What a sealed record says, line by line.
    fn decode(bytes: &[u8]) -> BTreeMap<u64, [u64; LINE_WORDS]> {
        let words: Vec<u64> = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let header = RecordHeader::read_from_bytes(&bytes[..64]).unwrap();
        assert_eq!(crc32c::crc32c(&bytes[4..64 + header.payload_len as usize]), header.checksum);
        let (mut at, end) = (HEADER_WORDS, HEADER_WORDS + header.payload_len as usize / 8);
        let mut lines = BTreeMap::new();
        while at < end {
            let (first, count) = run_parts(words[at]);
            at += 1;
            for line in first..first + count {
                let twice = lines.insert(line, *words[at..].first_chunk().unwrap());
                assert!(twice.is_none(), "line {line} stands twice in one record");
                at += LINE_WORDS;
            }
            at += usize::from(count == 0);
        }
        assert!(words[end..].iter().all(|&word| word == 0), "padding is zero");
        lines
    }

    /// Random lines, runs and repetitions, from a handful to a full buffer: each line once, with its newest value.
    #[test]
    fn a_batch_holds_each_line_once_and_newest() {
        let mapping = Mapping::anonymous(8 << 20, 8 << 20).unwrap();
        let mut batch = Batch::new(1 << 20);
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for round in 0..40 {
            let (puts, spread) = (1 << (round % 15), [10, 1000, 131_000][round % 3]);
            let mut expected = BTreeMap::new();
            let mut line = 0;
            for put in 0..puts {
                line = if random(3) == 0 { random(spread) } else { (line + 1) % spread };
                mapping.store(line * crate::LINE + random(8) * 8, put + 1);
                if batch.used() + 1 + LINE_WORDS > batch.capacity() {
                    break;
                }
                batch.put_line(line, &mapping);
                let mut words = [0; LINE_WORDS];
                mapping.load_line(line * crate::LINE, &mut words);
                expected.insert(line, words);
                if put % 100 == 99 && batch.used() + 2 <= batch.capacity() {
                    batch.put_allocation(1 << 20, 4096);
                }
            }
            let header = RecordHeader::read_from_bytes(&[0; 64]).unwrap();
            let padded = batch.padded();
            let (_, bytes) = batch.seal(header);
            assert_eq!(bytes.len() as u64, padded);
            assert!(decode(bytes) == expected, "round {round}");
            batch.reset();
            assert!(batch.is_empty());
        }
    }
}
