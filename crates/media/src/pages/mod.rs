//! Pages of a mapping: watched pages, pages mapped a second time, bound addresses, memory errors.

pub mod binding;
pub(crate) mod page_watch;
pub(crate) mod remap;
pub(crate) mod unreadable;
