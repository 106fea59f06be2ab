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
//! | here | in a volatile program | difference |
//! |---|---|---|
//! | [`Pbox`] | `Box` | [`Pbox::new`] takes a journal; `Option<Pbox>` is one word |
//! | [`PCell`], [`PRefCell`] | `Cell`, `RefCell` | changing them takes a journal; no flags on media |
//! | [`POnceCell`], [`VCell`] | `OnceCell`; a cell of this run | the second forgets its value when the pool is opened again |
//! | [`PMutex`], [`PRwLock`] | `Mutex`, `RwLock` | held to the end of the transaction |
//! | [`Prc`], [`Parc`] | `Rc`, `Arc` | counts change at the commit; [`parc::PWeak`] persists, [`parc::VWeak`] does not |
//! | [`PVec`], [`PVecDeque`], [`PBinaryHeap`], [`PString`] | `Vec`, `VecDeque`, `BinaryHeap`, `String` | |
//! | [`PHashMap`], [`PBTreeMap`] | `HashMap`, `BTreeMap` | the hash is the same in every run |
//! | [`PHashSet`], [`PBTreeSet`] | `HashSet`, `BTreeSet` | |
//! | [`ShortString`] | a short `String` | a `Copy` value without a block |
//! | [`Stored`] | `SocketAddr`, times, decimals | plain integers on media |
//! | [`PResult`], [`PBound`], [`PRangeInclusive`] | `Result`, `Bound`, `RangeInclusive` | a fixed layout |
//! | [`Root`] | a `main` that never ends | the pool's first object, by name, and its transactions |
//! | [`Journal`] | - | the right to change a pool: exists only inside a transaction |
//!
//! ## How a transaction ends
//!
//! [`Root::tx`] commits for every result of its body; a panic inside rolls everything back and is
//! returned as [`Error::Panicked`]. [`Root::try_tx`] rolls back when the body returns `Err`. A
//! transaction inside another of the same pool is part of it; if it fails, the outermost fails,
//! even if its error was handled.
//!
//! ## The brand
//!
//! Inside a transaction the pool's type is not `P1` but `P1` with a lifetime of its own,
//! `P1::At<'tx>`: no value that points into the pool can leave the body. A
//! helper function is therefore generic: `fn f<P: MemPool>(node: &Node<P>, j: &Journal<P>)`, as
//! `append` above.
//!
//! Promises: docs/semantics/object.md. Format: docs/formats/object.md.

#[allow(unused_extern_crates)]
extern crate self as everbyte_object; // the name of this crate in derives

mod description;
#[cfg(feature = "serde")]
mod dump;
mod error;
pub mod layout;
mod migrate;
pub mod raw;
#[cfg(feature = "serde")]
mod serial;
mod transaction;
mod types;
mod verify;

#[doc(hidden)]
pub use description::niche::Niche;
pub use description::psafe::{PSafe, PersistentTypesMustNotImplementDrop};
pub use description::schema::{Schema, Shape, TypeName};
pub use description::trace::Tracer;
#[cfg(feature = "serde")]
pub use dump::{Dumped, Loaded, load};
pub use error::{Error, Result, TryError};
#[cfg(feature = "serde")]
pub use everbyte_object_derive::PDeserialize;
pub use everbyte_object_derive::{PSafe, pool};
pub use everbyte_store::{Token, Total};
pub use migrate::{Migrate, Migrated, MigratedType};
#[cfg(feature = "serde")]
pub use serial::{PDeserialize, Seed};
pub use transaction::copy::{copy_pool, require_pool};
pub use transaction::journal::{InTx, Journal};
pub use transaction::open::PoolOptions;
pub use transaction::operations::Pool;
pub use transaction::pool::{In, MemPool, Out, PoolTag};
pub use transaction::reader::Reader;
pub use transaction::root::{Detached, Root};
pub use types::alike::{PBound, PRangeInclusive, PResult};
pub use types::btree_map::{self, PBTreeMap};
pub use types::cell::PCell;
pub use types::counted::parc::{self, Parc};
pub use types::counted::prc::{self, Prc};
pub use types::hash_map::{self, PHashMap};
pub use types::hints::FoundBy;
pub use types::pbinary_heap::PBinaryHeap;
pub use types::pbox::Pbox;
pub use types::pmutex::{PMutex, PMutexGuard};
pub use types::ponce::POnceCell;
pub use types::prefcell::{PRef, PRefCell, PRefMut};
pub use types::prwlock::{PReadGuard, PRwLock, PWriteGuard};
pub use types::pstring::PString;
pub use types::pvec::PVec;
pub use types::pvec_deque::PVecDeque;
pub use types::sets::{HashItems, PBTreeSet, PHashSet, TreeItems};
pub use types::short_string::{ShortString, TooLong};
pub use types::stored::{Storable, Stored};
pub use types::vcell::VCell;
pub use verify::deep::report::{Fault, FaultKind, Leak, Report};
pub use verify::repair::RepairPlan;
pub use verify::tools::UndoTools;
pub use verify::untyped::UntypedPool;

/// The types and traits that most programs need: `use everbyte_object::prelude::*;`
pub mod prelude {
    pub use crate::{
        Journal, MemPool, PBTreeMap, PBTreeSet, PBinaryHeap, PCell, PHashMap, PHashSet, PMutex, PRefCell, PRwLock,
        PSafe, PString, PVec, PVecDeque, Parc, Pbox, Pool, Prc, Root, pool,
    };
}

/// Items that the macros of this crate use; not part of its interface.
#[doc(hidden)]
pub mod hidden {
    #[cfg(feature = "serde")]
    pub use serde;

    pub use crate::description::derived::{Derived, EnumLayout, Field, Older, Parts, Variant};
    pub use crate::migrate::{Moving, PartId, Planner, Refusal};
    #[cfg(feature = "serde")]
    pub use crate::serial::{
        Defaulted, FieldList, Key, Variants, read_enum, read_named, read_newtype, read_tuple, read_unit, variant_named,
        variant_newtype, variant_tuple, variant_unit,
    };
    pub use crate::transaction::pool::Slot;
    pub use crate::transaction::running::Current;
}
