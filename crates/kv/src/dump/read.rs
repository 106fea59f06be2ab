//! Reading a dump, from its start to its end, from anything that gives bytes.
//!
//! Invariants
//!   KVDUMP-1  No table, entry or end mark is handed out before the sums of its chunk have been
//!           compared, and its place and dump.
//!   KVDUMP-2  Memory is taken as bytes come, not as a length in the dump asks for it.

use super::Dumped;
use super::layout::*;
use crate::TableTypes;
use crate::catalogue::TABLE_NAME_MAX;
use crate::tree::{KEY_MAX, VALUE_MAX};
use crate::versions::is_version_name;
use crate::{Error, Result};
use everbyte_media::{Checked, Damage, Format, sums_agree};
use std::collections::BTreeSet;
use std::io::Read;
use zerocopy::FromBytes;

/// A piece of a dump.
pub(super) enum Piece<'r> {
    /// A new table, and an entry of it.
    Table {
        name: &'r str,
        description: &'r [u8],
    },
    Entry {
        key: &'r [u8],
        value: &'r [u8],
    },
    /// All pieces until now are the version of this name.
    Version {
        name: &'r str,
        named_at: u64,
    },
    /// Changes behind a version: a table goes; one is changed; a key has this value, or
    /// goes.
    Dropped {
        name: &'r str,
    },
    Changed {
        name: &'r str,
    },
    Change {
        key: &'r [u8],
        value: Option<&'r [u8]>,
    },
    End(Dumped),
}

pub(super) struct DumpReader<'i> {
    input: &'i mut dyn Read,
    format: u32,
    dump: u64,
    /// Bytes read.
    at: u64,
    /// Offset of the body in `body`.
    body_at: u64,
    body: Vec<u8>,
    /// The part of `body` that was handed out.
    taken: usize,
    /// Entries or changes left in `body`.
    left: u64,
    /// The kind of chunks that may follow for the table that began last; 0: no table began since
    /// the last version.
    open: u32,
    /// The name of the table that began last, or of the one that went last, since the last version.
    last_table: Option<String>,
    last_dropped: Option<String>,
    last_key: Option<Vec<u8>>,
    /// The tables after what was read, and the named versions.
    tables: BTreeSet<String>,
    versions: BTreeSet<String>,
    sums: Dumped,
}

fn damaged<T>(offset: u64, detail: impl Into<String>) -> Result<T> {
    Err(Error::DumpDamaged(Damage::at(offset, detail).into()))
}

impl<'i> DumpReader<'i> {
    /// Reads the head.
    pub(super) fn new(input: &'i mut dyn Read) -> Result<DumpReader<'i>> {
        let mut reader = DumpReader {
            input,
            format: 0,
            dump: 0,
            at: 0,
            body_at: 0,
            body: Vec::new(),
            taken: 0,
            left: 0,
            open: 0,
            last_table: None,
            last_dropped: None,
            last_key: None,
            tables: BTreeSet::new(),
            versions: BTreeSet::new(),
            sums: Dumped::default(),
        };
        reader.fill(size_of::<Head>() as u64)?;
        if !reader.body.starts_with(&MAGIC) {
            return Err(Error::NotADump { detail: "its first bytes are others" });
        }
        let Ok(head) = Head::read_from_bytes(&reader.body) else {
            return damaged(0, format!("the dump ends at offset {:#x}, in its head", reader.at));
        };
        if head.format > FORMAT {
            return Err(Error::NewerDump { format: Format::new(head.format, FORMAT) });
        }
        if !head.checksum_agrees() || head.format == 0 {
            return damaged(0, "the head fails its checksum");
        }
        (reader.format, reader.dump) = (head.format, head.dump);
        reader.body.clear();
        Ok(reader)
    }

    /// Reads up to `len` bytes to `body`: fewer, if the input ends before.
    fn fill(&mut self, len: u64) -> Result<()> {
        self.body.clear();
        let read = self.input.take(len).read_to_end(&mut self.body);
        self.at += read.map_err(|source| Error::DumpIo { action: "read", source })? as u64;
        Ok(())
    }

    /// Reads a chunk to `body`.
    fn chunk(&mut self) -> Result<ChunkHead> {
        let place = self.at;
        self.fill(size_of::<ChunkHead>() as u64)?;
        let Ok(head) = ChunkHead::read_from_bytes(&self.body) else {
            return damaged(self.at, "the dump ends here, before its end mark: it was cut off");
        };
        if head.magic != CHUNK_MAGIC || !head.checksum_agrees() {
            return damaged(place, "the head of a chunk fails its checksum");
        }
        if head.place != place || head.dump != self.dump {
            return damaged(place, "a chunk of another place, or of another dump");
        }
        self.fill(head.body_len)?;
        if (self.body.len() as u64) < head.body_len {
            return damaged(self.at, "the dump ends here, in the middle of a chunk: it was cut off");
        }
        self.body_at = place + size_of::<ChunkHead>() as u64;
        if !sums_agree(crc32c::crc32c(&self.body), head.body_sum) {
            return damaged(self.body_at, "the body of a chunk fails its checksum");
        }
        Ok(head)
    }

    /// The next piece. Nothing follows the end.
    pub(super) fn next(&mut self) -> Result<Piece<'_>> {
        if self.left > 0 {
            return self.entry();
        }
        if self.taken != self.body.len() {
            return damaged(self.body_at + self.taken as u64, "bytes behind the last entry of a chunk");
        }
        let head = self.chunk()?;
        self.taken = self.body.len();
        let place = head.place;
        let named = self.format > FORMAT_ONE && !self.tables.is_empty() && head.body_len <= TABLE_BODY_MAX;
        let behind = named && !self.versions.is_empty();
        match head.kind {
            KIND_TABLE if head.body_len <= TABLE_BODY_MAX => self.begin(place, KIND_ENTRIES),
            KIND_CHANGED if behind => self.begin(place, KIND_CHANGES),
            KIND_DROPPED if behind && self.open == 0 => self.drop_table(place),
            KIND_VERSION if named => self.version(place),
            KIND_ENTRIES | KIND_CHANGES if head.kind == self.open && head.count > 0 => {
                (self.left, self.taken) = (head.count, 0);
                self.entry()
            }
            KIND_END if !self.tables.is_empty() => self.end(place),
            _ => damaged(place, "a chunk of a kind that cannot be here"),
        }
    }

