//! Paths of volumes.

use crate::failure::Failure;
use crate::text::escape;
use everbyte_fs::{FileKind, Ino, Volume};
use std::collections::HashMap;

/// A place in a volume: its name, and the names of a path.
pub(crate) struct Place {
    pub volume: String,
    pub path: Vec<Vec<u8>>,
}

impl Place {
    /// Reads `VOLUME:PATH`, or `VOLUME` alone for its root. The path takes the escapes of
    /// [`crate::text::unescape`].
    pub(crate) fn of(text: &str) -> Result<Place, Failure> {
        let (volume, path) = text.split_once(':').unwrap_or((text, ""));
        let path = crate::text::unescape(path).map_err(Failure::Words)?;
        let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".");
        Ok(Place { volume: volume.into(), path: names.map(<[u8]>::to_vec).collect() })
    }

    /// The place as text.
    pub(crate) fn text(&self) -> String {
        format!("{}:/{}", self.volume, escape(&self.path.join(&b'/')))
    }
}

/// The inode of a place in the tree below `root`. Symbolic links are not followed.
pub(crate) fn resolve(volume: &Volume, place: &Place, root: Ino) -> Result<Ino, Failure> {
    let mut at = root;
    for name in &place.path {
        at = match &name[..] {
            b".." => volume.parent(at)?,
            name => match volume.lookup(at, name)? {
                Some(ino) => ino,
                None => return Err(Failure::No(format!("{}: no such file in the volume", place.text()))),
            },
        };
    }
    Ok(at)
}

/// The paths of every inode that names lead to, those of snapshots behind `@NAME`.
pub(crate) fn all_paths(volume: &Volume) -> HashMap<Ino, Vec<String>> {
    let mut found = paths(volume, Ino::ROOT);
    for snapshot in volume.snapshots().unwrap_or_default() {
        let name = escape(&snapshot.name);
        let of_snapshot = paths(volume, snapshot.root).into_iter();
        found
            .extend(of_snapshot.map(|(ino, paths)| (ino, paths.iter().map(|path| format!("@{name}{path}")).collect())));
    }
    found
}

/// The paths of every inode that names lead to from `root` on.
pub(crate) fn paths(volume: &Volume, root: Ino) -> HashMap<Ino, Vec<String>> {
    let mut found = HashMap::from([(root, vec!["/".to_string()])]);
    let mut open = vec![(root, String::new())];
    while let Some((directory, path)) = open.pop() {
        let mut cookie = 0;
        while let Ok(entries) = volume.entries(directory, cookie, 1000) {
            let Some(last) = entries.last() else { break };
            cookie = last.next;
            for entry in entries {
                let path = format!("{path}/{}", escape(&entry.name));
                let known = found.entry(entry.ino).or_default();
                known.push(path.clone());
                if entry.kind == FileKind::Directory && known.len() == 1 {
                    open.push((entry.ino, path));
                }
            }
        }
    }
    found
}
