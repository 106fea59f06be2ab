//! [`Tape`]: what a program did to its media, word by word, in one total order.
//!
//! Invariants
//!   TAPE-1  `shadow` holds what memory holds, whether the tape runs or not, except in scanning
//!           mode between scans.
//!   TAPE-2  Every word that changes between `start` and `take` has its value from before in
//!           `before`, also after `stop`: the code that tries an image can put back the trial's
//!           changes.
//!   TAPE-3  A byte stored alone changes its word alone: ragged ends of a store are recorded byte
//!           by byte, as the mapping stores them.
//!
//! Threads: any number may store at once; the media's lock makes one order of it, and events carry
//! thread numbers in the order in which threads first appear.

use everbyte_media::{Capabilities, Media, Recorder};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread::ThreadId;

/// The settling instruction: the two kinds of media that code must be right on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Settling {
    /// A fence settles what its thread flushed: `pmem`, `shm`.
    Fence,
    /// A fence only orders; a barrier settles: `file`.
    Barrier,
}

/// One thing that happened. Offsets and lengths in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A store; `words` indexes [`Recording::words`].
    Store {
        thread: u32,
        at: u64,
        len: u64,
        words: Range<usize>,
    },
    Flush {
        thread: u32,
        at: u64,
        len: u64,
    },
    Fence {
        thread: u32,
    },
    /// All that the first `mark` fences ordered is settled.
    Barrier {
        mark: u64,
    },
    Allocate {
        at: u64,
        len: u64,
    },
    Punch {
        at: u64,
        len: u64,
    },
    /// Operation number so-and-so begins.
    Begin(usize),
    /// It has been acknowledged.
    Acked(usize),
}

/// The thread of events that stand for nothing.
const NO_THREAD: u32 = u32::MAX;

/// A finished tape.
#[derive(Clone, Default)]
pub(crate) struct Recording {
    pub events: Vec<Event>,
    /// Offset and new value of each word that changed, in order.
    pub words: Vec<(u64, u64)>,
    /// The value before the tape ran, of each word that changed (TAPE-2).
    pub before: HashMap<u64, u64>,
    /// Names of operations, by number.
    pub ops: Vec<String>,
    /// Bytes backed when the tape started.
    pub len: u64,
    pub fences: u64,
    /// The highest mark a barrier has settled.
    pub settled: u64,
}

/// Which call of a kind is to fail, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    pub allocate: Option<u64>,
    pub barrier: Option<u64>,
}

pub(crate) struct TapeState {
    /// Changes are kept for undoing them (TAPE-2).
    armed: bool,
    /// Events are recorded.
    running: bool,
    /// Finds stores by comparing memory with `shadow`, instead of being told.
    scanning: bool,
    settling: Settling,
    shadow: Vec<u64>,
    threads: Vec<ThreadId>,
    pub recording: Recording,
    pub faults: Faults,
    pub allocations: u64,
    pub barriers: u64,
}

/// A tape recorder for media, shared with the reader of the tape.
#[derive(Clone)]
pub(crate) struct Tape(pub(crate) Arc<Mutex<TapeState>>);

impl Tape {
    pub(crate) fn new(image: &[u8], settling: Settling) -> Tape {
        // zeros that are never stored take no memory
        let mut shadow = vec![0; image.len().div_ceil(8)];
        for (word, chunk) in shadow.iter_mut().zip(image.chunks(8)).filter(|(_, chunk)| chunk.iter().any(|&b| b != 0)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_le_bytes(bytes);
        }
        Tape(Arc::new(Mutex::new(TapeState {
            armed: false,
            running: false,
            scanning: false,
            settling,
            shadow,
            threads: Vec::new(),
            recording: Recording { len: image.len() as u64, ..Recording::default() },
            faults: Faults::default(),
            allocations: 0,
            barriers: 0,
        })))
    }

    pub(crate) fn recorder(&self) -> Box<dyn Recorder> {
        Box::new(Ear(self.clone()))
    }

    pub(crate) fn scan(&self, scanning: bool) {
        self.0.lock().scanning = scanning;
    }

    /// Starts an empty recording of media with `len` bytes.
    pub(crate) fn start(&self, len: u64) {
        let mut inner = self.0.lock();
        inner.recording = Recording { len, ..Recording::default() };
        inner.threads.clear();
        (inner.armed, inner.running) = (true, true);
    }

    /// Stops; what happens afterwards only changes memory.
    pub(crate) fn stop(&self) {
        self.0.lock().running = false;
    }

