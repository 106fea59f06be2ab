//! Writing a dump, in order, to anything that takes bytes.

use super::Dumped;
use super::layout::*;
use crate::{Error, Result};
use everbyte_media::Checked;
use std::io::{Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use zerocopy::{FromZeros, IntoBytes};

/// The identity of a dump, and its moment in seconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Stamp {
    pub dump: u64,
    pub moment: u64,
}

impl Stamp {
    /// A random identity, now.
    pub(super) fn now() -> Result<Stamp> {
        let mut dump = [0; 8];
        let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut dump));
        read.map_err(|source| Error::DumpIo { action: "find random bytes for", source })?;
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(Stamp { dump: u64::from_le_bytes(dump), moment })
    }
}

pub(super) struct DumpWriter<'o> {
    out: &'o mut dyn Write,
    dump: u64,
    /// Bytes written.
    at: u64,
    body: Vec<u8>,
    /// The kind of `body`.
    kind: u32,
    /// Entries or changes in `body`.
    count: u64,
    sums: Dumped,
}

impl<'o> DumpWriter<'o> {
    /// Writes the head of a dump of one version (`FORMAT_ONE`), or with named ones (`FORMAT`).
    pub(super) fn new(out: &'o mut dyn Write, format: u32, version: u64, stamp: Stamp) -> Result<DumpWriter<'o>> {
        let Stamp { dump, moment } = stamp;
        let head = Head { magic: MAGIC, format, dump, version, moment, ..Head::new_zeroed() };
        let (body, sums) = (Vec::new(), Dumped::default());
        let mut writer = DumpWriter { out, dump, at: 0, body, kind: KIND_ENTRIES, count: 0, sums };
        writer.write(head.sealed().as_bytes())?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|source| Error::DumpIo { action: "write", source })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn chunk(&mut self, kind: u32, count: u64, body: &[u8]) -> Result<()> {
        let head = ChunkHead {
            magic: CHUNK_MAGIC,
            kind,
            place: self.at,
            dump: self.dump,
            count,
            body_len: body.len() as u64,
            body_sum: crc32c::crc32c(body),
            ..ChunkHead::new_zeroed()
        };
        self.write(head.sealed().as_bytes())?;
        self.write(body)
    }

    fn end_entries(&mut self) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let body = std::mem::take(&mut self.body);
        self.chunk(self.kind, self.count, &body)?;
        (self.body, self.count) = (body, 0);
        self.body.clear();
        Ok(())
    }

    /// Begins a table: the main one first, whose name is empty, then the others in the order of
    /// their names.
    pub(super) fn table(&mut self, name: &str, description: &[u8]) -> Result<()> {
        self.begin(KIND_TABLE, name, description)?;
        (self.kind, self.sums.tables) = (KIND_ENTRIES, self.sums.tables + 1);
        Ok(())
    }

    fn begin(&mut self, kind: u32, name: &str, description: &[u8]) -> Result<()> {
        self.end_entries()?;
        let head = TableHead { name_len: name.len() as u64, description_len: description.len() as u64 };
        self.chunk(kind, 1, &[head.as_bytes(), name.as_bytes(), description].concat())
    }

    /// Ends a version: all that was written until now is the version of this name.
    pub(super) fn version(&mut self, name: &str, version: u64, named_at: u64) -> Result<()> {
        self.end_entries()?;
        let head = VersionHead { version, named_at };
        self.chunk(KIND_VERSION, 1, &[head.as_bytes(), name.as_bytes()].concat())?;
        self.sums.versions += 1;
        Ok(())
    }

    /// Behind a version and before all else: the table of this name goes.
    pub(super) fn dropped(&mut self, name: &str) -> Result<()> {
        self.end_entries()?;
        self.chunk(KIND_DROPPED, 1, name.as_bytes())?;
        self.sums.tables -= 1;
        Ok(())
    }

    /// Behind a version: begins the changes of a table that is there, in the order of names
    /// together with new tables.
    pub(super) fn changed(&mut self, name: &str) -> Result<()> {
        self.begin(KIND_CHANGED, name, b"")?;
        self.kind = KIND_CHANGES;
        Ok(())
    }

    /// Adds a change to the table that [`DumpWriter::changed`] began; `None` removes the key.
    pub(super) fn change(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.add(key, value.map_or(0, |value| value.len() as u64 + 1), value.unwrap_or_default())
    }

    /// Adds an entry to the table that began last, in the order of keys.
    pub(super) fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(key, value.len() as u64, value)
    }

    fn add(&mut self, key: &[u8], length: u64, value: &[u8]) -> Result<()> {
        push_length(&mut self.body, key.len() as u64);
        push_length(&mut self.body, length);
        self.body.extend_from_slice(key);
        self.body.extend_from_slice(value);
        self.count += 1;
        self.sums.entries += 1;
        self.sums.bytes += (key.len() + value.len()) as u64;
        if self.body.len() >= CHUNK_BYTES { self.end_entries() } else { Ok(()) }
    }

    /// Writes the end mark, without which a dump is none.
    pub(super) fn finish(mut self) -> Result<Dumped> {
        self.end_entries()?;
        let Dumped { tables, entries, bytes, versions } = self.sums;
        self.chunk(KIND_END, 1, End { tables, entries, bytes, versions }.as_bytes())?;
        self.out.flush().map_err(|source| Error::DumpIo { action: "write", source })?;
        Ok(self.sums)
    }
}
