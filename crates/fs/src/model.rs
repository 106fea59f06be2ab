//! The plain twin of a volume, for tests: a tree of files in memory, operations on both, and what a
//! volume holds as such a tree.

use crate::{Allocate, Error, FileKind, Ino, MapOptions, NewFile, PageSize, Quota, QuotaKind, QuotaLimit, QuotaLimits};
use crate::{Rename, SetAttributes, SetXattr, Volume};
use std::collections::BTreeMap;

/// A path from the root: its names.
pub type Path = Vec<Vec<u8>>;

/// One operation. Paths name the files, so that it can be applied to a volume and to its twin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// [`Volume::make`].
    Make { path: Path, kind: FileKind, permissions: u16 },
    /// A symbolic link.
    MakeLink { path: Path, target: Vec<u8> },
    /// [`Volume::write`] of bytes that a seed gives.
    Write { path: Path, at: u64, len: u64, seed: u8 },
    /// [`Volume::map`] of the whole file, stores to it, and [`crate::FileMap::sync`]. A range that
    /// does not lie in the file is refused.
    MapWrite { path: Path, at: u64, len: u64, seed: u8 },
    /// [`Volume::append`].
    Append { path: Path, len: u64, seed: u8 },
    /// [`Volume::resize`].
    Resize { path: Path, to: u64 },
    /// [`Volume::allocate`].
    Allocate { path: Path, at: u64, len: u64, mode: Allocate },
    /// [`Volume::collapse`].
    Collapse { path: Path, at: u64, len: u64 },
    /// [`Volume::insert`].
    Insert { path: Path, at: u64, len: u64 },
    /// [`Volume::copy_range`].
    Copy { path: Path, at: u64, to: Path, to_at: u64, len: u64 },
    /// [`Volume::clone_range`].
    Clone { path: Path, at: u64, to: Path, to_at: u64, len: u64 },
    /// [`Volume::link`].
    Link { path: Path, new: Path },
    /// [`Volume::unlink`].
    Unlink { path: Path },
    /// [`Volume::remove_directory`].
    RemoveDirectory { path: Path },
    /// [`Volume::rename`].
    Rename { from: Path, to: Path, mode: Rename<'static> },
    /// [`Volume::set_xattr`]; of length 0 [`Volume::remove_xattr`].
    Xattr { path: Path, name: Vec<u8>, len: u64, seed: u8 },
    /// [`Volume::snapshot`].
    Snapshot { name: Vec<u8> },
    /// [`Volume::remove_snapshot`].
    RemoveSnapshot { name: Vec<u8> },
    /// [`Volume::set_attributes`].
    Set { path: Path, permissions: u16, uid: u32 },
    /// [`Volume::set_quota`] of pages and inodes of a user; 0 and 0 removes it.
    Quota { uid: u32, pages: u64, inodes: u64 },
    /// [`Volume::set_size`].
    Size { bytes: u64 },
    /// [`Volume::make_unnamed`], an append, and [`Volume::link`].
    MakeUnnamed { path: Path, len: u64, seed: u8 },
}

/// The bytes that a write of `len` bytes with a seed stores: none is zero.
pub fn bytes(len: u64, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed) | 1).collect()
}

/// A file of the twin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    kind: FileKind,
    permissions: u16,
    uid: u32,
    links: u64,
    /// Bytes of a regular file, the target of a link.
    bytes: Vec<u8>,
    names: BTreeMap<Vec<u8>, u64>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    times: Times,
    /// Of a regular file.
    page_size: PageSize,
}

/// The times of a file: the last change of its bytes, and of anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// [`crate::Attributes::modified`].
    pub modified: i64,
    /// [`crate::Attributes::changed`].
    pub changed: i64,
}

/// The twin.
#[derive(Clone)]
pub struct Tree {
    files: BTreeMap<u64, File>,
    next: u64,
    /// The time of the operations that follow. Times are not compared by `==`, see [`Tree::times`].
    pub now: i64,
    /// The page size of new files.
    pub page_size: PageSize,
    snapshots: BTreeMap<Vec<u8>, BTreeMap<u64, File>>,
    /// Limits of pages and inodes of users, which this twin does not enforce.
    quotas: BTreeMap<u32, (u64, u64)>,
    /// Bytes that the volume may have; 0: as many as its span has. Not enforced.
    size: u64,
}

