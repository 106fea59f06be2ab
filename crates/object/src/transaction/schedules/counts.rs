//! Counts: the last pointer's end against new pointers made from weak ones of both kinds.

use super::{P, explore, finds, pool};
use crate::parc::{PWeak, VWeak};
use crate::{Error, MemPool, PMutex, PSafe, Parc, Pbox, Root};
use shuttle::sync::Mutex;
use shuttle::thread;

type Place<T, P> = PMutex<Option<T>, P>;
/// An object whose end shows: its number goes with it.
type Number<P> = Pbox<u64, P>;

#[derive(PSafe)]
#[repr(C)]
struct Shelf<P: MemPool> {
    strong: Place<Parc<Number<P>, P>, P>,
    weak: Place<PWeak<Number<P>, P>, P>,
    kept: Place<Parc<Number<P>, P>, P>,
    other: Place<Parc<Number<P>, P>, P>,
}

fn shelf() -> Root<Shelf<P>, P> {
    pool::<Shelf<P>>(|j| {
        let strong = Parc::new(Pbox::new(7, j), j);
        let weak = strong.downgrade(j);
        Shelf {
            strong: PMutex::new(Some(strong)),
            weak: PMutex::new(Some(weak)),
            kept: PMutex::new(None),
            other: PMutex::new(None),
        }
    })
}

fn demoted(shelf: &Root<Shelf<P>, P>) -> VWeak<Number<P>, P> {
    shelf.tx(|j, shelf| shelf.strong.lock(j).as_ref().expect("there").demote(j)).unwrap()
}

/// Drops the last pointer; whether it could.
fn drop_last(shelf: &Root<Shelf<P>, P>) -> bool {
    match shelf.tx(|j, shelf| *shelf.strong.lock(j) = None) {
        Err(Error::Contended { .. }) => false,
        done => done.is_ok(),
    }
}

/// Makes an object where one was dropped, most likely.
fn make_other(shelf: &Root<Shelf<P>, P>) {
    shelf.tx(|j, shelf| *shelf.other.lock(j) = Some(Parc::new(Pbox::new(9, j), j))).unwrap();
}

/// The end of every program: what is kept is what it was, counts are right, and nothing has leaked.
fn require_counts(shelf: &Root<Shelf<P>, P>) {
    let kept = shelf.tx(|j, shelf| shelf.kept.lock(j).as_ref().map(|kept| ***kept)).unwrap();
    assert!(kept.is_none_or(|kept| kept == 7), "{kept:?}");
    assert_eq!(shelf.check().unwrap(), []);
}

/// The last pointer goes while threads promote and upgrade; one of them keeps what it gets.
fn upgrading() {
    let shelf = shelf();
    let there = demoted(&shelf);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !drop_last(&shelf) {}
            make_other(&shelf);
        });
        scope.spawn(|| {
            let outcome = shelf.tx(|j, _| {
                if let Some(strong) = there.promote(j) {
                    thread::yield_now();
                    assert_eq!(**strong, 7);
                }
            });
            outcome.unwrap();
        });
        scope.spawn(|| {
            let outcome = shelf.tx(|j, shelf| {
                let strong = shelf.weak.lock(j).take().expect("there").upgrade(j);
                assert!(strong.as_ref().is_none_or(|strong| ***strong == 7));
                *shelf.kept.lock(j) = strong;
            });
            outcome.unwrap();
        });
    });
    require_counts(&shelf);
}

#[test]
fn what_is_upgraded_is_not_dropped() {
    explore(upgrading);
}

#[test]
fn an_upgrade_without_a_pin_is_found() {
    finds("object-upgrade-unpinned", upgrading);
}

#[test]
fn a_drop_that_does_not_look_again_is_found() {
    finds("object-drop-unchecked", upgrading);
}

