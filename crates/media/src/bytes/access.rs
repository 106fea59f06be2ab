//! Loads and stores of mapped bytes: the safe interface for the crates above.
//!
//! Offsets are absolute in the store. An offset outside the backed range is a bug of the caller and
//! panics: offsets read from media are checked with [`Media::holds`] before use.

use crate::counters::Counter;
use crate::media::{Backend, Media};
use crate::units::{Length, Offset};
use crate::{Error, Result};
use std::cmp::Ordering;
use zerocopy::{FromBytes, Immutable, IntoBytes};

impl Media {
    /// Whether `at..at+len` is backed. Never panics, for any offset.
    #[inline(always)]
    pub fn holds(&self, at: impl Into<Offset>, len: impl Into<Length>) -> bool {
        let (at, len) = (at.into().get(), len.into().get());
        self.inner.mapping.holds(at, len)
    }

    /// [`Media::holds`] as an error.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    #[inline]
    pub fn check_range(&self, at: impl Into<Offset>, len: impl Into<Length>) -> Result<()> {
        let (at, len) = (at.into().get(), len.into().get());
        if self.holds(at, len) { Ok(()) } else { Err(Error::OutOfRange { at, len, limit: self.len() }) }
    }

    /// The word at `at`, with acquire order.
    ///
    /// # Panics
    /// If `at` is not a multiple of 8 or not backed.
    #[inline(always)]
    pub fn load(&self, at: impl Into<Offset>) -> u64 {
        let at = at.into().get();
        self.inner.mapping.load(at)
    }

    /// [`Media::load`] of any offset: `None` if it is not aligned or not backed.
    #[inline(always)]
    pub fn get_word(&self, at: impl Into<Offset>) -> Option<u64> {
        let at = at.into().get();
        self.inner.mapping.get_word(at)
    }

    /// Stores one word, untorn, with release order; not durable before flush and barrier.
    ///
    /// # Panics
    /// If `at` is not a multiple of 8 or not backed.
    #[inline(always)]
    pub fn store(&self, at: impl Into<Offset>, value: u64) {
        let at = at.into().get();
        match &self.inner.backend {
            Backend::Sim(recorder) => {
                let mut recorder = recorder.lock();
                self.inner.mapping.store(at, value);
                recorder.store(at, &value.to_le_bytes());
            }
            _ => self.inner.mapping.store(at, value),
        }
    }

    /// Replaces the word at `at` if it is `current`.
    ///
    /// # Errors
    /// The value found, if it is another.
    ///
    /// # Panics
    /// If `at` is not a multiple of 8 or not backed.
    #[inline]
    pub fn compare_exchange(&self, at: impl Into<Offset>, current: u64, new: u64) -> std::result::Result<u64, u64> {
        let at = at.into().get();
        match &self.inner.backend {
            Backend::Sim(recorder) => {
                let mut recorder = recorder.lock();
                let outcome = self.inner.mapping.compare_exchange(at, current, new);
                if outcome.is_ok() {
                    recorder.store(at, &new.to_le_bytes());
                }
                outcome
            }
            _ => self.inner.mapping.compare_exchange(at, current, new),
        }
    }

    /// Copies bytes out. Each word is untorn under concurrent stores; the caller validates the
    /// whole.
    ///
    /// # Panics
    /// If the range is not backed.
    #[inline]
    pub fn read(&self, at: impl Into<Offset>, into: &mut [u8]) {
        let at = at.into().get();
        self.inner.mapping.read(at, into);
    }

    /// The `len` bytes at `at`.
    ///
    /// # Panics
    /// If the range is not backed.
    pub fn read_vec(&self, at: impl Into<Offset>, len: usize) -> Vec<u8> {
        let at = at.into().get();
        self.inner.mapping.check_len(at, len as u64);
        let mut bytes = vec![0; len];
        self.read(at, &mut bytes);
        bytes
    }

