//! Several processes, and processes that die.

mod kill_nine;
mod sharing;
