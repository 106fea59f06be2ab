//! Notes: what changes a pair, adds buckets, halves a node or joins two, written down whole before
//! it happens. Format: docs/formats/hkv.md.
//!
//! A change, with one fence:
//!   1. new data is written to unused space; the record says which blocks are taken and freed, and
//!      the new value of each changed word
//!   2. after the fence, bits and words change and are flushed; the fence of the next change orders
//!      that
//!
//! There is room for two notes, and they take turns: the older one still stands while the newer is
//! written. A crash before the fence leaves nothing, one after it is answered by doing 2 again, of
//! the older note first. A transaction retires both, by an empty note: one word.
//!
//! Invariants
//!   HKV-7  A note counts only if its check covers its words and the checksum of what was written
//!          for it, and that is whole. So both share a fence.
//!   HKV-8  Blocks that a note frees become free for others when that note can no longer be done
//!          again.
//!   HKV-9  A note is retired only when what it says is done and ordered, and nothing of a
//!          transaction survives before.
//!   HKV-10 A note takes the place of another only when a fence has ordered what that one says.
//!   What a thread has flushed it
//!          orders itself, or the next one flushes it again.
//!
//! Threads: who holds the store's lock for changing.

use crate::base::Base;
use crate::hash::{linked, split};
use crate::layout::{BUCKET, NOTE_AT, NOTE_STEP, NOTE_WORDS, PLACE_BITS};
use crate::record::{Draft, Record};
use crate::{Result, hasher, tree};
use everbyte_heap::{Block, Op};
use everbyte_media::museum::unless;
use everbyte_media::{Flusher, Mark, seeded, sums_agree};
use everbyte_tx::Tx;
use std::thread::{self, ThreadId};
use zerocopy::IntoBytes;

/// The unfinished work that the changes of a store leave.
#[derive(Default)]
pub(crate) struct Past {
    /// The newest commit (HKV-3).
    pub last: Option<Mark>,
    /// Bytes of notes.
    pub logged: u64,
    /// Notes that were written.
    turn: u64,
    /// Whether there are notes that would be done again.
    noted: bool,
    /// The newest note, whose doing is not ordered yet, and who did it (HKV-10).
    doing: Option<(ThreadId, Words)>,
    /// Blocks that the notes in either place free (HKV-8).
    freed: [Vec<Op>; 2],
}

type Words = [u64; NOTE_WORDS];

/// A note taken apart.
struct Parts {
    turn: u64,
    ops: Vec<Op>,
    words: Vec<(u64, u64)>,
}

impl Past {
    /// Of a store whose next note has that turn.
    pub(crate) fn new(turn: u64) -> Past {
        Past { turn, ..Past::default() }
    }
}

impl Parts {
    fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.words.is_empty()
    }
}

impl Base {
    /// Changes words, writes a record that the first of them is to lead to, and frees the record at
    /// `old`: all of it or nothing. Ordered on return. `words` is told where the record lies, or 0.
    pub(crate) fn change<const N: usize>(
        &self,
        past: &mut Past,
        new: Option<&Draft>,
        old: Option<u64>,
        words: impl FnOnce(u64) -> [(u64, u64); N],
    ) -> Result<()> {
        let heap = self.heap();
        let block = new.map(|draft| self.reserve(past, draft.len())).transpose()?;
        let freed = match old.map(|at| heap.op_free(at)).transpose() {
            Ok(freed) => freed,
            Err(error) => {
                block.into_iter().for_each(|block| heap.cancel(block));
                return Err(error.into());
            }
        };
        let _section = self.media().section();
        let taken = block.map(|block| heap.op_allocate(&block));
        let ops: Vec<Op> = taken.into_iter().chain(freed).collect();
        if let (Some(draft), Some(block)) = (new, block) {
            draft.write(self.media(), block.at);
        }
        let words = words(block.map_or(0, |block| block.at));
        self.note(past, &ops, &words, new.map_or(0, Draft::checksum));
        Ok(())
    }

