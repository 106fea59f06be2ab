//! Counted pointers: counts persist, values go with their last pointer, weak pointers of both kinds
//! know it.

#![allow(clippy::type_complexity)]

use crate::common::store;
use everbyte_object::parc::{PWeak, VWeak};
use everbyte_object::{Error, MemPool, PCell, PMutex, PRefCell, PSafe, Parc, Pool, Prc, pool, prc};
use std::sync::Barrier;

#[derive(PSafe)]
#[repr(C)]
struct Shelf<P: MemPool> {
    one: PRefCell<Option<Prc<PCell<u64, P>, P>>, P>,
    two: PRefCell<Option<Prc<PCell<u64, P>, P>>, P>,
    weak: PRefCell<Option<prc::PWeak<PCell<u64, P>, P>>, P>,
}

impl<P: MemPool> Shelf<P> {
    fn new() -> Self {
        Shelf { one: PRefCell::new(None), two: PRefCell::new(None), weak: PRefCell::new(None) }
    }
}

#[test]
fn counts_persist_and_the_last_pointer_frees() {
    pool!(P);
    let store = store();
    let shelf = P::create::<Shelf<P>>(&store, "shelf", |_| Shelf::new()).unwrap();
    shelf
        .tx(|j, shelf| {
            let one = Prc::new(PCell::new(7), j);
            *shelf.two.borrow_mut(j) = Some(one.pclone(j));
            *shelf.weak.borrow_mut(j) = Some(one.downgrade(j));
            assert_eq!(one.counts(j), (2, 1));
            *shelf.one.borrow_mut(j) = Some(one);
        })
        .unwrap();
    assert_eq!(shelf.check().unwrap(), []);
    drop(shelf);
    let shelf = P::open::<Shelf<P>>(&store, "shelf").unwrap();
    shelf.tx(|j, shelf| *shelf.one.borrow_mut(j) = None).unwrap();
    assert_eq!(shelf.two.borrow().as_ref().unwrap().get(), 7);
    assert_eq!(shelf.check().unwrap(), []);
    let again = shelf.tx(|j, shelf| {
        let up = shelf.weak.borrow().as_ref().unwrap().upgrade(j).unwrap();
        up.set(8, j);
        up.counts(j)
    });
    assert_eq!(again.unwrap(), (2, 1), "upgraded for the moment");
    // Rolled back: the counts are as before.
    let _ = shelf.try_tx(|j, shelf| {
        *shelf.two.borrow_mut(j) = None;
        assert!(shelf.weak.borrow().as_ref().unwrap().upgrade(j).is_none());
        Err::<(), ()>(())
    });
    assert_eq!(shelf.check().unwrap(), []);
    shelf.tx(|j, shelf| *shelf.two.borrow_mut(j) = None).unwrap();
    shelf.tx(|j, shelf| assert!(shelf.weak.borrow().as_ref().unwrap().upgrade(j).is_none())).unwrap();
    assert_eq!(shelf.check().unwrap(), [], "the block lives as long as its weak pointer");
    shelf.tx(|j, shelf| *shelf.weak.borrow_mut(j) = None).unwrap();
    assert_eq!(shelf.check().unwrap(), []);
}

/// A tree whose children know their parents: no leak.
#[test]
fn a_cycle_through_weak_pointers_is_freed() {
    pool!(P);
    #[derive(PSafe)]
    #[repr(C)]
    struct Twig<P: MemPool> {
        parent: PRefCell<Option<prc::PWeak<Twig<P>, P>>, P>,
        child: PRefCell<Option<Prc<Twig<P>, P>>, P>,
        me: prc::PWeak<Twig<P>, P>,
    }
    #[allow(clippy::type_complexity)]
    #[derive(PSafe)]
    #[repr(C)]
    struct Tree<P: MemPool> {
        top: PRefCell<Option<Prc<Twig<P>, P>>, P>,
    }
    fn twig<P: MemPool>(j: &everbyte_object::Journal<P>) -> Prc<Twig<P>, P> {
        Prc::new_cyclic(|me| Twig { parent: PRefCell::new(None), child: PRefCell::new(None), me: me.pclone(j) }, j)
    }
    let store = store();
    let tree = P::create::<Tree<P>>(&store, "tree", |_| Tree { top: PRefCell::new(None) }).unwrap();
    tree.tx(|j, tree| {
        let (top, child) = (twig(j), twig(j));
        *child.parent.borrow_mut(j) = Some(top.downgrade(j));
        *top.child.borrow_mut(j) = Some(child);
        assert!(top.me.upgrade(j).unwrap().ptr_eq(&top));
        *tree.top.borrow_mut(j) = Some(top);
    })
    .unwrap();
    assert_eq!(tree.check().unwrap(), []);
    let parent = tree.tx(|j, tree| {
        let top = tree.top.borrow();
        let child = top.as_ref().unwrap().child.borrow();
        let parent = child.as_ref().unwrap().parent.borrow().as_ref().unwrap().upgrade(j).unwrap();
        parent.ptr_eq(top.as_ref().unwrap())
    });
    assert!(parent.unwrap());
    tree.tx(|j, tree| *tree.top.borrow_mut(j) = None).unwrap();
    assert_eq!(tree.check().unwrap(), []);
}

