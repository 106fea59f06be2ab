//! Ranges that are copied inside of a volume: pages are shared where that is possible.
//!
//! One copy, a fence between the steps:
//!   1. the slots of the source get the flag of shared pages (FS-21); pages that cannot be shared
//!      are copied to new ones
//!   2. old words of the target are logged
//!   3. these words are stored: slots, size, times
//!   4. the lane is retired
//!
//! Whole pages are shared where both offsets lie at the same place of a page. Pages that the source
//! does not have, and unwritten ones, become holes of the target. Mapped pages are not shared, and
//! those of the target keep their places: bytes are copied then (FS-30).
//!
//! Threads: two files are locked in the order of their numbers, under the tree lock for reading,
//! which keeps a rename from locking the same two. A directory is refused before a lock is taken.

use super::allocate::{missing, pieces};
use super::supply::Supply;
use super::{inline, is_inline, lock, lock_source, own_tail, read_page, require_range, write, zero_tail};
use crate::core::Core;
use crate::extents::{Extents, Piece};
use crate::layout::{INLINE, PAGE, PLACE_SHARED, Place, inode};
use crate::node::{Node, NodeState};
use crate::order::{Blank, Copier, Fresh, NewRun};
use crate::volume::Volume;
use crate::{Error, FileKind, Ino, Result, seal};
use everbyte_media::seeded;
use std::ops::Range;

impl Volume {
    /// Copies bytes of a regular file to another one, or to another place of the same file. Returns
    /// the number of bytes, which is less than `len` at the end of the source only. Whole pages are
    /// shared where both offsets lie at the same place of a page, so that no byte is copied until
    /// one side is written to; holes stay holes. Whole or absent after a crash, whatever its
    /// length; ordered on return.
    ///
    /// # Errors
    /// [`Error::Overlap`] if both ranges lie in one file and have bytes in common; otherwise as
    /// [`Volume::write`]: nothing has changed.
    pub fn copy_range(&self, from: Ino, from_at: u64, to: Ino, to_at: u64, len: u64) -> Result<u64> {
        self.transfer(from, from_at, to, to_at, |source, _| Ok(len.min(source.saturating_sub(from_at))))
    }

    /// As [`Volume::copy_range`], for callers that want pages to be shared or an error. A `len` of
    /// 0 means all up to the end of the source. Returns the number of bytes.
    ///
    /// # Errors
    /// [`Error::Unaligned`] if an offset is no multiple of 4096, if the range does not lie in the
    /// source, or if its length is no multiple either, unless it ends at the end of the source and
    /// not before the end of the target; otherwise as [`Volume::copy_range`].
    pub fn clone_range(&self, from: Ino, from_at: u64, to: Ino, to_at: u64, len: u64) -> Result<u64> {
        self.transfer(from, from_at, to, to_at, |source, target| {
            let end = if len == 0 { Some(source) } else { from_at.checked_add(len) };
            let count = end.filter(|&end| end <= source).and_then(|end| end.checked_sub(from_at));
            let is_last = |count: u64| from_at + count == source && to_at.saturating_add(count) >= target;
            match count {
                Some(count) if !from_at.is_multiple_of(PAGE) || !to_at.is_multiple_of(PAGE) => {
                    Err(Error::Unaligned { at: from_at, len: count })
                }
                Some(count) if count.is_multiple_of(PAGE) || is_last(count) => Ok(count),
                _ => Err(Error::Unaligned { at: from_at, len }),
            }
        })
    }

