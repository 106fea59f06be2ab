//! The twins of a volume's files, of which a snapshot consists.

use crate::core::Core;
use crate::extents::{Extents, Pages};
use crate::layout::{
    EXTENT, FILE_PAGES_MAX, INLINE_EXTENTS, Inode, LINE, LIST_EXTENTS, LIST_HEAD, PAGE, PLACE_SHARED, Place, Run,
    STATE_INLINE, STATE_SNAPSHOT, State, inode,
};
use crate::order::{Blank, Copier, Fresh, NewInode, NewRun};
use crate::recover::{damaged_state, require_plausible};
use crate::xattr::run as xattr;
use crate::{Error, FileKind, Ino, Result, step};
use everbyte_media::sealed::{seal_low, unseal_low};
use everbyte_media::{Damage, Ordered, seeded};
use std::collections::HashMap;
use std::ops::Range;

/// Twins that nothing leads to yet.
#[derive(Debug, Default)]
pub(super) struct Twins {
    /// The twin of each file.
    of: HashMap<Ino, Ino>,
    /// The inode of each twin.
    inodes: Vec<Fresh<NewInode>>,
    /// Pages that were taken, and shares of pages.
    pages: Vec<(u64, u64)>,
}

/// Makes a twin of every file that has a name; all are free still, flushed and not fenced. No
/// change of the volume runs meanwhile.
pub(super) fn prepare(core: &Core, taken: i64) -> Result<Twins> {
    let mut twins = Twins::default();
    match twins.make(core, taken) {
        Ok(()) => Ok(twins),
        Err(error) => {
            twins.give_back(core);
            Err(error)
        }
    }
}

impl Twins {
    /// The twin of the volume's root.
    pub(super) fn root(&self) -> Ino {
        self.of[&Ino::ROOT]
    }

    /// The inodes of the twins.
    pub(super) fn fresh(&self) -> &[Fresh<NewInode>] {
        &self.inodes
    }

    /// The twins become live; flushed and not fenced.
    pub(super) fn set_live(&self, core: &Core, inodes: &Ordered<&[Fresh<NewInode>]>) {
        let media = core.media();
        let _section = media.section();
        for new in inodes.iter() {
            media.store(new.at + inode::STATE, new.state.word());
            media.flush_unless("fs-snapshot-states-unflushed", new.at + inode::STATE, 8);
        }
    }

    /// The twins are given up.
    pub(super) fn give_back(&self, core: &Core) {
        let media = core.media();
        for new in &self.inodes {
            let at = new.at + inode::STATE;
            let state = State::of(media.load(at));
            if state.mode != 0 {
                let _section = media.section();
                media.store(at, State { mode: 0, flags: 0, generation: state.generation.wrapping_add(1) }.word());
                media.flush(at, 8);
            }
        }
        media.fence();
        core.give_runs(&self.pages);
        let root = self.of.get(&Ino::ROOT);
        self.of.values().filter(|&ino| Some(ino) != root).for_each(|&ino| core.table.give(ino));
        root.into_iter().for_each(|&ino| core.table.give(ino));
    }

    fn make(&mut self, core: &Core, taken: i64) -> Result<()> {
        let mut files = Vec::new();
        for ino in core.table.numbers() {
            let at = core.table.at(ino).expect("the number is the table's");
            let inode: Inode = core.media().get(at);
            let Some(state) = State::checked(inode.state) else {
                return Err(damaged_state(ino, at).of_object(core.name()).into());
            };
            if state.mode == 0 || state.flags & STATE_SNAPSHOT != 0 {
                continue;
            }
            core.nodes.require_whole(ino, at, core)?;
            require_plausible(core.media(), ino, at).map_err(|damage| damage.of_object(core.name()))?;
            if inode.link_count() > 0 {
                let twin = core.table.take(core)?;
                self.of.insert(ino, twin);
                files.push((ino, at));
            }
        }
        if !self.of.contains_key(&Ino::ROOT) {
            return Err(Damage::at(core.at(0), "the volume has no root directory").of_object(core.name()).into());
        }
        for (ino, at) in files {
            self.copy(core, ino, at, taken)?;
        }
        Ok(core.object().require_readable()?)
    }

