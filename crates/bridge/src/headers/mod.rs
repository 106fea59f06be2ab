//! C++ headers, made from a library's description.
//!
//! `lib.h` names the library's symbol and carries the description that the headers were made from;
//! each type has a header with a template over pools; each pool has one with its class.

mod cpp;
mod names;

use crate::{Description, Error};
use std::io;
use std::path::{Path, PathBuf};

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its file name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The headers of a library.
///
/// # Errors
/// If a name or a type of the description has no form in C++.
pub fn generate(description: &Description) -> Result<Vec<Header>, Error> {
    cpp::generate(description)
}

/// Writes headers to a directory, which is made if it is absent. A file that is equal already keeps
/// its time, so programs that include it are not compiled again. Another one is replaced as a
/// whole, so two processes may write to one directory.
///
/// # Errors
/// With the path that could not be written.
pub fn write(headers: &[Header], directory: &Path) -> Result<(), (PathBuf, io::Error)> {
    std::fs::create_dir_all(directory).map_err(|error| (directory.into(), error))?;
    for header in headers {
        let path = directory.join(&header.name);
        if std::fs::read_to_string(&path).is_ok_and(|text| text == header.text) {
            continue;
        }
        let whole = directory.join(format!(".{}.{}", header.name, std::process::id()));
        let written = std::fs::write(&whole, &header.text).and_then(|()| std::fs::rename(&whole, &path));
        written.map_err(|error| (path, error))?;
    }
    Ok(())
}

/// The first difference between headers and the files of a directory.
pub fn difference(headers: &[Header], directory: &Path) -> Option<String> {
    headers.iter().find_map(|header| {
        let path = directory.join(&header.name);
        let Ok(text) = std::fs::read_to_string(&path) else { return Some(format!("{}: it is absent", path.display())) };
        if text == header.text {
            return None;
        }
        let mut both = text.lines().zip(header.text.lines()).zip(1..);
        Some(match both.find(|((old, new), _)| old != new) {
            Some(((old, new), line)) => {
                format!("{}: line {line} is `{}`, and would be `{}`", path.display(), old.trim(), new.trim())
            }
            None => format!("{}: its end differs", path.display()),
        })
    })
}
