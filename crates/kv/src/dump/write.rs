//! Writing a dump, in order, to anything that takes bytes.

use super::Dumped;
use super::layout::*;
use crate::{Error, Result};
use everbyte_media::Checked;
use std::io::Write;
use zerocopy::{FromZeros, IntoBytes};

/// The identity of a dump, and its moment in seconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Stamp {
    pub dump: u64,
    pub moment: u64,
}

pub(super) struct DumpWriter<'o> {
    out: &'o mut dyn Write,
    dump: u64,
    /// Bytes written.
    at: u64,
    body: Vec<u8>,
    /// Entries in `body`.
    count: u64,
    sums: Dumped,
}

impl<'o> DumpWriter<'o> {
    pub(super) fn new(out: &'o mut dyn Write, version: u64, stamp: Stamp) -> Result<DumpWriter<'o>> {
        let Stamp { dump, moment } = stamp;
        let head = Head { magic: MAGIC, format: FORMAT, dump, version, moment, ..Head::new_zeroed() };
        let mut writer = DumpWriter { out, dump, at: 0, body: Vec::new(), count: 0, sums: Dumped::default() };
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
        self.chunk(KIND_ENTRIES, self.count, &body)?;
        (self.body, self.count) = (body, 0);
        self.body.clear();
        Ok(())
    }

    /// Begins a table: the main one first, whose name is empty, then the others in the order of
    /// their names.
    pub(super) fn table(&mut self, name: &str, description: &[u8]) -> Result<()> {
        self.end_entries()?;
        let head = TableHead { name_len: name.len() as u64, description_len: description.len() as u64 };
        self.chunk(KIND_TABLE, 1, &[head.as_bytes(), name.as_bytes(), description].concat())?;
        self.sums.tables += 1;
        Ok(())
    }

    /// Adds an entry to the table that began last, in the order of keys.
    pub(super) fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        push_length(&mut self.body, key.len() as u64);
        push_length(&mut self.body, value.len() as u64);
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
        let Dumped { tables, entries, bytes } = self.sums;
        self.chunk(KIND_END, 1, End { tables, entries, bytes, reserved: 0 }.as_bytes())?;
        self.out.flush().map_err(|source| Error::DumpIo { action: "write", source })?;
        Ok(self.sums)
    }
}
