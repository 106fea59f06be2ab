//! C programs of several processes and users on one store.

#[path = "../programs/mod.rs"]
mod programs;

mod rights;
mod shared;
mod starts;
