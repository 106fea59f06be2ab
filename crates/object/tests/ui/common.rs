//! Shared by the programs beside this file: two pools, the list of all examples, and a wrapper that
//! fakes `Send`. Nothing here is run; the programs are only compiled.
#![allow(dead_code, unused_imports)]

pub use everbyte_object::*;
pub use std::any::Any;
pub use std::cell::{Cell, OnceCell, RefCell, UnsafeCell};
pub use std::collections::HashMap;
pub use std::panic::AssertUnwindSafe;
pub use std::rc::Rc;
pub use std::sync::atomic::AtomicU64;
pub use std::sync::{Arc, Mutex, OnceLock, mpsc};
pub use std::thread;

pool!(pub P1, pub P2);

#[derive(PSafe)]
#[repr(C)]
pub struct Node<T: PSafe<P>, P: MemPool> {
    pub val: T,
    pub next: Link<T, P>,
}

pub type Link<T, P> = PRefCell<Option<Pbox<Node<T, P>, P>>, P>;
pub type List = Node<i32, P1>;
/// A root that threads share, with a place for one box.
pub type Slot = PMutex<Option<Pbox<u32, P1>>, P1>;

pub fn node<T: PSafe<P>, P: MemPool>(val: T) -> Node<T, P> {
    Node { val, next: PRefCell::new(None) }
}

pub fn append<T: PSafe<P>, P: MemPool>(n: &Node<T, P>, v: T, j: &Journal<P>) {
    let mut t = n.next.borrow_mut(j);
    match &*t {
        Some(succ) => append(succ, v, j),
        None => *t = Some(Pbox::new(node(v), j)),
    }
}

/// Any root; the list.
pub fn root<R: PSafe<P>, P: MemPool>() -> Root<R, P> {
    panic!()
}

pub fn list() -> Root<List, P1> {
    root()
}

/// As crates that let a value travel and check the thread when it is used: a safe interface.
pub struct Ferry<T>(T, thread::ThreadId);
unsafe impl<T> Send for Ferry<T> {}
unsafe impl<T> Sync for Ferry<T> {}

impl<T> Ferry<T> {
    pub fn new(value: T) -> Ferry<T> {
        Ferry(value, thread::current().id())
    }
    pub fn get(&self) -> &T {
        assert!(self.1 == thread::current().id());
        &self.0
    }
}

pub fn sendable<T: Send>(_: T) {}