    /// Copies as many bytes as `count` says, which is given the sizes of both files.
    fn transfer(
        &self,
        from: Ino,
        from_at: u64,
        to: Ino,
        to_at: u64,
        count: impl FnOnce(u64, u64) -> Result<u64>,
    ) -> Result<u64> {
        let core = &*self.core;
        let _change = core.freeze.enter();
        let (source, target) = (core.node(from)?, core.node(to)?);
        // A call that locks a directory locks a file of it next, in any order of their numbers.
        for node in [&source, &target] {
            if FileKind::of_mode(node.state_word(core).mode) == Some(FileKind::Directory) {
                return Err(Error::IsADirectory { ino: node.ino });
            }
        }
        if from == to {
            let mut state = lock(core, &source)?;
            return Transfer { core, source: &source, target: &target, from_at, to_at }.run(&mut [&mut state], count);
        }
        let _tree = core.tree.read();
        let (mut of_source, mut of_target);
        if from < to {
            of_source = lock_source(core, &source)?;
            of_target = lock(core, &target)?;
        } else {
            of_target = lock(core, &target)?;
            of_source = lock_source(core, &source)?;
        }
        core.freeze.adopt(); // the source may have grown while this call waited for its lock
        let transfer = Transfer { core, source: &source, target: &target, from_at, to_at };
        transfer.run(&mut [&mut of_target, &mut of_source], count)
    }
}

/// A copy of a range.
struct Transfer<'t> {
    core: &'t Core,
    source: &'t Node,
    target: &'t Node,
    from_at: u64,
    to_at: u64,
}

/// The pages of the target after a copy.
#[derive(Debug, Default)]
struct Plan {
    /// Pages of the range, those at its edges among them; the ones without a run become holes.
    range: Range<u64>,
    /// Runs that are shared with the source.
    shared: Vec<NewRun>,
    /// Pages that get bytes of their own.
    copied: Vec<Range<u64>>,
}

