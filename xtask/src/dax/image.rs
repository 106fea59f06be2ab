//! The NVDIMM's image on the host: making it, and taking a file out of the file system in it.

use crate::shell::Result;
use std::fs::{self, File};
use std::path::Path;

/// A new image of zeros.
pub fn blank(path: &Path, len: u64) -> Result {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let _ = fs::remove_file(path);
    File::create(path).map_err(failed)?.set_len(len).map_err(failed)
}
