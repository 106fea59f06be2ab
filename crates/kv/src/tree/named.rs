//! Versions with names: they stay readable until their name is removed, across openings too.
//!
//! A name is an entry of a table of the tree, [`TableNumber::VERSIONS`], that says where the
//! version has its root. Nothing is copied: as with a snapshot, what the version sees is not
//! reclaimed. Opening pins every named version before it writes.
//!
//! Invariants
//!   NAME-1  A version is pinned from before the commit that gives it a name to after the commit
//!           that removes it. An opened tree holds a pin for each name.
//!   NAME-2  A record that cannot be read pins everything: what it named stays.
//!
//! Design: docs/design/named-versions.md

use crate::error::Result;
use crate::tree::batch::TreeBatch;
use crate::tree::cursor::Cursor;
use crate::tree::handle::OpenTree;
use crate::tree::key::TableNumber;
use crate::tree::node::Node;
use crate::tree::number::Version;
use crate::tree::pins::{KeyCounts, Published};
use everbyte_media::Offset;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A version with a name, on media: the value of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct VersionRecord {
    pub version: Version,
    pub root: Offset,
    /// Live keys of all tables.
    pub keys: u64,
    /// Live keys of the main table.
    pub main_keys: u64,
    /// Seconds since 1970 at which it got the name, by the clock of that machine.
    pub named_at: u64,
}
const _: () = assert!(size_of::<VersionRecord>() == 40);

impl VersionRecord {
    pub(crate) fn new(seen: Published, named_at: u64) -> VersionRecord {
        VersionRecord {
            version: seen.version,
            root: Offset::new(seen.root),
            keys: seen.keys.all,
            main_keys: seen.keys.main,
            named_at,
        }
    }

    pub(crate) fn parse(value: &[u8]) -> Result<VersionRecord> {
        match VersionRecord::read_from_bytes(value) {
            Ok(record) if record.version != 0 => Ok(record),
            _ => crate::error::damaged(0, "the record of a named version is not one"),
        }
    }

    pub(crate) fn seen(&self) -> Published {
        let keys = KeyCounts { all: self.keys, main: self.main_keys };
        Published { version: self.version, root: self.root.get(), keys }
    }
}

impl TreeBatch<'_> {
    /// The version that this batch follows.
    pub(crate) fn follows(&self) -> Published {
        self.writer.committed
    }

    /// Whether a named version is one that this tree can have.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn require_version(&self, record: &VersionRecord) -> Result<()> {
        if record.version > self.writer.committed.version || self.view.void(record.version) {
            return crate::error::damaged(record.root.get(), "a named version is none of this tree");
        }
        Node::open(&self.shared.media, record.root.get()).map(drop)
    }

    /// Pins a version until [`TreeBatch::release_version`].
    pub(crate) fn hold_version(&self, version: Version) {
        self.shared.pins.hold_named(version);
    }
}

impl OpenTree {
    /// Takes a pin of [`TreeBatch::hold_version`] back.
    pub(crate) fn release_version(&self, version: Version) {
        self.pins.release_named(version);
    }

    /// Pins the versions that have names (NAME-1, NAME-2).
    pub(crate) fn hold_named(&self, newest: Published) {
        let cursor = Cursor::new(self.media.clone(), self.view(newest.version), newest.root, None);
        let held = each_named(cursor, |_, record| {
            self.pins.hold_named(record.version);
            Ok(())
        });
        if held.is_err() {
            self.pins.hold_named(Version::new(1));
        }
    }
}

/// Calls `each` for the names that a cursor sees, in their order.
///
/// # Errors
/// Those of `each`; damage.
pub(crate) fn each_named(
    mut cursor: Cursor<'_>,
    mut each: impl FnMut(&[u8], VersionRecord) -> Result<()>,
) -> Result<()> {
    cursor.seek(&TableNumber::VERSIONS.bytes())?;
    while let Some(entry) = cursor.next()?.filter(|entry| entry.table() == TableNumber::VERSIONS) {
        let (name, value) = entry.read()?;
        each(name, VersionRecord::parse(value)?)?;
    }
    Ok(())
}