    /// A copy of the record at `at`.
    ///
    /// # Panics
    /// If the range is not backed.
    #[inline]
    pub fn get<T: FromBytes + IntoBytes>(&self, at: impl Into<Offset>) -> T {
        let at = at.into().get();
        let mut value = T::new_zeroed();
        self.read(at, value.as_mut_bytes());
        value
    }

    /// Stores bytes, word by word; not durable before flush and barrier.
    ///
    /// # Panics
    /// If the range is not backed.
    #[inline]
    pub fn write(&self, at: impl Into<Offset>, bytes: &[u8]) {
        let at = at.into().get();
        match &self.inner.backend {
            Backend::Sim(recorder) => {
                let mut recorder = recorder.lock();
                self.inner.mapping.write(at, bytes);
                recorder.store(at, bytes);
            }
            _ => self.inner.mapping.write(at, bytes),
        }
    }

    /// Stores a record; not durable before flush and barrier.
    ///
    /// # Panics
    /// If the range is not backed.
    #[inline]
    pub fn put<T: IntoBytes + Immutable>(&self, at: impl Into<Offset>, value: &T) {
        let at = at.into().get();
        self.write(at, value.as_bytes());
    }

    /// Stores zeros; not durable before flush and barrier.
    ///
    /// # Panics
    /// If the range is not backed.
    pub fn zero(&self, at: impl Into<Offset>, len: impl Into<Length>) {
        let (at, len) = (at.into().get(), len.into().get());
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut done = 0;
        while done < len {
            let step = (len - done).min(4096);
            self.write(at + done, &ZEROS[..step as usize]);
            done += step;
        }
    }

    /// Stores bytes past the cache; the next fence orders them without a flush. For lines that are
    /// not in the cache: a fence waits less for such a line than for one stored and flushed.
    ///
    /// # Panics
    /// If the range is not backed.
    #[inline]
    pub fn copy_nt(&self, at: impl Into<Offset>, bytes: &[u8]) {
        let at = at.into().get();
        let (first, end) = crate::bytes::mapping::line_range(at, bytes.len() as u64);
        match &self.inner.backend {
            Backend::Direct(direct) => {
                direct.copy_nt(&self.inner.mapping, at, bytes);
                self.loses(at, bytes.len() as u64);
            }
            Backend::File(file) => {
                self.inner.mapping.write(at, bytes);
                if !self.loses(at, bytes.len() as u64) {
                    file.flush(at, bytes.len() as u64);
                }
            }
            Backend::Sim(recorder) => {
                let mut recorder = recorder.lock();
                self.inner.mapping.write(at, bytes);
                recorder.store(at, bytes);
                recorder.scan(self);
                recorder.flush(at, bytes.len() as u64);
            }
        }
        self.note_change(at, bytes.len() as u64);
        self.inner.counters.add(Counter::Lines, (end - first) / crate::LINE);
    }

    /// [`Media::copy_nt`] for lines that are written again and again, such as those of a ring:
    /// through the cache, if flushed lines stay there. A fence then waits 30 to 60 ns less for
    /// each.
    ///
    /// # Panics
    /// If the range is not backed.
    #[inline]
    pub fn rewrite(&self, at: impl Into<Offset>, bytes: &[u8]) {
        let at = at.into().get();
        match &self.inner.backend {
            Backend::Direct(direct) if direct.flush.keeps_lines() => {
                self.inner.mapping.write(at, bytes);
                self.flush(at, bytes.len() as u64);
            }
            _ => self.copy_nt(at, bytes),
        }
    }

    /// Compares stored bytes with `key` as byte strings, without copying. Fastest where `at` is a
    /// multiple of 8.
    ///
    /// # Panics
    /// If the range is not backed.
    #[inline]
    pub fn compare(&self, at: impl Into<Offset>, len: impl Into<Length>, key: &[u8]) -> Ordering {
        let (at, len) = (at.into().get(), len.into().get());
        self.inner.mapping.compare(at, len, key)
    }

    /// Prefetches the line of `at`. A hint: any `at` is harmless.
    #[inline(always)]
    pub fn prefetch(&self, at: impl Into<Offset>) {
        let at = at.into().get();
        self.inner.mapping.prefetch(at);
    }
}