    /// Writes the twin of a file.
    fn copy(&mut self, core: &Core, ino: Ino, at: u64, taken: i64) -> Result<()> {
        let media = core.media();
        let found: Inode = media.get(at);
        let damaged = |at: u64, detail: String| Error::from(Damage::at(at, detail).of_object(core.name()));
        if found.checksum != found.owner_sum() {
            return Err(damaged(at + inode::OWNER, format!("the owner of inode {ino} fails its checksum")));
        }
        let state = State::of(found.state);
        let kind = FileKind::of_mode(state.mode);
        let (twin, root) = (self.of[&ino], self.root());
        let twin_at = core.table.at(twin).expect("the table has it");
        let old = State::of(media.load(twin_at + inode::STATE));
        let mut content = Inode { state: old.word(), snapshot: root.0, taken: 0, list: 0, attributes: 0, ..found };
        if twin == root {
            (content.parent, content.taken) = (root.0, taken);
        } else if kind == Some(FileKind::Directory) {
            let parent = self.of.get(&Ino(found.parent));
            let parent = parent.ok_or_else(|| damaged(at, format!("directory {ino} has no directory")))?;
            content.parent = parent.0;
        }
        content.checksum = content.owner_sum();
        if state.flags & STATE_INLINE == 0 {
            let runs = self.runs(core, ino, at, &found, kind == Some(FileKind::Directory))?;
            self.put_runs(core, &runs, &mut content)?;
        }
        if found.attributes != 0 {
            content.attributes = self.share_attributes(core, at)?;
        }
        let state = State { flags: state.flags | STATE_SNAPSHOT, generation: old.generation, ..state };
        self.inodes.push(NewInode::blank(twin, twin_at, state).put(media, &content));
        Ok(())
    }

    /// The runs of pages of a twin: shared with the file, or new pages of names.
    fn runs(
        &mut self,
        core: &Core,
        ino: Ino,
        at: u64,
        found: &Inode,
        is_directory: bool,
    ) -> Result<Fresh<Vec<NewRun>>> {
        // Readers load the index while changes wait, so that slots get their flags under the lock.
        let node = core.node(ino)?;
        let mut state = node.write_index(core)?;
        let mut own = None;
        let extents = match &mut state.extents {
            Some(extents) => extents,
            None => own.insert(node.load_extents(core)?), // it does not stay in memory
        };
        step::pass("snapshot-flags");
        self.runs_of(core, ino, at, extents, found, is_directory)
    }

    fn runs_of(
        &mut self,
        core: &Core,
        ino: Ino,
        at: u64,
        extents: &mut Extents,
        found: &Inode,
        is_directory: bool,
    ) -> Result<Fresh<Vec<NewRun>>> {
        if is_directory {
            return self.copy_names(core, extents, found.file_size() / PAGE);
        }
        let marked = extents.mark_shared(core, at, 0..FILE_PAGES_MAX);
        let mapped = core.maps.of(ino, &(0..FILE_PAGES_MAX));
        let (mut shared, mut copied) = (Vec::new(), Fresh::linked(Vec::new()));
        for (first, piece) in extents.pieces().filter(|(_, piece)| !piece.place.is_unwritten()) {
            let cut = |pages: Range<u64>| NewRun {
                first: pages.start,
                len: pages.end - pages.start,
                place: Place { page: piece.place.page + (pages.start - first), ..piece.place },
            };
            let (mut next, end) = (first, first + piece.len);
            for pages in &mapped {
                let pages = pages.start.clamp(next, end)..pages.end.clamp(next, end);
                if !pages.is_empty() && !seeded("fs-mapped-shared") {
                    self.share(core, cut(next..pages.start), &mut shared);
                    copied = copied.join(self.copy_pages(core, cut(pages.clone()))?);
                    next = pages.end;
                }
            }
            self.share(core, cut(next..end), &mut shared);
        }
        Ok(marked.with(shared).join(copied))
    }

    /// Shares a run of pages with the file.
    fn share(&mut self, core: &Core, run: NewRun, runs: &mut Vec<NewRun>) {
        if run.len > 0 {
            core.share_runs(&[(run.place.page, run.len)]);
            self.pages.push((run.place.page, run.len));
            runs.push(run);
        }
    }

    /// Copies a run of pages that is mapped (FS-30).
    fn copy_pages(&mut self, core: &Core, run: NewRun) -> Result<Fresh<Vec<NewRun>>> {
        let (mut content, mut done, mut runs) = ([0; PAGE as usize], 0, Vec::new());
        let mut copier = Copier::new(core.media());
        for (page, len) in core.take_runs(run.len)? {
            self.pages.push((page, len));
            for index in 0..len {
                core.media().read(core.at(run.place.page + done + index), &mut content);
                let _section = core.media().section();
                copier.copy_nt_unless("fs-snapshot-mapped-unflushed", core.at(page + index), &content);
            }
            runs.push(NewRun { first: run.first + done, len, place: Place::page(page) });
            done += len;
        }
        Ok(copier.finish(Blank::new(runs)))
    }

