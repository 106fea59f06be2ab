//! [`FileMap`]: loads and stores on the pages of a file, without a call and without a copy.
//!
//! A mapping begins with pages that are the file's own (see [`super::map_range`]), and they keep
//! their places while it lives (FS-30). So a store is seen by the next read of the file, and a
//! write by the next load. A store is durable after [`FileMap::sync`], or after
//! [`FileMap::flush`] and [`FileMap::fence`] where fences settle.
//!
//! Each aligned word is untorn after a crash; several words are not one change. An interrupted
//! write call may undo stores to the bytes that it was writing.
//!
//! A mapping of a file that it does not change (of a snapshot, a private one, or by
//! [`MapOptions::as_is`]) takes no pages: holes of it read as zeros.
//!
//! The parts of a range lie in the store's own mapping. Where there are several they are mapped a
//! second time, side by side, so that the range has one range of addresses; on a medium whose
//! mapping is private to the process each access finds its part.
//!
//! Threads: any. Stores to one word by two threads leave one of the values. A store is followed by
//! the bit of its page, and a sync takes the bit before it flushes the page, so that it flushes the
//! store or leaves the bit. A sync that finds no bit waits for those that took it.

use super::map_range::own_pages;
use super::{inline, is_inline, lock, lock_source};
use crate::core::Core;
use crate::held::Held;
use crate::layout::{PAGE, STATE_SNAPSHOT, inode};
use crate::node::Node;
use crate::volume::Volume;
use crate::{Error, Ino, Result, step};
use everbyte_media::{Mark, Media, View, ViewOptions, ViewPages as MapPages, WriteWindows};
use parking_lot::Mutex;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Options of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    /// Whether bytes may be stored.
    pub writable: bool,
    /// Touches each page at once, so that no later access waits for the system's page table.
    pub populate: bool,
    /// Stores stay in the mapping, which copies a page of 4 KiB when its first byte is stored.
    /// Changes of the file are seen in pages that were not copied, or not.
    pub private: bool,
    /// Takes no pages: holes read as zeros. Private mappings take none, others may not be writable
    /// then.
    pub as_is: bool,
    /// The size of the pages that the system maps, where it has a choice.
    pub pages: MapPages,
}

/// Bytes of the mapping that lie side by side on the medium.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The first byte, counted from the start of the mapping.
    first: u64,
    len: u64,
    /// Its offset in the store; `None`: a hole.
    at: Option<u64>,
}

/// A range of a file that is mapped, until the value is dropped. It keeps the file alive. Offsets
/// count from the start of the range.
pub struct FileMap {
    volume: Volume,
    node: Arc<Node>,
    _held: Held,
    pages: Range<u64>,
    len: u64,
    parts: Vec<Part>,
    /// The range side by side, where its parts are not, or by option.
    view: Option<View>,
    options: MapOptions,
    /// Ranges of the store that are exempt from write windows.
    exempt: Vec<Range<u64>>,
    /// Pages with stores that [`FileMap::sync`] has not seen, a bit each.
    stored: Vec<AtomicU64>,
    /// The fence of the newest sync that had pages. Locked while a sync takes bits and flushes.
    synced: Mutex<Option<Mark>>,
    /// The address was given away: all pages may have been stored to.
    is_shown: AtomicBool,
}

