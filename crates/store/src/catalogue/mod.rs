//! The catalogue: the records of objects and their names.

pub(crate) mod cache;
mod clone;
mod copy;
pub(crate) mod create;
pub(crate) mod ids;
pub(crate) mod name_space;
pub(crate) mod part;
mod promote;
pub(crate) mod record;
pub(crate) mod recovery;
mod rename;
pub(crate) mod table;
