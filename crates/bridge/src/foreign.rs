//! Objects whose classes C++ declares: their descriptions, and the blocks that hold them.
//!
//! The pool owns each object as bytes, with the description of its class beside it. A program whose
//! class differs is refused before it reads one.
//!
//! Invariants
//!   FOREIGN-1  An object's class is one of the pool's list, whose entries never change, but a
//!              class may get a destructor.
//!   FOREIGN-2  The bytes of an object that existed before a transaction are logged before C++ gets
//!              the right to change them.
//!   FOREIGN-3  Nothing on the pool's first page is changed for C++: it holds the pool's header and
//!              the words of the engine, and is the place that a null `pointer_t` leads to.

use crate::Fault;
use crate::calls::{guarded, part, require_running};
use crate::destructors::{self, Leaving};
use crate::handle::{Handle, Owned, Roots, require_open, was_closed};
use crate::passed::{RawText, require_place};
use everbyte_media::{ErrorKind, seeded};
use everbyte_object::raw::{difference, log, require_opener};
use everbyte_object::{Journal, MemPool, Out, PSafe, PString, PVec, PoolTag};
use std::ffi::c_void;

/// A class of C++.
#[derive(PSafe)]
#[repr(C)]
pub struct CppType<P: MemPool> {
    name: PString<P>,
    /// As docs/formats/object.md describes a root.
    description: PString<P>,
    /// Whether its objects leave the pool by a destructor (DROP-2).
    has_destructor: bool,
}

/// An object of C++.
#[derive(PSafe)]
#[repr(C)]
pub struct CppObject<P: MemPool> {
    /// The place of its class in the pool's list (FOREIGN-1).
    of: u64,
    bytes: PVec<u8, P>,
}

/// A class and a value of it, as C++ passes them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawObject {
    pub(crate) name: RawText,
    pub(crate) description: RawText,
    pub(crate) bytes: *const u8,
    pub(crate) size: usize,
    pub(crate) has_destructor: u64,
}

impl<P: MemPool> CppObject<P> {
    /// The address of the value.
    pub fn address(&self) -> *const c_void {
        self.bytes.as_ptr().cast()
    }

    /// The object of that class whose bytes are those of `value`.
    ///
    /// # Errors
    /// If the pool has another class of that name.
    ///
    /// # Safety
    /// The texts and bytes of `value` can be read.
    pub unsafe fn new<E: PSafe<P>>(value: RawObject, roots: &Roots<E, P>, j: &Journal<P>) -> Result<Self, Fault> {
        require_place(value.bytes, "a value")?;
        // SAFETY: the caller's.
        let of = unsafe { class(value, roots, j) }?;
        // SAFETY: the caller's; a class has at least one byte.
        let bytes = unsafe { std::slice::from_raw_parts(value.bytes, value.size) };
        Ok(CppObject { of, bytes: PVec::from(bytes.iter().copied(), j) })
    }

    /// Refuses a caller whose class is not the object's.
    ///
    /// # Errors
    /// If the pool has another class of that name, or the object is of another class.
    ///
    /// # Safety
    /// The texts and bytes of `value` can be read.
    pub unsafe fn require<E: PSafe<P>>(
        &self,
        root: &str,
        value: RawObject,
        roots: &Roots<E, P>,
        j: &Journal<P>,
    ) -> Result<(), Fault> {
        // SAFETY: the caller's.
        let of = unsafe { class(value, roots, j) }?;
        // SAFETY: the caller's.
        let name = unsafe { value.name.read() }?;
        match of == self.of && self.bytes.len() == value.size {
            true => Ok(()),
            false => Err(Fault::another_type(root, name)),
        }
    }
}

