//! [`Gate`]: write sections of one media, and the moments at which none is open.
//!
//! A section is entered and left by plain stores to a word of its thread: the thread that closes
//! the gate pays for the order, by a system call that runs a memory barrier on every thread of the
//! process (`membarrier`). A kernel without it makes every section pay for a fence.
//!
//! Closing, step by step:
//!   1. the gate's lock is taken; sections without a word of their own hold it shared
//!   2. the gate says that it closes
//!   3. a barrier on every thread: each has entered its section before, or will see step 2
//!   4. the words of all threads are read until none is inside; new sections wait for the lock
//!
//! Invariants
//!   GATE-1  While a gate is closed no thread of the process is in one of its sections.
//!   GATE-2  A thread inside a section enters further ones of the same gate at once. Closing gives
//!           up after a time that its caller chooses, and lets all threads pass: a section may wait
//!           for a thread that waits for the gate.
//!
//! Threads: any. A word counts sections of one gate at a time; a section of a second gate, inside
//! one of the first, takes the second gate's lock.

use crate::section::{Held, Section};
use crate::seeded;
use everbyte_members::Birth;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, compiler_fence, fence};
use std::time::{Duration, Instant};

/// Bits of a thread's word that count its open sections; the others name the gate.
const DEPTH: u64 = 0xffff;

/// Looks at a closing gate before its thread sleeps: about 20 us.
const SPINS: u32 = 1000;

/// Gates that close or are closed.
static CLOSING: AtomicUsize = AtomicUsize::new(0);
/// Ids of gates.
static IDS: AtomicU64 = AtomicU64::new(1);
/// The words of all threads that ever were in a section.
static WORDS: Mutex<Vec<&'static ThreadWord>> = Mutex::new(Vec::new());
/// Words of threads that have ended.
static FREE: Mutex<Vec<&'static ThreadWord>> = Mutex::new(Vec::new());

/// The id of a gate, shifted, and the number of sections of that gate that a thread has open. It
/// has a cache line, and the line beside it, which a CPU may fetch along, to itself.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct ThreadWord(pub AtomicU64);

/// The word of a thread, until the thread ends.
struct OwnWord(&'static ThreadWord);

thread_local! {
    /// The word of [`OWN`], once the thread was in a section, until it ends: without a destructor
    /// it is read by one load.
    static WORD: Cell<Option<&'static ThreadWord>> = const { Cell::new(None) };
    static OWN: OwnWord = OwnWord::take();
}

impl OwnWord {
    /// The word of this thread. `None` while the thread ends.
    #[cold]
    fn get() -> Option<&'static ThreadWord> {
        let word = OWN.try_with(|own| own.0).ok()?;
        WORD.set(Some(word));
        Some(word)
    }

    fn take() -> OwnWord {
        let free = FREE.lock().pop();
        OwnWord(free.unwrap_or_else(|| {
            let word: &'static ThreadWord = Box::leak(Box::default());
            WORDS.lock().push(word);
            word
        }))
    }
}

impl Drop for OwnWord {
    fn drop(&mut self) {
        WORD.set(None);
        // A thread that ends inside a section keeps its word: the gate stays open for good.
        if self.0.0.load(Relaxed) & DEPTH == 0 {
            FREE.lock().push(self.0);
        }
    }
}

