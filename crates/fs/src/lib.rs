//! # everbyte-fs: file volumes
//!
//! A [`Volume`] holds files and directories in one object of a store. There is no block layer and
//! no page cache: metadata changes by words under undo records, data is written in pages of the
//! medium, and a read is one copy (Dulloor et al., *System Software for Persistent Memory*, EuroSys
//! 2014). Every call is whole or absent after a crash.
//!
//! ```
//! use everbyte_fs::{Ino, FileKind, NewFile, Volume, VolumeOptions};
//! use everbyte_media::{Media, Options};
//! use everbyte_store::{FormatOptions, Store};
//!
//! let store = Store::format(Media::anonymous(64 << 20, &Options::default())?, &FormatOptions::default())?;
//! let options = VolumeOptions { span: Some(16 << 20), ..VolumeOptions::default() };
//! let volume = Volume::create(&store, "home", &options)?;
//! let notes = volume.make(Ino::ROOT, b"notes", &NewFile::new(FileKind::Directory, 0o755))?;
//! let today = volume.make(notes, b"today", &NewFile::new(FileKind::Regular, 0o644))?;
//! volume.write(today, 0, b"remember")?;
//! volume.settle()?;                       // durable on every medium
//! let mut bytes = [0; 16];
//! let len = volume.read(today, 0, &mut bytes)?;
//! assert_eq!(&bytes[..len], b"remember");
//! assert!(volume.check().is_empty());
//! volume.close()?;                        // the next opening is fast
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate knows inodes and names, and neither paths nor users: rights, open files and errno are
//! the business of the layers above. It starts no threads.
//!
//! Format: docs/formats/volume.md. Promises: docs/semantics/volume.md. Reasons:
//! docs/design/volume.md.

#![forbid(unsafe_code)]

mod attributes;
mod change;
mod check;
mod core;
mod create;
mod dump;
mod error;
mod extents;
mod file;
mod format;
mod free_pages;
mod freeze;
mod hash;
mod held;
mod kind;
mod lanes;
pub mod layout;
mod lines;
mod maps;
#[doc(hidden)]
pub mod model;
mod names;
mod node;
mod nodes;
mod options;
#[doc(hidden)]
pub mod order;
mod own_pages;
mod page_size;
mod parts;
mod pieces;
mod quota;
mod recover;
mod relaxed;
mod remove;
mod rename;
mod repair;
mod saved;
mod seal;
mod shared_pages;
mod size;
mod snapshot;
mod space;
mod step;
mod sums;
mod table;
mod tools;
mod update;
mod volume;
mod xattr;

pub use attributes::{Entry, Found, Owner};
#[doc(hidden)]
pub use change::Change;
pub use create::{LINKS_MAX, NewFile, TARGET_MAX};
pub use dump::{Dump, DumpLine, dump};
pub use error::{Error, Result};
pub use everbyte_media::ViewPages as MapPages;
pub use file::{Allocate, FileMap, FilePages, MapOptions};
pub use held::Held;
pub use kind::{Attributes, FileKind, Ino, SetAttributes};
pub use layout::{FILE_MAX, NAME_MAX};
pub use node::Indexed;
pub use options::{Clock, OpenVolume, VolumeOptions, system_clock};
pub use page_size::PageSize;
pub use quota::{Quota, QuotaKind, QuotaLimit, QuotaLimits};
pub use recover::VolumeRecovery;
pub use rename::Rename;
pub use repair::VolumeRepair;
pub use seal::{SEAL_AFTER, ScrubCursor, Scrubbed, SealCursor, SealedShare, StepLimits};
pub use snapshot::VolumeSnapshot;
pub use tools::FsTools;
pub use update::{Present, Update};
pub use volume::{Usage, Volume};
pub use xattr::SetXattr;