/// A path as it is shown: the file, and the first path of the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown<'t> {
    kind: FileKind,
    permissions: u16,
    uid: u32,
    links: u64,
    first_path: Vec<u8>,
    /// That of an empty file says nothing.
    page_size: Option<PageSize>,
    bytes: &'t [u8],
    xattrs: &'t BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Default for Tree {
    fn default() -> Tree {
        let root = File {
            kind: FileKind::Directory,
            permissions: 0o755,
            uid: 0,
            links: 2,
            bytes: Vec::new(),
            names: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            times: Times::default(),
            page_size: PageSize::Small,
        };
        let (files, page_size) = (BTreeMap::from([(1, root)]), PageSize::Small);
        let (snapshots, quotas) = (BTreeMap::new(), BTreeMap::new());
        Tree { files, next: 2, now: 0, page_size, snapshots, quotas, size: 0 }
    }
}

impl PartialEq for Tree {
    fn eq(&self, other: &Tree) -> bool {
        self.shown() == other.shown()
            && self.all_snapshots() == other.all_snapshots()
            && (&self.quotas, self.size) == (&other.quotas, other.size)
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut map = f.debug_map();
        let mut all = self.shown();
        for (name, shown) in self.all_snapshots() {
            all.extend(shown.into_iter().map(|(path, shown)| ([b"@", &name[..], &path[..]].concat(), shown)));
        }
        for (path, shown) in all {
            let sum = crc32c::crc32c(shown.bytes);
            let Shown { kind, permissions, uid, links, xattrs, page_size, .. } = &shown;
            let xattrs = crc32c::crc32c(format!("{xattrs:?}").as_bytes());
            let len = shown.bytes.len();
            let text = format!("{kind:?} {permissions:o} uid {uid} links {links} len {len} sum {sum:x} {xattrs:x}");
            let text = page_size.map_or(text.clone(), |size| format!("{text} of {size}"));
            map.entry(&String::from_utf8_lossy(&path), &text);
        }
        if !self.quotas.is_empty() || self.size > 0 {
            map.entry(&"quotas and size", &(&self.quotas, self.size));
        }
        map.finish()
    }
}

type Files = BTreeMap<u64, File>;

fn show_all(files: &Files) -> BTreeMap<Vec<u8>, Shown<'_>> {
    let (mut all, mut first) = (BTreeMap::new(), BTreeMap::new());
    show(files, 1, b"/", &mut all, &mut first);
    all
}

fn show<'t>(
    files: &'t Files,
    id: u64,
    path: &[u8],
    all: &mut BTreeMap<Vec<u8>, Shown<'t>>,
    first: &mut BTreeMap<u64, Vec<u8>>,
) {
    let File { kind, permissions, uid, links, bytes, names, xattrs, .. } = &files[&id];
    let first_path = first.entry(id).or_insert_with(|| path.to_vec()).clone();
    let (kind, permissions, uid, links) = (*kind, *permissions, *uid, *links);
    let page_size = (!bytes.is_empty()).then_some(files[&id].page_size);
    all.insert(path.to_vec(), Shown { kind, permissions, uid, links, first_path, page_size, bytes, xattrs });
    for (name, &child) in names {
        show(files, child, &[path, name, b"/"].concat(), all, first);
    }
}

/// A refusal; which one is not compared.
#[derive(Debug)]
pub struct Refused;

type Answer<T = ()> = Result<T, Refused>;

