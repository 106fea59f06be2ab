//! Persistent types: pointers, cells, locks, strings, vectors and maps.

pub(crate) mod alike;
pub mod btree_map;
pub(crate) mod cell;
pub(crate) mod counted;
pub(crate) mod entry;
pub mod hash_map;
pub(crate) mod hints;
pub(crate) mod map;
pub(crate) mod pbinary_heap;
pub(crate) mod pbox;
pub(crate) mod pmutex;
pub(crate) mod ponce;
pub(crate) mod prefcell;
pub(crate) mod prwlock;
pub(crate) mod pstring;
pub(crate) mod pvec;
pub(crate) mod pvec_deque;
pub(crate) mod sets;
pub(crate) mod short_string;
pub(crate) mod stored;
pub(crate) mod vcell;
pub(crate) mod wrapper;
