//! [`ChangedPages`]: the pages that change while an image of the media is copied.
//!
//! A flush notes the pages of its lines. That is enough for an image that the crash rule permits:
//! a page with stores that were never flushed may hold older bytes in the image, as after a loss of
//! power, and everything that the rule puts before a store of the image has been flushed, so its
//! page is noted. A range that was given back to the file system is noted, too: from then on it may
//! count as zeros.
//!
//! Steps of an image:
//!   1. [`Media::note_changes`]: changes are noted from here on
//!   2. all pages are copied, beside any number of writers; then the pages that changed meanwhile,
//!      as often as the caller likes
//!   3. the gate closes ([`ChangedPages::close_gate`]), and the pages that changed last are copied
//!
//! Invariants
//!   IMAGE-1  A page is noted after its bytes were stored: a thread that takes the note and then
//!            copies the page finds them.
//!   IMAGE-2  No flush of a section that opens after step 1 goes unnoted.
//!
//! Threads: any note, one image at a time.

use crate::gate::{Closed, meet_all_threads};
use crate::{Media, seeded};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// Bytes of the pages that are noted.
const PAGE: u64 = 4096;
/// Words of one part of the set: 32768 pages, 128 MiB of the store.
const PART_WORDS: usize = 512;

/// How long an image waits for open sections before it lets new ones pass, at first and at last.
const SHORT_WAIT: Duration = Duration::from_millis(2);
const LONG_WAIT: Duration = Duration::from_millis(50);

/// A set of pages, one bit for each.
pub(crate) struct PageSet {
    /// An image is being taken.
    noting: AtomicBool,
    parts: Box<[OnceLock<Box<[AtomicU64; PART_WORDS]>>]>,
}

impl PageSet {
    fn new(max: u64) -> PageSet {
        let parts = (max / PAGE).div_ceil((PART_WORDS * 64) as u64) as usize;
        PageSet { noting: AtomicBool::new(false), parts: (0..parts).map(|_| OnceLock::new()).collect() }
    }

    fn insert(&self, page: u64) {
        let word = (page / 64) as usize;
        let part = self.parts[word / PART_WORDS].get_or_init(|| Box::new([const { AtomicU64::new(0) }; PART_WORDS]));
        // Always a read-modify-write: it makes the bytes visible before the note, and a bit that is
        // set already may be taken at this moment (IMAGE-1).
        part[word % PART_WORDS].fetch_or(1 << (page % 64), AcqRel);
    }

    fn take(&self) -> Vec<u64> {
        let mut pages = Vec::new();
        for (index, part) in self.parts.iter().enumerate() {
            for (word, bits) in part.get().into_iter().flat_map(|part| part.iter().enumerate()) {
                let first = ((index * PART_WORDS + word) * 64) as u64;
                let mut bits = bits.swap(0, AcqRel);
                while bits != 0 {
                    pages.push(first + u64::from(bits.trailing_zeros()));
                    bits &= bits - 1;
                }
            }
        }
        pages
    }
}

/// The changes of a media since [`Media::note_changes`], while the value lives.
pub struct ChangedPages<'m> {
    media: &'m Media,
    set: &'m PageSet,
}

/// No section of the media is open in this process, and none opens, until the value is dropped.
pub struct ClosedGate<'m> {
    _closed: Closed<'m>,
}

impl Media {
    /// Notes from now on the pages that change. `None` while another image is taken, and if a
    /// section stays open for longer than `wait`.
    pub fn note_changes(&self, wait: Duration) -> Option<ChangedPages<'_>> {
        let set = self.inner.changed.get_or_init(|| PageSet::new(self.max()));
        {
            let _closed = close(self, wait)?; // IMAGE-2
            set.noting.compare_exchange(false, true, SeqCst, SeqCst).ok()?;
        }
        let changed = ChangedPages { media: self, set };
        // A flush outside of all sections has read the switch before this, and its bytes are
        // visible now, or it reads it after.
        meet_all_threads();
        drop(changed.take()); // notes of an earlier image
        Some(changed)
    }

    /// Notes that bytes were changed and flushed, if an image is being taken.
    #[inline(always)]
    pub(crate) fn note_change(&self, at: u64, len: u64) {
        if let Some(set) = self.inner.changed.get()
            && set.noting.load(Acquire)
        {
            note(set, at, len);
        }
    }
}

#[cold]
#[inline(never)]
fn note(set: &PageSet, at: u64, len: u64) {
    if len > 0 && !seeded("media-change-unnoted") {
        (at / PAGE..=(at + len - 1) / PAGE).for_each(|page| set.insert(page));
    }
}

/// Closes the gate, in attempts between which all sections pass (GATE-2).
fn close(media: &Media, wait: Duration) -> Option<Closed<'_>> {
    let (end, mut attempt) = (Instant::now() + wait, SHORT_WAIT);
    loop {
        if let Some(closed) = media.inner.gate.close_within(attempt) {
            return Some(closed);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(attempt);
        attempt = (attempt * 2).min(LONG_WAIT);
    }
}

impl<'m> ChangedPages<'m> {
    /// The numbers of the pages that changed since the last call, in order. A page may be named
    /// that did not change.
    pub fn take(&self) -> Vec<u64> {
        self.set.take()
    }

    /// Waits until no section of this process is open, and keeps further ones from opening. `None`
    /// if one stays open for longer than `wait`. The caller takes no lock that a thread may hold
    /// that waits for its section, and opens no section itself.
    pub fn close_gate(&self, wait: Duration) -> Option<ClosedGate<'m>> {
        close(self.media, wait).map(|closed| ClosedGate { _closed: closed })
    }
}

impl Drop for ChangedPages<'_> {
    fn drop(&mut self) {
        self.set.noting.store(false, SeqCst);
    }
}

impl std::fmt::Debug for ChangedPages<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChangedPages({:?})", self.media)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Words};

    const WAIT: Duration = Duration::from_secs(20);

    fn media() -> Media {
        Media::anonymous(1 << 20, &Options::default()).unwrap()
    }

    #[test]
    fn every_way_to_flush_notes_its_pages() {
        let media = media();
        media.flush(4096, 8); // before
        let changed = media.note_changes(WAIT).unwrap();
        assert_eq!(changed.take(), []);
        media.flush(3 * 4096 - 8, 16);
        assert_eq!(changed.take(), [2, 3]);
        media.flush(4096, 0);
        media.store(20480, 1); // not flushed
        assert_eq!(changed.take(), []);
        media.copy_nt(8191, &[1, 2]);
        media.rewrite(16384, &[1]);
        assert_eq!(changed.take(), [1, 2, 4]);
        media.flush_words(&[Words::new(28672, 1)]);
        media.punch(40960, 8192);
        media.reflush(65536, 1);
        assert_eq!(changed.take(), [7, 10, 11, 16]);
        assert!(media.note_changes(WAIT).is_none(), "one image at a time");
        media.flush(0, 8);
        drop(changed);
        media.flush(4096, 8);
        assert_eq!(media.note_changes(WAIT).unwrap().take(), [], "notes of the image before");
    }

    #[test]
    fn an_image_waits_for_open_sections() {
        let media = media();
        let changed = media.note_changes(WAIT).unwrap();
        let section = media.section();
        assert!(changed.close_gate(Duration::from_millis(5)).is_none());
        drop(section);
        assert!(changed.close_gate(WAIT).is_some());
    }
}