impl Tree {
    /// Every path with its file.
    pub fn shown(&self) -> BTreeMap<Vec<u8>, Shown<'_>> {
        show_all(&self.files)
    }

    /// Every path of every snapshot.
    pub fn all_snapshots(&self) -> BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Shown<'_>>> {
        self.snapshots.iter().map(|(name, files)| (name.clone(), show_all(files))).collect()
    }

    /// All paths of files of a kind; of all files if `None`.
    pub fn paths(&self, kind: Option<FileKind>) -> Vec<Path> {
        let of_kind = |shown: &Shown<'_>| kind.is_none_or(|kind| shown.kind == kind);
        let split = |path: Vec<u8>| {
            path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
        };
        self.shown().into_iter().filter(|(_, shown)| of_kind(shown)).map(|(path, _)| split(path)).collect()
    }

    /// Bytes of the file of a path, if there is one.
    pub fn len(&self, path: &[Vec<u8>]) -> Option<u64> {
        self.find(path).ok().map(|id| self.files[&id].bytes.len() as u64)
    }

    /// The twin of a volume that is made at the time `now`.
    pub fn made_at(now: i64) -> Tree {
        let mut tree = Tree { now, ..Tree::default() };
        tree.touch(1);
        tree
    }

    /// Every path with the times of its file.
    pub fn times(&self) -> BTreeMap<Path, Times> {
        let mut all = BTreeMap::new();
        self.show_times(1, &mut Path::new(), &mut all);
        all
    }

    fn show_times(&self, id: u64, path: &mut Path, all: &mut BTreeMap<Path, Times>) {
        all.insert(path.clone(), self.files[&id].times);
        for (name, &child) in &self.files[&id].names {
            path.push(name.clone());
            self.show_times(child, path, all);
            path.pop();
        }
    }

    /// The latest time of any file.
    pub fn latest(&self) -> i64 {
        self.files.values().map(|file| file.times.modified.max(file.times.changed)).max().unwrap_or(0)
    }

    /// The bytes or the names of a file change.
    fn touch(&mut self, id: u64) {
        self.get(id).times = Times { modified: self.now, changed: self.now };
    }

    /// A range of so many bytes selects the page size of an empty file.
    fn hint(&mut self, id: u64, is_empty: bool, len: u64) {
        if let Some(size) = PageSize::hinted(len).filter(|_| is_empty) {
            self.get(id).page_size = size;
        }
    }

    /// The inode of a file changes, and its bytes stay.
    fn touch_inode(&mut self, id: u64) {
        self.get(id).times.changed = self.now;
    }

    fn find(&self, path: &[Vec<u8>]) -> Answer<u64> {
        path.iter().try_fold(1, |id, name| self.files[&id].names.get(name).copied().ok_or(Refused))
    }

    /// A regular file, to change its bytes.
    fn file(&mut self, path: &[Vec<u8>]) -> Answer<(u64, &mut Vec<u8>)> {
        let id = self.find(path)?;
        let file = self.get(id);
        if file.kind == FileKind::Regular { Ok((id, &mut file.bytes)) } else { Err(Refused) }
    }

    fn parent<'p>(&self, path: &'p [Vec<u8>]) -> Answer<(u64, &'p Vec<u8>)> {
        let (name, directory) = path.split_last().ok_or(Refused)?;
        let id = self.find(directory)?;
        if self.files[&id].kind == FileKind::Directory { Ok((id, name)) } else { Err(Refused) }
    }

    fn get(&mut self, id: u64) -> &mut File {
        self.files.get_mut(&id).expect("the file exists")
    }

    fn drop_name(&mut self, id: u64) {
        self.touch_inode(id);
        let file = self.get(id);
        file.links -= 1;
        if file.links == 0 || file.kind == FileKind::Directory {
            self.files.remove(&id);
        }
    }

    fn is_below(&self, id: u64, ancestor: u64) -> bool {
        id == ancestor || self.files[&ancestor].names.values().any(|&child| self.is_below(id, child))
    }

    /// Applies an operation.
    ///
    /// # Errors
    /// If the volume refuses it, too; nothing has changed.
    pub fn apply(&mut self, op: &Op) -> Answer {
        match op {
            Op::Make { path, kind, permissions } => self.make(path, *kind, *permissions, Vec::new()),
            Op::MakeLink { path, target } => self.make(path, FileKind::Link, 0o777, target.clone()),
            Op::Write { path, at, len, seed } => {
                let (id, into) = self.file(path)?;
                put(into, *at, &bytes(*len, *seed));
                if *len > 0 {
                    self.touch(id);
                }
                Ok(())
            }
            Op::MapWrite { path, at, len, seed } => {
                let (id, into) = self.file(path)?;
                if *len == 0 || at + len > into.len() as u64 {
                    return Err(Refused);
                }
                put(into, *at, &bytes(*len, *seed));
                self.touch(id);
                Ok(())
            }
            Op::Append { path, len, seed } => {
                let (id, into) = self.file(path)?;
                into.extend(bytes(*len, *seed));
                if *len > 0 {
                    self.touch(id);
                }
                Ok(())
            }
            Op::Resize { path, to } => {
                let (id, bytes) = self.file(path)?;
                let is_empty = bytes.is_empty();
                bytes.resize(*to as usize, 0);
                self.hint(id, is_empty, *to);
                self.touch(id);
                Ok(())
            }
            Op::Allocate { path, at, len, mode } => {
                let (id, bytes) = self.file(path)?;
                let (at, end) = (*at as usize, (*at + *len) as usize);
                let is_empty = bytes.is_empty() && matches!(mode, Allocate::Grow | Allocate::KeepSize);
                let is_behind = *mode == Allocate::Punch && at >= bytes.len().next_multiple_of(4096);
                if matches!(mode, Allocate::Grow | Allocate::Zero) && *len > 0 && end > bytes.len() {
                    bytes.resize(end, 0);
                }
                if !matches!(mode, Allocate::Grow | Allocate::KeepSize) && at < bytes.len() {
                    let end = end.min(bytes.len());
                    bytes[at..end].fill(0);
                }
                self.hint(id, is_empty, *len);
                if *len > 0 && !is_behind {
                    self.touch(id);
                }
                Ok(())
            }
            Op::Collapse { path, at, len } => {
                let (id, bytes) = self.file(path)?;
                let (at, end) = (*at as usize, (*at + *len) as usize);
                if !at.is_multiple_of(4096) || !len.is_multiple_of(4096) || *len == 0 || end >= bytes.len() {
                    return Err(Refused);
                }
                bytes.drain(at..end);
                self.touch(id);
                Ok(())
            }
            Op::Insert { path, at, len } => {
                let (id, bytes) = self.file(path)?;
                let at = *at as usize;
                if !at.is_multiple_of(4096) || !len.is_multiple_of(4096) || *len == 0 || at >= bytes.len() {
                    return Err(Refused);
                }
                bytes.splice(at..at, vec![0; *len as usize]);
                self.touch(id);
                Ok(())
            }
            Op::Copy { path, at, to, to_at, len } => self.copy(path, *at, to, *to_at, *len),
            Op::Clone { path, at, to, to_at, len } => {
                let size = self.file(path)?.1.len() as u64;
                let target = self.file(to)?.1.len() as u64;
                let len = if *len == 0 { size.checked_sub(*at).ok_or(Refused)? } else { *len };
                let is_last = at + len == size && to_at + len >= target;
                let is_aligned = at.is_multiple_of(4096) && to_at.is_multiple_of(4096);
                if !is_aligned || at + len > size || !len.is_multiple_of(4096) && !is_last {
                    return Err(Refused);
                }
                self.copy(path, *at, to, *to_at, len)
            }
            Op::Link { path, new } => {
                let (id, (directory, name)) = (self.find(path)?, self.parent(new)?);
                if self.files[&id].kind == FileKind::Directory || self.files[&directory].names.contains_key(name) {
                    return Err(Refused);
                }
                self.get(id).links += 1;
                self.get(directory).names.insert(name.clone(), id);
                self.touch_inode(id);
                self.touch(directory);
                Ok(())
            }
            Op::Unlink { path } => {
                let (id, (directory, name)) = (self.find(path)?, self.parent(path)?);
                if self.files[&id].kind == FileKind::Directory {
                    return Err(Refused);
                }
                self.get(directory).names.remove(name);
                self.touch(directory);
                self.drop_name(id);
                Ok(())
            }
            Op::RemoveDirectory { path } => {
                let (id, (directory, name)) = (self.find(path)?, self.parent(path)?);
                let file = &self.files[&id];
                if file.kind != FileKind::Directory || !file.names.is_empty() {
                    return Err(Refused);
                }
                let parent = self.get(directory);
                parent.names.remove(name);
                parent.links -= 1;
                self.touch(directory);
                self.drop_name(id);
                Ok(())
            }
            Op::Rename { from, to, mode } => self.rename(from, to, *mode),
            Op::Xattr { path, name, len, seed } => {
                let id = self.find(path)?;
                let xattrs = &mut self.get(id).xattrs;
                match len {
                    0 => xattrs.remove(name).map(drop).ok_or(Refused)?,
                    len => drop(xattrs.insert(name.clone(), bytes(*len, *seed))),
                }
                self.touch_inode(id);
                Ok(())
            }
            Op::Snapshot { name } if self.snapshots.contains_key(name) => Err(Refused),
            Op::Snapshot { name } => {
                // Files that no name leads to are left out.
                self.snapshots.insert(name.clone(), self.files.clone());
                Ok(())
            }
            Op::RemoveSnapshot { name } => self.snapshots.remove(name).map(drop).ok_or(Refused),
            Op::Set { path, permissions, uid } => {
                let id = self.find(path)?;
                let file = self.get(id);
                (file.permissions, file.uid) = (*permissions, *uid);
                self.touch_inode(id);
                Ok(())
            }
            Op::Quota { uid, pages: 0, inodes: 0 } => {
                self.quotas.remove(uid);
                Ok(())
            }
            Op::Quota { uid, pages, inodes } => {
                self.quotas.insert(*uid, (*pages, *inodes));
                Ok(())
            }
            Op::Size { bytes } => {
                self.size = *bytes;
                Ok(())
            }
            Op::MakeUnnamed { path, len, seed } => self.make(path, FileKind::Regular, 0o600, bytes(*len, *seed)),
        }
    }

    fn copy(&mut self, path: &[Vec<u8>], at: u64, to: &[Vec<u8>], to_at: u64, len: u64) -> Answer {
        let source = self.file(path)?.1;
        let size = source.len() as u64;
        let copied = source[at.min(size) as usize..at.saturating_add(len).min(size) as usize].to_vec();
        let len = copied.len() as u64;
        let is_one = self.find(path)? == self.find(to)?;
        let (id, target) = self.file(to)?;
        if is_one && at < to_at + len && to_at < at + len {
            return Err(Refused);
        }
        put(target, to_at, &copied);
        if len > 0 {
            self.touch(id);
        }
        Ok(())
    }

    fn make(&mut self, path: &[Vec<u8>], kind: FileKind, permissions: u16, bytes: Vec<u8>) -> Answer {
        let (directory, name) = self.parent(path)?;
        if self.files[&directory].names.contains_key(name) {
            return Err(Refused);
        }
        let links = if kind == FileKind::Directory { 2 } else { 1 };
        let id = self.next;
        self.next += 1;
        let times = Times { modified: self.now, changed: self.now };
        let (names, xattrs) = (BTreeMap::new(), BTreeMap::new());
        let page_size = if kind == FileKind::Regular { self.page_size } else { PageSize::Small };
        self.files.insert(id, File { kind, permissions, uid: 0, links, bytes, names, xattrs, times, page_size });
        self.touch(directory);
        let parent = self.get(directory);
        parent.names.insert(name.clone(), id);
        parent.links += u64::from(kind == FileKind::Directory);
        Ok(())
    }

    fn rename(&mut self, from: &[Vec<u8>], to: &[Vec<u8>], mode: Rename<'_>) -> Answer {
        let (moved, (source, name), (target, new)) = (self.find(from)?, self.parent(from)?, self.parent(to)?);
        let other = self.files[&target].names.get(new).copied();
        let is_directory = |tree: &Tree, id: u64| tree.files[&id].kind == FileKind::Directory;
        match (mode, other) {
            (Rename::Replace, Some(other)) if other == moved => return Ok(()),
            (Rename::NoReplace, Some(_)) | (Rename::Exchange, None) => return Err(Refused),
            (Rename::Exchange, Some(other)) if other == moved => return Ok(()),
            _ => (),
        }
        if is_directory(self, moved) && self.is_below(target, moved) {
            return Err(Refused);
        }
        let renamed = |tree: &mut Tree| {
            tree.touch(source);
            tree.touch(target);
            tree.touch_inode(moved);
        };
        if let (Rename::Exchange, Some(other)) = (mode, other) {
            if is_directory(self, other) && self.is_below(source, other) {
                return Err(Refused);
            }
            self.get(source).names.insert(name.clone(), other);
            self.get(target).names.insert(new.clone(), moved);
            for (id, out, into) in [(moved, source, target), (other, target, source)] {
                if is_directory(self, id) {
                    self.get(out).links -= 1;
                    self.get(into).links += 1;
                }
            }
            renamed(self);
            self.touch_inode(other);
            return Ok(());
        }
        if let Some(other) = other {
            if is_directory(self, moved) != is_directory(self, other) || !self.files[&other].names.is_empty() {
                return Err(Refused);
            }
            if is_directory(self, other) {
                self.get(target).links -= 1;
            }
            self.drop_name(other);
        }
        self.get(source).names.remove(name);
        self.get(target).names.insert(new.clone(), moved);
        if is_directory(self, moved) {
            self.get(source).links -= 1;
            self.get(target).links += 1;
        }
        renamed(self);
        Ok(())
    }
}