    pub(crate) fn take(&self) -> Recording {
        let mut inner = self.0.lock();
        (inner.armed, inner.running) = (false, false);
        std::mem::take(&mut inner.recording)
    }

    /// In scanning mode: finds what was stored since the last scan.
    pub(crate) fn catch_up(&self, media: &Media) {
        self.0.lock().scan(media);
    }

    /// The word at `at` as memory holds it (TAPE-1).
    pub(crate) fn word(&self, at: u64) -> u64 {
        self.0.lock().shadow.get((at / 8) as usize).copied().unwrap_or(0)
    }

    pub(crate) fn begin(&self, name: String) -> usize {
        let mut inner = self.0.lock();
        let number = inner.recording.ops.len();
        inner.recording.ops.push(name);
        inner.recording.events.push(Event::Begin(number));
        number
    }

    pub(crate) fn acked(&self, op: usize) {
        self.0.lock().recording.events.push(Event::Acked(op));
    }
}

impl TapeState {
    fn thread(&mut self) -> u32 {
        let id = std::thread::current().id();
        let known = self.threads.iter().position(|&thread| thread == id);
        known.unwrap_or_else(|| {
            self.threads.push(id);
            self.threads.len() - 1
        }) as u32
    }

    fn change(&mut self, word: u64, value: u64) {
        let index = (word / 8) as usize;
        if index >= self.shadow.len() {
            self.shadow.resize(index + 1, 0);
        }
        let old = std::mem::replace(&mut self.shadow[index], value);
        if self.armed && old != value {
            self.recording.before.entry(word).or_insert(old);
            if self.running {
                self.recording.words.push((word, value));
            }
        }
    }

    fn store(&mut self, at: u64, bytes: &[u8]) {
        let first = self.recording.words.len();
        let (mut at_now, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let word = at_now & !7;
            if at_now == word && rest.len() >= 8 {
                let (whole, more) = rest.split_at(8);
                self.change(word, u64::from_le_bytes(whole.try_into().expect("eight bytes")));
                (at_now, rest) = (at_now + 8, more);
            } else {
                // TAPE-3
                let shift = (at_now - word) * 8;
                let old = self.shadow.get((word / 8) as usize).copied().unwrap_or(0);
                self.change(word, old & !(0xff << shift) | u64::from(rest[0]) << shift);
                (at_now, rest) = (at_now + 1, &rest[1..]);
            }
        }
        if self.running {
            let thread = self.thread();
            let words = first..self.recording.words.len();
            self.recording.events.push(Event::Store { thread, at, len: bytes.len() as u64, words });
        }
    }

    fn scan(&mut self, media: &Media) {
        if !self.scanning || !self.armed {
            return;
        }
        for at in (0..media.len() & !7).step_by(8) {
            let (value, known) = (media.load(at), self.shadow.get((at / 8) as usize).copied().unwrap_or(0));
            if value != known {
                self.store(at, &value.to_le_bytes());
            }
        }
    }

    fn note(&mut self, event: impl FnOnce(u32) -> Event) {
        if self.running {
            let thread = self.thread();
            self.recording.events.push(event(thread));
        }
    }
}

/// The end of a tape that the media speaks to.
struct Ear(Tape);

impl Recorder for Ear {
    fn store(&mut self, at: u64, bytes: &[u8]) {
        let mut inner = self.0.0.lock();
        if !inner.scanning || !inner.armed {
            inner.store(at, bytes);
        }
    }

    fn flush(&mut self, at: u64, len: u64) {
        self.0.0.lock().note(|thread| Event::Flush { thread, at, len });
    }

    fn fence(&mut self) {
        let mut inner = self.0.0.lock();
        if inner.running {
            inner.recording.fences += 1;
            inner.note(|thread| Event::Fence { thread });
        }
    }

    fn mark(&mut self) -> u64 {
        self.0.0.lock().recording.fences
    }

    fn barrier(&mut self, mark: u64) -> io::Result<()> {
        let mut inner = self.0.0.lock();
        inner.barriers += 1;
        if inner.faults.barrier.is_some_and(|nth| inner.barriers >= nth) {
            return Err(io::Error::other("injected: the sync failed"));
        }
        if inner.running {
            let mark = mark.min(inner.recording.fences);
            inner.recording.settled = inner.recording.settled.max(mark);
            inner.note(|_| Event::Barrier { mark });
        }
        Ok(())
    }

    fn settled(&mut self, mark: u64) -> bool {
        let inner = self.0.0.lock();
        !inner.running || inner.settling == Settling::Fence || mark <= inner.recording.settled
    }

