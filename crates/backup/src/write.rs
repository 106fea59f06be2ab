//! Writing the chunks of a backup's file, in order.

use crate::files::Sink;
use crate::layout::{CHUNK_MAGIC, ChunkHead, ENTRIES_MAX, End, Entry, Head, KIND_END, KIND_PAGES, KIND_TABLE};
use crate::layout::{HEAD_LEN, PAGE, PAGES_MAX};
use everbyte_media::Checked;
use std::io;
use zerocopy::{FromZeros, IntoBytes};

/// A file in the making: pages are gathered and written by chunks.
pub(crate) struct Writer {
    sink: Box<dyn Sink>,
    backup: [u8; 8],
    /// Bytes written.
    at: u64,
    numbers: Vec<u64>,
    pages: Vec<u8>,
    stored: u64,
}

impl Writer {
    /// Writes the head.
    pub(crate) fn new(mut sink: Box<dyn Sink>, head: &Head) -> io::Result<Writer> {
        sink.write(head.sealed().as_bytes())?;
        let backup = *head.identity.first_chunk().expect("eight of sixteen bytes");
        Ok(Writer { sink, backup, at: HEAD_LEN, numbers: Vec::new(), pages: Vec::new(), stored: 0 })
    }

    /// Adds a page; a later one of the same number counts instead of it.
    pub(crate) fn page(&mut self, page: u64, bytes: &[u8]) -> io::Result<()> {
        debug_assert_eq!(bytes.len() as u64, PAGE);
        self.numbers.push(page);
        self.pages.extend_from_slice(bytes);
        if self.numbers.len() as u64 == PAGES_MAX { self.end_pages() } else { Ok(()) }
    }

    fn end_pages(&mut self) -> io::Result<()> {
        let count = self.numbers.len() as u64;
        if count == 0 {
            return Ok(());
        }
        let (numbers, pages) = (std::mem::take(&mut self.numbers), std::mem::take(&mut self.pages));
        self.chunk(KIND_PAGES, count, &[numbers.as_bytes(), &pages])?;
        self.stored += count;
        (self.numbers, self.pages) = (numbers, pages);
        self.numbers.clear();
        self.pages.clear();
        Ok(())
    }

    /// Writes a chunk of which `parts` are the body.
    fn chunk(&mut self, kind: u32, count: u64, parts: &[&[u8]]) -> io::Result<()> {
        let head = ChunkHead {
            magic: CHUNK_MAGIC,
            kind,
            place: self.at,
            backup: self.backup,
            count,
            body_len: parts.iter().map(|part| part.len() as u64).sum(),
            body_sum: parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part)),
            ..ChunkHead::new_zeroed()
        };
        self.sink.write(head.sealed().as_bytes())?;
        parts.iter().try_for_each(|part| self.sink.write(part))?;
        self.at += size_of::<ChunkHead>() as u64 + head.body_len;
        Ok(())
    }

    /// Writes the table and the end mark and syncs the file. Returns the end mark and the length of
    /// the file.
    pub(crate) fn finish(mut self, table: &[Entry], len: u64, moment: u64) -> io::Result<(End, u64)> {
        self.end_pages()?;
        let (table_at, pages) = (self.at, table.len() as u64);
        for entries in table.chunks(ENTRIES_MAX as usize) {
            self.chunk(KIND_TABLE, entries.len() as u64, &[entries.as_bytes()])?;
        }
        let end = End { len, moment, pages, stored: self.stored, table_at, ..End::new_zeroed() };
        self.chunk(KIND_END, 1, &[end.as_bytes()])?;
        if !everbyte_media::seeded("backup-unsynced") {
            self.sink.sync()?; // PUBLISH-1
        }
        Ok((end, self.at))
    }
}
