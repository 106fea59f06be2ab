//! Shared by the examples: finding the store that the command line names.
//!
//! Each program in `bin/` keeps its data in a store and goes on where it stopped. Run each twice.
//! The modules `volatile` and `persistent` are the same structures without and with persistence:
//! the manual, whose programs are compiled here, counts the lines between them.

#![forbid(unsafe_code)]

pub mod cache;
pub mod persistent;
pub mod search;
pub mod volatile;
pub mod world;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/manual/objects.md")]
struct Manual;

use everbyte::{CreateOptions, Options, Store};
use std::error::Error;
use std::fs;
use std::path::Path;

/// The result of the programs.
pub type Outcome = Result<(), Box<dyn Error>>;

/// The store at `path`, made if it is not there.
///
/// # Errors
/// If it can neither be opened nor made.
pub fn store(path: impl AsRef<Path>) -> Result<Store, Box<dyn Error>> {
    open_with(path, &Options::default())
}

/// [`store`], opened as `options` say.
///
/// # Errors
/// As [`store`].
pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Store, Box<dyn Error>> {
    let path = path.as_ref();
    if !path.exists() {
        // Made beside its place and put there whole: a program that is killed meanwhile makes it
        // the next time.
        let new = path.with_extension("new");
        if new.exists() {
            fs::remove_file(&new)?;
        }
        Store::create(&new, &CreateOptions::default())?.close()?;
        fs::rename(new, path)?;
    }
    Ok(Store::open(path, options)?)
}

/// The arguments: the store's path, and what follows it.
///
/// # Errors
/// If there is no path.
pub fn arguments(usage: &str) -> Result<(String, Vec<String>), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or(format!("usage: {usage}"))?;
    Ok((path, words.collect()))
}
