//! # everbyte-fuse: mounts of volumes
//!
//! [`Mount`] attaches a volume to a directory through FUSE: each request of the kernel is one call
//! of `everbyte-posix`. The kernel checks rights, with the true groups and capabilities of the
//! caller (`default_permissions` and its own evaluation of access control lists), and keeps the
//! locks; the calls run with every right, and files that they make belong to the caller.
//!
//! Promises, options, and the limits of FUSE: docs/semantics/posix.md. The protocol is the crate
//! `fuser`, which no other crate sees (the benches' server that does nothing apart).

#![forbid(unsafe_code)]

mod attached;
mod convert;
mod error;
mod follower;
mod keeper;
mod mount;
mod options;
mod place;
mod requests;
mod serving;
mod shared_files;
mod workers;

pub use error::{Error, Result};
pub use everbyte_posix::ignores_hangups;
pub use mount::Mount;
pub use options::MountOptions;
pub use place::unmount;
pub use serving::Serving;
pub use shared_files::{Changed, MountedVolume};
