//! Typed tables: encodings, stored descriptions, tables.

mod encodings;
mod tables;