/// The sections of one media.
pub(crate) struct Gate {
    id: u64,
    closing: AtomicBool,
    /// Sections without a word hold it shared, a closed gate exclusively.
    lock: RwLock<()>,
    birth: Birth,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        barriers::prepare();
        let id = IDS.fetch_add(1, Relaxed);
        Gate { id, closing: AtomicBool::new(false), lock: RwLock::new(()), birth: Birth::new() }
    }

    /// Opens a section.
    #[inline]
    pub(crate) fn enter(&self) -> Section<'_> {
        let Some(word) = WORD.get().or_else(OwnWord::get) else { return self.enter_shared() };
        let now = word.0.load(Relaxed);
        if now & DEPTH == 0 {
            word.0.store(self.id << 16 | 1, Relaxed);
            barriers::light();
            if CLOSING.load(Acquire) != 0 {
                self.wait(word);
            }
        } else if now >> 16 == self.id {
            debug_assert!(now & DEPTH < DEPTH, "sections nest less deep");
            word.0.store(now + 1, Relaxed);
        } else {
            return self.enter_shared();
        }
        Section::new(Held::Word(word))
    }

    /// A gate is closing: leaves the section, and enters it when this gate is open.
    #[cold]
    fn wait(&self, word: &ThreadWord) {
        // In a forked child the lock may be held by a thread that does not exist there.
        while self.closing.load(SeqCst) && !self.birth.is_child() {
            word.0.store(0, Release);
            // Most gates open within some microseconds; to sleep and be woken takes tens of them.
            (0..SPINS).take_while(|_| self.closing.load(Acquire)).for_each(|_| std::hint::spin_loop());
            drop(self.lock.read_recursive());
            word.0.store(self.id << 16 | 1, Relaxed);
            barriers::light();
        }
    }

    /// A section of a thread that is inside another gate, or about to end.
    #[cold]
    fn enter_shared(&self) -> Section<'_> {
        // Recursive: a section inside a section must not wait for a thread that waits for the outer
        // one.
        Section::new(if self.birth.is_child() { Held::Nothing } else { Held::Lock(self.lock.read_recursive()) })
    }

    /// Closes the gate (GATE-1). `None` if a section stays open for longer than `wait` (GATE-2).
    pub(crate) fn close_within(&self, wait: Duration) -> Option<Closed<'_>> {
        let end = Instant::now() + wait;
        let lock = self.lock.try_write_until(end)?; // 1
        self.closing.store(true, SeqCst); // 2
        CLOSING.fetch_add(1, SeqCst);
        let closed = Closed { gate: self, _lock: lock };
        barriers::heavy(); // 3
        let mut looks = 0;
        while !seeded("media-gate-open") && self.is_entered() {
            if Instant::now() >= end {
                return None;
            }
            looks += 1;
            if looks < 64 { std::thread::yield_now() } else { std::thread::sleep(Duration::from_micros(50)) }
        }
        Some(closed) // 4
    }

    fn is_entered(&self) -> bool {
        WORDS.lock().iter().map(|word| word.0.load(Acquire)).any(|word| word >> 16 == self.id && word & DEPTH > 0)
    }
}

/// A closed gate, until the value is dropped.
pub(crate) struct Closed<'g> {
    gate: &'g Gate,
    _lock: RwLockWriteGuard<'g, ()>,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.gate.closing.store(false, SeqCst);
        CLOSING.fetch_sub(1, Release);
    }
}

/// Makes earlier stores of this thread visible to threads that enter a section, and the stores of
/// all other threads before now visible to this one.
pub(crate) fn meet_all_threads() {
    barriers::heavy();
}

/// A pair of barriers of which one costs nothing.
mod barriers {
    use super::*;

    /// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration (Linux 4.14).
    const BARRIER: i32 = 1 << 3;
    const REGISTER: i32 = 1 << 4;

    const UNKNOWN: u8 = 0;
    const BY_KERNEL: u8 = 1;
    const BY_FENCES: u8 = 2;
    static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

