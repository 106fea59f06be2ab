//! Files of users: read by lines, or written whole.

use crate::failure::Failure;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

/// Whether a path means standard input or standard output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// The lines of a file or of standard input, and their length if it is known.
pub(crate) fn lines(path: &Path) -> Result<(Box<dyn BufRead>, Option<u64>), Failure> {
    if is_standard(path) {
        return Ok((Box::new(BufReader::new(std::io::stdin())), None));
    }
    let file = File::open(path).map_err(|error| Failure::system("open", path, error))?;
    let len = file.metadata().ok().map(|metadata| metadata.len());
    Ok((Box::new(BufReader::with_capacity(1 << 20, file)), len))
}

/// Writes a new file: it appears whole and synced, or not at all.
///
/// # Errors
/// If there is such a file, or `fill` fails.
pub(crate) fn write_new<T>(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<T, Failure>) -> Result<T, Failure> {
    if path.exists() {
        return Err(Failure::Words(format!("{} exists already; name another file", path.display())));
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let failed = |error| Failure::system("write", part, error);
    let mut file = BufWriter::with_capacity(1 << 16, File::create(part).map_err(failed)?);
    let filled = fill(&mut file);
    if filled.is_err() {
        drop(file);
        let _ = std::fs::remove_file(part);
        return filled;
    }
    let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(part, path).map_err(failed)?;
    filled
}
