//! Crashes of a process between two stores, of images that only the intent list shows.

#[path = "../common/mod.rs"]
mod common;

mod names;
