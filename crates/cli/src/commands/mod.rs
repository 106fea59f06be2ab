//! One file per command.

pub(crate) mod backup;
pub(crate) mod bridge;
pub(crate) mod check;
pub(crate) mod completion;
#[cfg(feature = "crash")]
pub(crate) mod crash;
pub(crate) mod create;
pub(crate) mod domain;
pub(crate) mod fs;
mod fs_quota;
pub(crate) mod grow;
pub(crate) mod info;
#[cfg(feature = "crash")]
pub(crate) mod inspect;
pub(crate) mod media;
pub(crate) mod mount;
pub(crate) mod names;
pub(crate) mod object;
pub(crate) mod redis;
pub(crate) mod restore;
pub(crate) mod serve;
mod serve_mounts;
pub(crate) mod store;
