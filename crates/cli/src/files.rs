//! Files of users: read by lines, or written whole.

use crate::failure::Failure;
use everbyte_backup::publish_new;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
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

/// Writes a new file, for its owner alone: it appears whole and synced, or not at all.
///
/// # Errors
/// If there is such a file, or `fill` fails.
pub(crate) fn write_new<T>(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<T, Failure>) -> Result<T, Failure> {
    if path.symlink_metadata().is_ok() {
        return Err(Failure::Words(format!("{} exists already; name another file", path.display())));
    }
    let mut failure = None;
    let written = publish_new(path, |file| {
        let mut file = BufWriter::with_capacity(1 << 16, file);
        match fill(&mut file) {
            Ok(done) => file.flush().map(|()| done),
            Err(error) => {
                failure = Some(error);
                // Without a flush of what is left.
                let _ = file.into_parts();
                Err(io::ErrorKind::Other.into())
            }
        }
    });
    match failure {
        Some(failure) => Err(failure),
        None => Ok(written?),
    }
}