impl Transfer<'_> {
    /// Copies; `states` are that of the target, and that of the source if it is another file.
    fn run(&self, states: &mut [&mut NodeState], count: impl FnOnce(u64, u64) -> Result<u64>) -> Result<u64> {
        let (core, Transfer { source, target, .. }) = (self.core, self);
        core.object().require_readable()?;
        let size = target.size(core);
        let len = count(source.size(core), size)?;
        let end = require_range(self.to_at, len)?;
        if source.ino == target.ino && self.from_at < end && self.to_at < self.from_at + len {
            return Err(Error::Overlap { ino: source.ino });
        }
        if len == 0 {
            return Ok(0);
        }
        if is_inline(core, source) {
            let bytes: [u8; INLINE as usize] = core.media().get(source.at + inode::INLINE);
            let bytes = &bytes[self.from_at as usize..(self.from_at + len) as usize];
            write::write(core, target, states[0], self.to_at, bytes)?;
            return Ok(len);
        }
        if is_inline(core, target) {
            inline::to_pages(core, target, states[0])?;
        }
        if self.to_at > size {
            let extents = states[0].extents(core, target)?;
            own_tail(core, target, extents, size)?;
            let _ = zero_tail(core, extents, size); // before the page is shared with another place of the file
        }
        let last = states.len() - 1;
        let extents = states[last].extents(core, source)?;
        let pages = self.from_at / PAGE..(self.from_at + len).div_ceil(PAGE);
        let mut written = pieces(extents, &pages, |flags| flags | PLACE_SHARED);
        written.retain(|run| !run.place.is_unwritten());
        let of_target = self.to_at / PAGE..end.div_ceil(PAGE);
        if core.maps.meet(target, &of_target) {
            // The pages stay, and bytes change as in a write, which gives a page to each hole.
            core.require_available(missing(states[0].extents(core, target)?, &of_target))?;
            self.verify_source(&written, &pages)?;
            let mut bytes = zeros(core, len)?;
            read_runs(core, &written, self.from_at, &mut bytes);
            write::write(core, target, states[0], self.to_at, &bytes)?;
            return Ok(len);
        }
        let is_mapped = core.maps.meet(source, &pages) && !seeded("fs-mapped-shared");
        let plan = self.plan(len, size, &written, is_mapped, states[0].extents(core, target)?);
        self.verify(&plan, len, &written, states[0].extents(core, target)?)?;
        let is_late = seeded("fs-share-late");
        let flag = |states: &mut [&mut NodeState]| match plan.shared.is_empty() {
            true => Ok::<_, Error>(Fresh::linked(())),
            false => Ok(states[last].extents(core, source)?.mark_shared(core, source.at, pages.clone())),
        };
        let flagged = if is_late { Fresh::linked(()) } else { flag(states)? };
        let done = self.commit(&plan, len, size, &flagged, &written, states[0].extents(core, target)?);
        if done.is_err() && !plan.shared.is_empty() {
            core.media().fence_unless("fs-share-left"); // another thread may go on and find the flags set
        }
        done?;
        if is_late {
            let _ = flag(states)?;
        }
        Ok(len)
    }

    /// Which pages are shared, and which ones are copied: all, if the source is mapped (FS-30). Its
    /// written pages are `written`.
    fn plan(&self, len: u64, size: u64, written: &[NewRun], is_mapped: bool, target: &Extents) -> Plan {
        let (from_at, to_at, end) = (self.from_at, self.to_at, self.to_at + len);
        let range = to_at / PAGE..end.div_ceil(PAGE);
        // Bytes of the last page behind the end of the target are undefined (FS-11).
        let whole = to_at.div_ceil(PAGE)..if end >= size { end.div_ceil(PAGE) } else { end / PAGE };
        let is_whole = |page: u64| whole.contains(&page);
        let mut plan = Plan { range, ..Plan::default() };
        let is_aligned = from_at % PAGE == to_at % PAGE && !is_mapped;
        let mut copied = Vec::new();
        for run in written {
            // Its pages in the target, of which the first and the last one may lie there in part.
            let from = (run.first * PAGE).max(from_at) - from_at + to_at;
            let until = ((run.first + run.len) * PAGE).min(from_at + len) - from_at + to_at;
            let pages = from / PAGE..until.div_ceil(PAGE);
            if !is_aligned {
                copied.push(pages);
                continue;
            }
            let shared = pages.start.max(whole.start)..pages.end.min(whole.end);
            if shared.is_empty() {
                copied.push(pages);
                continue;
            }
            copied.extend([pages.start..shared.start, shared.end..pages.end]);
            // Page `pages.start` of the target is the run's first one.
            let place = Place { page: run.place.page + (shared.start - pages.start), ..run.place };
            plan.shared.push(NewRun { first: shared.start, len: shared.end - shared.start, place });
        }
        let has_bytes = |page: u64| target.find(page).is_some_and(|(_, piece)| !piece.place.is_unwritten());
        let edges = [plan.range.start, plan.range.end - 1];
        copied.extend(edges.into_iter().filter(|&page| !is_whole(page) && has_bytes(page)).map(|page| page..page + 1));
        copied.retain(|pages| !pages.is_empty());
        copied.sort_unstable_by_key(|pages| pages.start);
        for pages in copied {
            match plan.copied.last_mut().filter(|before| before.end >= pages.start) {
                Some(before) => before.end = before.end.max(pages.end),
                None => plan.copied.push(pages),
            }
        }
        plan
    }

    /// Refuses to copy bytes of sealed pages that are damaged.
    fn verify(&self, plan: &Plan, len: u64, written: &[NewRun], target: &Extents) -> Result<()> {
        for page in plan.copied.iter().cloned().flatten() {
            if let Some(found) = target.find(page) {
                seal::verify(self.core, self.target.ino, found, page)?;
            }
            let (from, until) = ((page * PAGE).max(self.to_at), ((page + 1) * PAGE).min(self.to_at + len));
            let source = (from - self.to_at + self.from_at) / PAGE..(until - self.to_at + self.from_at).div_ceil(PAGE);
            self.verify_source(written, &source)?;
        }
        Ok(())
    }

    /// Refuses sealed pages of the source that are damaged.
    fn verify_source(&self, written: &[NewRun], pages: &Range<u64>) -> Result<()> {
        for run in written {
            for page in pages.start.max(run.first)..pages.end.min(run.first + run.len) {
                let piece = Piece { len: run.len, place: run.place, slot: 0 };
                seal::verify(self.core, self.source.ino, (run.first, piece), page)?;
            }
        }
        Ok(())
    }

    /// Stores the copied pages, and changes the target.
    fn commit(
        &self,
        plan: &Plan,
        len: u64,
        size: u64,
        flagged: &Fresh<()>,
        written: &[NewRun],
        extents: &mut Extents,
    ) -> Result<()> {
        let core = self.core;
        let mut supply = Supply::take(core, plan.copied.iter().map(|pages| pages.end - pages.start).sum())?;
        let mut runs = Vec::new();
        plan.copied.iter().for_each(|pages| supply.fill(pages.clone(), 0, &mut runs));
        let copies = self.store(Blank::new(runs), len, size, written, extents);
        let runs = copies.join(flagged.with(plan.shared.clone()));
        let places = |runs: &[NewRun]| runs.iter().map(|run| (run.place.page, run.len)).collect::<Vec<_>>();
        let shared = places(&plan.shared);
        core.share_runs(&shared);
        let outcome = self.change(&plan.range, &runs, size.max(self.to_at + len), extents);
        let freed = outcome.map_err(|error| {
            core.give_runs(&shared);
            supply.give_back(core, error)
        })?;
        core.give_runs(&places(&freed));
        Ok(())
    }

    /// Gives the target its new pages and its new size. Returns the runs that it had before: pages
    /// that it has still are counted anew.
    fn change(
        &self,
        range: &Range<u64>,
        runs: &Fresh<Vec<NewRun>>,
        size: u64,
        extents: &mut Extents,
    ) -> Result<Vec<NewRun>> {
        let (core, node) = (self.core, self.target);
        extents.reserve_for(core, node.at, range, runs)?;
        let freed = pieces(extents, range, |flags| flags);
        let mut change = core.change();
        let remapped = extents.remap(core, node.at, &mut change, range.clone(), runs);
        change.charge(node.at, remapped.net, 0);
        inline::set_size(&mut change, node, size);
        change.commit()?;
        extents.apply(&remapped);
        Ok(freed)
    }

    /// Stores the pages of runs: bytes of the source, and at the edges bytes of the target.
    fn store(
        &self,
        runs: Blank<Vec<NewRun>>,
        len: u64,
        size: u64,
        written: &[NewRun],
        target: &Extents,
    ) -> Fresh<Vec<NewRun>> {
        let media = self.core.media();
        let mut content = [0; PAGE as usize];
        let mut copier = Copier::new(media);
        let _section = media.section();
        for (run, page) in runs.iter().flat_map(|run| (run.first..run.first + run.len).map(move |page| (run, page))) {
            let start = page * PAGE;
            read_page(self.core, target, size, page, &mut content);
            let (from, until) = (start.max(self.to_at), (start + PAGE).min(self.to_at + len));
            let part = &mut content[(from - start) as usize..(until - start) as usize];
            read_runs(self.core, written, from - self.to_at + self.from_at, part);
            copier.copy_nt_unless("fs-copy-unflushed", self.core.at(run.place.page + (page - run.first)), &content);
        }
        copier.finish(runs)
    }
}

