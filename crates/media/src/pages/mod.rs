//! Pages of a mapping: watched pages, pages mapped a second time, bound addresses, memory errors,
//! write windows.

pub mod binding;
pub(crate) mod fault_handler;
pub(crate) mod keys;
pub(crate) mod named_ranges;
pub(crate) mod page_watch;
pub(crate) mod readable;
pub(crate) mod remap;
pub(crate) mod signals;
pub(crate) mod unreadable;
pub(crate) mod view;
pub(crate) mod write_guard;
pub(crate) mod write_windows;
