//! Bytes of a source, counted and summed.

use super::ImportFault;
use crate::rdb::crc64;
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// See the head of this file.
pub(super) struct Source<'r> {
    /// The file, or the server.
    pub name: String,
    inner: &'r mut dyn Read,
    /// Bytes read, shared with those that show them.
    read: Rc<Cell<u64>>,
    /// The checksum of an RDB file, of the bytes since `begin_sum`.
    sum: u64,
    /// The system's error, if there was one.
    error: Option<io::Error>,
}

impl<'r> Source<'r> {
    pub(super) fn new(name: String, inner: &'r mut dyn Read, read: Rc<Cell<u64>>) -> Source<'r> {
        Source { name, inner, read, sum: 0, error: None }
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.read.get()
    }

    /// The checksum of the bytes so far.
    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    /// The fault of bytes that cannot be read or understood.
    pub(super) fn damaged(&mut self, detail: impl Into<String>) -> ImportFault {
        let (name, offset) = (self.name.clone(), self.offset());
        match self.error.take() {
            Some(source) => ImportFault::Read { name, offset, source },
            None => ImportFault::Damaged { name, offset, detail: detail.into() },
        }
    }

    /// The fault of something that this server has not.
    pub(super) fn unsupported(&self, detail: impl Into<String>) -> ImportFault {
        ImportFault::Unsupported { name: self.name.clone(), offset: self.offset(), detail: detail.into() }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(buffer) {
            Ok(count) => {
                self.sum = crc64::after(self.sum, buffer.get(..count).unwrap_or_default());
                self.read.set(self.read.get() + count as u64);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                self.error = Some(error);
                Err(kind.into())
            }
        }
    }
}
