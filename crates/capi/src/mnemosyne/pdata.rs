//! The variables of executable files, as in HEAPO: each file has its own, and they are deleted with
//! it.
//!
//! A file is identified by device, inode and build, which name its object; the object records the
//! path of the file's last run. A file that is neither at that path nor elsewhere in that directory
//! counts as deleted.

use super::elf::Hash;
use crate::fault::Result;
use everbyte_mnemosyne::{Program, Regions, path_of};
use everbyte_store::Store;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The prefix of the names of these objects.
const PREFIX: &str = "pdata/";

/// The name of the object of a file.
pub(super) fn name(file: &Metadata, build: &[u8]) -> String {
    let mut hash = Hash::new();
    hash.add(build);
    if build.is_empty() {
        // No build id: another build has another modification time.
        [file.size() as i64, file.mtime(), file.mtime_nsec()].iter().for_each(|word| hash.add(&word.to_le_bytes()));
    }
    format!("{PREFIX}{:x}-{:x}-{:016x}", file.dev(), file.ino(), hash.0)
}

/// The device and inode in such a name.
fn file_of(name: &str) -> Option<(u64, u64)> {
    let mut words = name.strip_prefix(PREFIX).filter(|file| !file.contains('/'))?.split('-');
    let mut number = || u64::from_str_radix(words.next()?, 16).ok();
    Some((number()?, number()?))
}

/// Records the path of `program`, and deletes the variables of deleted files.
pub(super) fn settle(store: &Store, program: &Program, path: &Path) -> Result<()> {
    program.set_path(path.as_os_str().as_bytes())?;
    let mine = program.heap().object().name();
    for info in store.objects()? {
        let Some(file) = file_of(&info.name).filter(|_| info.name != mine) else { continue };
        let written_over = Some(file) == file_of(mine); // the same file, with another build in it
        // Other processes wait meanwhile: one that opens its variables must not find them open.
        store.at_once(|| settle_one(store, &info.name, file, written_over))??;
    }
    Ok(())
}

/// Deletes the variables of a file that is deleted, or was written over.
fn settle_one(store: &Store, name: &str, file: (u64, u64), written_over: bool) -> Result<()> {
    use everbyte_store::Error;
    let path = match store.object(name) {
        // Another program has deleted them; a running one has them.
        Err(Error::NotFound { .. } | Error::Attached { .. } | Error::Open { .. }) => return Ok(()),
        // An object that cannot be read, or holds no path, is kept.
        object => object.ok().and_then(|object| path_of(&object).ok().flatten()),
    };
    if written_over || path.is_some_and(|path| is_gone(Path::new(OsStr::from_bytes(&path)), file)) {
        remove(store, name)?;
    }
    Ok(())
}

/// Removes the variables of a file, after their regions.
fn remove(store: &Store, name: &str) -> Result<()> {
    let regions = Regions::prefix(name);
    for info in store.objects()?.into_iter().filter(|info| info.name.starts_with(&regions)) {
        store.remove_object(&info.name)?;
    }
    Ok(store.remove_object(name)?)
}

/// Whether a file recorded at `path` is neither there nor beside it. `false` if the directory
/// cannot be read.
fn is_gone(path: &Path, file: (u64, u64)) -> bool {
    let is_it = |found: &Metadata| (found.dev(), found.ino()) == file;
    match path.metadata() {
        Ok(found) if is_it(&found) => return false,
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return false,
        _ => {}
    }
    let Some(Ok(mut beside)) = path.parent().map(std::fs::read_dir) else {
        return path.parent().is_some_and(|directory| !directory.exists());
    };
    !beside.any(|entry| entry.is_ok_and(|entry| entry.metadata().is_ok_and(|found| is_it(&found))))
}