    fn membarrier(command: i32) -> bool {
        // SAFETY: a system call on numbers; it accesses no memory.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// Before the first section of the process.
    pub(super) fn prepare() {
        if MODE.load(Acquire) == UNKNOWN {
            let mode = if membarrier(REGISTER) { BY_KERNEL } else { BY_FENCES };
            let _ = MODE.compare_exchange(UNKNOWN, mode, SeqCst, SeqCst);
        }
    }

    /// Pairs with [`heavy`].
    #[inline(always)]
    pub(super) fn light() {
        if MODE.load(Relaxed) == BY_KERNEL { compiler_fence(SeqCst) } else { fence(SeqCst) }
    }

    pub(super) fn heavy() {
        fence(SeqCst);
        if MODE.load(Acquire) == BY_KERNEL {
            // A process that a fork has made may have to register again.
            let done = membarrier(BARRIER) || membarrier(REGISTER) && membarrier(BARRIER);
            assert!(done, "GATE-1: the kernel has registered this process for its barriers");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    const SHORT: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_gate_closes_when_no_section_is_open() {
        let (gate, other) = (Gate::new(), Gate::new());
        assert!(gate.close_within(SHORT).is_some());
        let (inside, outside) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let outer = gate.enter();
                let inner = gate.enter();
                drop(outer);
                inside.wait();
                outside.wait();
                drop(inner);
                inside.wait();
            });
            inside.wait();
            assert!(gate.close_within(SHORT).is_none(), "the inner section is open");
            assert!(other.close_within(SHORT).is_some(), "of another gate");
            outside.wait();
            inside.wait();
            assert!(gate.close_within(SHORT).is_some());
        });
    }

    #[test]
    fn a_section_inside_another_medias_section_counts() {
        let (gate, other) = (Gate::new(), Gate::new());
        let outer = other.enter();
        let inner = gate.enter();
        assert!(gate.close_within(SHORT).is_none() && other.close_within(SHORT).is_none());
        drop(outer);
        assert!(gate.close_within(SHORT).is_none());
        assert!(other.close_within(SHORT).is_some());
        drop(inner);
        assert!(gate.close_within(SHORT).is_some());
    }

    #[test]
    fn new_sections_wait_while_the_gate_is_closed_and_nested_ones_do_not() {
        let gate = Gate::new();
        let (done, inside) = (AtomicBool::new(false), Barrier::new(2));
        std::thread::scope(|scope| {
            let closed = gate.close_within(LONG).unwrap();
            scope.spawn(|| {
                let _outer = gate.enter();
                done.store(true, SeqCst);
                inside.wait();
                std::thread::sleep(SHORT); // the gate is being closed meanwhile
                let _inner = gate.enter();
            });
            std::thread::sleep(SHORT);
            assert!(!done.load(SeqCst));
            drop(closed);
            inside.wait();
            assert!(gate.close_within(LONG).is_some());
        });
    }

    /// Two plain counters are equal outside of sections; each closed gate finds them equal.
    #[test]
    fn stores_of_sections_are_whole_in_a_closed_gate() {
        let gate = Gate::new();
        let counters = [const { AtomicU64::new(0) }; 2];
        let stop = AtomicBool::new(false);
        let write = || {
            while !stop.load(Relaxed) {
                let _section = gate.enter();
                let next = counters[0].load(Relaxed) + 1;
                counters[0].store(next, Relaxed);
                std::hint::spin_loop();
                counters[1].store(next, Relaxed);
            }
        };
        let mut newest = 0;
        std::thread::scope(|scope| {
            scope.spawn(write);
            while counters[0].load(Relaxed) == 0 {
                std::thread::yield_now();
            }
            for _ in 0..200 {
                let closed = gate.close_within(LONG).unwrap();
                let found = [counters[0].load(Relaxed), counters[1].load(Relaxed)];
                drop(closed);
                assert_eq!(found[0], found[1]);
                newest = found[0];
                std::thread::yield_now();
            }
            stop.store(true, Relaxed);
        });
        assert!(newest > 0);
    }

    #[test]
    fn a_gate_that_gives_up_lets_all_threads_pass() {
        let gate = Gate::new();
        let section = gate.enter();
        for _ in 0..3 {
            assert!(gate.close_within(SHORT).is_none());
        }
        drop(section);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(gate.enter())).join().unwrap();
        });
        assert!(gate.close_within(SHORT).is_some());
    }
}
