//! One file a target.

pub(crate) mod backup;
pub(crate) mod dump;
pub(crate) mod file;
pub(crate) mod import;
pub(crate) mod journal;
pub(crate) mod kv;
pub(crate) mod kv_dump;
pub(crate) mod object;
pub(crate) mod store;
pub(crate) mod typed;
pub(crate) mod volume;
pub(crate) mod words;
