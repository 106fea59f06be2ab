//! # everbyte-mnemosyne: the variables, regions and logs of a C program in a store
//!
//! A [`Program`] is an object that holds the persistent variables of one executable, and a heap
//! whose blocks are allocated into words and freed from them. The words hold addresses, not
//! offsets: the store is bound to one. After Volos, Tack, Swift: "Mnemosyne: Lightweight Persistent
//! Memory", ASPLOS 2011.
//!
//! ```
//! use everbyte_media::{Media, Options};
//! use everbyte_mnemosyne::{Program, Variables};
//! use everbyte_store::{FormatOptions, Store};
//! let store = Store::format(Media::anonymous(4 << 20, &Options::default())?, &FormatOptions::default())?;
//! let initial = [7; 4096];
//! let variables = Variables { initial: &initial, build: b"a build", layout: &|| Ok(Some(1)) };
//! let program = Program::open(&store, "pstatic/example", 1 << 20, &variables)?;
//! let root = program.variables().start;                    // the first variable's place
//! store.media().store(root, 0);
//! let block = program.heap().alloc_into(100, root)?;       // the variable and the block, or neither
//! assert_eq!(store.media().load(root), block.at.get());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Format: docs/formats/program.md. Promises: docs/semantics/mnemosyne.md.

#![forbid(unsafe_code)]

mod error;
pub mod layout;
mod log;
mod program;
mod regions;
mod table;

pub use error::{Error, Result};
pub use log::{Log, LogOptions};
pub use program::{Program, Variables, path_of};
pub use regions::{Region, Regions};
