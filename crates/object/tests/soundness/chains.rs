//! Long chains: nothing recurses as deep as data says. `EVERBYTE_CHAIN` says how many links (a soak asks for a million).

use crate::common::store;
use everbyte_object::{Journal, MemPool, PBTreeMap, PHashMap, PRefCell, PSafe, PVec, Pbox, Pool, Prc, pool};
use std::sync::{Mutex, PoisonError};

/// A link holds the next one in one of many ways.
#[derive(PSafe)]
#[repr(u8)]
enum Link<P: MemPool> {
    End,
    Boxed(Pbox<Link<P>, P>),
    Vector(PVec<Link<P>, P>),
    Hashed(PHashMap<u64, Link<P>, P>),
    Ordered(PBTreeMap<u64, Link<P>, P>),
    Counted(Prc<Link<P>, P>),
}

/// Puts a link before another.
fn link<P: MemPool>(kind: usize, next: Link<P>, j: &Journal<P>) -> Link<P> {
    match kind {
        0 => Link::Boxed(Pbox::new(next, j)),
        1 => Link::Vector(PVec::from_iter([next], j)),
        2 => {
            let mut map = PHashMap::new();
            map.insert(1, next, j);
            Link::Hashed(map)
        }
        3 => {
            let mut map = PBTreeMap::new();
            map.insert(1, next, j);
            Link::Ordered(map)
        }
        _ => Link::Counted(Prc::new(next, j)),
    }
}

fn links() -> usize {
    std::env::var("EVERBYTE_CHAIN").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000)
}

/// Makes chains, checks them and drops them, with little stack; `kinds` are taken in turn.
fn with_little_stack(kinds: &'static [usize]) {
    static TURN: Mutex<()> = Mutex::new(()); // one pool type for all of them
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let run = move || {
        pool!(P);
        let store = store();
        let root = P::create::<PRefCell<Link<P>, P>>(&store, "chain", |_| PRefCell::new(Link::End)).unwrap();
        for part in 0..links().div_ceil(1000) {
            let more = |number: usize| kinds[(part + number) % kinds.len()];
            root.tx(|j, root| {
                let mut root = root.borrow_mut(j);
                for number in 0..1000 {
                    let next = std::mem::replace(&mut *root, Link::End);
                    *root = link(more(number), next, j);
                }
            })
            .unwrap();
        }
        assert_eq!(root.check().unwrap(), []);
        let report = root.examine(&|_| ()).unwrap();
        assert!(report.reached.blocks > links() as u64, "{report:?}");
        root.tx(|j, root| *root.borrow_mut(j) = Link::End).unwrap();
        assert_eq!(root.check().unwrap(), []);
        assert!(root.examine(&|_| ()).unwrap().reached.blocks < 10, "all of it is freed");
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap();
}

#[test]
fn a_long_chain_of_boxes_needs_no_stack() {
    with_little_stack(&[0]);
}

#[test]
fn a_long_chain_of_vectors_needs_no_stack() {
    with_little_stack(&[1]);
}

#[test]
fn a_long_chain_of_hash_maps_needs_no_stack() {
    with_little_stack(&[2]);
}

#[test]
fn a_long_chain_of_ordered_maps_needs_no_stack() {
    with_little_stack(&[3]);
}

#[test]
fn a_long_chain_of_counted_pointers_needs_no_stack() {
    with_little_stack(&[4]);
}

#[test]
fn a_long_chain_of_all_of_them_needs_no_stack() {
    with_little_stack(&[0, 1, 2, 3, 4]);
}
