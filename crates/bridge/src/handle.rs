//! Open pools of C++ programs: opening, named roots, transactions.
//!
//! Invariants
//!   HANDLE-1  A root's address is valid from [`root`] to [`close_root`]: the roots of a pool are
//!             never freed, the handle keeps the pool open, and C++ closes it after its roots.
//!   HANDLE-2  A root is open once.
//!   HANDLE-3  Threads of C++ reach a handle by its address, whatever Rust says of its types. The
//!             parts of [`Roots`] that they change lie behind locks: [`Owned`] behind one that is
//!             held to the end of the transaction, `named` behind [`Handle::finding`], which is
//!             held while a root is found and never inside of a transaction of the pool.
//!   HANDLE-4  The bytes of a handle are valid while a transaction of any thread runs: dropping the
//!             pool waits for those of other threads, and a handle that is closed inside of a
//!             transaction keeps its bytes.
//!   HANDLE-5  A handle that C++ passes is compared with those of the open pools of its type before
//!             it is read.
//!   HANDLE-6  Before this thread's transaction is read its place on the stack, which the thread
//!             keeps, is compared with that of the caller: `longjmp` may have freed it.

use crate::Fault;
use crate::calls::guarded;
use crate::destructors::Outermost;
use crate::fault::DONE;
use crate::foreign::{CppObject, CppType};
use crate::passed::{RawText, require_place};
use everbyte_media::{ErrorKind, Options, chosen, seeded};
use everbyte_object::hidden::Current;
use everbyte_object::raw::{Raw, base_of, require_opener, with_current};
use everbyte_object::{
    In, Journal, MemPool, Out, PBTreeMap, PMutex, PRefCell, PSafe, PString, PVec, Pool, PoolTag, Root,
};
use everbyte_store::{CreateOptions, Store};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::Path;

/// The root of every pool of the bridge. Format: docs/formats/bridge.md.
#[derive(PSafe)]
#[repr(C)]
pub struct Roots<E: PSafe<P>, P: MemPool> {
    /// The roots that have names, in the order in which they were made.
    pub named: PRefCell<PVec<E, P>, P>,
    /// The classes and objects of C++. Transactions of any thread change them: a lock (HANDLE-3).
    pub owned: PMutex<Owned<P>, P>,
}

/// The classes and objects of C++.
#[derive(PSafe)]
#[repr(C)]
pub struct Owned<P: MemPool> {
    /// The classes (FOREIGN-1).
    pub types: PVec<CppType<P>, P>,
    /// Objects that C++ has made, by their offsets in the pool.
    pub objects: PBTreeMap<u64, CppObject<P>, P>,
}

impl<E: PSafe<P>, P: MemPool> Default for Roots<E, P> {
    fn default() -> Self {
        let owned = Owned { types: PVec::new(), objects: PBTreeMap::new() };
        Roots { named: PRefCell::new(PVec::new()), owned: PMutex::new(owned) }
    }
}

/// A named root; made by `library!`.
pub trait NamedRoot {
    /// The name.
    fn name(&self) -> &str;
}

/// A named root that may hold a `T`; made by `library!`.
pub trait AsObject<T> {
    /// The object, if it is a `T`.
    fn as_object(&self) -> Option<&T>;
}

/// The tag of a pool type that a library exports to C++; made by `library!`.
pub trait Exported: PoolTag {
    /// A named root of it.
    type Named: PSafe<Out<Self>> + NamedRoot;
}

/// The root of the pool type `P`, which a library exports. Rust opens such a pool as
/// `P::open::<RootsOf<P>>`.
pub type RootsOf<P> = Roots<<<P as MemPool>::Tag as Exported>::Named, P>;

impl<E: PSafe<P> + NamedRoot, P: MemPool> Roots<E, P> {
    /// Runs `read` on the root of that name; `None` if there is none, or it is no `T`.
    pub fn with<T, O>(&self, name: &str, read: impl FnOnce(&T) -> O) -> Option<O>
    where
        E: AsObject<T>,
    {
        let named = self.named.borrow();
        named.iter().find(|one| one.name() == name)?.as_object().map(read)
    }

    /// The result of `found` for the root of that name, or of `make` for a new one, which is added.
    ///
    /// # Errors
    /// Theirs.
    #[doc(hidden)]
    pub fn find_or_add<O>(
        &self,
        name: &str,
        j: &Journal<P>,
        found: impl FnOnce(&E) -> Result<O, Fault>,
        make: impl FnOnce(PString<P>) -> Result<(E, O), Fault>,
    ) -> Result<O, Fault> {
        let known = self.named.borrow();
        if let Some(one) = known.iter().find(|one| one.name() == name) {
            return found(one);
        }
        drop(known);
        let (one, result) = make(PString::from(name, j))?;
        self.named.borrow_mut(j).push(one, j);
        Ok(result)
    }
}

