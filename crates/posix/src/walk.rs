//! Path resolution.
//!
//! A component is looked up in a directory that the process may search. A symbolic link is replaced
//! by its target, up to 40 of them in one path, which may be longer than a path together.

use crate::process::Process;
use crate::user::Rights;
use crate::{Errno, Result};
use everbyte_fs::{FileKind, Found, Held, Ino, NAME_MAX, Volume};
use std::borrow::Cow;
use std::path::Path;

/// Bytes of the longest path.
pub const PATH_MAX: usize = 4095;
/// Symbolic links that one path may lead over.
const LINKS_MAX: usize = 40;

/// A path, and the directory that it begins in unless it begins with `/`. Made from `&str`,
/// `&[u8]` and `&Path`, which begin in the working directory, and from an open directory (or the
/// number of one that the caller holds) with one of these.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    pub(crate) start: Start<'a>,
    pub(crate) path: &'a [u8],
    /// The start itself is meant, of whatever type.
    pub(crate) is_start: bool,
}

/// The directory that a path begins in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'a> {
    /// The working directory.
    Working,
    /// One that the caller holds.
    Ino(Ino),
    /// An open one.
    Held(&'a Held),
}

impl At<'_> {
    /// The file of this number itself, which the caller holds, as with `AT_EMPTY_PATH`. No
    /// directory is searched, and a symbolic link is not followed.
    pub fn file(ino: Ino) -> At<'static> {
        At { start: Start::Ino(ino), path: b"", is_start: true }
    }
}

impl<'a> From<&'a [u8]> for At<'a> {
    fn from(path: &'a [u8]) -> At<'a> {
        At { start: Start::Working, path, is_start: false }
    }
}

impl<'a> From<&'a str> for At<'a> {
    fn from(path: &'a str) -> At<'a> {
        path.as_bytes().into()
    }
}

impl<'a> From<&'a String> for At<'a> {
    fn from(path: &'a String) -> At<'a> {
        path.as_bytes().into()
    }
}

impl<'a> From<&'a Vec<u8>> for At<'a> {
    fn from(path: &'a Vec<u8>) -> At<'a> {
        path.as_slice().into()
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for At<'a> {
    fn from(path: &'a [u8; N]) -> At<'a> {
        path.as_slice().into()
    }
}

impl<'a> From<&'a Path> for At<'a> {
    fn from(path: &'a Path) -> At<'a> {
        path.as_os_str().as_encoded_bytes().into()
    }
}

impl<'a, P: Into<At<'a>>> From<(Ino, P)> for At<'a> {
    fn from((start, path): (Ino, P)) -> At<'a> {
        At { start: Start::Ino(start), ..path.into() }
    }
}

/// The last component of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Last<'a> {
    /// A name in the directory.
    Name(Cow<'a, [u8]>),
    /// The path is `/`, or slashes alone.
    Root,
    /// `.`
    Dot,
    /// `..`
    DotDot,
}

/// The end of a path.
#[derive(Debug)]
pub(crate) struct Walked<'a> {
    /// The directory that the last component was looked up in.
    pub directory: Found,
    pub last: Last<'a>,
    /// The file, if there is one.
    pub found: Option<Found>,
    /// Slashes follow the last component.
    pub has_slash: bool,
}

impl Walked<'_> {
    /// Refuses a last component that no file can have.
    pub(crate) fn require_name(&self) -> Result<()> {
        match &self.last {
            Last::Name(name) if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG.into()),
            _ => Ok(()),
        }
    }
}

/// Whether a symbolic link at the end of a path stands for its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    /// It does.
    Follow,
    /// It does where a slash follows it.
    Keep,
    /// It does unless a slash follows it: a file is made where there is none.
    Make,
    /// It never does: the name is made, renamed or removed.
    Name,
}

impl Process {
    /// The file that a path leads to.
    pub(crate) fn file(&self, volume: &Volume, at: At<'_>, last_link: LastLink) -> Result<Found> {
        let walked = self.walk(volume, at, last_link)?;
        let found = walked.found.ok_or(Errno::ENOENT)?;
        match walked.has_slash && found.kind != FileKind::Directory {
            true => Err(Errno::ENOTDIR.into()),
            false => Ok(found),
        }
    }

