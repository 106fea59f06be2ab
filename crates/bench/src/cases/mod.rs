//! The cases, each a file: what is measured, on what, against whom.

mod log;

use crate::harness::Bench;

/// What went wrong, in words for the person who ran the bench.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// One case.
pub struct Case {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// Runs it.
    pub run: fn(&mut Bench<'_>) -> Result,
}

/// All of them, in the order `all` runs them.
pub const ALL: &[Case] =
    &[Case { name: "log", about: "word log with torn bits against its base form; undo journal", run: log::run }];
