//! # everbyte: memory that survives
//!
//! One file, the [`Store`], holds named objects that outlive the program. Two ways in:
//!
//! * [`object`]: Rust types that live in a pool and are changed in transactions; what would break them does not compile;
//! * [`kv`]: an ordered map of bytes, for any number of threads.
//!
//! and [`broker`], where programs of several users are to have exactly the rights that they are given.
//!
//! ```
//! use everbyte::{PSafe, PCell, MemPool, Pool, Store, pool};
//! pool!(Visits);
//!
//! #[derive(PSafe)]
//! #[repr(C)]
//! struct Counter<P: MemPool> {
//!     count: PCell<u64, P>,
//! }
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("visits.everbyte");
//! let store = Store::create(&path, &Default::default())?;
//! for _ in 0..2 {
//!     let counter = Visits::open_or_create::<Counter<Visits>>(&store, "visits", |_| Counter { count: PCell::new(0) })?;
//!     let count = counter.tx(|j, counter| counter.count.update(|count| count + 1, j))?; // settled
//!     println!("visit number {count}");
//! #   assert!(count > 0);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod merge;

pub use merge::{Merge, MergeError, MergeOptions, MergeStep};

pub use everbyte_broker as broker;
pub use everbyte_hkv as hkv;
pub use everbyte_kv as kv;
pub use everbyte_media as media;
pub use everbyte_object as object;
pub use everbyte_store as store;

pub use everbyte_kv::Kv;
pub use everbyte_media::{Durability, Options};
pub use everbyte_object::*;
pub use everbyte_store::{CreateOptions, Store};