impl Volume {
    /// Maps bytes of a regular file from offset `at` on, a multiple of 4096; fewer than `len` at
    /// the end of the file. Every page of the range gets a page of the volume that no other file
    /// shares. While the mapping lives, calls that would free or move its pages (a smaller size, a
    /// hole, a range that is cut out or put in before it) are [`Error::Mapped`]; writes, copies and
    /// snapshots go on.
    ///
    /// # Errors
    /// [`Error::Unaligned`] for `at`; [`Error::Outside`] if no byte of the range lies in the file;
    /// [`Error::ReadOnly`] for a writable mapping of a file of a snapshot; otherwise as
    /// [`Volume::write`].
    pub fn map(&self, ino: Ino, at: u64, len: u64, options: &MapOptions) -> Result<FileMap> {
        let core = &*self.core;
        if !at.is_multiple_of(PAGE) {
            return Err(Error::Unaligned { at, len });
        }
        let held = self.hold(ino)?;
        let node = core.node(ino)?;
        let map = {
            let _change = core.freeze.enter();
            let is_snapshot = node.state_word(core).flags & STATE_SNAPSHOT != 0;
            let stores = options.writable && !options.private;
            let is_fixed = !stores && (options.as_is || options.private || is_snapshot);
            let mut state = if is_fixed { lock_source(core, &node)? } else { lock(core, &node)? };
            core.object().require_readable()?;
            let size = node.size(core);
            let len = len.min(size.saturating_sub(at));
            if len == 0 {
                return Err(Error::Outside { at, len, end: size });
            }
            let pages = at / PAGE..(at + len).div_ceil(PAGE);
            let parts = if is_inline(core, &node) && is_fixed {
                vec![Part { first: 0, len, at: Some(node.at + inode::INLINE) }]
            } else {
                if is_inline(core, &node) {
                    inline::to_pages(core, &node, &mut state)?;
                }
                let extents = state.extents(core, &node)?;
                if !is_fixed {
                    own_pages(core, &node, extents, &pages)?;
                }
                parts(core, extents, &pages, len)
            };
            let view = view(core, &parts, at, options)?;
            let exempt = if stores && view.is_none() { exempt(core, &parts)? } else { Vec::new() };
            core.maps.add(&node, pages.clone());
            let stored = (0..(pages.end - pages.start).div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
            let (volume, node, options) = (self.clone(), Arc::clone(&node), *options);
            FileMap {
                volume,
                node,
                _held: held,
                pages,
                len,
                parts,
                view,
                options,
                exempt,
                stored,
                synced: Mutex::default(),
                is_shown: false.into(),
            }
        };
        if options.populate {
            map.touch();
        }
        Ok(map)
    }
}

/// The places of the pages of a range.
fn parts(core: &Core, extents: &crate::extents::Extents, pages: &Range<u64>, len: u64) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut page = pages.start;
    while page < pages.end {
        let (at, end) = match extents.find(page) {
            Some((first, piece)) => {
                let at = core.at(piece.place.page + (page - first));
                ((!piece.place.is_unwritten()).then_some(at), first + piece.len)
            }
            None => (None, extents.next(page).map_or(pages.end, |(first, _)| first)),
        };
        let first = (page - pages.start) * PAGE;
        let bytes = ((end.min(pages.end) - page) * PAGE).min(len - first);
        match parts.last_mut().filter(|last| last.at.map(|at| at + last.len) == at && at.is_some()) {
            Some(last) => last.len += bytes,
            None => parts.push(Part { first, len: bytes, at }),
        }
        page = end;
    }
    parts
}

/// Exempts the pages of a mapping from write windows: its program stores through their address. A
/// view is a mapping of its own, which no window guards.
fn exempt(core: &Core, parts: &[Part]) -> Result<Vec<Range<u64>>> {
    let mut done = Vec::new();
    if core.guard.kind() == WriteWindows::Off {
        return Ok(done);
    }
    for (at, len) in parts.iter().filter_map(|part| Some((part.at?, part.len))) {
        let range = at..(at + len).next_multiple_of(PAGE);
        if let Err(error) = core.media().exempt_from_guards(range.clone()) {
            end_exempt(core, &done);
            return Err(error.into());
        }
        done.push(range);
    }
    Ok(done)
}

/// Pages that the system refuses to protect stay writable.
fn end_exempt(core: &Core, ranges: &[Range<u64>]) {
    ranges.iter().for_each(|range| drop(core.media().end_exempt(range)));
}

