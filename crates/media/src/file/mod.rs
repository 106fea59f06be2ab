//! The `file` backend: a private mapping over a file on any disk, a log, and a checkpoint.

mod disk;
pub use disk::Disk;

use crate::counters::Counters;
use crate::head::Head;
use crate::mapping::Mapping;
use crate::{Mark, Options, Result, Section};
use std::path::Path;
use std::sync::Arc;

pub(crate) struct FileBackend {}

/// Brings the records of the log to their places, on any backend, before anything is mapped.
pub(crate) fn replay(_disk: &dyn Disk, _path: &Path, head: Head) -> Result<Head> {
    Ok(head)
}

impl FileBackend {
    pub(crate) fn start(
        _disk: Arc<dyn Disk>,
        _mapping: Arc<Mapping>,
        _counters: Arc<Counters>,
        _path: &Path,
        _head: Head,
        _options: &Options,
    ) -> Result<FileBackend> {
        unreachable!()
    }
    pub(crate) fn flush(&self, _at: u64, _len: u64) -> u64 {
        0
    }
    pub(crate) fn fence(&self) {}
    pub(crate) fn mark(&self) -> Mark {
        Mark(0)
    }
    pub(crate) fn settle(&self, _mark: Mark) -> Result<()> {
        Ok(())
    }
    pub(crate) fn checkpointed(&self, _mark: Mark) -> bool {
        true
    }
    pub(crate) fn section(&self) -> Section<'_> {
        Section { _gate: None }
    }
    pub(crate) fn allocate(&self, _at: u64, _len: u64) -> Result<()> {
        Ok(())
    }
    pub(crate) fn punch(&self, _at: u64, _len: u64) {}
    pub(crate) fn close(&self) -> Result<()> {
        Ok(())
    }
    pub(crate) fn checkpoint(&self) -> Result<()> {
        Ok(())
    }
}
