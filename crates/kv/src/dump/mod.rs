//! Dumps: all tables of a store as a stream of bytes, at one version or at every named one and the
//! newest, and a store made of a dump.
//!
//! A dump is logical: names, descriptions, keys and values, and nothing of the tree that holds
//! them. So it goes from one format of trees, or one kind of media, to another. A backup is the
//! other kind of copy: the pages of a whole store, which only the same formats read.
//!
//! Loading, step by step:
//!   1. a new object is made, which has no name yet
//!   2. entries are loaded into its tree in batches, in the order of their keys
//!   3. the end mark is read and its counts are compared
//!   4. the name is published
//!
//! Invariants
//!   KVDUMP-3  An object gets its name only after the end mark of its dump has been read: a dump
//!             that is cut off or damaged leaves no object, and neither does a crash.
//!
//! Format: docs/formats/kv-dump.md

mod fill;
mod layout;
mod read;
mod steps;
mod write;

use crate::tree::{Tree, TreeSnapshot, VersionRecord, each_named};
use crate::versions::is_version_name;
use crate::{Kv, Result, Snapshot};
use everbyte_media::seeded;
use everbyte_store::raw::AsStore;
use fill::fill;
use layout::{FORMAT, FORMAT_ONE};
use read::DumpReader;
use std::io::{Read, Write};
use write::{DumpWriter, Stamp};

/// The contents of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dumped {
    /// Tables of the last version, the main one included.
    pub tables: u64,
    /// Entries of all tables; behind a named version, its changes.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Named versions.
    pub versions: u64,
}

/// Bytes of entries between two calls of a progress function.
const STEP: u64 = 1 << 20;

impl Snapshot {
    /// Writes all tables at this version to `out`, with their names and descriptions; writers go on
    /// meanwhile. Every entry is verified. `progress` receives the bytes of keys and values, some
    /// at a time. For versions with names see [`Kv::dump`].
    ///
    /// Memory for a chunk of 1 MiB and the longest entry is taken.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// use everbyte_kv::Kv;
    ///
    /// let kv = Kv::open_or_create(&store, "cities")?;
    /// kv.put(b"Oslo", b"Norway")?;
    /// let mut bytes = Vec::new(); // or a file, a pipe, a socket
    /// kv.snapshot().dump(&mut bytes, &mut |_| {})?;
    /// let copy = Kv::load(&store, "copy", &mut &*bytes, &mut |_| {})?.0;
    /// assert_eq!(copy.get(b"Oslo")?.as_deref(), Some(&b"Norway"[..]));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Damage: `out` has a part of a dump then, without an end mark. `out` fails.
    pub fn dump(&self, out: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> Result<Dumped> {
        dump(&[], &self.tree, out, Stamp::now()?, progress)
    }
}

/// A version with a name, held for its dump.
struct Named {
    name: String,
    record: VersionRecord,
    tree: TreeSnapshot,
}

/// Writes versions with names, the oldest first, and then `newest`.
fn dump(
    named: &[Named],
    newest: &TreeSnapshot,
    out: &mut dyn Write,
    stamp: Stamp,
    progress: &mut dyn FnMut(u64),
) -> Result<Dumped> {
    let format = if named.is_empty() { FORMAT_ONE } else { FORMAT };
    let mut writer = DumpWriter::new(out, format, newest.version().get(), stamp)?;
    steps::dump_whole(named.first().map_or(newest, |first| &first.tree), &mut writer, progress)?;
    let later = named.iter().skip(1).map(|next| &next.tree).chain([newest]);
    for (Named { name, record, tree }, next) in named.iter().zip(later) {
        writer.version(name, record.version.get(), record.named_at)?;
        steps::dump_changes([tree, next], &mut writer, progress)?;
    }
    writer.finish()
}

impl Kv {
    /// Writes all tables at the newest settled version, and at each version that has a name;
    /// [`Kv::load`] gives the versions their names again, with new numbers. Writers go on
    /// meanwhile. The oldest version is written whole, and of each later one the keys that changed.
    /// Names that begin with [`RESERVED_VERSIONS`] are left out. Otherwise as [`Snapshot::dump`]; a
    /// store without named versions has the same dump.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// use everbyte_kv::Kv;
    ///
    /// let kv = Kv::open_or_create(&store, "cities")?;
    /// kv.put(b"Oslo", b"Sweden")?;
    /// kv.name_version("1814")?;
    /// kv.put(b"Oslo", b"Norway")?;
    /// let mut bytes = Vec::new();
    /// kv.dump(&mut bytes, &mut |_| {})?;
    /// let copy = Kv::load(&store, "copy", &mut &*bytes, &mut |_| {})?.0;
    /// assert_eq!(copy.get(b"Oslo")?.as_deref(), Some(&b"Norway"[..]));
    /// assert_eq!(copy.open_version("1814")?.get(b"Oslo")?.as_deref(), Some(&b"Sweden"[..]));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::dump`]; a batch in this thread.
    ///
    /// [`RESERVED_VERSIONS`]: crate::RESERVED_VERSIONS
    pub fn dump(&self, out: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> Result<Dumped> {
        let (named, newest) = self.named_and_newest()?;
        dump(&named, &newest, out, Stamp::now()?, progress)
    }

    /// The newest settled version, and those with names that it has, the oldest first.
    fn named_and_newest(&self) -> Result<(Vec<Named>, TreeSnapshot)> {
        let newest = self.tree.snapshot();
        // No name goes while this thread has a batch. One that is gone already, by a commit that
        // the newest settled version does not see, keeps nothing any more.
        let batch = self.tree.begin()?;
        let mut named = Vec::new();
        each_named(newest.cursor(), |name, record| {
            let name = String::from_utf8_lossy(name).into_owned();
            if is_version_name(&name) && self.find_version(&batch, &name)? == Some(record) {
                named.push(Named { name, record, tree: self.tree.snapshot_of(record.seen()) });
            }
            Ok(())
        })?;
        named.sort_by_key(|named| named.record.version);
        Ok((named, newest))
    }
}

impl Kv {
    /// Makes the object `name` of a dump, with all its tables and named versions, and opens it.
    /// Settled on return; an error or a crash leaves no object. `progress` receives the bytes of
    /// keys and values, some at a time.
    ///
    /// # Errors
    /// The dump is none, is of a newer program, is damaged or cut off (with the offset of the place
    /// in it); `from` fails; otherwise as [`Kv::create`].
    pub fn load(
        store: &impl AsStore,
        name: &str,
        from: &mut dyn Read,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Kv, Dumped)> {
        let store = store.as_store();
        let mut reader = DumpReader::new(from)?;
        let mut loaded = Dumped::default();
        let early = seeded("kv-load-named-early");
        Kv::create_filled(store, name, &mut |object| {
            Tree::format(object)?;
            if !early {
                loaded = fill(&Tree::open(object.clone())?, &mut reader, progress)?; // KVDUMP-3
            }
            Ok(())
        })?;
        let kv = Kv::open(store, name)?;
        if early {
            loaded = fill(&kv.tree, &mut reader, progress)?;
        }
        Ok((kv, loaded))
    }
}

#[cfg(test)]
mod tests;