    /// Begins a new table, whose `chunks` are entries, or one that is there, whose `chunks` are
    /// changes.
    fn begin(&mut self, place: u64, chunks: u32) -> Result<Piece<'_>> {
        let parts = TableHead::read_from_prefix(&self.body).ok().and_then(|(head, rest)| {
            let (name_len, len) = (usize::try_from(head.name_len).ok()?, rest.len() as u64);
            let fits = head.name_len.checked_add(head.description_len) == Some(len) && name_len <= TABLE_NAME_MAX;
            let (name, description) = fits.then(|| rest.split_at(name_len))?;
            Some((std::str::from_utf8(name).ok()?, description))
        });
        let Some((name, description)) = parts else { return damaged(place, "the name of a table is none") };
        let changed = chunks == KIND_CHANGES;
        let follows = match &self.last_table {
            None if self.versions.is_empty() => name.is_empty(),
            last => last.as_deref() < Some(name),
        };
        let plain = description.is_empty() || !(changed || name.is_empty());
        if self.tables.contains(name) != changed {
            return damaged(place, "a table begins twice, or one that is not there is changed");
        }
        if !follows || !plain {
            return damaged(place, "tables are not in the order of their names, the main one first");
        }
        if !description.is_empty() && TableTypes::from_bytes(description).is_err() {
            return damaged(place, "a table has types that this program cannot read");
        }
        self.last_table = Some(name.to_string());
        (self.open, self.last_key) = (chunks, None);
        if changed {
            return Ok(Piece::Changed { name });
        }
        self.tables.insert(name.to_string());
        self.sums.tables += 1;
        Ok(Piece::Table { name, description })
    }

    fn drop_table(&mut self, place: u64) -> Result<Piece<'_>> {
        let Some(name) = std::str::from_utf8(&self.body).ok().filter(|name| !name.is_empty()) else {
            return damaged(place, "the name of a table is none");
        };
        if self.last_dropped.as_deref() >= Some(name) || !self.tables.remove(name) {
            return damaged(place, "a table goes that is not there, or not in the order of names");
        }
        self.last_dropped = Some(name.to_string());
        self.sums.tables -= 1;
        Ok(Piece::Dropped { name })
    }

    fn version(&mut self, place: u64) -> Result<Piece<'_>> {
        let parts = VersionHead::read_from_prefix(&self.body).ok();
        let parts = parts.and_then(|(head, name)| Some((head, std::str::from_utf8(name).ok()?)));
        let Some((head, name)) = parts.filter(|(_, name)| is_version_name(name)) else {
            return damaged(place, "the name of a version is none");
        };
        if !self.versions.insert(name.to_string()) {
            return damaged(place, "two versions have one name");
        }
        (self.open, self.last_table, self.last_dropped) = (0, None, None);
        self.sums.versions += 1;
        Ok(Piece::Version { name, named_at: head.named_at })
    }

    fn entry(&mut self) -> Result<Piece<'_>> {
        let at = self.body_at + self.taken as u64;
        let mut rest = &self.body[self.taken..];
        // A change counts the length of its value from 1; 0 removes the key.
        let first = u64::from(self.open == KIND_CHANGES);
        let mut gone = false;
        let parts = || {
            let (key, value) = (take_length(&mut rest)?, take_length(&mut rest)?);
            gone = value < first;
            let value = value.saturating_sub(first);
            let fits = key <= KEY_MAX as u64 && value <= VALUE_MAX && key + value <= rest.len() as u64;
            fits.then_some((key as usize, value as usize, self.body.len() - rest.len()))
        };
        let Some((key_len, value_len, key_at)) = { parts }() else {
            return damaged(at, "an entry leads out of its chunk");
        };
        let value_at = key_at + key_len;
        self.taken = value_at + value_len;
        self.left -= 1;
        let (key, value) = (&self.body[key_at..value_at], &self.body[value_at..self.taken]);
        match &mut self.last_key {
            Some(last) if last.as_slice() >= key => return damaged(at, "keys are not in their order"),
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
            none => *none = Some(key.to_vec()),
        }
        self.sums.entries += 1;
        self.sums.bytes += (key_len + value_len) as u64;
        Ok(match self.open {
            KIND_CHANGES => Piece::Change { key, value: (!gone).then_some(value) },
            _ => Piece::Entry { key, value },
        })
    }

    fn end(&mut self, place: u64) -> Result<Piece<'_>> {
        let Dumped { tables, entries, bytes, versions } = self.sums;
        match End::read_from_bytes(&self.body) {
            Ok(end) if (end.tables, end.entries, end.bytes, end.versions) == (tables, entries, bytes, versions) => {}
            _ => return damaged(place, "the end mark counts other tables and entries than the dump has"),
        }
        self.fill(1)?;
        if !self.body.is_empty() {
            return damaged(self.at - 1, "bytes behind the end mark");
        }
        Ok(Piece::End(self.sums))
    }
}
