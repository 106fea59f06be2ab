//! What several tests of stores need.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// As `cp --sparse=always`, which not every `cp` knows: pages of zeros become holes.
pub fn copy_sparsely(source: &Path, target: &Path) {
    let (bytes, target) = (fs::read(source).unwrap(), File::create(target).unwrap());
    target.set_len(bytes.len() as u64).unwrap();
    for (page, bytes) in bytes.chunks(4096).enumerate().filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0)) {
        target.write_all_at(bytes, page as u64 * 4096).unwrap();
    }
}
