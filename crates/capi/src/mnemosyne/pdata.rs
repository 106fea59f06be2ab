//! The variables of executable files, as HEAPO has them: each file has its own, and they go when it
//! goes.
//!
//! A file is known by device, inode and build, which name its object; the object notes where the
//! file was when it last ran. A file that is neither there any more nor elsewhere in that directory
//! is gone.

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
pub fn name(file: &Metadata, build: &[u8]) -> String {
    let mut hash = Hash::new();
    hash.add(build);
    if build.is_empty() {
        // The linker did not say: another build was written at another time.
        [file.size() as i64, file.mtime(), file.mtime_nsec()].iter().for_each(|word| hash.add(&word.to_le_bytes()));
    }
    format!("{PREFIX}{:x}-{:x}-{:016x}", file.dev(), file.ino(), hash.0)
}

/// Device and inode that such a name holds.
fn file_of(name: &str) -> Option<(u64, u64)> {
    let mut words = name.strip_prefix(PREFIX).filter(|file| !file.contains('/'))?.split('-');
    let mut number = || u64::from_str_radix(words.next()?, 16).ok();
    Some((number()?, number()?))
}

/// Notes where the file of `program` is, and gives up the variables of files that are gone.
pub fn settle(store: &Store, program: &Program, path: &Path) -> Result<()> {
    program.set_path(path.as_os_str().as_bytes())?;
    let mine = program.heap().object().name();
    for info in store.objects()? {
        let Some(file) = file_of(&info.name).filter(|_| info.name != mine) else { continue };
        let written_over = Some(file) == file_of(mine); // the same file, with another build in it
        // An object that cannot be read, or does not say where its file was, is kept.
        let known = store.object(&info.name).ok().and_then(|object| path_of(&object).ok().flatten());
        if written_over || known.is_some_and(|path| is_gone(Path::new(OsStr::from_bytes(&path)), file)) {
            remove(store, &info.name)?;
        }
    }
    Ok(())
}

/// Removes the variables of a file, after the regions that they had.
fn remove(store: &Store, name: &str) -> Result<()> {
    let regions = Regions::prefix(name);
    for info in store.objects()?.into_iter().filter(|info| info.name.starts_with(&regions)) {
        store.remove_object(&info.name)?;
    }
    Ok(store.remove_object(name)?)
}

/// Whether a file that was at `path` is neither there nor beside it. `false` if that cannot be
/// found out.
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
