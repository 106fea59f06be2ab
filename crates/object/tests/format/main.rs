//! Bytes on media, as the format pages show them.

#[path = "../common/mod.rs"]
mod common;

mod description;
mod format_page;
mod layouts;