#[derive(PSafe)]
#[repr(C)]
struct Shared<P: MemPool> {
    strong: PMutex<Option<Parc<PMutex<u64, P>, P>>, P>,
    weak: PMutex<Option<PWeak<PMutex<u64, P>, P>>, P>,
    other: PMutex<Option<Parc<PMutex<u64, P>, P>>, P>,
}

impl<P: MemPool> Shared<P> {
    fn new() -> Self {
        Shared { strong: PMutex::new(None), weak: PMutex::new(None), other: PMutex::new(None) }
    }
}

/// Threads promote pointers of another thread, count in the value, and clone it: nothing is lost,
/// the counts are right.
#[test]
fn threads_share_an_object_by_volatile_weak_pointers() {
    pool!(P);
    let store = store();
    let shared = P::create::<Shared<P>>(&store, "shared", |_| Shared::new()).unwrap();
    let weak: VWeak<PMutex<u64, P>, P> = shared
        .tx(|j, shared| {
            let one = Parc::new(PMutex::new(0), j);
            let weak = one.demote(j);
            assert!(weak.promote(j).is_some(), "its own");
            *shared.strong.lock(j) = Some(one);
            weak
        })
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let weak = weak.clone();
            scope.spawn(move || {
                for _ in 0..200 {
                    P::transaction(|j| {
                        let one = weak.promote(j).expect("alive");
                        let copy = one.pclone(j);
                        *one.lock(j) += 1;
                        drop(copy);
                    })
                    .unwrap();
                }
            });
        }
    });
    shared
        .tx(|j, shared| {
            let one = shared.strong.lock(j);
            let one = one.as_ref().unwrap();
            assert_eq!((*one.lock(j), one.counts(j)), (800, (1, 0)));
        })
        .unwrap();
    assert_eq!(shared.check().unwrap(), []);
    shared.tx(|j, shared| *shared.strong.lock(j) = None).unwrap();
    assert!(P::transaction(|j| weak.promote(j).is_none()).unwrap(), "dropped");
    assert_eq!(shared.check().unwrap(), []);
}

#[test]
fn a_volatile_weak_pointer_waits_for_the_commit_and_dies_with_its_object() {
    pool!(P);
    let store = store();
    let shared = P::create::<Shared<P>>(&store, "shared", |_| Shared::new()).unwrap();
    // Sent out in the middle of the transaction that makes the object, which is then rolled back.
    let (sender, receiver) = std::sync::mpsc::channel::<VWeak<PMutex<u64, P>, P>>();
    let outcome = shared.try_tx(|j, shared| {
        let one = Parc::new(PMutex::new(1), j);
        sender.send(one.demote(j)).unwrap();
        let seen = std::thread::scope(|scope| {
            let weak = receiver.recv().unwrap();
            sender.send(weak.clone()).unwrap();
            scope.spawn(move || P::transaction(|j| weak.promote(j).is_some()).unwrap()).join().unwrap()
        });
        assert!(!seen, "not committed: no other transaction may see it");
        *shared.strong.lock(j) = Some(one);
        Err::<(), ()>(())
    });
    assert!(outcome.is_err());
    let weak = receiver.recv().unwrap();
    assert!(P::transaction(|j| weak.promote(j).is_none()).unwrap(), "rolled back");
    // Another object, most likely in the same block.
    let fresh = shared
        .tx(|j, shared| {
            let one = Parc::new(PMutex::new(2), j);
            let weak = one.demote(j);
            *shared.strong.lock(j) = Some(one);
            weak
        })
        .unwrap();
    assert!(P::transaction(|j| weak.promote(j).is_none() && fresh.promote(j).is_some()).unwrap());
    drop(shared);
    let _shared = P::open::<Shared<P>>(&store, "shared").unwrap();
    assert!(P::transaction(|j| fresh.promote(j).is_none()).unwrap(), "the pool was closed meanwhile");
}

/// The last strong pointer goes while another transaction has upgraded a weak one: one of the two
/// is rolled back, nothing dangles.
#[test]
fn an_object_that_is_being_upgraded_is_not_dropped() {
    pool!(P);
    let store = store();
    let shared = P::create::<Shared<P>>(&store, "shared", |_| Shared::new()).unwrap();
    shared
        .tx(|j, shared| {
            let one = Parc::new(PMutex::new(5), j);
            *shared.weak.lock(j) = Some(one.downgrade(j));
            *shared.strong.lock(j) = Some(one);
        })
        .unwrap();
    let (upgraded, refused) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            shared
                .tx(|j, shared| {
                    let one = shared.weak.lock(j).as_ref().unwrap().upgrade(j).unwrap();
                    upgraded.wait();
                    refused.wait();
                    assert_eq!(*one.lock(j), 5);
                    *shared.other.lock(j) = Some(one);
                })
                .unwrap();
        });
        upgraded.wait();
        let outcome = shared.tx(|j, shared| *shared.strong.lock(j) = None);
        assert!(matches!(outcome, Err(Error::Contended { .. })), "{outcome:?}");
        refused.wait();
    });
    assert_eq!(shared.check().unwrap(), []);
    shared.tx(|j, shared| *shared.strong.lock(j) = None).unwrap();
    shared.tx(|j, shared| assert_eq!(*shared.other.lock(j).as_ref().unwrap().lock(j), 5)).unwrap();
    assert_eq!(shared.check().unwrap(), []);
    shared
        .tx(|j, shared| {
            *shared.other.lock(j) = None;
            *shared.weak.lock(j) = None;
        })
        .unwrap();
    assert_eq!(shared.check().unwrap(), []);
}
