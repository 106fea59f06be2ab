//! # everbyte-heap: blocks inside an object; no crash loses a block or hands it out twice
//!
//! A [`Heap`] hands out [`Block`]s of an object's span. One bit on media, in tables apart from the
//! data, tells whether a block is allocated. A bit changes by an operation, [`Op`], that the
//! caller's own log has made valid; or the heap's own small log changes it together with one word
//! of the caller's: [`Heap::alloc_into`], [`Heap::free_from`].
//!
//! ```
//! use everbyte_heap::{Error, Heap};
//! use everbyte_media::{Media, Options};
//! use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
//! let store = Store::format(Media::anonymous(4 << 20, &Options::default())?, &FormatOptions::default())?;
//! let options = ObjectOptions { engine: Engine::Heap, fingerprint: 0, span: Some(1 << 20) };
//! let object = store.create_object("notes", options, Heap::format)?;
//! let heap = Heap::open(object.clone())?;
//! let block = heap.alloc_into(100, object.root_at())?; // the root word and the block's bit, or neither; settled
//! assert_eq!(object.root(), block.at.get());
//! assert_eq!(heap.size_of(block.at)?, 128);
//! heap.free_from(object.root_at())?;                   // the other way round
//! assert!(matches!(heap.size_of(block.at), Err(Error::NotAllocated { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Format: docs/formats/heap.md.

#![forbid(unsafe_code)]

mod atomic;
mod check;
pub mod classes;
mod error;
mod extents;
mod format;
mod heap;
pub mod layout;
mod op;
mod ops;
mod pool;
mod refresh;
mod release;
mod resize;
mod shard;
mod tools;
mod zone;

pub use check::Usage;
pub use error::{Error, Result};
pub use heap::{Block, Heap};
pub use op::{BLOCK_MAX, Op};
pub use tools::{HeapTools, unopened};
