//! The NVDIMM's image on the host: making it, and taking a file out of the file system in it.
//!
//! Steps of taking: find the file system behind the namespace's info block; copy it out, holes
//! kept; replay its journal with e2fsck; dump the file with debugfs. Nothing is mounted, so it
//! works in a container.

use crate::shell::{self, Result};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Offset of the info block of an fsdax namespace, and the field that says where the data starts.
const INFO_AT: u64 = 4096;
const INFO_SIGNATURE: &[u8] = b"NVDIMM_PFN_INFO\0";
const INFO_DATA_AT: usize = 56;
/// Offset of ext4's magic number.
const EXT4_MAGIC_AT: u64 = 1024 + 56;

/// A new image of zeros.
pub(super) fn blank(path: &Path, len: u64) -> Result {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let _ = fs::remove_file(path);
    File::create(path).map_err(failed)?.set_len(len).map_err(failed)
}

/// Takes the file called `name` out of the image's root directory; `None` if it is not there.
pub(super) fn take(image: &Path, name: &str) -> Result<Option<PathBuf>> {
    let partition = image.with_extension("ext4");
    copy_file_system(image, &partition)?;
    // 0: clean; 1: the journal was replayed, or something small was put right, as any mount after a
    // crash would do.
    let mut fsck = Command::new(shell::which("e2fsck")?);
    fsck.arg("-fy").arg(&partition).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let checked = fsck.output().map_err(|error| format!("e2fsck: {error}"))?;
    if checked.status.code().is_none_or(|code| code > 1) {
        return Err(format!("e2fsck: {}\n{}", checked.status, String::from_utf8_lossy(&checked.stdout)));
    }
    let taken = image.with_file_name(name);
    let _ = fs::remove_file(&taken);
    let mut dump = Command::new(shell::which("debugfs")?);
    dump.arg("-R").arg(format!("dump /{name} {}", taken.display())).arg(&partition);
    let dumped = dump.stdin(Stdio::null()).output().map_err(|error| format!("debugfs: {error}"))?;
    if !dumped.status.success() {
        return Err(format!("debugfs: {}", String::from_utf8_lossy(&dumped.stderr)));
    }
    fs::remove_file(&partition).map_err(|error| format!("{}: {error}", partition.display()))?;
    Ok(fs::metadata(&taken).is_ok_and(|metadata| metadata.len() > 0).then_some(taken))
}

fn copy_file_system(image: &Path, partition: &Path) -> Result {
    let failed = |error: std::io::Error| format!("{}: {error}", image.display());
    let from = File::open(image).map_err(failed)?;
    let mut info = [0; 64];
    from.read_exact_at(&mut info, INFO_AT).map_err(failed)?;
    if !info.starts_with(INFO_SIGNATURE) {
        return Err(format!("{}: no fsdax namespace", image.display()));
    }
    let start = u64::from_le_bytes(info[INFO_DATA_AT..].try_into().expect("8 bytes"));
    let mut magic = [0; 2];
    from.read_exact_at(&mut magic, start + EXT4_MAGIC_AT).map_err(failed)?;
    if magic != [0x53, 0xef] {
        return Err(format!("{}: no ext4 at {start:#x}", image.display()));
    }
    let len = from.metadata().map_err(failed)?.len();
    let mut to = File::create(partition).map_err(failed)?;
    to.set_len(len - start).map_err(failed)?;
    let mut block = vec![0; 1 << 20];
    let mut at = start;
    while at < len {
        let part = &mut block[..usize::try_from(len - at).unwrap_or(usize::MAX).min(1 << 20)];
        from.read_exact_at(part, at).map_err(failed)?;
        if part.iter().any(|byte| *byte != 0) {
            to.write_all_at(part, at - start).map_err(failed)?;
        }
        at += part.len() as u64;
    }
    to.flush().map_err(failed)
}
