//! Long chains: nothing recurses as deep as data says. With `EVERBYTE_SOAK` set,
//! chains have a million links.

use crate::common::large_store;
use everbyte_media::museum;
use everbyte_object::{
    Journal, MemPool, PBTreeMap, PHashMap, PRefCell, PSafe, PVec, Pbox, Pool, Prc, Root, UntypedPool, pool,
};
use everbyte_store::Store;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
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
    everbyte_workload::long_or(20_000, 1_000_000) as usize
}

/// The stack of a chain's thread.
const STACK: usize = 256 << 10;

/// Runs `body` with little stack, one at a time: one pool type is for all of them.
fn with_little_stack(body: impl FnOnce() + Send) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn_scoped(scope, museum::carried(body)).unwrap().join().unwrap();
    });
}

pool!(P);

type Chain = Root<PRefCell<Link<P>, P>, P>;

/// Puts that many links before the chain.
fn lengthen(root: &Chain, kinds: &[usize], links: usize) {
    for part in 0..links.div_ceil(1000) {
        let more = |number: usize| kinds[(part + number) % kinds.len()];
        root.tx(|j, root| {
            let mut root = root.borrow_mut(j);
            for number in 0..1000.min(links - part * 1000) {
                let next = std::mem::replace(&mut *root, Link::End);
                *root = link(more(number), next, j);
            }
        })
        .unwrap();
    }
}

fn create(store: &Store) -> Chain {
    P::create::<PRefCell<Link<P>, P>>(store, "chain", |_| PRefCell::new(Link::End)).unwrap()
}

fn open(store: &Store) -> Chain {
    P::open::<PRefCell<Link<P>, P>>(store, "chain").unwrap()
}

/// Makes a chain, opens and checks it, drops it, makes it again, forgets it and repairs; `kinds`
/// are taken in turn.
fn live_and_die(kinds: &'static [usize]) {
    with_little_stack(|| {
        let (links, store) = (links(), large_store());
        let root = create(&store);
        lengthen(&root, kinds, links);
        drop(root);
        let report = UntypedPool::open(&store, "chain").unwrap().examine(&|_| ());
        assert!(report.is_clean() && report.reached.blocks > links as u64, "{report:?}");
        let root = open(&store);
        assert_eq!(root.check().unwrap(), []);
        root.tx(|j, root| *root.borrow_mut(j) = Link::End).unwrap();
        assert_eq!(root.check().unwrap(), []);
        assert!(root.examine(&|_| ()).unwrap().reached.blocks < 10, "all of it is freed");
        lengthen(&root, kinds, links);
        root.tx(|j, root| std::mem::forget(root.replace(Link::End, j))).unwrap();
        drop(root);
        let mut root = open(&store);
        let plan = root.plan_repair(&|_| ()).unwrap();
        assert!(plan.leaks().count() >= links, "{}", plan.leaks().count());
        root.repair(plan.token(), &|_| ()).unwrap();
        assert_eq!(root.check().unwrap(), []);
        assert!(root.examine(&|_| ()).unwrap().reached.blocks < 10, "all of it is reclaimed");
    });
}

/// A circle of strong pointers that nothing leads to any more.
#[test]
fn a_long_circle_is_reclaimed_without_stack() {
    #[derive(PSafe)]
    #[repr(C)]
    struct Node<P: MemPool> {
        next: PRefCell<Option<Prc<Node<P>, P>>, P>,
    }
    with_little_stack(|| {
        let (links, store) = (links(), large_store());
        type Place = PRefCell<Option<Prc<Node<P>, P>>, P>;
        let mut root = P::create::<Place>(&store, "circle", |_| PRefCell::new(None)).unwrap();
        root.tx(|j, root| *root.borrow_mut(j) = Some(Prc::new(Node { next: PRefCell::new(None) }, j))).unwrap();
        // The first stays the last; the root leads to the newest.
        let first = root.tx(|j, root| root.borrow().as_ref().unwrap().demote(j)).unwrap();
        for _ in 0..links.div_ceil(1000) {
            root.tx(|j, root| {
                let mut root = root.borrow_mut(j);
                for _ in 0..1000 {
                    let next = root.take();
                    *root = Some(Prc::new(Node { next: PRefCell::new(next) }, j));
                }
            })
            .unwrap();
        }
        root.tx(|j, root| {
            let newest = root.borrow_mut(j).take();
            *first.promote(j).unwrap().next.borrow_mut(j) = newest;
        })
        .unwrap();
        let leaked = root.examine(&|_| ()).unwrap().leaked.blocks;
        assert!(leaked >= links as u64, "{leaked}");
        let token = root.plan_repair(&|_| ()).unwrap().token();
        root.repair(token, &|_| ()).unwrap();
        assert_eq!(root.check().unwrap(), []);
        assert!(root.examine(&|_| ()).unwrap().reached.blocks < 10);
    });
}

/// Destructors that recurse would overflow the stack that the other tests here have, with far fewer
/// links. Each chain dies in a process of its own.
#[test]
fn recursive_destructors_would_overflow_that_stack() {
    const BUG: &str = "EVERBYTE_RECURSIVE_CHAIN";
    if let Ok(kind) = std::env::var(BUG) {
        let kind: usize = kind.parse().unwrap();
        let run = || {
            let store = large_store();
            let root = create(&store);
            lengthen(&root, &[kind], 20_000); // as many as in the usual run
            root.tx(|j, root| *root.borrow_mut(j) = Link::End).unwrap();
        };
        return museum::with("object-drop-recurses", || with_little_stack(run));
    }
    for kind in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let name = "chains::recursive_destructors_would_overflow_that_stack";
        let output = child.args([name, "--exact"]).env(BUG, kind.to_string()).output().unwrap();
        assert!(output.status.signal().is_some(), "kind {kind}: {output:?}");
    }
}

#[test]
fn a_long_chain_of_boxes_needs_no_stack() {
    live_and_die(&[0]);
}

#[test]
fn a_long_chain_of_vectors_needs_no_stack() {
    live_and_die(&[1]);
}

#[test]
fn a_long_chain_of_hash_maps_needs_no_stack() {
    live_and_die(&[2]);
}

#[test]
fn a_long_chain_of_ordered_maps_needs_no_stack() {
    live_and_die(&[3]);
}

#[test]
fn a_long_chain_of_counted_pointers_needs_no_stack() {
    live_and_die(&[4]);
}

#[test]
fn a_long_chain_of_all_of_them_needs_no_stack() {
    live_and_die(&[0, 1, 2, 3, 4]);
}