/// Threads clone and drop one object; some roll back.
fn cloning() {
    let shelf = shelf();
    thread::scope(|scope| {
        for thread in 0..3 {
            let shelf = &shelf;
            scope.spawn(move || {
                let outcome = shelf.try_tx(|j, shelf| {
                    let clone = shelf.strong.lock(j).as_ref().expect("there").pclone(j);
                    let second = clone.pclone(j);
                    thread::yield_now();
                    *shelf.kept.lock(j) = Some(second); // what was kept goes
                    if thread == 0 { Err(()) } else { Ok(()) }
                });
                assert_eq!(outcome.is_ok(), thread != 0, "{outcome:?}");
            });
        }
    });
    let counts = shelf.tx(|j, shelf| shelf.strong.lock(j).as_ref().expect("there").counts(j));
    assert_eq!(counts.unwrap(), (2, 1));
    require_counts(&shelf);
}

#[test]
fn counts_are_sums() {
    explore(cloning);
}

/// An object is made, named by a volatile weak pointer that escapes at once, and perhaps rolled
/// back; its block is used again. It is promoted when it is committed, and never to another object.
fn making(commits: bool) {
    let shelf = shelf();
    assert!(drop_last(&shelf));
    let escaped: Mutex<Option<VWeak<Number<P>, P>>> = Mutex::new(None);
    thread::scope(|scope| {
        scope.spawn(|| {
            let outcome = shelf.try_tx(|j, shelf| {
                let made = Parc::new(Pbox::new(7, j), j);
                *escaped.lock().unwrap() = Some(made.demote(j));
                thread::yield_now();
                *shelf.kept.lock(j) = Some(made);
                if commits { Ok(()) } else { Err(()) }
            });
            assert_eq!(outcome.is_ok(), commits, "{outcome:?}");
            let other = shelf.tx(|j, shelf| {
                let other = Parc::new(Pbox::new(9, j), j);
                let there = other.demote(j);
                *shelf.other.lock(j) = Some(other);
                there
            });
            assert_eq!(shelf.tx(|j, _| other.unwrap().promote(j).map(|other| **other)).unwrap(), Some(9));
        });
        scope.spawn(|| {
            for _ in 0..4 {
                let there = escaped.lock().unwrap().clone();
                let found = shelf.tx(|j, _| there?.promote(j).map(|strong| **strong)).unwrap();
                assert!(found.is_none() || commits && found == Some(7), "{found:?}");
                thread::yield_now();
            }
        });
    });
    require_counts(&shelf);
}

#[test]
fn only_what_is_committed_is_promoted() {
    explore(|| making(true));
    explore(|| making(false));
}

#[test]
fn numbers_that_outlive_a_roll_back_are_found() {
    finds("object-number-kept", || making(false));
}

#[test]
fn a_promotion_before_the_commit_is_found() {
    finds("object-promote-early", || making(false));
}

#[derive(PSafe)]
#[repr(C)]
struct Nested<P: MemPool> {
    outer: Place<Parc<Parc<u64, P>, P>, P>,
}

/// The last pointer to an object goes, and with it the last to one inside, which another thread may
/// have promoted: then all of it is rolled back, and a thread that looked meanwhile has not seen
/// the outer one gone.
fn dropping_in_vain() {
    let nested = pool::<Nested<P>>(|j| Nested { outer: PMutex::new(Some(Parc::new(Parc::new(7, j), j))) });
    let weak = nested.tx(|j, nested| {
        let outer = nested.outer.lock(j);
        let outer = outer.as_ref().expect("there");
        (outer.demote(j), (**outer).demote(j))
    });
    let (outer, inner) = weak.unwrap();
    thread::scope(|scope| {
        let dropper = scope.spawn(|| nested.tx(|j, nested| *nested.outer.lock(j) = None));
        scope.spawn(|| {
            let outcome = nested.tx(|j, _| {
                let inner = inner.promote(j);
                thread::yield_now();
                assert!(inner.is_none_or(|inner| *inner == 7));
            });
            outcome.unwrap();
        });
        let looker = scope.spawn(|| nested.tx(|j, _| outer.promote(j).is_some()).unwrap());
        let there = looker.join().unwrap();
        match dropper.join().unwrap() {
            Err(Error::Contended { .. }) => assert!(there, "no thread has dropped it"),
            dropped => dropped.unwrap(),
        }
    });
    assert_eq!(nested.check().unwrap(), []);
}

#[test]
fn what_is_dropped_in_vain_was_never_gone() {
    explore(dropping_in_vain);
}

#[test]
fn an_object_taken_for_gone_is_found() {
    finds("object-gone-early", dropping_in_vain);
}
