//! Locks: held to the end of the transaction, and handed to a waiting thread when that end is
//! ordered.

use super::{P, explore, finds, pool};
use crate::{MemPool, PMutex, POnceCell, PRwLock, PSafe, Root};
use shuttle::thread;

#[derive(PSafe)]
#[repr(C)]
struct Desk<P: MemPool> {
    one: PMutex<u64, P>,
    two: PMutex<u64, P>,
    pair: PRwLock<(u64, u64), P>,
    once: PMutex<POnceCell<u64, P>, P>,
}

fn desk() -> Root<Desk<P>, P> {
    pool::<Desk<P>>(|_| Desk {
        one: PMutex::new(0),
        two: PMutex::new(0),
        pair: PRwLock::new((0, 0)),
        once: PMutex::new(POnceCell::new()),
    })
}

/// Threads add to one number; some roll back when they have. No thread sees a value that was rolled
/// back.
fn counting() {
    let desk = desk();
    thread::scope(|scope| {
        for thread in 0..3 {
            let desk = &desk;
            scope.spawn(move || {
                for round in 0..2 {
                    let outcome = desk.try_tx(|j, desk| {
                        let mine = {
                            let mut one = desk.one.lock(j);
                            *one += 1;
                            *one
                        };
                        thread::yield_now(); // the guard is gone, the lock is not
                        assert_eq!(*desk.one.lock(j), mine);
                        if (thread + round) % 2 == 0 { Ok(()) } else { Err(()) }
                    });
                    assert_eq!(outcome.is_ok(), (thread + round) % 2 == 0, "{outcome:?}");
                }
            });
        }
    });
    assert_eq!(desk.tx(|j, desk| *desk.one.lock(j)).unwrap(), 3);
}

#[test]
fn locks_are_held_to_the_end_in_every_order() {
    explore(counting);
}

#[test]
fn a_lock_that_falls_before_the_end_is_found() {
    finds("object-lock-early", counting);
}

/// Threads that wait for different locks, and one that has both: all of them go on.
fn waiting() {
    let desk = desk();
    thread::scope(|scope| {
        for which in 0..4 {
            let desk = &desk;
            scope.spawn(move || {
                let outcome = desk.tx(|j, desk| {
                    if which != 1 {
                        *desk.one.lock(j) += 1;
                    }
                    if which != 2 {
                        *desk.two.lock(j) += 1;
                    }
                });
                outcome.unwrap();
            });
        }
    });
    assert_eq!(desk.tx(|j, desk| (*desk.one.lock(j), *desk.two.lock(j))).unwrap(), (3, 3));
}

#[test]
fn whoever_waits_for_a_lock_gets_it() {
    explore(waiting);
}

#[test]
fn a_wake_up_of_somebody_else_is_found() {
    finds("object-wake-one", waiting);
}

/// Readers see a pair whole; who reads and then writes is the only reader, or is refused.
fn pairs() {
    let desk = desk();
    let raised = thread::scope(|scope| {
        let desk = &desk;
        let writer = move |step| {
            let outcome = desk.tx(|j, desk| {
                let mut pair = desk.pair.write(j);
                pair.0 += step;
                thread::yield_now();
                pair.1 += step;
            });
            outcome.unwrap();
        };
        let reader = move || {
            let outcome = desk.tx(|j, desk| {
                let (one, two) = *desk.pair.read(j);
                assert_eq!(one, two);
                thread::yield_now();
                assert_eq!(*desk.pair.read(j), (one, two), "read to the end of the transaction");
                let Some(mut pair) = desk.pair.try_write(j) else { return 0 };
                assert_eq!(*pair, (one, two), "no thread wrote between");
                (pair.0, pair.1) = (one + 10, two + 10);
                10
            });
            outcome.unwrap()
        };
        scope.spawn(move || writer(1));
        scope.spawn(move || writer(2));
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        readers.map(|reader| reader.join().unwrap()).iter().sum::<u64>()
    });
    assert_eq!(desk.tx(|j, desk| *desk.pair.read(j)).unwrap(), (3 + raised, 3 + raised));
}

#[test]
fn readers_share_and_writers_are_alone() {
    explore(pairs);
}

#[test]
fn a_reader_that_writes_beside_others_is_found() {
    finds("object-raise-beside", pairs);
}

/// The first thread sets the cell; every thread reads that value.
fn once() {
    let desk = desk();
    let values = thread::scope(|scope| {
        let set = |value| desk.tx(|j, desk| *desk.once.lock(j).get_or_init(|| value, j)).unwrap();
        let threads = [1, 2, 3].map(|value| scope.spawn(move || set(value)));
        threads.map(|thread| thread.join().unwrap())
    });
    let kept = desk.tx(|j, desk| desk.once.lock(j).get().copied()).unwrap();
    assert_eq!(values.map(Some), [kept; 3]);
}

#[test]
fn a_cell_is_set_once() {
    explore(once);
}
