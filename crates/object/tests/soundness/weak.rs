//! Volatile weak pointers, when the transaction that made their objects, or dropped them, does not
//! end as it should (COUNT-3).

use crate::common::store;
use everbyte_object::parc::VWeak;
use everbyte_object::{Error, MemPool, PMutex, PSafe, PVec, Parc, Pbox, Pool, PoolOptions, Root, pool};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

/// Panics when it is dropped, unless a panic is under way.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in a destructor");
        }
    }
}

type Object<P> = PMutex<[u64; 6], P>;

#[derive(PSafe)]
#[repr(C)]
struct Shelf<P: MemPool> {
    kept: PMutex<Option<Parc<Object<P>, P>>, P>,
    small: PMutex<PVec<Pbox<[u64; 8], P>, P>, P>,
    filling: PMutex<PVec<PVec<u8, P>, P>, P>,
}

impl<P: MemPool> Shelf<P> {
    fn new() -> Self {
        Shelf { kept: PMutex::new(None), small: PMutex::default(), filling: PMutex::default() }
    }
}

#[test]
fn a_payload_error_or_result_that_panics_when_dropped_is_no_commit() {
    pool!(P);
    let is_there = |root: &Root<Shelf<P>, P>, weak: &VWeak<Object<P>, P>| {
        root.tx(|j, _| weak.promote(j).map(|strong| *strong.lock(j))).unwrap()
    };
    for how in ["panics", "fails", "is doomed"] {
        let store = store();
        let root = P::create::<Shelf<P>>(&store, "x", |_| Shelf::new()).unwrap();
        let old = root.tx(|j, r| r.kept.lock(j).insert(Parc::new(PMutex::new([7; 6]), j)).demote(j)).unwrap();
        let mut new = None;
        let end = catch_unwind(AssertUnwindSafe(|| {
            let outcome = root.try_tx(|j, r| {
                let made = Parc::new(PMutex::new([1; 6]), j);
                new = Some(made.demote(j));
                *r.kept.lock(j) = Some(made);
                match how {
                    "panics" => panic_any(Bomb),
                    "fails" => Err(Bomb),
                    _ => {
                        j.nested(|_| panic!("caught")).unwrap_err();
                        Ok(Bomb)
                    }
                }
            });
            assert!(outcome.is_err());
        }));
        assert!(end.is_err(), "the destructor's panic comes out");
        assert_eq!(is_there(&root, &new.unwrap()), None, "{how}: it never was");
        assert_eq!(is_there(&root, &old), Some([7; 6]), "{how}: it is as it was");
        assert_eq!(root.check().unwrap(), [], "{how}");
        root.tx(|j, r| *r.kept.lock(j) = None).unwrap();
    }
}

#[test]
fn a_root_dropped_in_a_body_whose_payload_panics_is_closed_all_the_same() {
    pool!(P);
    let store = store();
    let root = P::create::<PMutex<u64, P>>(&store, "x", |_| PMutex::new(0)).unwrap();
    let end = catch_unwind(AssertUnwindSafe(|| {
        P::transaction(move |_| {
            drop(root);
            panic_any(Bomb)
        })
    }));
    assert!(end.is_err(), "the destructor's panic comes out");
    assert!(matches!(P::transaction(|_| ()), Err(Error::Closed { .. })));
    drop(P::open::<PMutex<u64, P>>(&store, "x").unwrap());
}

#[test]
fn a_commit_that_fails_for_want_of_room_leaves_no_pointer_to_what_it_made() {
    pool!(P);
    const MANY: usize = 1500; // more operations than a lane holds
    let store = store();
    let options = PoolOptions { span: Some((1 << 20).into()), lanes: Some(1) };
    let root = P::create_with::<Shelf<P>>(&store, "x", &options, |_| Shelf::new()).unwrap();
    let old = root.tx(|j, r| {
        r.small.lock(j).extend((0..MANY as u64).map(|n| Pbox::new([n; 8], j)), j);
        r.filling.lock(j).reserve(4000, j);
        r.kept.lock(j).insert(Parc::new(PMutex::new([7; 6]), j)).demote(j)
    });
    let old = old.unwrap();
    let fill = |size: usize| {
        let filled = root.tx(|j, r| r.filling.lock(j).push(PVec::from_iter((0..size).map(|_| 0), j), j));
        filled.is_ok()
    };
    for size in [64 << 10, 16 << 10, 4 << 10, 1 << 10, 256, 128, 64, 16] {
        while fill(size) {}
    }
    // Room for two objects, and none to note many operations in.
    root.tx(|j, r| r.small.lock(j).truncate(MANY - 2, j)).unwrap();
    let mut new = None;
    let outcome = root.tx(|j, r| {
        r.small.lock(j).clear(j);
        let made = Parc::new(PMutex::new([1; 6]), j);
        new = Some(made.demote(j));
        *r.kept.lock(j) = Some(made);
    });
    assert!(matches!(&outcome, Err(Error::Tx(_))), "the commit fails: {outcome:?}");
    let new = new.expect("the body came to its end");
    let there = |weak: &VWeak<Object<P>, P>| root.tx(|j, _| weak.promote(j).map(|strong| strong.lock(j)[0])).unwrap();
    assert_eq!(there(&new), None, "what was made in vain never was");
    assert_eq!(there(&old), Some(7), "what was dropped in vain is there");
    assert_eq!(root.check().unwrap(), []);
    // Others get the block.
    root.tx(|j, r| *r.kept.lock(j) = Some(Parc::new(PMutex::new([3; 6]), j))).unwrap();
    assert_eq!(there(&new), None, "another object in its block has another number");
}
