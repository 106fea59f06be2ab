//! [`Window`]: a range of the mapping whose bounds are checked once, before many reads.
//!
//! For code that reads many words of one node or page: bounds are compared with a length in a
//! register, not with the media's own.

use crate::bytes::sizes::WORD;
use crate::media::Media;
use crate::units::{Length, Offset};
use std::cmp::Ordering as Cmp;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Backed bytes of a [`Media`], for reading. Offsets are relative to its start. Each word is untorn
/// under concurrent stores.
#[derive(Clone, Copy)]
pub struct Window<'m> {
    /// Start of `len` readable bytes that stay mapped for `'m`; aligned to 8.
    start: NonNull<u8>,
    len: usize,
    media: PhantomData<&'m Media>,
}

impl Media {
    /// The bytes `at..at+len`, checked once; `None` if they are not all backed or `at` is not a
    /// multiple of 8.
    #[inline(always)]
    pub fn window(&self, at: impl Into<Offset>, len: impl Into<Length>) -> Option<Window<'_>> {
        let (at, len) = (at.into().get(), len.into().get());
        let start = self.inner.mapping.range_start(at, len)?;
        at.is_multiple_of(WORD).then_some(Window { start, len: len as usize, media: PhantomData })
    }
}

impl Window<'_> {
    /// Bytes of the window.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the window is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> &AtomicU64 {
        // Rounded down, so that a ragged end is read as a whole word; mappings are whole pages.
        let offset = offset & !7;
        if offset >= self.len {
            outside(self.len, offset);
        }
        // SAFETY: `offset < len`: inside the window.
        let word = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY:
        // - in bounds: `offset < len`, and the word that holds a backed byte is backed, since pages
        //   are;
        // - aligned: the start is, and `offset` is rounded down to a word;
        // - alive: the mapping outlives the media borrowed for `'m`;
        // - other writers: all through atomics (MAP-3); valid: any bits are a u64.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }

    #[inline(always)]
    fn byte(&self, offset: usize) -> u8 {
        assert!(offset < self.len, "a window of {} bytes has no byte at {offset}", self.len);
        // SAFETY: in bounds by the assertion.
        let byte = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: alive and shared as in `word`; any bits are a u8.
        unsafe { AtomicU8::from_ptr(byte) }.load(Ordering::Relaxed)
    }

    /// The word at `offset`, with acquire order.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 8 or outside.
    #[inline(always)]
    pub fn load(&self, offset: usize) -> u64 {
        debug_assert!(offset.is_multiple_of(8));
        self.word(offset).load(Ordering::Acquire)
    }

    /// `N` words from `offset`, in relaxed order: for bytes that no thread changes meanwhile, or
    /// that the caller checks afterwards.
    ///
    /// # Panics
    /// If a word is outside.
    #[inline(always)]
    pub fn words<const N: usize>(&self, offset: usize) -> [u64; N] {
        debug_assert!(offset.is_multiple_of(8));
        let offset = offset & !7;
        let end = offset.checked_add(N * 8).filter(|&end| end <= self.len.next_multiple_of(8));
        assert!(end.is_some(), "a window of {} bytes has no {N} words at {offset}", self.len);
        std::array::from_fn(|index| {
            // SAFETY: in bounds by the assertion; pages are backed whole.
            let word = unsafe { self.start.as_ptr().add(offset + index * 8) };
            // SAFETY: aligned, alive and shared as in `word`.
            unsafe { AtomicU64::from_ptr(word.cast()) }.load(Ordering::Relaxed)
        })
    }

    /// Appends `len` bytes from `offset` to `into`.
    ///
    /// # Panics
    /// If the range is outside.
    #[inline]
    pub fn append_to(&self, offset: usize, len: usize, into: &mut Vec<u8>) {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "a window of {} bytes ends before",
            self.len
        );
        if !offset.is_multiple_of(8) {
            into.extend((offset..offset + len).map(|offset| self.byte(offset)));
            return;
        }
        // Whole words: up to seven bytes more than requested, in the spare capacity.
        into.reserve(len + 8);
        let spare = into.spare_capacity_mut();
        let words = len.div_ceil(8);
        assert!(spare.len() >= words * 8, "reserved above");
        // SAFETY: in bounds: `offset + len <= self.len`, and the word of the last byte is backed,
        // since pages are.
        let source = unsafe { self.start.as_ptr().add(offset).cast::<u64>() };
        let target = spare.as_mut_ptr().cast::<u64>();
        for index in 0..words {
            // SAFETY: `index < words`: inside the checked source.
            let word = unsafe { source.add(index) };
            // SAFETY: aligned, alive and shared as in `word`.
            let word = unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Relaxed);
            // SAFETY: `index < words`: inside the spare capacity asserted above.
            let target = unsafe { target.add(index) };
            // SAFETY: as above; a Vec<u8> asks for no alignment.
            unsafe { target.write_unaligned(word) };
        }
        // SAFETY: `len` bytes beyond the old length were just written.
        unsafe { into.set_len(into.len() + len) };
    }

    /// Compares `len` bytes at `offset` with `key`, as byte strings.
    ///
    /// # Panics
    /// If the range is outside or `offset` is not a multiple of 8.
    #[inline]
    pub fn compare(&self, offset: usize, len: usize, key: &[u8]) -> Cmp {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "a window of {} bytes ends before",
            self.len
        );
        debug_assert!(offset.is_multiple_of(8));
        let common = len.min(key.len());
        let mut done = 0;
        while done + 8 <= common {
            let ours = self.word(offset + done).load(Ordering::Relaxed).swap_bytes();
            let theirs = u64::from_be_bytes(*key[done..].first_chunk().expect("eight bytes"));
            if ours != theirs {
                return ours.cmp(&theirs);
            }
            done += 8;
        }
        for (index, theirs) in key[done..common].iter().enumerate() {
            let ours = self.byte(offset + done + index);
            if ours != *theirs {
                return ours.cmp(theirs);
            }
        }
        len.cmp(&key.len())
    }
}

#[cold]
#[inline(never)]
fn outside(len: usize, offset: usize) -> ! {
    panic!("a window of {len} bytes has no word at {offset}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn a_window_reads_what_the_media_holds_and_nothing_beyond() {
        let media = Media::anonymous(1 << 16, &Options::default()).unwrap();
        let bytes: Vec<u8> = (0..200_u8).map(|index| index.wrapping_mul(7)).collect();
        media.write(4096, &bytes);
        let window = media.window(4096, 200).unwrap();
        for (offset, len) in [(0, 0), (0, 200), (8, 13), (16, 8), (3, 20), (192, 8)] {
            let mut copy = vec![1];
            window.append_to(offset, len, &mut copy);
            assert_eq!(copy[1..], bytes[offset..offset + len], "{offset} {len}");
            if offset % 8 == 0 {
                assert_eq!(window.compare(offset, len, &bytes[offset..offset + len]), Cmp::Equal);
                assert_eq!(window.compare(offset, len, &[&bytes[offset..offset + len], &[0]].concat()), Cmp::Less);
            }
        }
        assert!(media.window(4096, 1 << 16).is_none() && media.window(4097, 8).is_none());
        assert!(media.window(u64::MAX - 7, 16).is_none());
    }
}
