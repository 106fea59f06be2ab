//! A C++ program for tests: lists of objects, by the functions that C++ calls, in the order in
//! which `bridge.hpp` calls them. It stores through plain addresses, as C++ does.

mod checks;
mod counted;
mod deep;
mod destroyed;
mod ends;
mod explored;
mod threads;
mod thrown;

use crate::fault::{DONE, THROWN, assert_done, assert_failed};
use crate::foreign::{CppObject, RawObject, change, destroy, make};
use crate::handle::{Handle, Roots, announce, root, transaction};
use crate::passed::RawText;
use crate::{Fault, NamedRoot};
use everbyte_media::{Media, Options};
use everbyte_object::{MemPool, PSafe, PString, Pool, pool};
use everbyte_store::{FormatOptions, Store};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::ffi::c_void;

pool!(Explored);

/// A named root of a class of C++, as `library!` makes it.
#[derive(PSafe)]
#[repr(C)]
struct Named<P: MemPool> {
    name: PString<P>,
    object: CppObject<P>,
}

impl<P: MemPool> NamedRoot for Named<P> {
    fn name(&self) -> &str {
        &self.name
    }
}

type OwnRoots = Roots<Named<Explored>, Explored>;
type OwnHandle = Handle<Named<Explored>, ExploredTag>;

/// Held by each test: one pool at a time is open under a pool type.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

/// A list that is a root of an open pool.
#[derive(Clone, Copy)]
struct List {
    /// As C++ holds it.
    handle: *const c_void,
    base: *const u8,
    /// The two words of the root's object: [`ListClass`].
    at: *mut u64,
}

/// The root's class: the number of nodes, and the offset of the first.
#[repr(C)]
struct ListClass {
    size: u64,
    head: u64,
}

/// A node's class: a value, and the offset of the next.
#[repr(C)]
struct NodeClass {
    value: u64,
    next: u64,
}

const LIST: &str = "root list\nlist 16 8 { size: u64 @0; head: pointer_t<node> @8 }\nnode 16 8 { value: u64 @0; next: pointer_t<node> @8 }\n";
const NODE: &str = "root node\nnode 16 8 { value: u64 @0; next: pointer_t<node> @8 }\n";

fn raw<T>(name: &'static str, description: &'static str, value: &T) -> RawObject {
    RawObject {
        name: RawText::of(name),
        description: RawText::of(description),
        bytes: (&raw const *value).cast(),
        size: size_of::<T>(),
        has_destructor: 0,
    }
}

/// Opens the pool called `pool`.
fn open(store: &Store) -> Result<OwnHandle, String> {
    let pool = Explored::open::<OwnRoots>(store, "pool").map_err(|error| error.to_string())?;
    Ok(Handle::new(pool))
}

/// A new store in memory with an open pool.
fn made() -> (Store, OwnHandle) {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    drop(Explored::create::<OwnRoots>(&store, "pool", |_| Roots::default()).unwrap());
    let handle = open(&store).unwrap();
    (store, handle)
}

/// The root of that name, which can be opened.
fn list(handle: &OwnHandle, name: &'static str) -> List {
    let mut at = std::ptr::null();
    assert_done(open_list(handle, name, &mut at));
    List { handle: (&raw const *handle).cast(), base: handle.base(), at: at.cast_mut().cast() }
}

/// Opens the root of that name, made if there is none: the function `cpp_root` of `library!`.
fn open_list(handle: &OwnHandle, name: &'static str, at: &mut *const c_void) -> u32 {
    let handle: *const c_void = (&raw const *handle).cast();
    announce::<ExploredTag>(handle);
    let find = |handle: &OwnHandle, name: &str| {
        let found = handle.pool.try_tx(|j, roots| {
            let first = ListClass { size: 0, head: 0 };
            let value = raw("list", LIST, &first);
            let found = |one: &Named<_>| {
                // SAFETY: a list, which lives during the call.
                unsafe { one.object.require(name, value, roots, j) }?;
                Ok(one.object.address())
            };
            roots.find_or_add(name, j, found, |name| {
                // SAFETY: as above.
                let object = unsafe { CppObject::new(value, roots, j) }?;
                let at = object.address();
                Ok((Named { name, object }, at))
            })
        });
        found.map_err(Fault::of_transaction)
    };
    // SAFETY: an open pool; a name and a place that live during the call.
    unsafe { root::<Named<Explored>, ExploredTag>(handle, RawText::of(name), at, find) }
}

/// Both words of an object.
fn read(at: *const u64) -> [u64; 2] {
    // SAFETY: an object of two words, which nothing changes meanwhile.
    unsafe { at.cast::<[u64; 2]>().read() }
}

/// The transaction of a C++ lambda: `body` gets its number, and answers whether it returns.
fn txn(mut body: impl FnMut(u64) -> bool) -> u32 {
    unsafe extern "C" fn run(frame: *mut c_void, number: u64) -> u32 {
        // SAFETY: the frame below, during the call.
        let body = unsafe { &mut *frame.cast::<&mut dyn FnMut(u64) -> bool>() };
        if body(number) { DONE } else { THROWN }
    }
    let mut frame: &mut dyn FnMut(u64) -> bool = &mut body;
    // SAFETY: `run` reads the frame during the call, and does not unwind.
    unsafe { transaction::<ExploredTag>((&raw mut frame).cast(), Some(run)) }
}

/// `mut`: logs a word, then stores it.
fn store(number: u64, at: *mut u64, value: u64) {
    // SAFETY: a word of an object.
    assert_done(unsafe { change::<ExploredTag>(number, at.cast(), 8) });
    // SAFETY: as above; nothing else reaches it.
    unsafe { at.write(value) };
}

impl List {
    /// The two words of a node: [`NodeClass`].
    fn node(self, offset: u64) -> *mut u64 {
        self.base.wrapping_add(offset as usize).cast_mut().cast()
    }

    fn push(self, number: u64, value: u64) {
        let [size, head] = read(self.at);
        let (object, mut at) = (NodeClass { value, next: head }, std::ptr::null());
        // SAFETY: an open pool, a node that lives during the call.
        let made =
            unsafe { make::<Named<Explored>, ExploredTag>(self.handle, number, &raw("node", NODE, &object), &mut at) };
        assert_done(made);
        store(number, self.at.wrapping_add(1), at as u64 - self.base as u64);
        store(number, self.at, size + 1);
    }

    fn pop(self, number: u64) {
        let [size, first] = read(self.at);
        let [_, next] = read(self.node(first));
        store(number, self.at.wrapping_add(1), next);
        store(number, self.at, size - 1);
        // SAFETY: an open pool.
        assert_done(unsafe { destroy::<Named<Explored>, ExploredTag>(self.handle, number, first) });
    }

    fn double(self, number: u64) {
        let [_, mut next] = read(self.at);
        while next != 0 {
            let at = self.node(next);
            let [value, after] = read(at);
            store(number, at, value * 2);
            next = after;
        }
    }

    /// The offsets of the nodes, with their values, newest first; as many as the root says.
    fn nodes(self) -> Vec<(u64, u64)> {
        let [size, mut next] = read(self.at);
        let mut nodes = Vec::new();
        while next != 0 && nodes.len() as u64 <= size {
            let [value, after] = read(self.node(next));
            nodes.push((next, value));
            next = after;
        }
        nodes
    }
}

/// The offsets of the objects that the pool owns.
fn owned(handle: &OwnHandle) -> Result<BTreeSet<u64>, String> {
    let owned = handle.pool.read(|reader, roots| roots.owned.get(reader).objects.iter().map(|(at, _)| *at).collect());
    owned.map_err(|error| error.to_string())
}
