//! Conditions at the return of a transaction: nothing that it saw can vanish. And at the closing of
//! a pool: all transactions have ended.

use super::{P, explore, finds, pool, pool_on};
use crate::parc::VWeak;
use crate::raw::Raw as _;
use crate::{Error, Journal, MemPool, PMutex, PSafe, Parc, Pool, Root};
use everbyte_media::{Media, Recorder};
use shuttle::thread;
use std::sync::{Arc, Mutex};

/// The number of the newest fence, and the newest that is settled.
#[derive(Default)]
struct Heard {
    fence: u64,
    settled: u64,
}

struct Listener(Arc<Mutex<Heard>>);

impl Recorder for Listener {
    fn store(&mut self, _: u64, _: &[u8]) {}
    fn flush(&mut self, _: u64, _: u64) {}

    fn fence(&mut self) {
        self.0.lock().unwrap().fence += 1;
    }

    fn mark(&mut self) -> u64 {
        self.0.lock().unwrap().fence
    }

    fn barrier(&mut self, mark: u64) -> std::io::Result<()> {
        let mut heard = self.0.lock().unwrap();
        heard.settled = heard.settled.max(mark);
        Ok(())
    }

    fn allocate(&mut self, _: u64, _: u64) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(PSafe)]
#[repr(C)]
struct Shelf<P: MemPool> {
    number: PMutex<u64, P>,
    shared: PMutex<Option<Parc<u64, P>>, P>,
}

type Opened = Root<Shelf<P>, P>;
type Weak = VWeak<u64, P>;

fn shelf<P: MemPool>(shared: u64, j: &Journal<P>) -> Shelf<P> {
    Shelf { number: PMutex::new(0), shared: PMutex::new(Some(Parc::new(shared, j))) }
}

/// One thread changes something, another looks at it in a transaction. `look` answers what the
/// newest fence was when it saw the change; that is the last of the commit it saw, and must be
/// settled when its transaction has returned.
fn seen(change: fn(&Opened), look: fn(&Opened, &Weak, &dyn Fn() -> u64) -> Option<u64>) {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let media = Media::recorded(4 << 20, &[], Box::new(Listener(Arc::clone(&heard)))).expect("memory");
    let opened = pool_on::<Shelf<P>>(media, |j| shelf(7, j));
    let there = opened.tx(|j, shelf| shelf.shared.lock(j).as_ref().expect("there").demote(j)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| change(&opened));
        scope.spawn(|| {
            for _ in 0..3 {
                let fence = look(&opened, &there, &|| heard.lock().unwrap().fence);
                let settled = heard.lock().unwrap().settled;
                assert!(fence.is_none_or(|fence| fence <= settled), "saw {fence:?}, settled is {settled}");
            }
        });
    });
}

fn add(shelf: &Opened) {
    shelf.tx(|j, shelf| *shelf.number.lock(j) += 1).unwrap();
}

fn read(shelf: &Opened, fence: &dyn Fn() -> u64) -> Option<u64> {
    shelf.tx(|j, shelf| (*shelf.number.lock(j) > 0).then(fence)).unwrap()
}

fn seen_at_a_lock() {
    seen(add, |shelf, _, fence| read(shelf, fence));
}

fn seen_at_a_lock_buffered() {
    seen(
        |shelf| shelf.tx_buffered(|j, shelf| *shelf.number.lock(j) += 1).unwrap(),
        |shelf, _, fence| read(shelf, fence),
    );
}

fn seen_to_be_gone() {
    seen(
        |shelf| drop(shelf.tx(|j, shelf| *shelf.shared.lock(j) = None)),
        |shelf, there, fence| shelf.tx(|j, _| there.promote(j).is_none().then(fence)).unwrap(),
    );
}

fn seen_by_its_counts() {
    seen(
        |shelf| {
            shelf.tx(|j, shelf| std::mem::forget(shelf.shared.lock(j).as_ref().expect("there").downgrade(j))).unwrap()
        },
        |shelf, there, fence| shelf.tx(|j, _| (there.promote(j).expect("there").counts(j).1 > 0).then(fence)).unwrap(),
    );
}

#[test]
fn nothing_that_a_transaction_saw_can_vanish_when_it_has_returned() {
    [seen_at_a_lock, seen_at_a_lock_buffered, seen_to_be_gone, seen_by_its_counts].into_iter().for_each(explore);
}

#[test]
fn an_answer_before_what_it_saw_is_settled_is_found() {
    [seen_at_a_lock, seen_to_be_gone].into_iter().for_each(|program| finds("object-answer-seen", program));
}

/// Threads without the root run transactions while the pool is closed and opened again at once:
/// each is whole, or is told.
fn closing() {
    let opened = pool::<Shelf<P>>(|j| shelf(7, j));
    let store = opened.store().clone();
    thread::scope(|scope| {
        let outcomes = [1, 2].map(|_| {
            scope.spawn(|| {
                P::transaction(|j| {
                    let one = Parc::new(1, j);
                    thread::yield_now();
                    assert_eq!(*one, 1, "the pool stays open");
                })
            })
        });
        drop(opened);
        let opened = P::open::<Shelf<P>>(&store, "pool").expect("no thread has a claim of a closed pool");
        for outcome in outcomes {
            let outcome = outcome.join().unwrap();
            assert!(matches!(outcome, Ok(()) | Err(Error::Closed { .. })), "{outcome:?}");
        }
        assert_eq!(opened.check().unwrap(), []);
    });
}

#[test]
fn closing_waits_for_transactions() {
    explore(closing);
}
