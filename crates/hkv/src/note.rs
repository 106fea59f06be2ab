//! Notes: a change of one pair, written down whole before it happens. Format: docs/formats/hkv.md.
//!
//! A change, a fence between the lines:
//!   1. the record is written to a block that nobody has; the note says which blocks are taken and freed, and which words
//!      change to what
//!   2. bits and words change
//!
//! A crash before the first fence leaves nothing, one after it is answered by doing 2 again. Nothing retires a note but the
//! next one, or a transaction, which do not begin before.
//!
//! Invariants
//!   HKV-7  A note counts only if its check covers its words and the checksum of the record that its first word leads to,
//!          and that record is whole. So note and record share a fence.
//!   HKV-8  Blocks that a note frees become free for others when that note can no longer be done again.
//!   HKV-9  A note and a transaction are never both there to be recovered.
//!
//! Threads: who holds the store's lock for changing.

use crate::base::Base;
use crate::layout::{NOTE_AT, NOTE_WORDS, PLACE_BITS};
use crate::record::{Draft, Record};
use crate::{Result, hasher};
use everbyte_heap::{Block, Op};
use everbyte_media::{Flusher, Mark, seeded};
use everbyte_tx::Tx;
use zerocopy::IntoBytes;

/// What the changes of a store leave behind.
#[derive(Default)]
pub(crate) struct Past {
    /// The newest commit (HKV-3).
    pub last: Option<Mark>,
    /// Bytes of notes.
    pub logged: u64,
    /// Whether there is a note that would be done again.
    noted: bool,
    /// Blocks that it frees (HKV-8).
    freed: Vec<Op>,
}

type Words = [u64; NOTE_WORDS];

/// Operations and words of a note that counts, taken apart.
struct Found {
    ops: Vec<Op>,
    words: Vec<(u64, u64)>,
}

impl Base {
    /// Changes words, writes a record that the first of them is to lead to, and frees the record at `old`: all of it or
    /// nothing. Ordered on return. `words` is told where the record lies, or 0.
    pub(crate) fn change<const N: usize>(
        &self,
        past: &mut Past,
        new: Option<&Draft<'_>>,
        old: Option<u64>,
        words: impl FnOnce(u64) -> [(u64, u64); N],
    ) -> Result<()> {
        let (heap, media) = (self.heap(), self.media());
        let block = new.map(|draft| self.reserve(past, draft.len())).transpose()?;
        let freed = match old.map(|at| heap.op_free(at)).transpose() {
            Ok(freed) => freed,
            Err(error) => {
                block.into_iter().for_each(|block| heap.cancel(block));
                return Err(error.into());
            }
        };
        let _section = media.section();
        let taken = block.map(|block| heap.op_allocate(&block));
        let ops: Vec<Op> = taken.into_iter().chain(freed).collect();
        if let (Some(draft), Some(block)) = (new, block) {
            draft.write(media, block.at);
        }
        let words = words(block.map_or(0, |block| block.at));
        let (note, len) = note(&ops, &words, new.map_or(0, Draft::checksum));
        media.rewrite(self.note_at(), &note.as_bytes()[..len * 8]); // 1
        if !seeded("hkv-note-unfenced") {
            media.fence();
        }
        heap.finish(&past.freed);
        self.redo(&ops, &words); // 2
        media.fence();
        past.freed.clear();
        past.freed.extend(freed);
        (past.noted, past.logged) = (true, past.logged + len as u64 * 8);
        past.last = past.last.max(Some(media.mark()));
        Ok(())
    }

    /// Runs a transaction; ordered on return.
    pub(crate) fn run<T>(&self, past: &mut Past, body: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        self.retire(past);
        let done = self.undo.run_ordered(body)?;
        past.last = past.last.max(done.mark);
        Ok(done.value)
    }

    fn reserve(&self, past: &mut Past, len: u64) -> Result<Block> {
        match self.heap().reserve(len) {
            Err(error) if error.is_full() && !past.freed.is_empty() => {
                self.retire(past);
                Ok(self.heap().reserve(len)?)
            }
            reserved => Ok(reserved?),
        }
    }

