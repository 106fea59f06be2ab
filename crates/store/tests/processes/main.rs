//! Several processes, and processes that die.

mod kill;
mod sharing;