    /// Writes a note of what was written before, whose checksum is given, and does what it says.
    pub(crate) fn note(&self, past: &mut Past, ops: &[Op], words: &[(u64, u64)], checksum: u32) {
        let (heap, media, place) = (self.heap(), self.media(), past.turn % 2);
        let (note, len) = note(past.turn, ops, words, checksum);
        media.rewrite(self.note_at(place), &note.as_bytes()[..len * 8]); // 1
        self.flush_doing(past);
        media.fence_unless("hkv-note-unfenced");
        past.last = past.last.max(Some(media.mark()));
        let freed = &mut past.freed[place as usize];
        heap.finish(freed);
        freed.clear();
        freed.extend(ops.iter().filter(|op| op.frees()));
        self.redo(ops, words); // 2
        past.doing = Some((thread::current().id(), note));
        past.turn += if seeded("hkv-note-alone") { 2 } else { 1 };
        (past.noted, past.logged) = (true, past.logged + len as u64 * 8);
    }

    /// Orders what the newest note has done.
    pub(crate) fn order(&self, past: &mut Past) {
        self.flush_doing(past);
        self.media().fence();
    }

    /// Has the fence to come order what the newest note has done.
    fn flush_doing(&self, past: &mut Past) {
        let Some((_, note)) = past.doing.take().filter(|(thread, _)| *thread != thread::current().id()) else { return };
        let Some(Parts { ops, words, .. }) = parts(&note) else { return };
        self.heap().flush(&ops);
        let mut flusher = Flusher::new(self.media());
        words.iter().for_each(|&(at, _)| flusher.touch(at, 8));
    }

    /// Runs a transaction; ordered on return.
    pub(crate) fn run<T>(&self, past: &mut Past, body: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        self.retire(past);
        let done = self.undo.run_ordered(body)?;
        past.last = past.last.max(done.mark);
        Ok(done.value)
    }

    /// A block of the heap, of those that notes have freed if there is no other.
    pub(crate) fn reserve(&self, past: &mut Past, len: u64) -> Result<Block> {
        match self.heap().reserve(len) {
            Err(error) if error.is_full() && past.freed.iter().any(|freed| !freed.is_empty()) => {
                self.retire(past);
                Ok(self.heap().reserve(len)?)
            }
            reserved => Ok(reserved?),
        }
    }

    /// Sees to it that no note is done again (HKV-9): what a transaction changes, it does after a
    /// fence of its own.
    fn retire(&self, past: &mut Past) {
        if !past.noted {
            return;
        }
        unless("hkv-note-retired-early", || self.order(past));
        self.retire_by(past.turn);
        past.turn += 1;
        if past.freed.iter().any(|freed| !freed.is_empty()) {
            self.media().fence(); // HKV-8
            past.freed.iter_mut().for_each(|freed| {
                self.heap().finish(freed);
                freed.clear();
            });
        }
        past.noted = false;
    }

    /// Takes the place of the older note with an empty one, for which the newer does not count. No
    /// fence.
    fn retire_by(&self, turn: u64) {
        self.set_word(turn % 2, note(turn, &[], &[], 0).0[0]);
    }

    fn set_word(&self, place: u64, word: u64) {
        let _section = self.media().section();
        self.media().store(self.note_at(place), word);
        self.media().flush(self.note_at(place), 8);
    }

    fn redo(&self, ops: &[Op], words: &[(u64, u64)]) {
        self.heap().apply(ops);
        let mut flusher = Flusher::new(self.media());
        for &(at, word) in words {
            self.media().store(at, word);
            flusher.touch(at, 8);
        }
    }

    fn note_at(&self, place: u64) -> u64 {
        self.object().prime() + NOTE_AT + place * NOTE_STEP
    }

    /// Does again what a crash may have left half done. May itself be repeated. The turn of the
    /// next note.
    pub(crate) fn recover(&self) -> Result<u64> {
        let (heap, media) = (self.heap(), self.media());
        let _section = media.section();
        let notes: [Words; 2] = [0, 1].map(|place| media.get(self.note_at(place)));
        // A dead process may have left them unflushed: nothing that follows from them must survive
        // without them.
        [0, 1].iter().for_each(|place| media.reflush(self.note_at(*place), size_of::<Words>() as u64));
        let mut found: Vec<Parts> = notes.iter().filter_map(|note| self.read(note)).collect();
        if let [one, two] = &found[..]
            && one.turn == (two.turn + 1) % TURNS
        {
            found.swap(0, 1); // the older first
        }
        let retired = found.last().is_some_and(Parts::is_empty);
        let again = if retired { &[][..] } else { &found[..] };
        for Parts { ops, words, .. } in again {
            ops.iter().try_for_each(|op| heap.validate(*op))?;
            if words.iter().any(|&(at, _)| !at.is_multiple_of(8) || !heap.may_hold_blocks(at, 8)) {
                return Err(self.damaged(self.note_at(0), "a note changes a word outside the heap"));
            }
        }
        media.fence();
        for Parts { ops, words, .. } in again {
            self.redo(ops, words);
            if let Some(new) = split::added(self, ops, words) {
                split::sweep(self, new)?;
            }
            media.fence_unless("hkv-notes-together"); // the next one may change what this one is believed for
        }
        let turn = found.last().map_or(0, |newest| newest.turn + 1);
        if again.is_empty() {
            self.forget(&notes, &found);
            return Ok(turn);
        }
        self.retire_by(turn);
        media.fence();
        again.iter().flat_map(|parts| &parts.ops).filter(|op| op.frees()).for_each(|op| heap.finish(&[*op]));
        Ok(turn + 1)
    }