    /// Resolves a path up to its last component, and looks that up.
    pub(crate) fn walk<'a>(&self, volume: &Volume, at: At<'a>, last_link: LastLink) -> Result<Walked<'a>> {
        let walked = self.walk_to(volume, at, last_link)?;
        walked.require_name()?;
        Ok(walked)
    }

    /// [`Process::walk`] that leaves a last component which is too long to the caller: it is
    /// absent.
    pub(crate) fn walk_to<'a>(&self, volume: &Volume, at: At<'a>, last_link: LastLink) -> Result<Walked<'a>> {
        if at.is_start {
            let found = self.start(volume, at)?;
            return Ok(Walked { directory: found.clone(), last: Last::Dot, found: Some(found), has_slash: false });
        }
        if at.path.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        if at.path.len() > PATH_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        if at.path.contains(&0) {
            return Err(Errno::EINVAL.into());
        }
        let mut path = Cow::Borrowed(at.path);
        let mut next = 0;
        let mut links = 0;
        let mut directory = if path[0] == b'/' { self.root(volume)? } else { self.start(volume, at)? };
        loop {
            let (component, end, is_last) = component(&path, next);
            if component.is_empty() {
                // Slashes alone.
                let found = Some(directory.clone());
                return Ok(Walked { directory, last: Last::Root, found, has_slash: true });
            }
            if directory.kind != FileKind::Directory {
                return Err(Errno::ENOTDIR.into());
            }
            self.user().require(volume, &directory, Rights::EXECUTE)?;
            let has_slash = is_last && end < path.len();
            match &path[component.clone()] {
                b"." if is_last => {
                    let found = Some(directory.clone());
                    return Ok(Walked { directory, last: Last::Dot, found, has_slash });
                }
                b"." => (),
                b".." => {
                    let parent = gone_is_absent(volume.parent(directory.ino).and_then(|ino| volume.found(ino)))?;
                    if is_last {
                        return Ok(Walked { directory, last: Last::DotDot, found: Some(parent), has_slash });
                    }
                    directory = parent;
                }
                name if name.len() > NAME_MAX && !is_last => return Err(Errno::ENAMETOOLONG.into()),
                name => {
                    let found = match name.len() {
                        ..=NAME_MAX => gone_is_absent(volume.find_in(&directory, name))?,
                        _ => None,
                    };
                    let is_link = found.as_ref().is_some_and(|found| found.kind == FileKind::Link);
                    let follows = match last_link {
                        LastLink::Follow => true,
                        LastLink::Keep => has_slash,
                        LastLink::Make => !has_slash,
                        LastLink::Name => false,
                    };
                    if is_link && (!is_last || follows) {
                        links += 1;
                        if links > LINKS_MAX {
                            return Err(Errno::ELOOP.into());
                        }
                        let link = found.expect("it is a link");
                        let mut target = gone_is_absent(volume.read_link(link.ino))?;
                        if target.first() == Some(&b'/') {
                            directory = self.root(volume)?;
                        }
                        target.extend_from_slice(&path[end..]);
                        if target.is_empty() {
                            return Err(Errno::ENOENT.into());
                        }
                        (path, next) = (Cow::Owned(target), 0);
                        continue;
                    }
                    if is_last {
                        let name = match path {
                            Cow::Borrowed(path) => Cow::Borrowed(&path[component]),
                            Cow::Owned(path) => Cow::Owned(path[component].to_vec()),
                        };
                        return Ok(Walked { directory, last: Last::Name(name), found, has_slash });
                    }
                    directory = found.ok_or(Errno::ENOENT)?;
                }
            }
            next = end;
        }
    }
}

impl Process {
    /// The directory that a relative path begins in.
    fn start(&self, volume: &Volume, at: At<'_>) -> Result<Found> {
        Ok(match at.start {
            Start::Working => self.working().found(),
            Start::Ino(ino) => volume.found(ino),
            Start::Held(held) => held.found(),
        }?)
    }

    fn root(&self, volume: &Volume) -> Result<Found> {
        Ok(if self.working().ino() == Ino::ROOT { self.working().found() } else { volume.found(Ino::ROOT) }?)
    }
}

/// The component of a path from `next` on: its range, its end, and whether no other follows it.
fn component(path: &[u8], next: usize) -> (std::ops::Range<usize>, usize, bool) {
    let is_slash = |byte: &u8| *byte == b'/';
    let start = path[next..].iter().position(|byte| !is_slash(byte)).map_or(path.len(), |skip| next + skip);
    let end = path[start..].iter().position(is_slash).map_or(path.len(), |len| start + len);
    (start..end, end, path[end..].iter().all(is_slash))
}

/// A file that was removed while a path was resolved was absent.
fn gone_is_absent<T>(outcome: everbyte_fs::Result<T>) -> Result<T> {
    outcome.map_err(|error| match error {
        everbyte_fs::Error::Stale { .. } => Errno::ENOENT.into(),
        error => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_end_at_slashes() {
        let parts = |path: &str| {
            let mut next = 0;
            let mut parts = Vec::new();
            loop {
                let (range, end, is_last) = component(path.as_bytes(), next);
                parts.push(path[range].to_string());
                if is_last {
                    return parts;
                }
                next = end;
            }
        };
        assert_eq!(parts("a/b//c/"), ["a", "b", "c"]);
        assert_eq!(parts("//a"), ["a"]);
        assert_eq!(parts("//"), [""]);
    }
}