/// The place of a class in the pool's list (FOREIGN-1); added if there is none of that name.
///
/// # Safety
/// The texts can be read.
unsafe fn class<E: PSafe<P>, P: MemPool>(value: RawObject, roots: &Roots<E, P>, j: &Journal<P>) -> Result<u64, Fault> {
    // SAFETY: the caller's.
    let name = unsafe { value.name.read() }?;
    // SAFETY: the caller's.
    let description = unsafe { value.description.read() }?;
    let mut owned = roots.owned.lock(j);
    if let Some(index) = owned.types.iter().position(|one| one.name.as_str() == name) {
        let found = owned.types[index].description.as_str();
        return match found == description || seeded("bridge-class-trusted") {
            true => {
                if value.has_destructor != 0 && !owned.types[index].has_destructor {
                    owned.types.get_mut(index, j).expect("found above").has_destructor = true;
                }
                Ok(index as u64)
            }
            false => {
                let say = difference(found, description);
                Err(Fault::of_kind(
                    ErrorKind::Foreign,
                    format!("class `{name}`: {say}; the pool was made with the other class"),
                ))
            }
        };
    }
    let of = CppType {
        name: PString::from(name, j),
        description: PString::from(description, j),
        has_destructor: value.has_destructor != 0,
    };
    owned.types.push(of, j);
    Ok(owned.types.len() as u64 - 1)
}

/// The places of the classes that C++ gives a template, in the pool's list.
///
/// # Errors
/// If the pool has another class of one of these names.
///
/// # Safety
/// `count` classes can be read at `of`, with what they point to.
pub unsafe fn classes<E: PSafe<P>, P: MemPool>(
    of: *const RawObject,
    count: usize,
    roots: &Roots<E, P>,
    j: &Journal<P>,
) -> Result<Vec<u64>, Fault> {
    if count > 0 {
        require_place(of, "a list of classes")?;
    }
    let place = |index| {
        // SAFETY: the caller's.
        let value = unsafe { of.wrapping_add(index).read() };
        // SAFETY: the caller's.
        unsafe { class(value, roots, j) }
    };
    (0..count).map(place).collect()
}

/// The handle of the pool that a transaction runs on.
///
/// # Errors
/// If it is null: C++ has closed the pool.
///
/// # Safety
/// `handle` is null or one of a pool whose transaction runs (HANDLE-4).
unsafe fn opened<'h, E: PSafe<Out<G>>, G: PoolTag>(handle: *const c_void) -> Result<&'h Handle<E, G>, Fault> {
    // SAFETY: the caller's.
    unsafe { handle.cast::<Handle<E, G>>().as_ref() }.ok_or_else(|| {
        let say = "the pool was closed while this transaction runs, by its lambda or by another thread";
        Fault::invalid(format!("pool type `{}`: {say}; close it after its transactions", G::NAME))
    })
}

/// Makes an object in the pool, which owns it; `out` gets its address.
///
/// # Safety
/// `handle` is null or one of a pool that was open when the transaction began; `value` can be read
/// with what it points to; `out` may be written to.
pub unsafe extern "C" fn make<E: PSafe<Out<G>>, G: PoolTag>(
    handle: *const c_void,
    number: u64,
    value: *const RawObject,
    out: *mut *const c_void,
) -> u32 {
    guarded(|| {
        require_running::<G>(number)?;
        require_place(value, "a value")?;
        require_place(out, "a result")?;
        require_open::<G>(handle)?;
        // SAFETY: the caller's.
        let handle = unsafe { opened::<E, G>(handle) }?;
        // SAFETY: the caller's.
        let value = unsafe { value.read() };
        let made = handle.pool.try_tx(|j, roots| {
            require_opener(j)?; // CALL-3
            // SAFETY: the caller's.
            let object = unsafe { CppObject::new(value, roots, j) }?;
            let at = object.address();
            match seeded("bridge-make-unowned") {
                true => std::mem::forget(object),
                false => drop(roots.owned.lock(j).objects.insert(at as u64 - handle.base() as u64, object, j)),
            }
            Ok(at)
        });
        let at = made.map_err(Fault::of_transaction)?;
        // SAFETY: the caller's.
        unsafe { out.write(at) };
        Ok(())
    })
}