    /// A record that does not count now must not count later.
    fn forget(&self, notes: &[Words; 2], found: &[Parts]) {
        let stale = |place: &u64| notes[*place as usize][0] != 0 && found.iter().all(|parts| parts.turn % 2 != *place);
        (0..2).filter(stale).for_each(|place| self.set_word(place, 0));
        self.media().fence();
    }

    /// `None`: no note that counts (HKV-7).
    fn read(&self, note: &Words) -> Option<Parts> {
        let parts = parts(note)?;
        let checksum = self.written(&parts);
        let believed = seeded("hkv-note-believed");
        let (again, _) = self::note(parts.turn, &parts.ops, &parts.words, checksum.or(believed.then_some(0))?);
        (sums_agree(again[0], note[0]) || believed).then_some(parts)
    }

    /// The checksum of what was written for a note. `None`: it is not whole, or not there.
    fn written(&self, Parts { ops, words, .. }: &Parts) -> Option<u32> {
        if let Some(new) = split::added(self, ops, words) {
            return split::checksum(self, new);
        }
        let taken = ops.iter().filter(|op| !op.frees()).count();
        if let &[parent, child] = &words[..] {
            return match taken {
                0 => tree::join::checksum(self, [parent, child]),
                _ => tree::split::checksum(self, [parent, child]),
            };
        }
        let at = words.first().map_or(0, |&(_, word)| word);
        match taken {
            0 => Some(0),
            1 => self.record_checksum(at),
            _ => {
                let bucket = linked::read(self, at)?;
                self.media().reflush(at, BUCKET);
                Some(linked::checksum(self.record_checksum(bucket[0])?, &bucket))
            }
        }
    }

    /// That of the record that a slot leads to, if it is whole.
    pub(crate) fn record_checksum(&self, slot: u64) -> Option<u32> {
        let record = Record::read(self.heap(), slot & ((1 << PLACE_BITS) - 1)).ok()?;
        self.media().reflush(record.at, record.len());
        record.is_whole(self.heap()).then_some(record.head.checksum)
    }
}

/// Turns that a note tells apart.
const TURNS: u64 = 8;

/// The parts of a note, if there is one.
fn parts(note: &Words) -> Option<Parts> {
    let (turn, ops, pairs) = (note[0] >> 5 & 7, (note[0] >> 2 & 7) as usize, (note[0] & 3) as usize);
    let rest = note.get(1..1 + ops + 2 * pairs).filter(|_| note[0] != 0)?;
    let (ops, pairs) = rest.split_at(ops);
    let ops = ops.iter().map(|&op| Op::from(op)).collect();
    Some(Parts { turn, ops, words: pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect() })
}

/// The words of a note, and how many there are.
fn note(turn: u64, ops: &[Op], words: &[(u64, u64)], checksum: u32) -> (Words, usize) {
    let mut note = [0; NOTE_WORDS];
    let pairs = words.iter().flat_map(|&(at, word)| [at, word]);
    let rest = ops.iter().map(|&op| u64::from(op)).chain(pairs);
    let len = 1 + note[1..].iter_mut().zip(rest).map(|(place, word)| *place = word).count();
    assert_eq!(len, 1 + ops.len() + 2 * words.len(), "a note has room for a change of one pair");
    let shape = ((turn % TURNS) << 5) | (ops.len() << 2 | words.len()) as u64;
    let check = hasher::hash([u64::from(checksum), shape], note[1..len].as_bytes());
    note[0] = check & !0xff | shape;
    (note, len)
}