fn put(into: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = at as usize + bytes.len();
    if end > into.len() {
        into.resize(end, 0);
    }
    into[at as usize..end].copy_from_slice(bytes);
}

/// The inode of a path.
///
/// # Errors
/// As [`Volume::lookup`]; [`Error::NotFound`].
pub fn find(volume: &Volume, path: &[Vec<u8>]) -> crate::Result<Ino> {
    path.iter().try_fold(Ino::ROOT, |ino, name| volume.lookup(ino, name)?.ok_or(Error::NotFound))
}

/// Applies an operation to a volume.
///
/// # Errors
/// Those of the call.
pub fn apply(volume: &Volume, op: &Op) -> crate::Result<()> {
    let parent = |path: &Path| -> crate::Result<(Ino, Vec<u8>)> {
        let (name, directory) = path.split_last().ok_or(Error::BadName)?;
        Ok((find(volume, directory)?, name.clone()))
    };
    match op {
        Op::Make { path, kind, permissions } => {
            let (directory, name) = parent(path)?;
            volume.make(directory, &name, &NewFile::new(*kind, *permissions)).map(drop)
        }
        Op::MakeLink { path, target } => {
            let (directory, name) = parent(path)?;
            volume.make(directory, &name, &NewFile { target, ..NewFile::new(FileKind::Link, 0o777) }).map(drop)
        }
        Op::Write { path, at, len, seed } => volume.write(find(volume, path)?, *at, &bytes(*len, *seed)),
        Op::MapWrite { path, at, len, seed } => {
            let (ino, options) = (find(volume, path)?, MapOptions { writable: true, ..MapOptions::default() });
            let size = volume.attributes(ino)?.size;
            if *len == 0 || at + len > size {
                return Err(Error::Outside { at: *at, len: *len, end: size });
            }
            let map = volume.map(ino, 0, size, &options)?;
            map.write(*at, &bytes(*len, *seed))?;
            map.sync(*at, *len)
        }
        Op::Append { path, len, seed } => volume.append(find(volume, path)?, &bytes(*len, *seed)).map(drop),
        Op::Resize { path, to } => volume.resize(find(volume, path)?, *to),
        Op::Allocate { path, at, len, mode } => volume.allocate(find(volume, path)?, *at, *len, *mode),
        Op::Collapse { path, at, len } => volume.collapse(find(volume, path)?, *at, *len),
        Op::Insert { path, at, len } => volume.insert(find(volume, path)?, *at, *len),
        Op::Copy { path, at, to, to_at, len } => {
            volume.copy_range(find(volume, path)?, *at, find(volume, to)?, *to_at, *len).map(drop)
        }
        Op::Clone { path, at, to, to_at, len } => {
            volume.clone_range(find(volume, path)?, *at, find(volume, to)?, *to_at, *len).map(drop)
        }
        Op::Link { path, new } => {
            let (directory, name) = parent(new)?;
            volume.link(find(volume, path)?, directory, &name)
        }
        Op::Unlink { path } => {
            let (directory, name) = parent(path)?;
            volume.unlink(directory, &name)
        }
        Op::RemoveDirectory { path } => {
            let (directory, name) = parent(path)?;
            volume.remove_directory(directory, &name)
        }
        Op::Rename { from, to, mode } => {
            let ((from, name), (to, new)) = (parent(from)?, parent(to)?);
            volume.rename(from, &name, to, &new, *mode)
        }
        Op::Xattr { path, name, len: 0, .. } => volume.remove_xattr(find(volume, path)?, name),
        Op::Xattr { path, name, len, seed } => {
            volume.set_xattr(find(volume, path)?, name, &bytes(*len, *seed), SetXattr::Any)
        }
        Op::Snapshot { name } => volume.snapshot(name).map(drop),
        Op::RemoveSnapshot { name } => volume.remove_snapshot(name),
        Op::Set { path, permissions, uid } => {
            let set = SetAttributes { permissions: Some(*permissions), uid: Some(*uid), ..SetAttributes::default() };
            volume.set_attributes(find(volume, path)?, &set)
        }
        Op::Quota { uid, pages, inodes } => {
            let limit = |hard| QuotaLimit { hard, ..QuotaLimit::default() };
            let limits = QuotaLimits { bytes: limit(pages * 4096), inodes: limit(*inodes) };
            volume.set_quota(QuotaKind::User, *uid, &limits)
        }
        Op::Size { bytes } => volume.set_size(*bytes),
        Op::MakeUnnamed { path, len, seed } => {
            let (directory, name) = parent(path)?;
            let held = volume.make_unnamed(&NewFile::new(FileKind::Regular, 0o600))?;
            volume.append(held.ino(), &bytes(*len, *seed))?;
            volume.link(held.ino(), directory, &name)
        }
    }
}

