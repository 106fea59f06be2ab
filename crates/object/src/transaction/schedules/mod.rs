//! Threads on one pool, in the orders that shuttle chooses: the locks, counts and weak pointers of
//! this crate themselves, with shuttle's locks under them (`sync`).
//!
//! A *program* makes a pool, runs threads on it and asserts (`everbyte_workload::schedules`).
//!
//! Crates below are not scheduled: their work between two locks of this crate is one step.

mod counts;
mod locks;
mod returns;

use crate::hidden::{Current, Slot};
use crate::{Journal, MemPool, Out, PSafe, Pool, PoolOptions, PoolTag, Root};
use everbyte_media::{Media, Options, museum};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::schedules::{explore, fails};
use std::cell::Cell;

/// The tag of the pools of all programs; its slot is new in every execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Tag;
type P = Out<Tag>;

thread_local! {
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
}
shuttle::thread_local! {
    static CURRENT: Current = Current::new();
}

// SAFETY: one slot in an execution, all of whose threads are one thread of the system; shuttle
// keeps `CURRENT` apart.
unsafe impl PoolTag for Tag {
    const NAME: &'static str = "Scheduled";

    fn slot() -> &'static Slot {
        SLOT.get().expect("`pool` was called")
    }

    fn current<T>(with: impl FnOnce(&Current) -> T) -> T {
        CURRENT.with(with)
    }
}

/// A pool in memory, with its store.
fn pool<R: PSafe<P>>(init: impl for<'tx> FnOnce(&'tx Journal<<P as MemPool>::At<'tx>>) -> R::At<'tx>) -> Root<R, P> {
    pool_on(Media::anonymous(4 << 20, &Options::default()).expect("memory"), init)
}

fn pool_on<R: PSafe<P>>(
    media: Media,
    init: impl for<'tx> FnOnce(&'tx Journal<<P as MemPool>::At<'tx>>) -> R::At<'tx>,
) -> Root<R, P> {
    SLOT.set(Some(Box::leak(Box::new(Slot::new()))));
    let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([5; 16]) }).expect("a store");
    let options = PoolOptions { span: Some((2 << 20).into()), lanes: Some(8) }; // more lanes than threads
    P::create_with::<R>(&store, "pool", &options, init).expect("room for a pool")
}

/// Demands that a program which passes fails with a seeded bug.
fn finds(bug: &'static str, program: fn()) {
    assert!(museum::with(bug, || fails(program)), "`{bug}` was not found");
}
