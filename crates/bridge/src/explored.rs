//! A list of C++ objects under the crash explorer: made, changed in place, destroyed and rolled
//! back through the functions that C++ calls, in the order in which `bridge.hpp` calls them.
//!
//! The program stores through plain addresses, as C++ does.

use crate::NamedRoot;
use crate::fault::{DONE, THROWN, assert_done};
use crate::foreign::{CppObject, RawObject, change, destroy, make};
use crate::handle::{Handle, Roots, transaction};
use crate::passed::RawText;
use everbyte_media::{Media, museum};
use everbyte_object::{MemPool, PSafe, PString, Pool, PoolOptions, UntypedPool, pool};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, FormatOptions, Store};
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

/// A C++ program with an open pool and its root.
struct Program {
    handle: Handle<Named<Explored>, ExploredTag>,
    /// The two words of the root's object: `List`.
    list: *mut u64,
}

/// The root's class: the number of nodes, and the offset of the first.
#[repr(C)]
struct List {
    size: u64,
    head: u64,
}

/// A node's class: a value, and the offset of the next.
#[repr(C)]
struct Node {
    value: u64,
    next: u64,
}

const LIST: &str = "root list\nlist 16 8 { size: u64 @0; head: pointer_t<node> @8 }\n";
const NODE: &str = "root node\nnode 16 8 { value: u64 @0; next: pointer_t<node> @8 }\n";

fn raw<T>(name: &'static str, description: &'static str, value: &T) -> RawObject {
    RawObject {
        name: RawText::of(name),
        description: RawText::of(description),
        bytes: (&raw const *value).cast(),
        size: size_of::<T>(),
    }
}

fn image() -> Image {
    Image::zeroed(CLUSTER).with_max(4 << 20).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let options = PoolOptions { span: Some((2 << 20).into()), lanes: Some(2) };
        let root = Explored::create_with::<Roots<Named<Explored>, Explored>>(&store, "pool", &options, |j| {
            let roots = Roots::default();
            // SAFETY: a list, which lives during the call.
            let object = unsafe { CppObject::new(raw("list", LIST, &List { size: 0, head: 0 }), &roots, j) };
            let named = Named { name: PString::from("list", j), object: object.expect("a new class") };
            roots.named.borrow_mut(j).push(named, j);
            roots
        });
        drop(root.expect("room for a pool"));
        store.close().expect("sim barriers do not fail");
    })
}

fn open(media: &Media) -> Result<Program, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let pool = Explored::open::<Roots<Named<Explored>, Explored>>(&store, "pool");
    let handle = Handle::new(pool.map_err(|error| error.to_string())?);
    let list = handle.pool.named.borrow()[0].object.address().cast_mut().cast();
    Ok(Program { handle, list })
}

/// The two words of a node: `Node`.
fn node(open: &Program, offset: u64) -> *mut u64 {
    open.handle.base().wrapping_add(offset as usize).cast_mut().cast()
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
    unsafe { transaction::<ExploredTag>((&raw mut frame).cast(), run) }
}

/// `mut`: logs a word, then stores it.
fn store(number: u64, at: *mut u64, value: u64) {
    // SAFETY: a word of an object.
    assert_done(unsafe { change::<ExploredTag>(number, at.cast(), 8) });
    // SAFETY: as above; nothing else reaches it.
    unsafe { at.write(value) };
}

fn push(open: &Program, number: u64, value: u64) {
    let (list, handle) = (open.list, (&raw const open.handle).cast());
    let [size, head] = read(list);
    let (object, mut at) = (Node { value, next: head }, std::ptr::null());
    // SAFETY: an open pool, a node that lives during the call.
    let made = unsafe { make::<Named<Explored>, ExploredTag>(handle, number, &raw("node", NODE, &object), &mut at) };
    assert_done(made);
    store(number, list.wrapping_add(1), at as u64 - open.handle.base() as u64);
    store(number, list, size + 1);
}

fn pop(open: &Program, number: u64) {
    let (list, handle) = (open.list, (&raw const open.handle).cast());
    let [size, first] = read(list);
    let [_, next] = read(node(open, first));
    store(number, list.wrapping_add(1), next);
    store(number, list, size - 1);
    // SAFETY: an open pool.
    assert_done(unsafe { destroy::<Named<Explored>, ExploredTag>(handle, number, first) });
}

fn double(open: &Program, number: u64) {
    let [_, mut next] = read(open.list);
    while next != 0 {
        let at = node(open, next);
        let [value, after] = read(at);
        store(number, at, value * 2);
        next = after;
    }
}

/// The values, newest first; as many as the root says.
fn values(open: &Program) -> Result<Vec<u64>, String> {
    let [size, mut next] = read(open.list);
    let mut values = Vec::new();
    while next != 0 && values.len() as u64 <= size {
        if open.handle.pool.objects.borrow().get(&next).is_none() {
            return Err(format!("a pointer to {next:#x}, where no object is"));
        }
        let [value, after] = read(node(open, next));
        values.push(value);
        next = after;
    }
    let owned = open.handle.pool.objects.borrow().len();
    match (values.len() as u64, owned as u64) == (size, size) {
        true => Ok(values),
        false => Err(format!("{values:?}, of {size}, and {owned} objects")),
    }
}

fn recover(media: &Media, seen: &Seen) -> Result<Vec<u64>, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let report = UntypedPool::open(&store, "pool").map_err(|error| error.to_string())?.examine(&|_| ());
    drop(store);
    if !report.is_clean() {
        return Err(format!("{report:?}"));
    }
    let open = open(media)?;
    seen.recovered();
    let found = values(&open)?;
    // Usable again; the second generation of a crash.
    assert_eq!(
        txn(|number| {
            push(&open, number, 7);
            true
        }),
        DONE
    );
    Ok(found)
}

/// `throws`: one of the transactions is rolled back.
fn explore(explorer: Explorer, throws: bool) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(),
        &Vec::new(),
        Order::InOrder,
        |media, twin| {
            let open = open(&media).expect("a whole pool");
            let step = |name: &str, change: fn(&mut Vec<u64>), returns: bool, body: &dyn Fn(u64)| {
                twin_step(twin, name, change, || {
                    let ended = txn(|number| {
                        body(number);
                        returns
                    });
                    assert_eq!(ended, if returns { DONE } else { THROWN });
                });
            };
            step("push 1", |all| all.insert(0, 1), true, &|number| push(&open, number, 1));
            step("push 2", |all| all.insert(0, 2), true, &|number| push(&open, number, 2));
            step("double", |all| all.iter_mut().for_each(|one| *one *= 2), true, &|number| double(&open, number));
            if throws {
                step("throw", |_| (), false, &|number| {
                    pop(&open, number);
                    push(&open, number, 100);
                    double(&open, number);
                });
            }
            step("pop and push", |all| all[0] = 9, true, &|number| {
                pop(&open, number);
                push(&open, number, 9);
            });
        },
        |media, seen| recover(&media, seen),
    )
}

fn twin_step(twin: &Twin<'_, Vec<u64>>, name: &str, change: fn(&mut Vec<u64>), body: impl FnOnce()) {
    twin.step_here(name, change, body);
}

/// Every transaction is whole or absent after any crash, recovery's own included, with no leak; and
/// a change whose old bytes are not logged is found.
#[test]
fn objects_of_cpp_survive_crashes_anywhere() {
    let report =
        explore(Explorer::new("bridge-list").total(1500).depth(2), true).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{report}");
    let found =
        museum::with("bridge-change-unlogged", || explore(Explorer::new("bridge-list").total(1500), false).is_err());
    assert!(found, "the seeded bug is not found");
}
