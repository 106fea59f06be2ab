//! Reading a backup's file: bytes of outside, of which none is believed.
//!
//!   1. the head is read, then the end mark, which is the last thing in the file
//!   2. the table is read: the numbers and hashes of all pages of the image
//!   3. on request, each chunk is read, and its pages are reported
//!
//! Invariants
//!   READ-1  A chunk counts only if its head and its body have their checksums, and it lies where
//!           its head says, in the file of its backup.
//!   READ-2  Numbers of pages lie in the image, and the table has them in ascending order.
//!   READ-3  Chunks follow each other from the head to the end mark without a gap.

use crate::error::{Error, Result};
use crate::layout::{
    CHUNK_MAGIC, ChunkHead, END_LEN, ENTRIES_MAX, End, Entry, FORMAT, HEAD_LEN, Head, KIND_END, KIND_PAGES, KIND_TABLE,
    MAGIC, PAGE, PAGES_MAX,
};
use everbyte_media::{Checked, Damage, Format, sums_agree};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The largest offset of a store.
const STORE_MAX: u64 = 1 << 46;

/// Bytes to read at offsets.
pub trait Source {
    /// Their number.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;
    /// Fills `into` from `at`.
    ///
    /// # Errors
    /// The system's; there are fewer bytes.
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Source for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, at)
    }
}