    fn allocate(&mut self, at: u64, len: u64) -> io::Result<()> {
        let mut inner = self.0.0.lock();
        inner.allocations += 1;
        if inner.faults.allocate == Some(inner.allocations) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "injected: no space left on device"));
        }
        inner.note(|_| Event::Allocate { at, len });
        Ok(())
    }

    fn punch(&mut self, at: u64, len: u64) {
        self.0.0.lock().note(|_| Event::Punch { at, len });
    }

    fn capabilities(&self) -> Capabilities {
        let fence_settles = self.0.0.lock().settling == Settling::Fence;
        Capabilities { shared: fence_settles, fence_settles, huge_pages: false }
    }

    fn scan(&mut self, media: &Media) {
        self.0.0.lock().scan(media);
    }
}

impl Recording {
    /// This recording up to `event`, then `next` by other threads: another process goes on with the
    /// same memory.
    pub(crate) fn continued(&self, event: usize, next: &Recording) -> Recording {
        let mut both = Recording { ops: self.ops.clone(), len: self.len, ..Recording::default() };
        both.words = self.words.clone();
        both.events = self.events[..event].to_vec();
        let fences = both.events.iter().filter(|event| matches!(event, Event::Fence { .. })).count() as u64;
        let (words, others) = (both.words.len(), both.threads_of_others());
        both.words.extend_from_slice(&next.words);
        both.fences = fences + next.fences;
        both.events.extend(next.events.iter().map(|event| match event.clone() {
            Event::Store { thread, at, len, words: range } => {
                let words = range.start + words..range.end + words;
                Event::Store { thread: thread + others, at, len, words }
            }
            Event::Flush { thread, at, len } => Event::Flush { thread: thread + others, at, len },
            Event::Fence { thread } => Event::Fence { thread: thread + others },
            Event::Barrier { mark } => Event::Barrier { mark: mark + fences },
            other => other,
        }));
        both
    }

    /// The first number of threads of another process.
    fn threads_of_others(&self) -> u32 {
        const EACH: u32 = 1 << 16; // no program has so many threads
        let numbers = self.events.iter().filter_map(|event| match event {
            Event::Store { thread, .. } | Event::Flush { thread, .. } | Event::Fence { thread } => Some(*thread),
            _ => None,
        });
        numbers.filter(|&thread| thread != NO_THREAD).max().map_or(1, |most| most / EACH + 1) * EACH
    }

    /// As [`Recording::continued`], where `next` is a program with operations of its own: those of
    /// this recording are left out.
    pub(crate) fn followed(&self, event: usize, next: &Recording) -> Recording {
        let mut both = Recording { ops: next.ops.clone(), ..self.continued(event, next) };
        for event in &mut both.events[..event] {
            if matches!(event, Event::Begin(_) | Event::Acked(_)) {
                // of nothing: the others keep their numbers
                *event = Event::Flush { thread: NO_THREAD, at: 0, len: 0 };
            }
        }
        both
    }

    /// Operations in the order of their acknowledgement.
    pub(crate) fn acked(&self) -> Vec<usize> {
        let acked = self.events.iter().filter_map(|event| match event {
            Event::Acked(op) => Some(*op),
            _ => None,
        });
        acked.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Image;

    fn words(run: impl FnOnce(&Media)) -> Vec<(u64, u64)> {
        let (media, tape) = Image::zeroed(4096).open(Settling::Barrier);
        tape.start(media.len());
        run(&media);
        tape.take().words
    }

    #[test]
    fn a_ragged_store_is_bytes_at_its_ends_and_words_between() {
        let seen = words(|media| media.write(6, &[1; 12]));
        let one = 0x0101_0101_0101_0101;
        assert_eq!(seen, [(0, 1 << 48), (0, 0x0101 << 48), (8, one), (16, 1), (16, 0x0101)]);
    }

    #[test]
    fn a_store_of_what_is_there_changes_nothing() {
        assert_eq!(words(|media| media.zero(0, 4096)), []);
    }

    /// A scanning tape finds untold stores at the next flush or fence, and only their last values.
    #[test]
    fn scanning_finds_what_it_is_not_told() {
        let (media, tape) = Image::zeroed(4096).open(Settling::Fence);
        tape.scan(true);
        tape.start(media.len());
        media.store(64, 1);
        media.store(64, 2);
        media.store(8, 3);
        media.flush(64, 8);
        let seen = tape.take();
        assert_eq!(seen.words, [(8, 3), (64, 2)]);
        assert!(matches!(seen.events.last(), Some(Event::Flush { at: 64, len: 64, .. })));
    }
}
