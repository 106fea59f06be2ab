//! The versioned hash table: against a map, on bad days, its bytes and its order of stores.
#![forbid(unsafe_code)]

mod days;
mod map;
mod media;
