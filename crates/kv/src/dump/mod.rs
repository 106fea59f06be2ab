//! Dumps: all tables of a store at one version as a stream of bytes, and a store made of one.
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

mod layout;
mod read;
mod write;

use crate::catalogue;
use crate::range::{Bounds, Range};
use crate::tree::{TableNumber, Tree, TreeSnapshot};
use crate::{Error, Kv, Result, Snapshot};
use everbyte_media::seeded;
use everbyte_store::raw::AsStore;
use read::{DumpReader, Piece};
use std::io::{Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use write::{DumpWriter, Stamp};

/// The contents of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dumped {
    /// Tables, the main one included.
    pub tables: u64,
    /// Entries of all tables.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// Bytes of entries between two calls of a progress function.
const STEP: u64 = 1 << 20;
/// Bytes of entries in a batch of a load.
const BATCH: u64 = 4 << 20;
/// A table counts as so many of them: a batch has a bounded number of loads.
const TABLE_COST: u64 = 512;

impl Snapshot {
    /// Writes all tables at this version to `out`, with their names and descriptions; writers go on
    /// meanwhile. Every entry is verified. `progress` receives the bytes of keys and values, some
    /// at a time. Versions with names are not part of a dump; each can be dumped by itself
    /// ([`Kv::open_version`]).
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
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        dump(&self.tree, out, Stamp { dump: random()?, moment }, progress)
    }
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|source| Error::DumpIo { action: "find random bytes for", source })?;
    Ok(u64::from_le_bytes(bytes))
}

fn dump(tree: &TreeSnapshot, out: &mut dyn Write, stamp: Stamp, progress: &mut dyn FnMut(u64)) -> Result<Dumped> {
    let mut writer = DumpWriter::new(out, tree.version().get(), stamp)?;
    writer.table("", b"")?;
    dump_table(tree, TableNumber::MAIN, &mut writer, progress)?;
    let mut names = Range::new(tree.cursor(), Bounds::prefix(TableNumber::CATALOGUE, b""));
    while let Some((name, value)) = names.next_ref()? {
        // The empty name holds the highest number.
        if name.is_empty() {
            continue;
        }
        let Ok(name) = std::str::from_utf8(name) else {
            return crate::error::damaged(0, "a name in the catalogue of tables is not UTF-8");
        };
        let (record, description) = catalogue::parse_described(value)?;
        writer.table(name, description)?;
        dump_table(tree, TableNumber(record.number), &mut writer, progress)?;
    }
    writer.finish()
}

fn dump_table(
    tree: &TreeSnapshot,
    number: TableNumber,
    writer: &mut DumpWriter<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut entries = Range::new(tree.cursor(), Bounds::prefix(number, b""));
    let mut bytes = 0;
    while let Some((key, value)) = entries.next_ref()? {
        writer.entry(key, value)?;
        bytes += (key.len() + value.len()) as u64;
        if bytes >= STEP {
            progress(std::mem::take(&mut bytes));
        }
    }
    progress(bytes);
    Ok(())
}

