//! The undo engine: a transaction logs the old bytes of each range before it stores there, and
//! recovery puts them back.

pub(crate) mod check;
pub(crate) mod commit;
pub(crate) mod context;
pub(crate) mod engine;
pub(crate) mod ranges;
pub(crate) mod recover;
pub(crate) mod started;
pub(crate) mod tx;
