//! The catalogue: the records of objects and their names.

pub(crate) mod cache;
mod clone;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod name_space;
mod promote;
pub(crate) mod record;
mod rename;
pub(crate) mod table;