/// The root of an open pool.
pub(crate) type OpenRoot<E, G> = Root<Roots<E, Out<G>>, Out<G>>;

/// An open pool, which C++ holds by its address.
pub struct Handle<E: PSafe<Out<G>>, G: PoolTag> {
    /// The pool, and the store below it.
    pub pool: OpenRoot<E, G>,
    /// Open roots: their names, with their addresses (HANDLE-2).
    open: Mutex<BTreeMap<String, usize>>,
    /// HANDLE-3. Not `open`, which a thread takes inside of a transaction when a root ends there.
    finding: Mutex<()>,
}

impl<E: PSafe<Out<G>>, G: PoolTag> Handle<E, G> {
    pub(crate) fn new(pool: OpenRoot<E, G>) -> Handle<E, G> {
        Handle { pool, open: Mutex::default(), finding: Mutex::default() }
    }

    /// The address from which pointers of the pool count.
    pub(crate) fn base(&self) -> *const u8 {
        base_of(&self.pool)
    }
}

/// The options of an opening, as C++ passes them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawOptions {
    pub(crate) path: RawText,
    pub(crate) name: RawText,
    /// `auto`, `pmem`, `file` or `shm`; empty: from the environment, else `auto`.
    pub(crate) backend: RawText,
    /// `always`, `interval:MILLISECONDS` or `process`; empty: from the environment, else `always`.
    pub(crate) durability: RawText,
    /// Declared maximum of a store that is made; 0: the default.
    pub(crate) max: u64,
    /// Addresses that a pool which is made may use; 0: the store's choice.
    pub(crate) span: u64,
    /// 1: make the store and the pool where they are absent.
    pub(crate) create: u32,
    pub(crate) reserved: u32,
}

