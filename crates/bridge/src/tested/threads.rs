//! Threads of C++ over one pool: each has a list of its own, and all share the pool's record of
//! classes and objects (HANDLE-3).

use super::*;
use crate::fault::FAILED;
use crate::handle::close_root;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const NAMES: [&str; 2] = ["first", "second"];
const ROUNDS: u64 = 300;

/// As C++ shares it: by addresses.
#[derive(Clone, Copy)]
struct ThreadList(List);

// SAFETY: each thread has a list of its own, and the functions of the bridge may be called by any.
unsafe impl Send for ThreadList {}

impl ThreadList {
    fn run(self) {
        let ThreadList(list) = self;
        for round in 0..ROUNDS {
            let ended = txn(|number| {
                list.push(number, round);
                if round % 3 == 2 {
                    list.pop(number);
                    list.pop(number);
                }
                round % 5 != 4
            });
            assert_eq!(ended, if round % 5 == 4 { THROWN } else { DONE });
        }
    }
}

/// The values after [`ThreadList::run`].
fn expected() -> Vec<u64> {
    let mut values = Vec::new();
    for round in (0..ROUNDS).filter(|round| round % 5 != 4) {
        values.insert(0, round);
        if round % 3 == 2 {
            values.drain(..2);
        }
    }
    values
}

/// Each thread finds its own list as it left it, and the pool owns every object once.
#[test]
fn threads_make_and_destroy_objects_of_one_pool() {
    let _alone = alone();
    let (_store, handle) = made();
    let lists = NAMES.map(|name| list(&handle, name));
    thread::scope(|scope| {
        for list in lists {
            let shared = ThreadList(list);
            scope.spawn(move || shared.run());
        }
    });
    for list in lists {
        assert_eq!(list.nodes().iter().map(|(_, value)| *value).collect::<Vec<_>>(), expected());
    }
    let reached: BTreeSet<u64> = lists.iter().flat_map(|list| list.nodes()).map(|(at, _)| at).collect();
    assert_eq!(owned(&handle).unwrap(), reached);
    let report = handle.pool.examine(&|_| ()).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// A thread that ends a root inside of a transaction does not wait for one that opens a root, which
/// waits for that transaction.
#[test]
fn a_root_ends_inside_of_a_transaction_while_another_is_opened() {
    let _alone = alone();
    let (_store, handle) = made();
    let (first, second) = (list(&handle, "first"), list(&handle, "second"));
    let address = (&raw const handle) as usize;
    thread::scope(|scope| {
        let ended = txn(|number| {
            first.push(number, 1); // takes the lock of objects
            scope.spawn(move || {
                // SAFETY: the handle above, which outlives the scope; C++ shares it by its address.
                list(unsafe { &*(address as *const OwnHandle) }, "third");
            });
            thread::sleep(std::time::Duration::from_millis(20));
            // SAFETY: an open pool, and its root.
            assert_done(unsafe { close_root::<Named<Explored>, ExploredTag>(second.handle, second.at.cast()) });
            true
        });
        assert_eq!(ended, DONE);
    });
}

/// Of two threads that open a root at once, one finds or makes it, and the other is refused
/// (HANDLE-2, HANDLE-3).
#[test]
fn one_of_two_threads_opens_a_root() {
    let _alone = alone();
    let (_store, handle) = made();
    let list = list(&handle, "list");
    let (address, at) = (list.handle.expose_provenance(), list.at.expose_provenance());
    let (found, together) = (AtomicUsize::new(0), Barrier::new(2));
    let open = || {
        let find = |_: &OwnHandle, _: &str| {
            found.fetch_add(1, Ordering::Relaxed);
            thread::sleep(std::time::Duration::from_millis(20)); // the other one comes meanwhile
            Ok::<*const c_void, Fault>(std::ptr::with_exposed_provenance(at))
        };
        together.wait();
        let (handle, name, mut out) =
            (std::ptr::with_exposed_provenance::<c_void>(address), RawText::of("new"), std::ptr::null::<c_void>());
        // SAFETY: an open pool, which outlives the scope; a place that lives during the call; an
        // object that the pool keeps.
        unsafe { root::<Named<Explored>, ExploredTag>(handle, name, &mut out, find) }
    };
    let mut ended = thread::scope(|scope| [scope.spawn(open), scope.spawn(open)].map(|one| one.join().unwrap()));
    ended.sort_unstable();
    assert_eq!((ended, found.into_inner()), ([DONE, FAILED], 1));
}

/// A change on the pool's first page, and a pool that was closed, are refused, and doom their
/// transaction.
#[test]
fn a_null_pointer_and_a_closed_pool_are_refused() {
    let _alone = alone();
    let (_store, handle) = made();
    let list = list(&handle, "list");
    for offset in [0, 128, 4096 - 8, 4096 - 4, usize::MAX, 1 << 40] {
        let ended = txn(|number| {
            list.push(number, 1);
            // SAFETY: no object; nothing is stored.
            let refused = unsafe { change::<ExploredTag>(number, list.base.wrapping_add(offset).cast(), 8) };
            assert_failed(refused, "the pointer is null");
            true
        });
        assert_failed(ended, "a nested transaction failed");
    }
    let closed = List { handle: std::ptr::null(), ..list };
    let ended = txn(|number| {
        let (object, mut at) = (NodeClass { value: 1, next: 0 }, std::ptr::null());
        // SAFETY: no pool; a node that lives during the call.
        let made = unsafe {
            make::<Named<Explored>, ExploredTag>(closed.handle, number, &raw("node", NODE, &object), &mut at)
        };
        assert_failed(made, "pool type `Explored`: the pool was closed");
        // SAFETY: as above.
        let gone = unsafe { destroy::<Named<Explored>, ExploredTag>(closed.handle, number, 1) };
        assert_failed(gone, "pool type `Explored`: the pool was closed");
        true
    });
    assert_eq!(ended, DONE);
    assert_eq!(list.nodes(), []);
}