/// Drops an object that [`make`] has made: at once, or, if its class has a destructor, when that
/// has run at the end of the outermost transaction.
///
/// # Safety
/// `handle` is as for [`make`].
pub unsafe extern "C" fn destroy<E: PSafe<Out<G>>, G: PoolTag>(handle: *const c_void, number: u64, offset: u64) -> u32 {
    guarded(|| {
        require_running::<G>(number)?;
        let at = handle;
        require_open::<G>(at)?;
        // SAFETY: the caller's.
        let handle = unsafe { opened::<E, G>(at) }?;
        if seeded("bridge-destroy-left") {
            return Ok(());
        }
        let gone = handle.pool.try_tx(|j, roots| {
            require_opener(j)?; // CALL-3
            let mut owned = roots.owned.lock(j);
            let is_gone = match destructor(&owned, offset)? {
                None => owned.objects.remove(&offset, j).is_some(),
                Some(destructor) => {
                    let leaving = Leaving { handle: at, offset, destructor, finish: finish::<E, G> };
                    destructors::note(j, leaving)?
                }
            };
            match is_gone {
                true => Ok(()),
                false => Err(no_object()),
            }
        });
        gone.map_err(Fault::of_transaction)
    })
}

/// The destructor of the class of an object.
fn destructor<P: MemPool>(owned: &Owned<P>, offset: u64) -> Result<Option<destructors::Destructor>, Fault> {
    let object = owned.objects.get(&offset).ok_or_else(no_object)?;
    let class = owned.types.get(object.of as usize).ok_or_else(|| {
        Fault::of_kind(ErrorKind::Damaged, "an object of C++ is of a class that its pool does not have")
    })?;
    match class.has_destructor {
        false => Ok(None),
        true if seeded("bridge-destructor-lacking") => Ok(None),
        true => destructors::find(&class.name, &class.description).map(Some),
    }
}

#[cold]
fn no_object() -> Fault {
    Fault::invalid("no object that C++ has made lies there: it was destroyed before, or is a root")
}

/// Runs the destructor of an object, then takes it out of its pool (DROP-1).
///
/// # Safety
/// A transaction of the pool runs, and the pool was open when the object was noted in it.
unsafe fn finish<E: PSafe<Out<G>>, G: PoolTag>(leaving: Leaving) -> Result<(), Fault> {
    let handle = if was_closed(leaving.handle) { std::ptr::null() } else { leaving.handle };
    // SAFETY: the caller's; a handle that was closed inside of the transaction is not read.
    let handle = unsafe { opened::<E, G>(handle) }?;
    let finished = handle.pool.try_tx(|j, roots| {
        require_opener(j)?; // CALL-3
        let bytes = {
            let owned = roots.owned.lock(j);
            let object = owned.objects.get(&leaving.offset).ok_or_else(no_object)?;
            (object.bytes.as_ptr(), object.bytes.len())
        };
        // The destructor is code of C++, which may run transactions: no guard of Rust's is held.
        let is_logged = seeded("bridge-destructor-unlogged") || log(j, bytes.0, bytes.1); // FOREIGN-2
        if !is_logged {
            return Err(no_object());
        }
        // SAFETY: an object of its class (FOREIGN-1), logged.
        unsafe { destructors::call(leaving.destructor, bytes.0.cast_mut().cast()) }?;
        match roots.owned.lock(j).objects.remove(&leaving.offset, j) {
            Some(_) => Ok(()),
            None => Err(no_object()),
        }
    });
    finished.map_err(Fault::of_transaction)
}

/// Notes that the caller will change `size` bytes at `at` (FOREIGN-2). A refusal dooms the
/// transaction.
///
/// # Safety
/// The bytes belong to an object of C++, or lie on the pool's first page (FOREIGN-3), or outside of
/// the pool.
pub unsafe extern "C" fn change<G: PoolTag>(number: u64, at: *const c_void, size: usize) -> u32 {
    guarded(|| {
        part::<G, _>(number, |j| {
            match seeded("bridge-change-unlogged") || log(j, at.cast(), size) || seeded("bridge-first-page-logged") {
                true => Ok(()),
                false => Err(Fault::invalid(format!(
                    "pool type `{}`: no object lies there: the pointer is null, or of a pool that was closed",
                    G::NAME
                ))),
            }
        })
    })
}
