//! Optimistic transactions: beside a model, from several threads, and their conflicts.

mod conflicts;
mod ops;
mod serial;
