//! Objects: their handles, headers, growth, rights and limits.

pub(crate) mod access;
pub(crate) mod backing;
pub(crate) mod growth;
pub(crate) mod handle;
pub(crate) mod header;
mod limit;
pub(crate) mod open;
pub(crate) mod opened;
pub(crate) mod quota;
mod rights;
mod sharing;
