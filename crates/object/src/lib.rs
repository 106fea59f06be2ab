//! # everbyte-object: typed persistent objects, whose bugs do not compile
//!
//! A *pool* is one typed object of a store. Its type, made by [`pool!`], is a parameter of
//! everything that lies in it, so a pointer into one pool cannot be put into another. Changes
//! happen in transactions: all of one survive a crash, or none.
//!
//! A linked list that outlives its process:
//!
//! ```
//! use everbyte_object::{Journal, MemPool, PRefCell, PSafe, Pbox, Pool, pool};
//! pool!(P1);
//!
//! #[derive(PSafe)]
//! #[repr(C)]
//! struct Node<T: PSafe<P>, P: MemPool> {
//!     val: T,
//!     next: PRefCell<Option<Pbox<Node<T, P>, P>>, P>,
//! }
//!
//! fn append<T: PSafe<P>, P: MemPool>(n: &Node<T, P>, v: T, j: &Journal<P>) {
//!     let mut t = n.next.borrow_mut(j);
//!     match &*t {
//!         Some(succ) => append(succ, v, j),
//!         None => *t = Some(Pbox::new(Node { val: v, next: PRefCell::new(None) }, j)),
//!     }
//! }
//! # use everbyte_media::{Media, Options};
//! # use everbyte_store::{FormatOptions, Store};
//! # let media = Media::anonymous(16 << 20, &Options::default())?;
//! # let store = Store::format(media, &FormatOptions::default())?; // `Store::create(path, ..)` for a file
//!
//! let head = P1::open_or_create::<Node<i32, P1>>(&store, "list", |_| Node { val: 0, next: PRefCell::new(None) })?;
//! head.tx(|j, head| append(head, 1, j))?; // settled on return
//! head.tx(|j, head| append(head, 2, j))?;
//! drop(head); // the pool is closed
//!
//! let head = P1::open::<Node<i32, P1>>(&store, "list")?;
//! let first = head.next.borrow();
//! let first = first.as_ref().unwrap();
//! assert_eq!((first.val, first.next.borrow().as_ref().unwrap().val), (1, 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## The types
//!
//! | here | in a volatile program | what it adds |
//! |---|---|---|
//! | [`Pbox`] | `Box` | [`Pbox::new`] takes a journal; `Option<Pbox>` is one word |
//! | [`PCell`], [`PRefCell`] | `Cell`, `RefCell` | changing them takes a journal; no flags on media |
//! | [`POnceCell`], [`VCell`] | `OnceCell`; a cell of this run | the second forgets its value when the pool is opened again |
//! | [`PMutex`], [`PRwLock`] | `Mutex`, `RwLock` | held to the end of the transaction |
//! | [`Prc`], [`Parc`] | `Rc`, `Arc` | counts change at the commit; [`parc::PWeak`] persists, [`parc::VWeak`] does not |
//! | [`PVec`], [`PString`] | `Vec`, `String` | |
//! | [`PHashMap`], [`PBTreeMap`] | `HashMap`, `BTreeMap` | the hash is the same in every run |
//! | [`Root`] | a `main` that never ends | the pool's first object, by name, and its transactions |
//! | [`Journal`] | - | the right to change a pool: exists only inside a transaction |
//!
//! ## How a transaction ends
//!
//! [`Root::tx`] commits whatever its body returns; a panic inside rolls everything back and comes
//! out as [`Error::Panicked`]. [`Root::try_tx`] rolls back when the body returns `Err`. A
//! transaction inside another of the same pool is part of it; if it fails, the outermost fails,
//! whoever caught it.
//!
//! ## The brand
//!
//! Inside a transaction the pool's type is not `P1` but `P1` with a lifetime of its own,
//! `P1::At<'tx>`: nothing that points into the pool can leave the body, whatever it is put in. A
//! helper function is therefore generic: `fn f<P: MemPool>(node: &Node<P>, j: &Journal<P>)`, as
//! `append` above.
//!
//! Promises: docs/semantics/object.md. Format: docs/formats/object.md.

#[allow(unused_extern_crates)]
extern crate self as everbyte_object; // what derives call this crate

mod borrows;
pub mod btree_map;
mod cell;
mod check;
mod copy;
mod counted;
mod counts;
mod deep;
mod derived;
mod described;
mod entry;
mod error;
mod guard;
pub mod hash_map;
mod inner;
mod journal;
pub mod layout;
mod locks;
mod map;
mod migrate;
mod niche;
mod open;
mod pbox;
mod pmutex;
mod ponce;
mod pool;
mod prefcell;
mod prwlock;
mod psafe;
mod pstring;
mod pvec;
pub mod raw;
mod repair;
mod root;
mod running;
#[cfg(test)]
mod schedules;
mod schema;
mod sync;
mod tools;
mod trace;
mod untyped;
mod vcell;
mod wrapper;

pub use btree_map::PBTreeMap;
pub use cell::PCell;
pub use copy::{copy_pool, require_pool};
pub use counted::parc::{self, Parc};
pub use counted::prc::{self, Prc};
pub use deep::report::{Fault, FaultKind, Leak, Report};
pub use error::{Error, Result, TryError};
pub use everbyte_object_derive::{PSafe, pool};
pub use everbyte_store::{Token, Total};
pub use hash_map::PHashMap;
pub use journal::{InTx, Journal};
pub use migrate::{Migrate, Migrated, MigratedType};
#[doc(hidden)]
pub use niche::Niche;
pub use open::PoolOptions;
pub use pbox::Pbox;
pub use pmutex::{PMutex, PMutexGuard};
pub use ponce::POnceCell;
pub use pool::{In, MemPool, Out, Pool, PoolTag};
pub use prefcell::{PRef, PRefCell, PRefMut};
pub use prwlock::{PReadGuard, PRwLock, PWriteGuard};
pub use psafe::{PSafe, PersistentTypesMustNotImplementDrop};
pub use pstring::PString;
pub use pvec::PVec;
pub use repair::RepairPlan;
pub use root::{Detached, Root};
pub use schema::{Schema, Shape, TypeName};
pub use tools::UndoTools;
pub use trace::Tracer;
pub use untyped::UntypedPool;
pub use vcell::VCell;

/// What the macros of this crate write; no part of its interface.
#[doc(hidden)]
pub mod hidden {
    pub use crate::derived::{Derived, Field, Older, Parts, Variant};
    pub use crate::migrate::{Moving, PartId, Planner, Refusal};
    pub use crate::pool::Slot;
    pub use crate::running::Current;
}
