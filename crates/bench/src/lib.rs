//! # everbyte-bench: ours and rivals, interleaved and pinned
//!
//! `cargo xtask bench CASE [--quick] [--json]`. A case is a file of `cases/`; it hands metrics to
//! the [`harness`], each with one runner of ours and any number of rivals. The harness runs them in
//! turn, round after round, and reports medians, the ratio to the best rival (above 1: ours is
//! better) and our counters per operation, which are exact on any machine where times are not.
//!
//! `--smoke` runs everything tiny: that is what the tests do.

#![forbid(unsafe_code)]

pub mod cases;
pub mod harness;
pub mod host;
pub mod ours;
pub mod pairs;
pub mod plot;
pub mod report;
pub mod structures;
