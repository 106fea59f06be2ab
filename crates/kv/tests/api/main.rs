//! Calls of the key-value store and their results.

mod age;
mod compact;
mod copies;
mod given_up;
mod longest;
mod max;
mod parts;
mod passed;
mod prefetch;
mod read_only;
mod reader_processes;
mod readers;
mod updates;
