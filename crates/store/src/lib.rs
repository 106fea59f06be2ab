//! # everbyte-store: one file, many named persistent objects
//!
//! A [`Store`] is a sparse file that survives crashes. It holds named [`Object`]s; each owns a span
//! of addresses, grows in it by clusters of 64 KiB, and belongs to one [`Engine`].
//!
//! ```
//! use everbyte_media::{Media, Options};
//! use everbyte_store::{Engine, Error, FormatOptions, ObjectOptions, Store};
//! let store = Store::format(Media::anonymous(4 << 20, &Options::default())?, &FormatOptions::default())?;
//! let options = ObjectOptions { engine: Engine::None, fingerprint: 7, span: Some(1 << 20) };
//! let notes = store.create_object("notes/2024", options, |object| {
//!     let grown = object.grow(100)?;         // whole clusters, zeroed
//!     object.set_root(grown.start);
//!     Ok::<(), Error>(())
//! })?;                                       // settled: a crash before left no object at all
//! let media = notes.media();
//! media.write(notes.root(), b"remember");
//! media.flush(notes.root(), 8);
//! media.barrier()?;
//! drop(notes);
//! assert_eq!(store.object("notes/2024")?.media().read_vec(store.object("notes/2024")?.root(), 8), b"remember");
//! assert!(store.check().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Format: docs/formats/store.md. Promises: docs/semantics/store.md.

#![forbid(unsafe_code)]

mod attach;
mod background;
mod catalogue;
mod check;
mod engine;
mod error;
mod finding;
pub mod layout;
mod object;
mod open;
pub mod raw;
mod recover;
mod sharing;
mod store;
mod superblock;

pub use catalogue::create::ObjectOptions;
pub use catalogue::record::Origin;
pub use engine::id::{CustomEngine, Engine};
pub use engine::{
    Deep, EngineError, EngineTools, Fact, NoTools, PlainTools, Repair, RepairStep, Sums, Token, Total, Walk,
    require_whole,
};
pub use error::{Error, Result};
#[doc(hidden)]
pub use everbyte_cold::{Files, RealFiles};
pub use everbyte_media::{Damage, ErrorInfo, ErrorKind, Format};
pub use everbyte_members::Since;
pub use everbyte_names::NAME_MAX;
pub use everbyte_space::{CLUSTER, Cluster, ObjectId};
pub use finding::{Finding, FindingKind};
pub use object::access::{Access, Caller, Want};
pub use object::backing::Residency;
pub use object::handle::{Claim, Object};
pub use object::header::{HEADER_LEN, PRIME_LEN};
pub use object::open::{ObjectOpen, ObjectSharing};
pub use open::{CreateOptions, FormatOptions, OpenOptions};
pub use recover::Recovery;
pub use sharing::Exclusive;
pub use store::{Info, ObjectInfo, Store};
pub use superblock::plan::Plan;