/// The tree that a volume holds.
///
/// # Errors
/// Damage.
pub fn read(volume: &Volume) -> crate::Result<Tree> {
    let page_size = volume.core.page_size;
    let quotas = volume.quotas()?.into_iter().map(|Quota { id, limits, .. }| {
        (id, (limits.bytes.hard / 4096, limits.inodes.hard)) // users alone
    });
    let (files, snapshots) = (BTreeMap::new(), BTreeMap::new());
    let (quotas, size) = (quotas.collect(), volume.size().unwrap_or(0));
    let mut tree = Tree { files, next: 0, now: 0, page_size, snapshots, quotas, size };
    read_file(volume, Ino::ROOT, Ino::ROOT, &mut tree.files)?;
    for snapshot in volume.snapshots()? {
        let mut files = BTreeMap::new();
        read_file(volume, snapshot.root, snapshot.root, &mut files)?;
        tree.snapshots.insert(snapshot.name, files);
    }
    tree.next = tree.files.keys().next_back().expect("the root is there") + 1;
    tree.now = tree.latest();
    Ok(tree)
}

/// Reads a file and all below it. The root of a tree is file 1, others have their numbers.
fn read_file(volume: &Volume, ino: Ino, root: Ino, files: &mut Files) -> crate::Result<()> {
    let id = |ino: Ino| if ino == root { 1 } else { ino.0 };
    if files.contains_key(&id(ino)) {
        return Ok(());
    }
    let found = volume.attributes(ino)?;
    let mut file = File {
        kind: found.kind,
        permissions: found.permissions,
        uid: found.uid,
        links: found.links,
        bytes: Vec::new(),
        names: BTreeMap::new(),
        xattrs: BTreeMap::new(),
        times: Times { modified: found.modified, changed: found.changed },
        page_size: found.page_size,
    };
    for name in volume.xattrs(ino)? {
        let value = volume.xattr(ino, &name)?;
        file.xattrs.insert(name, value);
    }
    match found.kind {
        FileKind::Regular => {
            file.bytes = vec![0; found.size as usize];
            let len = volume.read(ino, 0, &mut file.bytes)?;
            assert_eq!(len, file.bytes.len(), "a read ends at the end of the file only");
        }
        FileKind::Link => file.bytes = volume.read_link(ino)?,
        FileKind::Directory => {
            let mut cookie = 0;
            loop {
                let entries = volume.entries(ino, cookie, 3)?;
                let Some(last) = entries.last() else { break };
                cookie = last.next;
                file.names.extend(entries.into_iter().map(|entry| (entry.name, entry.ino.0)));
            }
        }
        _ => (),
    }
    let names: Vec<u64> = file.names.values().copied().collect();
    files.insert(id(ino), file);
    names.into_iter().try_for_each(|child| read_file(volume, Ino(child), root, files))
}