/// Memory for the bytes of a file, which may be more than there is.
fn zeros(core: &Core, len: u64) -> Result<Vec<u8>> {
    let (mut bytes, path) = (Vec::new(), core.media().path());
    let refused = |_| {
        let source = std::io::ErrorKind::OutOfMemory.into();
        everbyte_media::Error::Io { action: "hold the bytes of a copy in memory", path: path.into(), source }
    };
    bytes.try_reserve_exact(len as usize).map_err(refused)?;
    bytes.resize(len as usize, 0);
    Ok(bytes)
}

/// Reads bytes of a file whose written pages are `written`; all others are zeros.
fn read_runs(core: &Core, written: &[NewRun], at: u64, into: &mut [u8]) {
    into.fill(0);
    let end = at + into.len() as u64;
    let first = written.partition_point(|run| (run.first + run.len) * PAGE <= at);
    for run in written[first..].iter().take_while(|run| run.first * PAGE < end) {
        let (from, until) = ((run.first * PAGE).max(at), ((run.first + run.len) * PAGE).min(end));
        let part = &mut into[(from - at) as usize..(until - at) as usize];
        core.media().read(core.at(run.place.page) + (from - run.first * PAGE), part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewFile, OpenVolume, VolumeOptions};
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};

    /// The lines that a copy flushes which waits for its source, whose size another thread leaves
    /// unfenced meanwhile, or does not.
    fn lines_of_a_copy(leaves: bool) -> u64 {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
        let volume = Volume::create(&store, "volume", &VolumeOptions::default()).unwrap();
        let file = NewFile::new(FileKind::Regular, 0o644);
        // A copy locks the file with the lower number first.
        let [to, from] = [&b"to"[..], b"from"].map(|name| volume.make(Ino::ROOT, name, &file).unwrap());
        assert!(to < from);
        volume.write(from, 0, &[7; 9000]).unwrap();
        drop(volume);
        let options = OpenVolume { relaxed: true, ..OpenVolume::default() };
        let volume = Volume::open_with(store.object("volume").unwrap(), &options).unwrap();
        let core = &*volume.core;
        let [source, target] = [from, to].map(|ino| core.node(ino).unwrap());
        std::thread::scope(|scope| {
            let held = lock_source(core, &source).unwrap();
            let copy = scope.spawn(|| volume.copy_range(from, 0, to, 0, 9000).unwrap());
            while !target.is_locked() {
                std::thread::yield_now(); // until the copy has entered, and waits for its source
            }
            if leaves {
                let leave = || core.freeze.fence_growth(&media, source.at + inode::SIZE);
                scope.spawn(leave).join().unwrap();
            }
            let before = media.counts().lines;
            drop(held);
            assert_eq!(copy.join().unwrap(), 9000);
            media.counts().lines - before
        })
    }

    /// A copy orders the size of its source before itself, also if it had to wait for it (FS-40).
    #[test]
    fn a_copy_adopts_the_size_that_its_source_got_meanwhile() {
        assert_eq!(lines_of_a_copy(true), lines_of_a_copy(false) + 1);
    }

    /// A copy from or to a directory is refused without a lock: a thread that has locked the
    /// directory may wait for the file.
    #[test]
    fn a_copy_of_a_directory_locks_no_file() {
        let store = Store::format(Media::anonymous(16 << 20, &Options::default()).unwrap(), &FormatOptions::default());
        let volume = Volume::create(&store.unwrap(), "volume", &VolumeOptions::default()).unwrap();
        let file = volume.make(Ino::ROOT, b"file", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
        let above = volume.make(Ino::ROOT, b"above", &NewFile::new(FileKind::Directory, 0o755)).unwrap();
        assert!(file < above, "a copy locks the file first");
        let core = &*volume.core;
        let [node, directory] = [file, above].map(|ino| core.node(ino).unwrap());
        for (from, to) in [(file, above), (above, file)] {
            std::thread::scope(|scope| {
                let held = directory.write_index(core).unwrap();
                let copy = scope.spawn(|| volume.copy_range(from, 0, to, 0, 10));
                while !copy.is_finished() && !node.is_locked() {
                    std::thread::yield_now();
                }
                let waits = !copy.is_finished() && node.is_locked();
                drop(held);
                assert!(matches!(copy.join().unwrap(), Err(Error::IsADirectory { ino }) if ino == above));
                assert!(!waits, "the copy has locked the file, and waits for the directory");
            });
        }
    }
}
