//! # everbyte-bridge: persistent types written in Rust, used from C++
//!
//! A library crate (`crate-type = ["cdylib"]`) declares a portable type, its methods, and the pools
//! that may hold it:
//!
//! ```
//! use everbyte_bridge::{Extern, export, library};
//! use everbyte_object::{Journal, MemPool, PCell, PSafe, pool};
//! pool!(pub Tally);
//!
//! /// Counts events.
//! #[derive(PSafe, Extern)]
//! #[repr(C)]
//! pub struct Counter<P: MemPool> {
//!     count: PCell<i64, P>,
//! }
//!
//! #[export]
//! impl<P: MemPool> Counter<P> {
//!     /// Required: the first value of a root.
//!     pub fn new(_: &Journal<P>) -> Self {
//!         Counter { count: PCell::new(0) }
//!     }
//!
//!     /// The number of events.
//!     pub fn value(&self) -> i64 {
//!         self.count.get()
//!     }
//!
//!     /// Adds events; returns their new number.
//!     pub fn add(&self, by: i64, j: &Journal<P>) -> i64 {
//!         self.count.update(|count| count + by, j)
//!     }
//! }
//!
//! library! {
//!     name events;
//!     pool Tally { Counter }
//! }
//! # fn main() {}
//! ```
//!
//! `everbyte bridge build` compiles the crate and writes C++ headers from the description that the
//! library carries. In C++ (`include/everbyte/bridge.hpp` and the generated `tally.hpp`):
//!
//! ```cpp
//! events::tally pool("events.everbyte", {.create = true});
//! auto counter = pool.root<events::tally::counter>("visits");
//! auto now = events::tally::txn([&](auto& t) { return counter.add(t, 1); });
//! ```
//!
//! ## The boundary
//!
//! * One symbol leaves the library: it compares the description that the header was made from with
//!   the library's own, and gives out the table of functions.
//! * A function returns a status; its result goes through a pointer. Nothing unwinds across: a
//!   panic is caught, dooms the running transaction, and becomes a C++ exception; the lambda of a
//!   transaction is called through a function that catches every exception, which is rethrown after
//!   the roll-back.
//! * No `&mut` and no plain reference into a pool crosses. Arguments and results are copies.
//!
//! Promises: docs/semantics/cpp.md. Manual: docs/manual/cpp.md.

#[allow(unused_extern_crates)]
extern crate self as everbyte_bridge; // the name of this crate in its macros

mod calls;
pub mod checker;
mod classes;
pub mod containers;
mod description;
mod destructors;
mod error;
mod fault;
mod foreign;
mod handle;
pub mod headers;
mod library;
mod loaded;
mod passed;
#[cfg(test)]
mod tested;

pub use classes::{ByteArray, ClassValue, Copied, Cpp, CppClass, Equal, Gen, Hash, Lent, LentPair, Order, Visit};
pub use description::{Description, MethodLine, Parameter, PoolLines, TypeLines};
pub use error::Error;
pub use everbyte_bridge_derive::{Extern, Passed, export, library};
pub use fault::Fault;
pub use handle::{AsObject, Exported, NamedRoot, Roots, RootsOf};
pub use library::{Exports, Extern, Method};
pub use loaded::describe_library;
pub use passed::{Argument, Passed, Returned};

/// Items that the macros of this crate use; not part of its interface.
#[doc(hidden)]
pub mod hidden {
    pub use crate::calls::{changing, guarded, reading};
    pub use crate::foreign::{CppObject, RawObject, change, classes, destroy, make};
    pub use crate::handle::{Handle, RawOptions, close, close_root, handed_out, open, root, sync, transaction};
    pub use crate::library::{Builder, Entry, Library};
    pub use crate::passed::{Call, Declared, RawOption, RawString, RawText, require_place};
    pub use everbyte_object as object;
}