impl Source for &[u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(at).ok();
        let found = at.and_then(|at| self.get(at..at.checked_add(into.len())?));
        into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A backup's file whose head, table and end mark have been read.
#[derive(Debug)]
pub struct BackupFile<S = File> {
    source: S,
    path: PathBuf,
    size: u64,
    head: Head,
    end: End,
    table: Vec<Entry>,
}

impl BackupFile {
    /// Reads head, table and end mark of the file at `path`.
    ///
    /// # Errors
    /// [`Error::NotABackup`], [`Error::NewerFormat`], [`Error::Damaged`], [`Error::Io`].
    pub fn open(path: &Path) -> Result<BackupFile> {
        let file = File::open(path).map_err(|source| Error::Io { action: "open", path: path.into(), source })?;
        BackupFile::of(file, path)
    }
}

impl<S: Source> BackupFile<S> {
    /// [`BackupFile::open`] of any bytes; `path` is for messages.
    ///
    /// # Errors
    /// As [`BackupFile::open`].
    pub fn of(source: S, path: &Path) -> Result<BackupFile<S>> {
        let io = |source| Error::Io { action: "read", path: path.into(), source };
        let foreign = |detail: &str| Error::NotABackup { path: path.into(), detail: detail.into() };
        let size = source.size().map_err(io)?;
        let mut head = Head::new_zeroed();
        if size < HEAD_LEN {
            return Err(foreign("it is shorter than a head"));
        }
        source.read(0, head.as_mut_bytes()).map_err(io)?;
        if head.magic != MAGIC {
            return Err(foreign("it does not begin as one"));
        }
        let (end, table) = (End::new_zeroed(), Vec::new());
        let mut file = BackupFile { source, path: path.into(), size, head, end, table };
        if !head.checksum_agrees() {
            return Err(file.damaged(0, "the head fails its checksum"));
        }
        if head.format > FORMAT {
            return Err(Error::NewerFormat { path: path.into(), format: Format::new(head.format, FORMAT) });
        }
        file.require_sane_head()?;
        file.read_end()?;
        file.read_table()?;
        Ok(file)
    }

    fn damaged(&self, at: u64, detail: &str) -> Error {
        Damage::at(at, detail).of_file(&self.path).into()
    }

    fn require_sane_head(&self) -> Result<()> {
        let Head { max, linear, log_at, log_len, .. } = self.head;
        let sizes = [max, linear, log_at, log_len];
        let log_end = log_at.checked_add(log_len);
        if sizes.iter().any(|size| size % PAGE != 0 || *size > STORE_MAX) || log_end.is_none_or(|end| end > max) {
            return Err(self.damaged(0, "the sizes in the head contradict each other"));
        }
        if linear < 4 * PAGE || linear > max || log_at < 4 * PAGE {
            return Err(self.damaged(0, "the head leaves no room for the heads of a store"));
        }
        if (self.head.parent == [0; 16]) != (self.head.depth == 0) {
            return Err(self.damaged(0, "the head has a parent and no depth, or a depth and no parent"));
        }
        if self.head.binding != 0 && !everbyte_media::binding::is_possible(self.head.binding, max) {
            return Err(self.damaged(0, "the store cannot be bound to the address in the head"));
        }
        Ok(())
    }

    fn read_end(&mut self) -> Result<()> {
        let at = self.size.checked_sub(END_LEN).filter(|&at| at >= HEAD_LEN);
        let cut = "the end mark is missing: the file was cut off, or something follows it";
        let Some(at) = at else { return Err(self.damaged(self.size, cut)) };
        let mut head = ChunkHead::new_zeroed();
        self.fill(at, head.as_mut_bytes())?;
        if head.magic != CHUNK_MAGIC {
            return Err(self.damaged(at, cut));
        }
        let (head, body) = self.chunk(at)?;
        let end = End::read_from_bytes(&body).ok().filter(|_| head.kind == KIND_END);
        let Some(end) = end else { return Err(self.damaged(at, cut)) };
        if end.len % PAGE != 0 || end.len > self.head.max || end.len < self.head.linear {
            return Err(self.damaged(at, "the end mark has a length that the store cannot have"));
        }
        if !(HEAD_LEN..=at).contains(&end.table_at) || end.pages > end.len / PAGE {
            return Err(self.damaged(at, "the end mark leads to no table"));
        }
        self.end = end;
        Ok(())
    }

    fn read_table(&mut self) -> Result<()> {
        let (mut at, end) = (self.end.table_at, self.size - END_LEN);
        let mut table: Vec<Entry> = Vec::new();
        while at < end {
            let (head, body) = self.chunk(at)?;
            let entries = <[Entry]>::ref_from_bytes(&body).ok().filter(|_| head.kind == KIND_TABLE);
            let entries = entries.ok_or_else(|| self.damaged(at, "the table is not whole"))?;
            for entry in entries {
                let follows = table.last().is_none_or(|last| last.page < entry.page);
                if !follows || !self.holds(entry.page) {
                    return Err(self.damaged(at, "the table has pages twice, or pages that the store does not have"));
                }
                table.push(*entry);
            }
            at += size_of::<ChunkHead>() as u64 + head.body_len;
        }
        if at != end || table.len() as u64 != self.end.pages {
            return Err(self.damaged(self.end.table_at, "the table is not as long as the end mark says"));
        }
        self.table = table;
        Ok(())
    }

    /// READ-2
    fn holds(&self, page: u64) -> bool {
        page < self.end.len / PAGE && self.head.has(page)
    }

    fn fill(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.source.read(at, into).map_err(|source| Error::Io { action: "read", path: self.path.clone(), source })
    }

    /// The chunk at `at` (READ-1).
    fn chunk(&self, at: u64) -> Result<(ChunkHead, Vec<u8>)> {
        let mut head = ChunkHead::new_zeroed();
        let body_at = at.checked_add(size_of::<ChunkHead>() as u64).filter(|&body_at| body_at <= self.size);
        let body_at = body_at.ok_or_else(|| self.damaged(at, "a chunk is cut off"))?;
        self.fill(at, head.as_mut_bytes())?;
        if head.magic != CHUNK_MAGIC || !head.checksum_agrees() {
            return Err(self.damaged(at, "the head of a chunk fails its checksum"));
        }
        if head.place != at || head.backup != self.head.identity[..8] {
            return Err(self.damaged(at, "a chunk belongs to another place or to another backup"));
        }
        let (each, most) = match head.kind {
            KIND_PAGES => (8 + PAGE, PAGES_MAX),
            KIND_TABLE => (size_of::<Entry>() as u64, ENTRIES_MAX),
            KIND_END => (size_of::<End>() as u64, 1),
            _ => return Err(self.damaged(at, "a chunk is of no known kind")),
        };
        if !(1..=most).contains(&head.count) || head.body_len != head.count * each {
            return Err(self.damaged(at, "the sizes of a chunk contradict each other"));
        }
        if head.body_len > self.size - body_at {
            return Err(self.damaged(at, "a chunk is cut off"));
        }
        let mut body = vec![0; head.body_len as usize];
        self.fill(body_at, &mut body)?;
        if !sums_agree(head.body_sum, crc32c::crc32c(&body)) && !everbyte_media::seeded("backup-sum-unchecked") {
            return Err(self.damaged(at, "the body of a chunk fails its checksum"));
        }
        Ok((head, body))
    }

    /// Reads all chunks of pages, and reports each page: its number, and the offset of its bytes.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    pub fn walk(&self, each: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let (mut at, mut stored) = (HEAD_LEN, 0);
        while at < self.end.table_at {
            let (head, body) = self.chunk(at)?;
            if head.kind != KIND_PAGES {
                return Err(self.damaged(at, "a chunk of another kind lies among the pages"));
            }
            let first = at + size_of::<ChunkHead>() as u64 + head.count * 8;
            for (index, number) in body.chunks_exact(8).take(head.count as usize).enumerate() {
                let page = u64::from_le_bytes(number.try_into().expect("eight bytes"));
                // A store grows while it is copied, and may have been longer than it is at last.
                if !self.head.has(page) || page >= self.head.max / PAGE {
                    return Err(self.damaged(at, "a chunk has a page that the store does not have"));
                }
                each(page, first + index as u64 * PAGE);
            }
            stored += head.count;
            at = first + head.count * PAGE;
        }
        match at == self.end.table_at && stored == self.end.stored {
            true => Ok(()),
            false => Err(self.damaged(at, "the pages do not reach to the table")),
        }
    }

    /// The bytes of a page that [`BackupFile::walk`] has reported, with the hash that the table of
    /// an image has for it.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bytes have another hash; [`Error::Io`].
    pub(crate) fn page(&self, at: u64, entry: &Entry, into: &mut [u8]) -> Result<()> {
        self.fill(at, into)?;
        if crate::layout::hash(into) == entry.hash {
            return Ok(());
        }
        Err(self.damaged(at, &format!("the page at {:#x} of the store is not the one of the table", entry.page * PAGE)))
    }

    /// The file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The first bytes of the file.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The end mark.
    pub fn end(&self) -> &End {
        &self.end
    }

    /// All pages of the image that are not zeros, in order.
    pub fn table(&self) -> &[Entry] {
        &self.table
    }
}