/// Maps parts side by side: those of a private mapping, several ones, and by option. The bytes of a
/// small file are copied: words that lead to its pages take their place when it grows.
fn view(core: &Core, parts: &[Part], at: u64, options: &MapOptions) -> Result<Option<View>> {
    let are_pages = parts.iter().all(|part| part.at.is_none_or(|at| at.is_multiple_of(PAGE)));
    let private = options.private || !are_pages;
    if !private && matches!(parts, [Part { at: Some(_), .. }]) && options.pages == MapPages::Any {
        return Ok(None);
    }
    let len = |part: &Part| if are_pages { part.len.next_multiple_of(PAGE) } else { part.len };
    let parts: Vec<_> = parts.iter().map(|part| (part.at, len(part))).collect();
    let options = ViewOptions { private, lead: at, pages: options.pages };
    Ok(core.media().view(&parts, &options)?)
}

impl FileMap {
    /// Bytes of the mapping.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the mapping has no byte: never.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The inode.
    pub fn ino(&self) -> Ino {
        self.node.ino
    }

    /// Runs of bytes that lie side by side on the medium.
    pub fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// The address of the first byte, if the range has one range of addresses, and stores through
    /// it reach the medium or stay in a private mapping. Valid until this value is dropped, for
    /// [`FileMap::len`] bytes; in a mapping that is not writable they are only read. An access
    /// beyond the file's last page reads other bytes or is a fault (`SIGSEGV` or `SIGBUS`).
    pub fn as_ptr(&self) -> Option<NonNull<u8>> {
        let media = self.media();
        let address = match (&self.view, &self.parts[..]) {
            (Some(view), _) => view.address(),
            (None, &[Part { at: Some(at), .. }]) if media.capabilities().shared => {
                NonNull::new(media.address().as_ptr().wrapping_add(at as usize))?
            }
            _ => return None,
        };
        self.is_shown.store(true, Ordering::Release);
        Some(address)
    }

    fn media(&self) -> &Media {
        self.volume.core.media()
    }

    fn require_inside(&self, at: u64, len: u64) -> Result<()> {
        match at.checked_add(len).is_some_and(|end| end <= self.len) {
            true => Ok(()),
            false => Err(Error::Outside { at, len, end: self.len }),
        }
    }

    fn require_writable(&self) -> Result<()> {
        if self.options.writable { Ok(()) } else { Err(Error::ReadOnly { ino: self.node.ino }) }
    }

    /// Runs `body` for each part of a range that lies inside: offset in the range, length, place.
    #[inline]
    fn each_part(&self, at: u64, len: u64, mut body: impl FnMut(u64, u64, Option<u64>)) {
        let (mut done, mut index) = (0, 0);
        if self.parts.len() > 1 {
            index = self.parts.partition_point(|part| part.first + part.len <= at);
        }
        while done < len {
            let part = self.parts[index];
            let within = at + done - part.first;
            let step = (part.len - within).min(len - done);
            body(done, step, part.at.map(|place| place + within));
            (done, index) = (done + step, index + 1);
        }
    }