    /// Copies the pages of a directory; entries lead to the twins.
    fn copy_names(&mut self, core: &Core, extents: &Extents, count: u64) -> Result<Fresh<Vec<NewRun>>> {
        let taken = core.take_runs(count)?;
        self.pages.extend(&taken);
        let mut runs = Vec::new();
        let mut first = 0;
        let mut content = [0; PAGE as usize];
        let mut copier = Copier::new(core.media());
        for (page, len) in taken {
            for index in 0..len {
                let damaged = |detail: &str| Error::from(Damage::at(core.at(page), detail).of_object(core.name()));
                let (start, piece) = extents.find(first + index).ok_or_else(|| damaged("a directory lacks a page"))?;
                core.media().read(core.at(piece.place.page + (first + index - start)), &mut content);
                for line in content.chunks_mut(LINE as usize) {
                    let word = u64::from_le_bytes(line[..8].try_into().expect("eight bytes"));
                    if word == 0 {
                        continue;
                    }
                    let twin = unseal_low(word).and_then(|ino| self.of.get(&Ino(ino)));
                    let twin = twin.ok_or_else(|| damaged("an entry of a directory leads to no file"))?;
                    line[..8].copy_from_slice(&seal_low(twin.0).to_le_bytes());
                }
                let _section = core.media().section();
                copier.copy_nt_unless("fs-snapshot-names-unflushed", core.at(page + index), &content);
            }
            runs.push(NewRun { first, len, place: Place::page(page) });
            first += len;
        }
        Ok(copier.finish(Blank::new(runs)))
    }

    /// Writes the slots of a twin: to its inode, and to new pages of a chain.
    fn put_runs(&mut self, core: &Core, runs: &Fresh<Vec<NewRun>>, content: &mut Inode) -> Result<()> {
        let slot = |run: &NewRun| [Run { first: run.first, len: run.len }.word(), run.place.word()];
        let store = |into: &mut [u8], run: &NewRun| {
            let words = slot(run).map(u64::to_le_bytes);
            into.copy_from_slice(words.as_flattened());
        };
        content.inline.fill(0);
        let (inside, further) = runs.split_at(runs.len().min(INLINE_EXTENTS as usize));
        let slots = content.inline.chunks_exact_mut(EXTENT as usize);
        slots.zip(inside).for_each(|(into, run)| store(into, run));
        let mut next = 0;
        for part in further.chunks(LIST_EXTENTS as usize) {
            let page = core.take_run(1)?;
            self.pages.push((page, 1));
            let mut bytes = [0; PAGE as usize];
            bytes[..8].copy_from_slice(&u64::to_le_bytes(next));
            let slots = bytes[LIST_HEAD as usize..].chunks_exact_mut(EXTENT as usize);
            slots.zip(part).for_each(|(into, run)| store(into, run));
            next = core.copy_pages_unless("fs-snapshot-chain-unflushed", page, &bytes).word();
        }
        content.list = next; // the chain begins with the last page
        Ok(())
    }

    /// The word of a twin that leads to the attributes of the file at `at`, which both share.
    fn share_attributes(&mut self, core: &Core, at: u64) -> Result<u64> {
        let run = xattr::run(Pages::of(core.object()), at).map_err(|damage| damage.of_object(core.name()))?;
        let (page, count, _) = run.expect("the word leads somewhere");
        let word = Place { flags: PLACE_SHARED, ..Place::page(page) }.word();
        let media = core.media();
        let _section = media.section();
        media.store(at + inode::ATTRIBUTES, word);
        media.flush_unless("fs-share-unflushed", at + inode::ATTRIBUTES, 8);
        core.share_runs(&[(page, count)]);
        self.pages.push((page, count));
        Ok(word)
    }
}

#[cfg(test)]
mod tests {
    use crate::{FileKind, Ino, NewFile, Volume, VolumeOptions, step};
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};

    /// A reader loads the index of a file while a snapshot shares its pages, or waits: it never
    /// keeps an index without the flags of shared pages.
    #[test]
    fn a_reader_beside_a_snapshot_sees_that_pages_are_shared() {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let volume = Volume::create(&store, "volume", &VolumeOptions::default()).unwrap();
        let file = volume.make(Ino::ROOT, b"file", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
        volume.write(file, 0, &[1; 9000]).unwrap();
        drop(volume);
        let volume = Volume::open(store.object("volume").unwrap()).unwrap(); // no index is in memory
        let reader = volume.clone();
        let read = move |_| {
            let node = reader.core.node(file).unwrap();
            if !node.is_locked() {
                assert_eq!(reader.read(file, 0, &mut [0; 10]).unwrap(), 10);
            }
        };
        let root = step::with(read, || volume.snapshot(b"one").unwrap().root);
        let copy = volume.lookup(root, b"file").unwrap().unwrap();
        volume.write(file, 100, &[2; 8]).unwrap();
        let mut bytes = [0; 9000];
        assert_eq!(volume.read(copy, 0, &mut bytes).unwrap(), 9000);
        assert!(bytes == [1; 9000], "the write has changed the snapshot");
        volume.resize(file, 0).unwrap();
        assert_eq!(volume.check(), []);
    }
}
