//! One file a command.

pub mod check;
pub mod completion;
#[cfg(feature = "crash")]
pub mod crash;
pub mod create;
pub mod domain;
pub mod grow;
pub mod info;
pub mod media;
pub mod names;
pub mod serve;
pub mod store;
