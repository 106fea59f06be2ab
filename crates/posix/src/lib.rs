//! # everbyte-posix: the calls of a POSIX file system
//!
//! [`Files`] is a volume in use, [`Process`] a caller with a user, a mask and a working directory,
//! and [`OpenFile`] an open file. Calls have the meaning that Linux gives them, with its errors
//! ([`Errno`]) and without a mount: the bytes of a file are copied between the medium and the
//! caller in the caller's thread.
//!
//! ```
//! use everbyte_fs::{Volume, VolumeOptions};
//! use everbyte_media::{Media, Options};
//! use everbyte_posix::{Errno, Files, FilesOptions, OpenFlags, RenameFlags, User};
//! use everbyte_store::{FormatOptions, Store};
//!
//! let store = Store::format(Media::anonymous(64 << 20, &Options::default())?, &FormatOptions::default())?;
//! let volume = Volume::create(&store, "home", &VolumeOptions { span: Some(16 << 20), ..Default::default() })?;
//! let files = Files::new(volume, FilesOptions::default());
//! let process = files.process(User::root())?;
//!
//! process.make_directory("/notes", 0o755)?;
//! let draft = process.open("/notes/draft", OpenFlags::CREAT | OpenFlags::RDWR, 0o644)?;
//! draft.write(b"remember")?;
//! process.rename("/notes/draft", "/notes/today", RenameFlags::NOREPLACE)?;
//! assert_eq!(process.status("/notes/today")?.size, 8);
//! assert_eq!(process.status("/notes/draft").unwrap_err(), Errno::ENOENT);
//! draft.sync()?; // durable on every medium
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every call is whole or absent after a crash. On `pmem` and `shm` it is durable when it returns,
//! on `file` after [`OpenFile::sync`], with the flag `SYNC`, or with [`FilesOptions::sync`].
//!
//! Promises: docs/semantics/posix.md. This crate starts no threads; the volume is `everbyte-fs`.

#![forbid(unsafe_code)]

pub mod acl;
mod allocate;
mod attributes;
mod callers;
mod directory;
mod error;
mod file;
mod files;
mod handle;
mod known_files;
mod locks;
mod map;
mod names;
mod only_client;
mod open;
mod open_files;
mod open_locks;
mod process;
mod statfs;
mod upkeep;
mod user;
mod walk;
mod xattrs;

pub use acl::Acl;
pub use allocate::AllocateMode;
pub use attributes::NewTime;
pub use callers::{further_groups, ignores_hangups};
pub use directory::DirectoryEntry;
pub use error::{Errno, Error, Result};
pub use everbyte_fs::{Attributes, FileKind, Ino, MapPages, PageSize, SealCursor, SetXattr, StepLimits};
pub use everbyte_media::WriteWindows;
pub use file::Seek;
pub use files::{AccessTimes, Files, FilesOptions, OnDamage};
pub use handle::FileHandle;
pub use known_files::KnownFiles;
pub use locks::{LockKind, RangeLock};
pub use map::{FileMap, MapOptions};
pub use names::RenameFlags;
pub use only_client::OnlyClient;
pub use open::{OpenFile, OpenFlags};
pub use open_files::OpenFiles;
pub use open_locks::LockBy;
pub use process::Process;
pub use statfs::VolumeStatus;
pub use upkeep::Upkeep;
pub use user::{Rights, User};
pub use walk::{At, PATH_MAX};
