//! Open pools, their roots, and running transactions: journal, counts, borrows and locks.

pub(crate) mod borrows;
pub(crate) mod copy;
pub(crate) mod counts;
mod enter;
pub(crate) mod guard;
pub(crate) mod journal;
pub(crate) mod locks;
pub(crate) mod open;
pub(crate) mod open_pool;
pub(crate) mod operations;
pub(crate) mod pool;
pub(crate) mod reader;
pub(crate) mod root;
pub(crate) mod running;
#[cfg(test)]
mod schedules;
pub(crate) mod sync;
