//! [`View`]: ranges of a store mapped a second time, side by side in one range of addresses.
//!
//! A shared view is the store: a store through one mapping is loaded through the other, and a flush
//! through either carries it. A private view shows the store's bytes until it stores to a page, of
//! 4 KiB always, and has a copy of that page from then on.
//!
//! A page that the system cannot read is lost for one mapping, so a view has pages of its own that
//! are lost. A flush of one through the view fails the thread's next barrier of the store, as a
//! flush through the store does (BUS-3).
//!
//! Threads: any. Elsewhere: which bytes a view may store to, and for how long they keep their place
//! (`fs`).

use crate::backends::direct::Direct;
use crate::bytes::mapping::{Mapping, Mode};
use crate::bytes::sizes::LARGE;
use crate::counters::Counter;
use crate::media::{Backend, Media};
use crate::{BackendKind, Error, Result};
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// Options of a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewOptions {
    /// Stores stay in this process.
    pub private: bool,
    /// The place of the first byte in a page of 2 MiB: such pages of the store can be mapped as one
    /// if they lie at the same place in the view.
    pub lead: u64,
    /// The size of the pages that the system maps, where it has a choice.
    pub pages: ViewPages,
}

/// The size of the pages that the system maps for a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewPages {
    /// The system's choice.
    #[default]
    Any,
    /// 4 KiB.
    Small,
    /// 2 MiB where the bytes lie so: pages of memory are moved together for it.
    Large,
}

/// Ranges of a store, side by side. Offsets count from the first byte.
pub struct View {
    mapping: Mapping,
    /// Bytes of the mapping before the first one of the view, to which nothing is mapped.
    lead: u64,
    len: u64,
    parts: Vec<Piece>,
    private: bool,
    media: Media,
}

/// A part of a view, with the offset of its first byte.
struct Piece {
    first: u64,
    at: Option<u64>,
    len: u64,
}

/// A part of a view: its offset in the store, or zeros, and its length.
pub type ViewPart = (Option<u64>, u64);

impl Media {
    /// Maps parts side by side. All are whole pages, unless the view is private: it is a copy then.
    /// `None`: the store's own mapping is private to this process, so that a view could not show
    /// its stores.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses.
    ///
    /// # Panics
    /// If a part is not backed, or not whole pages.
    pub fn view(&self, parts: &[ViewPart], options: &ViewOptions) -> Result<Option<View>> {
        let len = parts.iter().map(|(_, len)| len).sum::<u64>();
        parts.iter().for_each(|&(at, len)| self.inner.mapping.check_len(at.unwrap_or(0), at.map_or(0, |_| len)));
        let are_pages = parts.iter().all(|&(at, len)| at.unwrap_or(0) % 4096 == 0 && len % 4096 == 0);
        assert!(are_pages || options.private, "pages are mapped whole: {parts:?}");
        let io = |source| Error::Io { action: "map", path: self.path().into(), source };
        let lead = (options.lead % LARGE) & !4095;
        let view = |mapping| {
            let mut first = 0;
            let placed = parts.iter().map(|&(at, len)| {
                first += len;
                Piece { first: first - len, at, len }
            });
            let (parts, private) = (placed.collect(), options.private);
            Some(View { mapping, lead, len, parts, private, media: self.clone() })
        };
        let (backing, kind) = match &self.inner.backend {
            Backend::Direct(Direct { file: Some(backing), kind, .. }) if are_pages => (backing, kind),
            _ if options.private => return self.copied(parts, lead, len).map(view).map_err(io),
            _ => return Ok(None),
        };
        let mode = match kind {
            _ if options.private => Mode::Private,
            BackendKind::Pmem => Mode::SharedSync,
            _ => Mode::Shared,
        };
        let mut pieces = Vec::new();
        for &(at, len) in parts {
            let Some(at) = at else {
                pieces.push((None, len));
                continue;
            };
            backing.disk.cover(at, len).map_err(io)?;
            pieces.extend(backing.disk.chunks.parts(at, len).iter().map(|(part, file)| (*file, part.end - part.start)));
        }
        let mapping = Mapping::side_by_side(backing.file.as_fd(), mode, lead, &pieces).map_err(io)?;
        match options.pages {
            ViewPages::Any if !options.private => {}
            ViewPages::Large if !options.private => mapping.gather_all(),
            _ => mapping.keep_small(),
        }
        Ok(view(mapping))
    }

