//! Opening and creating stores by the options.

use crate::args::{OpenArgs, Shape};
use crate::failure::Failure;
use everbyte_media::Options;
use everbyte_store::{CreateOptions, Store};
use std::path::Path;

/// Declared maximum of new stores; a store occupies only the bytes in use.
pub(crate) const MAX_DEFAULT: u64 = 1 << 40;
/// Declared maximum of new bound stores: small beside the address space, so that two of them rarely
/// overlap.
const BOUND_MAX_DEFAULT: u64 = 256 << 30;

/// The media options from the arguments.
pub(crate) fn options(open: &OpenArgs) -> Options {
    let default = Options::default();
    Options {
        backend: open.backend.map_or(default.backend, Into::into),
        durability: open.durability.map_or(default.durability, |durability| durability.0),
        ..default
    }
}

/// Opens a store, which recovers it.
pub(crate) fn store(path: &Path, open: &OpenArgs) -> Result<Store, Failure> {
    exists(path)?;
    Ok(Store::open(path, &options(open))?)
}

/// Opens a store read-only; the file is not changed.
pub(crate) fn to_read(path: &Path, open: &OpenArgs) -> Result<Store, Failure> {
    exists(path)?;
    Ok(Store::options(path).read_only().open(&options(open))?)
}

/// The error for an absent store, the most common mistake, names the command that creates one.
pub(crate) fn exists(path: &Path) -> Result<(), Failure> {
    if path.exists() {
        return Ok(());
    }
    Err(Failure::System(format!("{}: no such store; create it with `everbyte create {0}`", path.display())))
}

/// Creates a store, which must not exist.
pub(crate) fn create(path: &Path, open: &OpenArgs, shape: &Shape) -> Result<Store, Failure> {
    let mut media = options(open);
    media.log_bytes = shape.log.unwrap_or(media.log_bytes);
    let max = shape.max.unwrap_or(if shape.bound { BOUND_MAX_DEFAULT } else { MAX_DEFAULT });
    Ok(Store::create(path, &CreateOptions { media, max, bound: shape.bound })?)
}
