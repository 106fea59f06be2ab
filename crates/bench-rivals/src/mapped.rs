//! A file that is mapped whole: how programs without a persistent heap keep an object, through the
//! file system alone.

use crate::Failure;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::mm::{MapFlags, MremapFlags, MsyncFlags, ProtFlags, mmap, mremap, msync, munmap};
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::ptr::null_mut;

/// A mapped file.
pub struct MappedFile {
    file: File,
    start: *mut c_void,
    len: u64,
}

fn said(error: impl std::fmt::Display) -> Failure {
    Failure(format!("file and mmap: {error}"))
}

impl MappedFile {
    /// Makes a file of `len` bytes, backs it, maps it, and touches its first byte.
    ///
    /// # Errors
    /// The kernel's own words.
    pub fn create(path: &Path, len: u64) -> Result<MappedFile, Failure> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(said)?;
        fallocate(&file, FallocateFlags::empty(), 0, len).map_err(said)?;
        let mapped = MappedFile::map(file, len)?;
        mapped.touch(0);
        Ok(mapped)
    }

    /// Opens a file, maps it, and answers with its first byte.
    ///
    /// # Errors
    /// The kernel's own words.
    pub fn open(path: &Path) -> Result<(MappedFile, u8), Failure> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(said)?;
        let len = file.metadata().map_err(said)?.len();
        let mapped = MappedFile::map(file, len)?;
        let first = mapped.touch(0);
        Ok((mapped, first))
    }

    /// Maps an open file; all pages at once if `populate`.
    ///
    /// # Errors
    /// The kernel's own words.
    pub fn of(file: impl Into<File>, populate: bool) -> Result<MappedFile, Failure> {
        let file = file.into();
        let len = file.metadata().map_err(said)?.len();
        MappedFile::map_with(file, len, if populate { MapFlags::POPULATE } else { MapFlags::empty() })
    }

    fn map(file: File, len: u64) -> Result<MappedFile, Failure> {
        MappedFile::map_with(file, len, MapFlags::empty())
    }

    fn map_with(file: File, len: u64, flags: MapFlags) -> Result<MappedFile, Failure> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | flags);
        // SAFETY: a new mapping at a place of the kernel's choice, which only the value made here
        // knows.
        let start = unsafe { mmap(null_mut(), len as usize, protection, flags, &file, 0) };
        Ok(MappedFile { start: start.map_err(said)?, file, len })
    }

    /// Copies bytes out.
    pub fn read(&self, at: u64, into: &mut [u8]) {
        let from = self.place(at, into.len());
        // SAFETY: in bounds as `place` has asserted, mapped until `self` is dropped; no other
        // thread or process stores to the file of a bench.
        unsafe { from.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
    }

    /// Stores bytes.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        let to = self.place(at, bytes.len());
        // SAFETY: as in `read`; no reference into the mapping exists.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn place(&self, at: u64, len: usize) -> *mut u8 {
        assert!(at.checked_add(len as u64).is_some_and(|end| end <= self.len), "inside the file");
        self.start.cast::<u8>().wrapping_add(at as usize)
    }

    /// Makes all stores durable: `msync`.
    ///
    /// # Errors
    /// The kernel's own words.
    pub fn sync(&self) -> Result<(), Failure> {
        // SAFETY: the mapping of `self`; the call changes no byte.
        unsafe { msync(self.start, self.len as usize, MsyncFlags::SYNC) }.map_err(said)
    }

    /// Makes the byte at `at` one more; what it was.
    fn touch(&self, at: u64) -> u8 {
        assert!(at < self.len, "inside the file");
        let byte = self.start.cast::<u8>().wrapping_add(at as usize);
        // SAFETY: in bounds by the assertion, backed by `fallocate`, mapped until `self` is
        // dropped.
        let value = unsafe { byte.read_volatile() };
        // SAFETY: as above; no other value has this mapping.
        unsafe { byte.write_volatile(value.wrapping_add(1)) };
        value
    }

    /// Adds `bytes` at the end, and touches the first of them. The mapping may move.
    ///
    /// # Errors
    /// The kernel's own words.
    pub fn grow(&mut self, bytes: u64) -> Result<(), Failure> {
        let old = self.len;
        fallocate(&self.file, FallocateFlags::empty(), old, bytes).map_err(said)?;
        self.remap(old + bytes)?;
        self.touch(old);
        Ok(())
    }

    /// Takes `bytes` away from the end.
    ///
    /// # Errors
    /// The kernel's own words.
    pub fn shrink(&mut self, bytes: u64) -> Result<(), Failure> {
        self.remap(self.len - bytes)?;
        ftruncate(&self.file, self.len).map_err(said)
    }

    fn remap(&mut self, len: u64) -> Result<(), Failure> {
        // SAFETY: the mapping of `self`, of which no pointer is kept anywhere else.
        let start = unsafe { mremap(self.start, self.len as usize, len as usize, MremapFlags::MAYMOVE) };
        (self.start, self.len) = (start.map_err(said)?, len);
        Ok(())
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: mapped by `self`, and no longer used.
        let unmapped = unsafe { munmap(self.start, self.len as usize) };
        unmapped.expect("what was mapped can be unmapped");
    }
}
