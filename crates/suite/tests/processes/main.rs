//! Real processes that are killed.

mod kill;
mod real_input;
mod word_count;