    /// A private copy of parts.
    fn copied(&self, parts: &[ViewPart], lead: u64, len: u64) -> std::io::Result<Mapping> {
        let room = (lead + len).next_multiple_of(4096);
        let (mapping, mut to) = (Mapping::anonymous(room, room)?, lead);
        for &(from, len) in parts {
            for done in (0..len).step_by(4096) {
                let mut bytes = [0; 4096];
                let bytes = &mut bytes[..(len - done).min(4096) as usize];
                if let Some(from) = from {
                    self.inner.mapping.read(from + done, bytes);
                    mapping.write(to + done, bytes);
                }
            }
            to += len;
        }
        Ok(mapping)
    }
}

impl View {
    /// Bytes of the view.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the view has no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte; [`View::len`] bytes from it are mapped while the view lives.
    pub fn address(&self) -> NonNull<u8> {
        self.mapping.range_start(self.lead, 0).expect("the view begins in its mapping")
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// If the range is outside.
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) {
        self.mapping.read(self.lead + at, into);
    }

    /// The word at `at`, with acquire order.
    ///
    /// # Panics
    /// If `at` is no multiple of 8, or outside.
    #[inline]
    pub fn load(&self, at: u64) -> u64 {
        self.mapping.load(self.lead + at)
    }

    /// Stores bytes, word by word; not durable before flush and barrier.
    ///
    /// # Panics
    /// If the range is outside.
    #[inline]
    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.mapping.write(self.lead + at, bytes);
    }

    /// Stores a word, untorn, with release order; not durable before flush and barrier.
    ///
    /// # Panics
    /// If `at` is no multiple of 8, or outside.
    #[inline]
    pub fn store(&self, at: u64, value: u64) {
        self.mapping.store(self.lead + at, value);
    }

    /// Starts the write-back of a range, as [`Media::flush`] does; nothing in a private view.
    ///
    /// # Panics
    /// If the range is outside.
    #[inline]
    pub fn flush(&self, at: u64, len: u64) {
        if let (false, Backend::Direct(direct)) = (self.private, &self.media.inner.backend) {
            let lines = direct.flush(&self.mapping, self.lead + at, len);
            self.media.inner.counters.add(Counter::Lines, lines);
            self.places(at, len).for_each(|(place, len)| self.media.note_change(place, len));
            if let Some(place) = self.unreadable(at, len) {
                self.media.inner.mapping.watched().lose(place); // BUS-3
            }
        }
    }

    /// The ranges of the store that a range of the view shows.
    #[inline]
    fn places(&self, at: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let (first, end) = (self.parts.partition_point(|part| part.first + part.len <= at), at + len);
        let parts = self.parts[first..].iter().take_while(move |part| part.first < end);
        parts.filter_map(move |part| {
            let (start, end) = (part.first.max(at), (part.first + part.len).min(end));
            Some((part.at? + (start - part.first), end - start))
        })
    }

    /// The offset in the store of the first byte of a range that could not be read when it was
    /// touched; its offset in the view if it lies in a part of zeros.
    #[inline]
    fn unreadable(&self, at: u64, len: u64) -> Option<u64> {
        let lost = self.mapping.unreadable(self.lead + at, len)? - self.lead;
        Some(self.places(lost, 1).next().map_or(lost, |(place, _)| place))
    }

    /// Loads a word of each page, so that the system maps it.
    pub fn touch(&self) {
        for at in (0..self.len).step_by(4096) {
            std::hint::black_box(self.load(at));
        }
    }

    /// Refuses a range with a page that could not be read when it was touched.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    #[inline]
    pub fn require_readable(&self, at: u64, len: u64) -> Result<()> {
        self.unreadable(at, len).map_or(Ok(()), |place| Err(self.media.unreadable_at(place)))
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View({} bytes of {:?})", self.len, self.media)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendChoice, Geometry, OpenOptions, Options};

    const BASE: u64 = 2 << 20;

    fn media(folder: &std::path::Path, backend: BackendChoice) -> Media {
        let options = Options { backend, ..Options::default() };
        let geometry = Geometry { max: 16 << 20, len: 256 << 10, log_at: 32 << 10, log_len: 64 << 10 };
        let media = OpenOptions::new(folder.join("media")).create(geometry, &options).unwrap();
        media.extend(BASE, 1 << 20).unwrap();
        media
    }

    fn filled(media: &Media) {
        (0..64_u64).for_each(|page| media.store(BASE + page * 4096, page));
    }

    const PARTS: [ViewPart; 3] = [(Some(BASE + 0x8000), 0x2000), (Some(BASE), 0x1000), (Some(BASE + 0x20_000), 0x2000)];
    const PAGES: [u64; 5] = [8, 9, 0, 32, 33];

    #[test]
    fn a_shared_view_is_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let media = media(folder.path(), BackendChoice::Shm);
        filled(&media);
        for pages in [ViewPages::Any, ViewPages::Small, ViewPages::Large] {
            let options = ViewOptions { private: false, lead: 0x5_000, pages };
            let view = media.view(&PARTS, &options).unwrap().unwrap();
            view.touch();
            assert_eq!((view.len(), view.is_empty()), (5 * 4096, false));
            assert_eq!(view.address().as_ptr().addr() % (2 << 20), 0x5_000);
            for (index, page) in (0..).zip(PAGES) {
                assert_eq!(view.load(index * 4096), page);
                view.store(index * 4096 + 8, 77);
                view.write(index * 4096 + 17, b"word");
                assert_eq!(media.load(BASE + page * 4096 + 8), 77);
                media.store(BASE + page * 4096 + 8, 0);
                assert_eq!(view.load(index * 4096 + 8), 0);
            }
            let before = media.counts();
            view.flush(60, 8);
            assert_eq!((media.counts() - before).lines, 2);
            view.require_readable(0, view.len()).unwrap();
        }
    }

    #[test]
    fn a_barrier_is_an_error_after_a_flush_of_a_lost_page_through_a_view() {
        let folder = tempfile::tempdir().unwrap();
        let media = media(folder.path(), BackendChoice::Shm);
        filled(&media);
        let view = media.view(&PARTS, &ViewOptions { lead: 0x5_000, ..ViewOptions::default() }).unwrap().unwrap();
        Media::raise_memory_error_at(view.address().addr().get() + 2 * 4096);
        let place = |outcome: Result<()>| match outcome {
            Err(Error::Unreadable(damage)) => damage.offset,
            other => panic!("{other:?}"),
        };
        assert_eq!(place(view.require_readable(2 * 4096 + 9, 8)), Some(BASE + 9), "by its offset in the store");
        view.store(4096, 5);
        view.flush(4096, 8);
        media.barrier().unwrap(); // of a page that the view has
        view.store(2 * 4096 + 64, 5);
        view.flush(2 * 4096 + 64, 8);
        assert_eq!(place(media.barrier()), Some(BASE + 64));
        assert_eq!(media.load(BASE + 64), 0, "the store did not reach the medium");
        media.barrier().unwrap(); // the thread has had its error
    }

    #[test]
    fn an_image_notes_the_pages_that_are_flushed_through_a_view() {
        let folder = tempfile::tempdir().unwrap();
        let media = media(folder.path(), BackendChoice::Shm);
        let view = media.view(&PARTS, &ViewOptions { lead: 0x5_000, ..ViewOptions::default() }).unwrap().unwrap();
        let changed = media.note_changes(std::time::Duration::from_secs(20)).unwrap();
        view.flush(2 * 4096 - 8, 16); // the end of the first part, and the beginning of the second
        assert_eq!(changed.take(), [BASE / 4096, BASE / 4096 + 9]);
        view.flush(5 * 4096 - 8, 8);
        assert_eq!(changed.take(), [BASE / 4096 + 33]);
    }

    #[test]
    fn a_private_view_keeps_its_stores_to_itself() {
        for backend in [BackendChoice::Shm, BackendChoice::File] {
            let folder = tempfile::tempdir().unwrap();
            let media = media(folder.path(), backend);
            filled(&media);
            let options = ViewOptions { private: true, ..ViewOptions::default() };
            let view = media.view(&PARTS, &options).unwrap().unwrap();
            view.store(8, 5);
            let mut bytes = [0; 16];
            view.read(4096 - 8, &mut bytes);
            assert_eq!(bytes, [[0; 8], 9_u64.to_le_bytes()].concat()[..]);
            assert_eq!((view.load(8), media.load(BASE + 0x8008)), (5, 0));
            let before = media.counts();
            view.flush(0, 8);
            assert_eq!((media.counts() - before).lines, 0);
            let odd = media
                .view(&[(Some(BASE + 0x8000), 9), (None, 20), (Some(BASE + 0x9000), 8)], &options)
                .unwrap()
                .unwrap();
            assert_eq!((odd.len(), odd.load(0), odd.load(16)), (37, 8, 0));
            odd.read(24, &mut bytes[..13]);
            assert_eq!(bytes[..13], [0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
            let holes = media.view(&[(None, 4096), PARTS[0]], &options).unwrap().unwrap();
            holes.store(0, 3);
            assert_eq!((holes.load(0), holes.load(8), holes.load(4096)), (3, 0, 8));
            let shared = media.view(&PARTS, &ViewOptions::default()).unwrap();
            assert_eq!(shared.is_none(), backend == BackendChoice::File);
        }
    }
}
