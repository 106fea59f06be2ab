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
use crate::{Error, Result};
use everbyte_media::{Checked, Damage, Format, sums_agree};
use std::io::Read;
use zerocopy::FromBytes;

/// A piece of a dump.
pub(super) enum Piece<'r> {
    Table { name: &'r str, description: &'r [u8] },
    Entry { key: &'r [u8], value: &'r [u8] },
    End(Dumped),
}

pub(super) struct DumpReader<'i> {
    input: &'i mut dyn Read,
    dump: u64,
    /// Bytes read.
    at: u64,
    /// Offset of the body in `body`.
    body_at: u64,
    body: Vec<u8>,
    /// The part of `body` that was handed out.
    taken: usize,
    /// Entries left in `body`.
    left: u64,
    /// The name of the table that began last.
    table: Option<String>,
    last_key: Option<Vec<u8>>,
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
            dump: 0,
            at: 0,
            body_at: 0,
            body: Vec::new(),
            taken: 0,
            left: 0,
            table: None,
            last_key: None,
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
        reader.dump = head.dump;
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
        match (head.kind, &self.table) {
            (KIND_TABLE, _) if head.body_len <= TABLE_BODY_MAX => self.begin(place),
            (KIND_ENTRIES, Some(_)) if head.count > 0 => {
                (self.left, self.taken) = (head.count, 0);
                self.entry()
            }
            (KIND_END, Some(_)) => self.end(place),
            _ => damaged(place, "a chunk of a kind that cannot be here"),
        }
    }

    fn begin(&mut self, place: u64) -> Result<Piece<'_>> {
        let parts = TableHead::read_from_prefix(&self.body).ok().and_then(|(head, rest)| {
            let (name_len, len) = (usize::try_from(head.name_len).ok()?, rest.len() as u64);
            let fits = head.name_len.checked_add(head.description_len) == Some(len) && name_len <= TABLE_NAME_MAX;
            let (name, description) = fits.then(|| rest.split_at(name_len))?;
            Some((std::str::from_utf8(name).ok()?, description))
        });
        let Some((name, description)) = parts else { return damaged(place, "the name of a table is none") };
        let follows = match &self.table {
            None => name.is_empty() && description.is_empty(),
            Some(last) => last.as_str() < name,
        };
        if !follows {
            return damaged(place, "tables are not in the order of their names, the main one first");
        }
        if !description.is_empty() && TableTypes::from_bytes(description).is_err() {
            return damaged(place, "a table has types that this program cannot read");
        }
        self.table = Some(name.to_string());
        self.last_key = None;
        self.sums.tables += 1;
        Ok(Piece::Table { name, description })
    }

    fn entry(&mut self) -> Result<Piece<'_>> {
        let at = self.body_at + self.taken as u64;
        let mut rest = &self.body[self.taken..];
        let parts = || {
            let (key, value) = (take_length(&mut rest)?, take_length(&mut rest)?);
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
        Ok(Piece::Entry { key, value })
    }

    fn end(&mut self, place: u64) -> Result<Piece<'_>> {
        let Dumped { tables, entries, bytes } = self.sums;
        match End::read_from_bytes(&self.body) {
            Ok(end) if (end.tables, end.entries, end.bytes) == (tables, entries, bytes) => {}
            _ => return damaged(place, "the end mark counts other tables and entries than the dump has"),
        }
        self.fill(1)?;
        if !self.body.is_empty() {
            return damaged(self.at - 1, "bytes behind the end mark");
        }
        Ok(Piece::End(self.sums))
    }
}