/// Opens a pool; `out` gets its handle, `base` the address from which its pointers count.
///
/// # Safety
/// `options` can be read with the texts that it names, and `out` and `base` may be written to.
pub unsafe extern "C" fn open<E: PSafe<Out<G>>, G: PoolTag>(
    options: *const RawOptions,
    out: *mut *const c_void,
    base: *mut *const u8,
) -> u32 {
    guarded(|| {
        is_inside::<G>(); // HANDLE-6
        require_place(options, "a set of options")?;
        require_place(out, "a handle")?;
        require_place(base, "a base")?;
        // SAFETY: the caller's.
        let options = unsafe { options.read() };
        let [path, name, backend, durability] =
            [options.path, options.name, options.backend, options.durability].map(|text| {
                // SAFETY: the caller's.
                unsafe { text.read() }
            });
        let default = Options::default();
        let backend = chosen(backend?, "EVERBYTE_BACKEND").map_err(Fault::invalid)?;
        let durability = chosen(durability?, "EVERBYTE_DURABILITY").map_err(Fault::invalid)?;
        let media = Options {
            backend: backend.unwrap_or(default.backend),
            durability: durability.unwrap_or(default.durability),
            ..default
        };
        let (handle, at) = handed_out(open_pool::<E, G>(Path::new(path?), name?, media, &options)?);
        // SAFETY: the caller's.
        unsafe { base.write(at) };
        // SAFETY: the caller's.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// The handle of an open pool, for C++, and the address from which its pointers count. Tests of C++
/// programs hand out pools of stores that they record.
pub fn handed_out<E: PSafe<Out<G>>, G: PoolTag>(pool: Root<Roots<E, Out<G>>, Out<G>>) -> (*const c_void, *const u8) {
    let handle = Box::new(Handle::new(pool));
    let base = handle.base();
    let handle: *const c_void = Box::into_raw(handle).cast_const().cast();
    announce::<G>(handle);
    (handle, base)
}

fn open_pool<E: PSafe<Out<G>>, G: PoolTag>(
    path: &Path,
    name: &str,
    media: Options,
    options: &RawOptions,
) -> Result<OpenRoot<E, G>, Fault> {
    // Before the explorer, which has made the store and its pool.
    if let Some(media) = everbyte_recorded::open::<Fault>(path)? {
        return Ok(Out::<G>::open(&Store::attach(media)?, name)?);
    }
    if options.create == 0 {
        return Ok(Out::<G>::open(&Store::open(path, &media)?, name)?);
    }
    let default = CreateOptions::default();
    let max = if options.max == 0 { default.max } else { options.max };
    let store = Store::open_or_create(path, &CreateOptions { media, max, ..default })?;
    match Out::<G>::open(&store, name) {
        Err(everbyte_object::Error::Store(everbyte_store::Error::NotFound { .. })) => {}
        opened => return Ok(opened?),
    }
    let span = (options.span != 0).then(|| everbyte_media::Length::new(options.span));
    let pool = everbyte_object::PoolOptions { span, ..Default::default() };
    Ok(Out::<G>::create_with(&store, name, &pool, |_| Roots::default())?)
}

/// The handles of open pools, with the names of their types (HANDLE-5).
static OPEN: Mutex<Vec<(usize, &str)>> = Mutex::new(Vec::new());

/// Adds a handle that C++ gets.
pub(crate) fn announce<G: PoolTag>(handle: *const c_void) {
    let one = (handle.addr(), G::NAME);
    let mut open = OPEN.lock();
    if !open.contains(&one) {
        open.push(one);
    }
}

/// Refuses what is no handle of an open pool of that type (HANDLE-5).
pub(crate) fn require_open<G: PoolTag>(handle: *const c_void) -> Result<(), Fault> {
    // Null has an error of its own: C++ has closed the pool.
    match handle.is_null() || OPEN.lock().contains(&(handle.addr(), G::NAME)) {
        true => Ok(()),
        false => Err(Fault::invalid(format!("pool type `{}`: {handle:p} is no open pool of it", G::NAME))),
    }
}

/// The handle of an open pool.
///
/// # Safety
/// It is one that [`open`] has given out, or HANDLE-5 refuses it.
unsafe fn known<'h, E: PSafe<Out<G>>, G: PoolTag>(handle: *const c_void) -> Result<&'h Handle<E, G>, Fault> {
    require_open::<G>(handle)?;
    // SAFETY: the caller's.
    unsafe { handle.cast::<Handle<E, G>>().as_ref() }
        .ok_or_else(|| Fault::invalid(format!("pool type `{}`: no pool is open: the handle is null", G::NAME)))
}

/// Handles that were closed inside of a transaction (HANDLE-4), so that leak checkers find them.
static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Whether a handle was closed inside of a transaction.
pub(crate) fn was_closed(handle: *const c_void) -> bool {
    KEPT.lock().contains(&(handle as usize))
}

/// Closes a pool.
///
/// # Safety
/// `handle` is one of [`open`] that no call that begins later gets; its roots are closed.
pub unsafe extern "C" fn close<E: PSafe<Out<G>>, G: PoolTag>(handle: *const c_void) -> u32 {
    guarded(|| {
        // SAFETY: the caller's.
        let synced = unsafe { known::<E, G>(handle) }?.pool.sync();
        OPEN.lock().retain(|one| *one != (handle.addr(), G::NAME));
        let handle = handle.cast_mut().cast::<Handle<E, G>>();
        if is_inside::<G>() {
            KEPT.lock().push(handle as usize);
            // SAFETY: the caller's; dropped once, since nothing else frees it. The pool is closed
            // when this thread's transaction ends; calls of other threads that run meanwhile read
            // what this leaves as it was (HANDLE-4).
            let pool = unsafe { &raw mut (*handle).pool };
            // SAFETY: as above.
            unsafe { std::ptr::drop_in_place(pool) };
        } else {
            // SAFETY: made by `Box::into_raw` for this type. The pool is its first field, and its
            // drop waits for the transactions of other threads, outside of which no call reads a
            // handle (HANDLE-4).
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(synced?)
    })
}

/// Opens a root that `find` finds or makes; `out` gets its address.
///
/// # Safety
/// `handle` is one of [`open`]; the name can be read; `out` may be written to; `find` answers the
/// address of a value that its pool keeps.
pub unsafe fn root<E: PSafe<Out<G>>, G: PoolTag>(
    handle: *const c_void,
    name: RawText,
    out: *mut *const c_void,
    find: impl FnOnce(&Handle<E, G>, &str) -> Result<*const c_void, Fault>,
) -> u32 {
    guarded(|| {
        require_place(out, "a root")?;
        // SAFETY: the caller's.
        let handle = unsafe { known::<E, G>(handle) }?;
        // SAFETY: the caller's.
        let name = unsafe { name.read() }?;
        if is_inside::<G>() {
            let say = "a root is not opened inside of a transaction, which could take it back; open it before";
            return Err(Fault::invalid(format!("root `{name}`: {say}")));
        }
        handle.pool.store().media().require_opener().map_err(everbyte_store::Error::from)?; // CALL-3
        let _found = handle.finding.lock(); // HANDLE-3
        if handle.open.lock().contains_key(name) && !seeded("bridge-root-opened-twice") {
            let say = "it is open in this process; pass that object on, or end it first";
            return Err(Fault::of_kind(ErrorKind::Busy, format!("root `{name}`: {say}"))); // HANDLE-2
        }
        let at = find(handle, name)?;
        handle.open.lock().insert(name.into(), at as usize);
        // SAFETY: the caller's.
        unsafe { out.write(at) };
        Ok(())
    })
}

/// Makes what has been committed durable, whatever the durability of the media.
///
/// # Safety
/// `handle` is one of [`open`].
pub unsafe extern "C" fn sync<E: PSafe<Out<G>>, G: PoolTag>(handle: *const c_void) -> u32 {
    guarded(|| {
        // SAFETY: the caller's.
        let handle = unsafe { known::<E, G>(handle) }?;
        handle.pool.store().media().require_opener().map_err(everbyte_store::Error::from)?; // CALL-3
        handle.pool.sync()?;
        handle.pool.store().media().checkpoint().map_err(everbyte_store::Error::from)?;
        Ok(())
    })
}

/// Lets a root be opened again.
///
/// # Safety
/// `handle` is one of [`open`].
pub unsafe extern "C" fn close_root<E: PSafe<Out<G>>, G: PoolTag>(handle: *const c_void, root: *const c_void) -> u32 {
    guarded(|| {
        // SAFETY: the caller's.
        let handle = unsafe { known::<E, G>(handle) }?;
        handle.open.lock().retain(|_, at| *at != root as usize);
        Ok(())
    })
}

/// The body of a transaction: gets the caller's frame and the transaction's number, and answers 0,
/// or another number to roll back.
pub(crate) type Body = unsafe extern "C" fn(frame: *mut c_void, number: u64) -> u32;

/// Ends a child of fork that was made inside of a lambda and came to its end: the transaction is
/// its parent's, to be committed or rolled back there (CALL-3).
#[cold]
fn end_of_child(error: &everbyte_object::Error) -> ! {
    eprintln!("everbyte: {error}; a child of fork leaves the lambda by `_exit` or `exec`");
    std::process::abort()
}

/// Ends a program whose lambda was left by `longjmp`: nothing has ended its transaction, the next
/// one would be a part of it, and its bytes on the stack are others' now. `begun` is the place of
/// the outermost transaction on the stack, 0 if C++ has not begun it; `here` is one of the caller,
/// which lies below if the lambda has called it, directly or not: stacks grow downwards
/// (HANDLE-6).
#[inline(always)]
pub(crate) fn require_around<G: PoolTag>(begun: usize, here: usize) {
    if begun != 0 && here >= begun {
        end_of_jump(G::NAME);
    }
}

/// Whether this thread runs a transaction (HANDLE-6).
#[inline(never)] // a frame of its own
fn is_inside<G: PoolTag>() -> bool {
    let here = 0u8;
    with_current::<G, _>(|current| {
        let is_inside = current.number() != 0;
        if is_inside {
            require_around::<G>(current.place().get(), (&raw const here).addr());
        }
        is_inside
    })
}

#[cold]
fn end_of_jump(pool: &str) -> ! {
    eprintln!(
        "everbyte: pool type `{pool}`: the lambda of a transaction was left by `longjmp`; the transaction is rolled back when the pool is opened again"
    );
    std::process::abort()
}

/// Runs a transaction; inside of another one of this thread and pool it is a part of that. The
/// destructors of what it destroys run at the end of the outermost one.
///
/// # Safety
/// `body` may be called once with `frame`; it does not unwind.
#[inline(never)] // inner ones have a frame of their own
pub unsafe extern "C" fn transaction<G: PoolTag>(frame: *mut c_void, body: Option<Body>) -> u32 {
    let here = 0u8;
    let here = (&raw const here).addr();
    let run = |current: &Current| {
        let is_outermost = current.number() == 0;
        if !is_outermost {
            require_around::<G>(current.place().get(), here); // HANDLE-6
        }
        let body = body.ok_or_else(|| Fault::invalid("a transaction has a body, not a null pointer"))?;
        let call = |j: &Journal<In<'_, G>>| {
            require_opener(j)?; // CALL-3
            let outermost = is_outermost.then(|| Outermost::begin(j, current.place(), here));
            // SAFETY: the caller's.
            let returned = unsafe { body(frame, current.number()) };
            if let Err(error) = require_opener(j) {
                end_of_child(&error);
            }
            match (returned, &outermost) {
                (DONE, Some(outermost)) => outermost.finish(), // DROP-1
                (DONE, None) => Ok(()),
                _ if seeded("bridge-exception-commits") => Ok(()),
                _ => Err(Fault::thrown()),
            }
        };
        // By a reference: a closure of several words, which is handed on, is read back in other
        // widths than it was stored in, and each time the processor waits for the stores.
        let call = &call;
        Out::<G>::try_transaction(move |j| call(j)).map_err(Fault::of_transaction)
    };
    guarded(|| with_current::<G, _>(run))
}