impl Kv {
    /// Makes the object `name` of a dump, with all its tables, and opens it. Settled on return; an
    /// error or a crash leaves no object. `progress` receives the bytes of keys and values, some at
    /// a time.
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

/// Puts the entries of a dump into a tree that no other thread uses yet.
fn fill(tree: &Tree, reader: &mut DumpReader<'_>, progress: &mut dyn FnMut(u64)) -> Result<Dumped> {
    let mut table = TableNumber::MAIN;
    loop {
        let (mut batch, mut bytes, mut end) = (tree.batch(), 0, None);
        while end.is_none() && bytes < BATCH {
            let (mut load, mut next) = (batch.load()?, None);
            while end.is_none() && next.is_none() && bytes < BATCH {
                match reader.next()? {
                    Piece::Table { name, description } => {
                        next = Some((name.to_string(), description.to_vec()));
                        bytes += TABLE_COST;
                    }
                    Piece::Entry { key, value } => {
                        load.push(table, key, value)?;
                        bytes += (key.len() + value.len()).max(64) as u64;
                    }
                    Piece::End(dumped) => end = Some(dumped),
                }
            }
            load.finish()?;
            if let Some((name, description)) = next.filter(|(name, _)| !name.is_empty()) {
                table = catalogue::add_described(&mut batch, &name, &description)?;
            }
        }
        tree.settle(batch.commit()?)?;
        progress(bytes);
        if let Some(dumped) = end {
            return Ok(dumped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_sim::{Image, assert_page};
    use everbyte_store::{FormatOptions, Store};

    #[test]
    fn the_worked_example_is_written_byte_for_byte() {
        let image = Image::zeroed(256 << 10).with_max(4 << 20);
        let store = Store::format(image.media(), &FormatOptions { log_len: 0, identity: None }).unwrap();
        let kv = Kv::create(&store, "kv").unwrap();
        kv.put(b"Oslo", b"Norway").unwrap();
        kv.put(b"Bergen", b"Norway").unwrap();
        kv.create_table("stock").unwrap().put(b"apples", b"97").unwrap();
        let stamp = Stamp { dump: 0x1122_3344_5566_7788, moment: 1_700_000_000 };
        let mut bytes = Vec::new();
        let dumped = dump(&kv.snapshot().tree, &mut bytes, stamp, &mut |_| {}).unwrap();
        assert_eq!(dumped, Dumped { tables: 2, entries: 3, bytes: 30 });
        let shown = Image::zeroed(4096).media();
        shown.write(0, &bytes);
        let parts = [
            ("head", 0, 64),
            ("the main table, which has no name", 64, 80),
            ("its two entries", 144, 64 + 12 + 14),
            ("the table `stock`", 234, 64 + 16 + 5),
            ("its entry", 319, 64 + 10),
            ("end mark", 393, 64 + 32),
        ];
        assert_eq!(bytes.len(), 393 + 96);
        assert_page("../../docs/formats/kv-dump.md", &everbyte_sim::dump(&shown, &parts));
    }
    /// A description is kept as it was stored. One that is none is refused, and nothing is loaded.
    #[test]
    fn descriptions_are_loaded_with_their_tables() {
        let types = crate::TableTypes::of::<u64, String>().to_bytes().unwrap();
        let image = Image::zeroed(256 << 10).with_max(16 << 20);
        let store = Store::format(image.media(), &FormatOptions { log_len: 0, identity: None }).unwrap();
        let kv = Kv::create(&store, "kv").unwrap();
        let mut batch = kv.tree.batch();
        catalogue::add_described(&mut batch, "typed", &types).unwrap();
        catalogue::add_described(&mut batch, "untyped", b"").unwrap();
        kv.settle(batch.commit().unwrap()).unwrap();
        let mut bytes = Vec::new();
        kv.snapshot().dump(&mut bytes, &mut |_| {}).unwrap();
        let (copy, dumped) = Kv::load(&store, "copy", &mut &*bytes, &mut |_| {}).unwrap();
        assert_eq!((dumped.tables, copy.check()), (3, vec![]));
        let description = |name: &str| {
            let value = copy.tree.snapshot().get(TableNumber::CATALOGUE, name.as_bytes()).unwrap().unwrap();
            catalogue::parse_described(&value).unwrap().1.to_vec()
        };
        assert_eq!((description("typed"), description("untyped")), (types.clone(), Vec::new()));
        let mut batch = kv.tree.batch();
        catalogue::add_described(&mut batch, "wrong", &types[..types.len() - 1]).unwrap();
        kv.settle(batch.commit().unwrap()).unwrap();
        let mut bytes = Vec::new();
        kv.snapshot().dump(&mut bytes, &mut |_| {}).unwrap();
        let error = Kv::load(&store, "wrong", &mut &*bytes, &mut |_| {}).map(drop).unwrap_err().to_string();
        assert!(
            error.contains("types that this program cannot read") && error.contains("nothing was loaded"),
            "{error}"
        );
        assert!(Kv::open(&store, "wrong").is_err());
    }
}
