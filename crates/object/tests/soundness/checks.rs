//! Checks of a pool that is in use: they read bytes that no thread is changing.

use crate::common::store;
use everbyte_media::{Media, Recorder, museum};
use everbyte_object::{Error, Journal, MemPool, PBTreeMap, PHashMap, PMutex, PSafe, PVec, Pbox, Pool, pool};
use everbyte_store::{FormatOptions, Store};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Values whose bytes mean other things in each variant.
#[derive(PSafe)]
#[repr(u8)]
enum Value<P: MemPool> {
    Boxed(Pbox<u64, P>),
    Number(u64),
    Many(PVec<u64, P>),
    Bytes([u8; 16]),
}

impl<P: MemPool> Value<P> {
    fn new(number: u64, j: &Journal<P>) -> Self {
        match number % 4 {
            0 => Value::Boxed(Pbox::new(number, j)),
            1 => Value::Number(u64::MAX),
            2 => Value::Many(PVec::from_slice(&[1, 2], j)),
            _ => Value::Bytes([0xff; 16]),
        }
    }
}

#[derive(PSafe)]
#[repr(C)]
struct Shelf<P: MemPool> {
    list: PMutex<PVec<Value<P>, P>, P>,
    hashed: PMutex<PHashMap<u64, Value<P>, P>, P>,
    ordered: PMutex<PBTreeMap<u64, Value<P>, P>, P>,
}

#[test]
fn a_check_beside_threads_that_change_the_pool_finds_it_whole() {
    pool!(P);
    let store = store();
    let root = P::create::<Shelf<P>>(&store, "x", |_| Shelf {
        list: PMutex::default(),
        hashed: PMutex::default(),
        ordered: PMutex::default(),
    });
    let root = root.unwrap();
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let round = rounds.fetch_add(1, Ordering::Relaxed);
                root.tx(|j, r| *r.list.lock(j) = PVec::from_iter((0..64).map(|n| Value::new(n + round, j)), j))
                    .unwrap();
                for n in 0..20 {
                    root.tx(|j, r| drop(r.hashed.lock(j).insert((n + round) % 50, Value::new(n * round, j), j)))
                        .unwrap();
                    root.tx(|j, r| drop(r.ordered.lock(j).insert((n + round) % 50, Value::new(n * round, j), j)))
                        .unwrap();
                    root.tx(|j, r| drop(r.ordered.lock(j).remove(&(round % 50), j))).unwrap();
                }
            }
        });
        let mut checks = 0;
        while checks < 20 || rounds.load(Ordering::Relaxed) < 20 {
            let findings = root.check();
            stop.store(!matches!(&findings, Ok(found) if found.is_empty()), Ordering::Relaxed);
            assert_eq!(findings.unwrap(), []);
            assert!(root.plan_repair(&|_| ()).unwrap().is_empty());
            checks += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_check_and_a_transaction_of_one_thread_are_not_inside_of_each_other() {
    pool!(P);
    let store = store();
    let mut root = P::create::<PMutex<u64, P>>(&store, "x", |_| PMutex::new(0)).unwrap();
    let is_busy = |outcome| matches!(outcome, Err(Error::Busy { .. }));
    assert!(root.tx(|_, _| is_busy(root.check().map(drop))).unwrap(), "a check in a transaction");
    assert!(P::transaction(|_| is_busy(root.plan_repair(&|_| ()).map(drop))).unwrap());
    let inside = |_| {
        assert!(is_busy(root.tx(|j, r| *r.lock(j) = 1)), "a transaction in a check");
        assert!(is_busy(P::transaction(|_| ())));
        assert!(is_busy(root.check().map(drop)));
    };
    assert_eq!(root.examine(&inside).unwrap().findings(), []);
    let token = root.plan_repair(&|_| ()).unwrap().token();
    root.repair(token, &|_| assert!(is_busy(P::transaction(|_| ())), "a transaction in a repair")).unwrap();
    assert_eq!(root.tx(|j, r| *r.lock(j)).unwrap(), 0);
}

/// The messages between one settling thread and one checking thread.
#[derive(Default)]
struct Steps {
    fence: AtomicU64,
    settled: AtomicU64,
    /// The next barrier waits for the check.
    armed: AtomicBool,
    waiting: AtomicBool,
    checking: AtomicBool,
    checked: AtomicBool,
}

struct Slow(Arc<Steps>);

impl Recorder for Slow {
    fn store(&mut self, _: u64, _: &[u8]) {}
    fn flush(&mut self, _: u64, _: u64) {}

    fn fence(&mut self) {
        self.0.fence.fetch_add(1, Ordering::SeqCst);
    }

    fn mark(&mut self) -> u64 {
        self.0.fence.load(Ordering::SeqCst)
    }

    fn barrier(&mut self, mark: u64) -> io::Result<()> {
        if self.0.armed.swap(false, Ordering::SeqCst) {
            self.0.waiting.store(true, Ordering::SeqCst);
            while !self.0.checking.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            // A check that waits for this barrier never answers meanwhile; one that does not has
            // time to.
            for _ in 0..20_000 {
                if self.0.checked.load(Ordering::SeqCst) {
                    break;
                }
                std::thread::yield_now();
            }
        }
        self.0.settled.fetch_max(mark, Ordering::SeqCst);
        Ok(())
    }

    fn allocate(&mut self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// A transaction has committed and waits for its barrier while another thread checks. Answers
/// whether the reported state was settled when the check returned.
fn a_check_tells_what_is_settled() -> bool {
    pool!(P);
    let steps = Arc::new(Steps::default());
    let media = Media::recorded(16 << 20, &[], Box::new(Slow(Arc::clone(&steps)))).unwrap();
    let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([3; 16]) }).unwrap();
    let root = P::create::<PMutex<u64, P>>(&store, "x", |_| PMutex::new(0)).unwrap();
    steps.armed.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| root.tx(|j, _| std::mem::forget(Pbox::new(1u64, j))).unwrap());
        while !steps.waiting.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        steps.checking.store(true, Ordering::SeqCst);
        let report = root.examine(&|_| ()).unwrap();
        let settled = steps.settled.load(Ordering::SeqCst) >= steps.fence.load(Ordering::SeqCst);
        steps.checked.store(true, Ordering::SeqCst);
        assert_eq!(report.leaked.blocks, 1, "it sees what is ordered");
        settled
    })
}

#[test]
fn what_a_check_tells_of_cannot_vanish_any_more() {
    assert!(a_check_tells_what_is_settled());
    assert!(!museum::with("object-check-unsettled", a_check_tells_what_is_settled), "the seeded bug is not found");
}
