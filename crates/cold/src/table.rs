//! The cold table: a page that names the backing file, then a word for each cluster of the span.
//!
//! Format: docs/formats/swap.md, section 2.

use crate::layout::{COLD_MAGIC, COLD_ZEROS, ColdHeader};
use everbyte_media::{Checked, Media};
use everbyte_space::{CLUSTER, Span, clusters_up};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use zerocopy::FromZeros;

/// The location of a cluster's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Memory; also of a cluster that is not backed.
    Memory,
    /// None: all bytes are zeros.
    Zeros,
    /// A slot of the backing file.
    Slot {
        /// The slot.
        slot: u32,
        /// The CRC-32C of its bytes.
        checksum: u32,
    },
}

/// The cold table of an object.
#[derive(Clone)]
pub struct ColdTable {
    media: Media,
    at: u64,
    clusters: u64,
}

impl ColdTable {
    /// The end of `span` that a table for it takes; `None`: the span is too small for a table.
    pub fn range(span: Span) -> Option<Range<u64>> {
        let bytes = size_of::<ColdHeader>() as u64 + span.len() / CLUSTER * 8;
        let bytes = clusters_up(bytes).filter(|&bytes| bytes < span.len())?;
        Some(span.end() - bytes..span.end())
    }

    /// The table of an object with this span.
    pub fn of(media: &Media, span: Span) -> Option<ColdTable> {
        let Range { start: at, .. } = ColdTable::range(span)?;
        Some(ColdTable { media: media.clone(), at, clusters: span.len() / CLUSTER })
    }

    /// Names a backing file; stored and flushed. The table counts once the object has a limit.
    ///
    /// # Errors
    /// The path is too long.
    pub fn name(&self, pair: [u8; 16], path: Option<&Path>) -> Result<(), String> {
        let bytes = path.map_or(&[][..], |path| path.as_os_str().as_bytes());
        let mut header =
            ColdHeader { magic: COLD_MAGIC, pair, path_len: bytes.len() as u32, ..ColdHeader::new_zeroed() };
        let place = header.path.get_mut(..bytes.len()).ok_or("the path is longer than 4064 bytes")?;
        place.copy_from_slice(bytes);
        header = header.sealed();
        let _section = self.media.section();
        self.media.put(self.at, &header);
        self.media.flush(self.at, size_of::<ColdHeader>() as u64);
        Ok(())
    }

    /// The pair that the backing file bears too, and the file's path; `None`: the file lies beside
    /// the store.
    ///
    /// # Errors
    /// The offset of the damage, and its description.
    pub fn named(&self) -> Result<([u8; 16], Option<PathBuf>), (u64, String)> {
        let wrong = |detail: &str| Err((self.at, format!("its cold table {detail}")));
        if !self.media.holds(self.at, self.len()) {
            return wrong("lies beyond the file's end");
        }
        let header: ColdHeader = self.media.get(self.at);
        if header.magic != COLD_MAGIC {
            return wrong("has no header");
        }
        if !header.checksum_agrees() {
            return wrong("has a header whose checksum is wrong");
        }
        let Some(path) = header.path.get(..header.path_len as usize) else { return wrong("has no path") };
        let path: Option<PathBuf> = (!path.is_empty()).then(|| OsStr::from_bytes(path).into());
        match path.as_ref().is_none_or(|path| path.is_absolute()) {
            true => Ok((header.pair, path)),
            false => wrong("names a backing file by a path that is not absolute"),
        }
    }

    fn len(&self) -> u64 {
        size_of::<ColdHeader>() as u64 + self.clusters * 8
    }

    fn word_at(&self, cluster: u32) -> u64 {
        self.at + size_of::<ColdHeader>() as u64 + u64::from(cluster) * 8
    }

    /// The number of clusters with a word that counts: those before the table itself.
    pub fn clusters(&self) -> u32 {
        (self.clusters - (self.len().div_ceil(CLUSTER))) as u32
    }

    /// Whether no cluster is cold.
    pub fn is_warm(&self) -> bool {
        (0..self.clusters()).all(|cluster| self.get(cluster) == Location::Memory)
    }

    /// The location of a cluster's bytes.
    pub fn get(&self, cluster: u32) -> Location {
        match self.media.load(self.word_at(cluster)) {
            0 => Location::Memory,
            COLD_ZEROS => Location::Zeros,
            word => Location::Slot { slot: ((word >> 32) as u32).wrapping_sub(1), checksum: word as u32 },
        }
    }

    /// Stores and flushes the location of a cluster's bytes; no fence.
    pub(crate) fn set(&self, cluster: u32, location: Location) {
        let word = match location {
            Location::Memory => 0,
            Location::Zeros => COLD_ZEROS,
            Location::Slot { slot, checksum } => u64::from(slot + 1) << 32 | u64::from(checksum),
        };
        let _section = self.media.section();
        self.media.store(self.word_at(cluster), word);
        self.media.flush(self.word_at(cluster), 8);
    }

    /// Flushes the bytes that recovery acts on; the caller fences.
    pub fn adopt(&self) {
        self.media.reflush(self.at, self.len());
    }
}