    /// Sees to it that the note is not done again (HKV-9).
    fn retire(&self, past: &mut Past) {
        if past.noted && !seeded("hkv-note-kept") {
            self.retire_word();
            self.heap().finish(&past.freed);
            past.freed.clear();
            past.noted = false;
        }
    }

    fn retire_word(&self) {
        let _section = self.media().section();
        self.media().store(self.note_at(), 0);
        self.media().flush(self.note_at(), 8);
        self.media().fence();
    }

    fn redo(&self, ops: &[Op], words: &[(u64, u64)]) {
        self.heap().apply(ops);
        let mut flusher = Flusher::new(self.media());
        for &(at, word) in words {
            self.media().store(at, word);
            flusher.touch(at, 8);
        }
    }

    fn note_at(&self) -> u64 {
        self.object().prime() + NOTE_AT
    }

    /// Does again what a crash may have left half done. May itself be repeated.
    pub(crate) fn recover(&self) -> Result<()> {
        let (heap, media) = (self.heap(), self.media());
        let _section = media.section();
        let words: Words = media.get(self.note_at());
        if words[0] == 0 {
            return Ok(());
        }
        // A dead process may have left it unflushed: nothing that follows from it must survive without it.
        media.adopt(self.note_at(), size_of::<Words>() as u64);
        let Some(Found { ops, words }) = self.read(&words) else {
            self.retire_word(); // what does not count now must not later
            return Ok(());
        };
        for op in &ops {
            heap.validate(*op)?;
        }
        if words.iter().any(|&(at, _)| !at.is_multiple_of(8) || !heap.may_hold_blocks(at, 8)) {
            return Err(self.damaged(self.note_at(), "a note changes a word outside the heap"));
        }
        media.fence();
        self.redo(&ops, &words);
        media.fence();
        self.retire_word();
        let freed: Vec<Op> = ops.into_iter().filter(|op| op.frees()).collect();
        heap.finish(&freed);
        Ok(())
    }

    /// `None`: no note that counts (HKV-7).
    fn read(&self, note: &Words) -> Option<Found> {
        let (ops, pairs) = ((note[0] >> 4 & 15) as usize, (note[0] & 15) as usize);
        let rest = note.get(1..1 + ops + 2 * pairs).filter(|_| note[0] != 0)?;
        let (ops, pairs) = rest.split_at(ops);
        let ops: Vec<Op> = ops.iter().map(|&op| Op::from(op)).collect();
        let words: Vec<(u64, u64)> = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let mut checksum = 0;
        if ops.iter().any(|op| !op.frees()) {
            let place = words.first()?.1 & ((1 << PLACE_BITS) - 1);
            let record = Record::read(self.heap(), place).ok()?;
            if !record.is_whole(self.heap()) && !seeded("hkv-note-believed") {
                return None;
            }
            self.media().adopt(record.at, record.len());
            checksum = record.head.checksum;
        }
        let (again, _) = self::note(&ops, &words, checksum);
        (again[0] == note[0] || seeded("hkv-note-believed")).then_some(Found { ops, words })
    }
}

/// The words of a note, and how many there are.
fn note(ops: &[Op], words: &[(u64, u64)], checksum: u32) -> (Words, usize) {
    let mut note = [0; NOTE_WORDS];
    let pairs = words.iter().flat_map(|&(at, word)| [at, word]);
    let rest = ops.iter().map(|&op| u64::from(op)).chain(pairs);
    let len = 1 + note[1..].iter_mut().zip(rest).map(|(place, word)| *place = word).count();
    assert_eq!(len, 1 + ops.len() + 2 * words.len(), "a note has room for a change of one pair");
    let shape = (ops.len() << 4 | words.len()) as u64;
    let check = hasher::hash([u64::from(checksum), shape], note[1..len].as_bytes());
    note[0] = check & !0xff | shape;
    (note, len)
}
