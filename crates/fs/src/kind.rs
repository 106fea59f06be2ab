//! [`Ino`], [`FileKind`] and [`Attributes`]: what callers see of an inode.

use crate::PageSize;
use crate::layout::{Inode, STATE_PROJECT, State};

/// The number of an inode; the root directory is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory of every volume.
    pub const ROOT: Ino = Ino(1);
}

impl std::fmt::Display for Ino {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// Bytes.
    Regular,
    /// Names of other files.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe with a name.
    Pipe,
    /// A socket with a name.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl FileKind {
    /// All kinds.
    pub const ALL: [FileKind; 7] = [
        FileKind::Regular,
        FileKind::Directory,
        FileKind::Link,
        FileKind::Pipe,
        FileKind::Socket,
        FileKind::CharDevice,
        FileKind::BlockDevice,
    ];

    /// The type bits of a mode.
    pub const fn bits(self) -> u16 {
        match self {
            FileKind::Pipe => 0o010_000,
            FileKind::CharDevice => 0o020_000,
            FileKind::Directory => 0o040_000,
            FileKind::BlockDevice => 0o060_000,
            FileKind::Regular => 0o100_000,
            FileKind::Link => 0o120_000,
            FileKind::Socket => 0o140_000,
        }
    }

    /// The kind of a mode; `None` if its type bits are those of no kind.
    pub fn of_mode(mode: u16) -> Option<FileKind> {
        FileKind::ALL.into_iter().find(|kind| kind.bits() == mode & 0o170_000)
    }

    /// The byte in entries of directories.
    pub(crate) fn byte(self) -> u8 {
        (self.bits() >> 12) as u8
    }

    /// The kind of such a byte.
    pub(crate) fn of_byte(byte: u8) -> Option<FileKind> {
        FileKind::ALL.into_iter().find(|kind| kind.byte() == byte)
    }
}

/// The attributes of an inode. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The inode.
    pub ino: Ino,
    /// The type of the file.
    pub kind: FileKind,
    /// The permission bits, the sticky bit and the set-id bits.
    pub permissions: u16,
    /// Names that lead here; of a directory 2 and its subdirectories.
    pub links: u64,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The project of quotas.
    pub project: u32,
    /// Whether new files of the directory belong to its project.
    pub inherits_project: bool,
    /// Bytes of the file; of a directory the bytes of its pages.
    pub size: u64,
    /// Bytes of the pages that the file has.
    pub allocated: u64,
    /// The size of the pages that a regular file asks for; see [`crate::Volume::pages`].
    pub page_size: PageSize,
    /// The number of a device; 0 in other files.
    pub device: u64,
    /// Last read.
    pub accessed: i64,
    /// Last change of the bytes.
    pub modified: i64,
    /// Last change of the bytes or of the attributes.
    pub changed: i64,
    /// When the file was made.
    pub born: i64,
    /// Tells this file from an earlier one with the same number.
    pub generation: u32,
}

impl Attributes {
    /// The attributes that an inode holds; `None` if its mode is that of no kind, or its
    /// page size none.
    pub(crate) fn of(ino: Ino, inode: &Inode, pages: u64) -> Option<Attributes> {
        let state = State::of(inode.state);
        Some(Attributes {
            ino,
            kind: FileKind::of_mode(state.mode)?,
            permissions: state.mode & 0o7777,
            links: inode.link_count(),
            uid: inode.uid,
            gid: inode.gid,
            project: inode.project,
            inherits_project: state.flags & STATE_PROJECT != 0,
            size: inode.file_size(),
            allocated: pages * crate::layout::PAGE,
            page_size: PageSize::of_flags(state.flags)?,
            device: inode.device,
            accessed: inode.accessed,
            modified: inode.modified,
            changed: inode.changed,
            born: inode.born,
            generation: state.generation,
        })
    }
}

/// Attributes to change; `None` leaves one as it is. The time of the change is always set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits, the sticky bit and the set-id bits.
    pub permissions: Option<u16>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The project of quotas.
    pub project: Option<u32>,
    /// Whether new files of the directory belong to its project.
    pub inherits_project: Option<bool>,
    /// Last read.
    pub accessed: Option<i64>,
    /// Last change of the bytes.
    pub modified: Option<i64>,
}