    /// Copies bytes out of the file.
    ///
    /// # Errors
    /// [`Error::Outside`] beyond the end; [`Error::Store`] if a page could not be read.
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.require_inside(at, into.len() as u64)?;
        if let Some(view) = &self.view {
            view.read(at, into);
            return Ok(view.require_readable(at, into.len() as u64)?);
        }
        let media = self.media();
        self.each_part(at, into.len() as u64, |done, len, place| {
            let part = &mut into[done as usize..(done + len) as usize];
            match place {
                Some(place) => media.read(place, part),
                None => part.fill(0),
            }
        });
        Ok(self.volume.core.object().require_readable()?)
    }

    /// The word at `at`, with acquire order.
    ///
    /// # Errors
    /// [`Error::Unaligned`] if `at` is no multiple of 8; as [`FileMap::read`].
    #[inline]
    pub fn load(&self, at: u64) -> Result<u64> {
        self.require_word(at)?;
        if let Some(view) = &self.view {
            let word = view.load(at);
            view.require_readable(at, 8)?;
            return Ok(word);
        }
        let (mut word, media) = (0, self.media());
        self.each_part(at, 8, |_, _, place| word = place.map_or(0, |place| media.load(place)));
        self.volume.core.object().require_readable()?;
        Ok(word)
    }

    fn require_word(&self, at: u64) -> Result<()> {
        self.require_inside(at, 8)?;
        if at.is_multiple_of(8) { Ok(()) } else { Err(Error::Unaligned { at, len: 8 }) }
    }

    /// Stores bytes, word by word.
    ///
    /// # Errors
    /// [`Error::Outside`] beyond the end, [`Error::ReadOnly`] if the mapping is not writable:
    /// nothing was stored.
    #[inline]
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.require_writable()?;
        self.require_inside(at, bytes.len() as u64)?;
        let media = self.media();
        let _section = media.section();
        match &self.view {
            Some(view) => view.write(at, bytes),
            None => self.each_part(at, bytes.len() as u64, |done, len, place| {
                let place = place.expect("a writable mapping has no holes");
                media.write(place, &bytes[done as usize..(done + len) as usize]);
            }),
        }
        self.mark(at, bytes.len() as u64);
        Ok(())
    }

    /// Stores a word, untorn, with release order.
    ///
    /// # Errors
    /// [`Error::Unaligned`] if `at` is no multiple of 8; as [`FileMap::write`].
    #[inline]
    pub fn store(&self, at: u64, value: u64) -> Result<()> {
        self.require_writable()?;
        self.require_word(at)?;
        let media = self.media();
        let _section = media.section();
        match &self.view {
            Some(view) => view.store(at, value),
            None => {
                let store = |place: Option<u64>| media.store(place.expect("a writable mapping has no holes"), value);
                self.each_part(at, 8, |_, _, place| store(place));
            }
        }
        self.mark(at, 8);
        Ok(())
    }

    /// Remembers that pages were stored to, after the stores.
    #[inline]
    fn mark(&self, at: u64, len: u64) {
        step::pass("map-stored");
        // Of this fence and that of a sync the first one counts: the sync flushes the stores, or
        // the loads below see that it took the bits.
        fence(Ordering::SeqCst);
        for page in at / PAGE..(at + len).div_ceil(PAGE) {
            let (word, bit) = (&self.stored[(page / 64) as usize], 1 << (page % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
        step::pass("map-marked");
    }

    /// Starts the write-back of a range; the next [`FileMap::fence`] orders it.
    ///
    /// # Errors
    /// [`Error::Outside`] beyond the end.
    #[inline]
    pub fn flush(&self, at: u64, len: u64) -> Result<()> {
        self.require_inside(at, len)?;
        let media = self.media();
        let _section = media.section();
        if let Some(view) = &self.view {
            view.flush(at, len);
            return Ok(());
        }
        self.each_part(at, len, |_, len, place| {
            if let Some(place) = place {
                media.flush_unless("fs-map-sync-unflushed", place, len);
            }
        });
        Ok(())
    }

    /// Orders: no later store of this thread survives a crash without what it has flushed before.
    /// It is durable on media whose fences settle.
    #[inline]
    pub fn fence(&self) {
        self.media().fence();
    }

    /// Makes all stores to a range durable, as `msync` does, and sets the times of the file. Pages
    /// of the range that no store of this mapping has touched are left out.
    ///
    /// # Errors
    /// [`Error::Outside`] beyond the end; a failed write or sync poisons the store.
    pub fn sync(&self, at: u64, len: u64) -> Result<()> {
        self.require_inside(at, len)?;
        match self.write_back(at, len)? {
            Some(mark) => Ok(self.media().settle(mark)?),
            None => Ok(()),
        }
    }

    /// Flushes the pages of a range that were stored to, sets the times, and orders both. Returns
    /// the fence that has to settle: it may be that of another thread, which has taken the pages.
    fn write_back(&self, at: u64, len: u64) -> Result<Option<Mark>> {
        let (end, all) = (at + len, self.is_shown.load(Ordering::Acquire));
        if !self.options.writable || self.options.private {
            return Ok(None);
        }
        let mut synced = self.synced.lock();
        let mut is_any = false;
        for page in at / PAGE..end.div_ceil(PAGE) {
            let (word, bit) = (&self.stored[(page / 64) as usize], 1 << (page % 64));
            let (start, stop) = ((page * PAGE).max(at), ((page + 1) * PAGE).min(end));
            let is_whole = stop - start == PAGE || stop == self.len && start == page * PAGE;
            let was_stored = match is_whole {
                true => word.load(Ordering::Relaxed) & bit != 0 && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0,
                false => word.load(Ordering::Relaxed) & bit != 0,
            };
            if was_stored || all {
                fence(Ordering::SeqCst); // see `mark`
                self.flush(start, stop - start)?;
                is_any = true;
            }
        }
        if is_any {
            let times = self.store_times();
            let media = self.media();
            media.fence();
            *synced = Some(media.mark());
            times?;
        }
        Ok(*synced)
    }

    fn store_times(&self) -> Result<()> {
        let core = &*self.volume.core;
        let _change = core.freeze.enter();
        let _state = lock(core, &self.node)?;
        let _ = super::store_times(core, &self.node, [core.now() as u64; 2]);
        Ok(())
    }

    /// Touches each page, so that the system maps it.
    fn touch(&self) {
        if let Some(view) = &self.view {
            return view.touch();
        }
        let media = self.media();
        for part in &self.parts {
            let Some(at) = part.at else { continue };
            for place in (at..at + part.len).step_by(PAGE as usize) {
                std::hint::black_box(media.get_word(place & !7));
            }
        }
    }
}

impl Drop for FileMap {
    /// Stores that were not synced are flushed and ordered, since the pages may move from now on;
    /// they are durable no later than the next change of the volume.
    fn drop(&mut self) {
        end_exempt(&self.volume.core, &self.exempt);
        let _ = self.write_back(0, self.len);
        self.volume.core.maps.remove(&self.node, &self.pages);
    }
}

impl std::fmt::Debug for FileMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileMap({}, {} bytes)", self.node.ino, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileKind, NewFile, VolumeOptions};
    use everbyte_media::Options;
    use everbyte_store::{FormatOptions, Store};
    use std::cell::Cell;
    use std::rc::Rc;

    fn map() -> Rc<FileMap> {
        let store = Store::format(Media::anonymous(16 << 20, &Options::default()).unwrap(), &FormatOptions::default());
        let volume = Volume::create(&store.unwrap(), "volume", &VolumeOptions::default()).unwrap();
        let file = volume.make(Ino::ROOT, b"file", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
        volume.write(file, 0, &[1; 2 * PAGE as usize]).unwrap();
        let options = MapOptions { writable: true, ..MapOptions::default() };
        Rc::new(volume.map(file, 0, 2 * PAGE, &options).unwrap())
    }

    /// A sync of another thread comes between a store and the bit of its page, or behind it: that
    /// sync or the next one flushes the store.
    #[test]
    fn a_store_beside_a_sync_is_flushed() {
        for at in ["map-stored", "map-marked"] {
            let (map, flushed) = (map(), Rc::new(Cell::new(0)));
            let sync = |map: &FileMap, flushed: &Cell<u64>| {
                let (before, is_stored) = (map.media().counts().lines, map.load(PAGE).unwrap() == 7);
                map.sync(0, map.len()).unwrap();
                flushed.set(flushed.get() + if is_stored { map.media().counts().lines - before } else { 0 });
            };
            let (other, counted) = (Rc::clone(&map), Rc::clone(&flushed));
            let beside = move |point| {
                if point == at {
                    sync(&other, &counted)
                }
            };
            step::with(beside, || map.store(PAGE, 7).unwrap());
            sync(&map, &flushed);
            assert!(flushed.get() >= 64, "{at}: {} lines", flushed.get());
        }
    }

    /// A sync whose page another thread has flushed, and not settled yet, settles it.
    #[test]
    fn a_sync_beside_another_one_settles_the_page_that_this_one_took() {
        let map = map();
        map.store(0, 7).unwrap();
        let of_other = map.write_back(0, map.len()).unwrap();
        let before = map.media().counts().barriers;
        map.sync(0, 8).unwrap();
        assert_eq!(map.media().counts().barriers, before + 1);
        assert!(of_other.is_some());
    }
}
