//! [`Names`]: the names of one directory, as its index in memory and as lines on media.
//!
//! A directory is a file of pages with 64 lines of 64 bytes each. An entry takes one line, or up to
//! five for a long name, in one page. The first word of its first line is the sealed number of the
//! inode, and publishes the entry; it is 0 in every other line. Lines have no order.
//!
//! Invariants
//!   FS-8  The bytes of an entry are ordered before its first word.

use crate::extents::Extents;
use crate::layout::{EntryHead, LINE, NAME_AT, NAME_FIRST, NAME_FURTHER, NAME_MAX, PAGE, PAGE_LINES, lines};
use crate::lines::Lines;
use crate::order::{Blank, Fresh, NewEntry};
use crate::space::Space;
use crate::{Error, FileKind, Ino, Result};
use everbyte_media::sealed::unseal_low;
use everbyte_media::{Damage, Media};

/// The names of a directory.
#[derive(Debug, Default)]
pub(crate) struct Names {
    index: Lines,
    /// Pages of the volume, in the order of the directory.
    pages: Vec<u64>,
    /// The free lines of each page, a bit each.
    free: Vec<u64>,
    /// No page before this one has a free line.
    first_free: usize,
}

const _: () = assert!(PAGE_LINES == u64::BITS);

/// An entry in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub ino: Ino,
    pub line: u32,
}

/// An entry as it lies on media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub line: u32,
    pub ino: Ino,
    pub kind: FileKind,
    pub name: Vec<u8>,
}

/// Refuses what cannot be a name.
pub(crate) fn require_name(name: &[u8]) -> Result<()> {
    match name {
        b"" | b"." | b".." => Err(Error::BadName),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Error::BadName),
        _ if name.len() > NAME_MAX => Err(Error::NameTooLong { len: name.len() }),
        _ => Ok(()),
    }
}

/// Reads the entries of one page of a directory, whose first line has the number `first`; calls
/// `free` for each free line.
pub(crate) fn read_page(
    media: &Media,
    at: u64,
    first: u32,
    mut entry: impl FnMut(Line) -> Result<(), Damage>,
    mut free: impl FnMut(u32),
) -> Result<(), Damage> {
    let mut index = 0;
    while index < PAGE_LINES {
        let line_at = at + u64::from(index) * LINE;
        let word = media.load(line_at);
        if word == 0 {
            free(first + index);
            index += 1;
            continue;
        }
        let damaged = |detail: &str| Damage::at(line_at, detail);
        let ino = unseal_low(word).ok_or_else(|| damaged("the inode number of an entry fails its check"))?;
        let head = EntryHead::of(media.load(line_at + 8));
        if head.len == 0 || index + head.lines() > PAGE_LINES || head.word() != media.load(line_at + 8) {
            return Err(damaged("the length of an entry's name is wrong"));
        }
        let mut name = vec![0; usize::from(head.len)];
        for (part, bytes) in parts(&mut name) {
            media.read(line_at + part, bytes);
        }
        let kind = FileKind::of_byte(head.kind).ok_or_else(|| damaged("an entry has no kind"))?;
        if EntryHead::new(&name, head.kind) != head || require_name(&name).is_err() {
            return Err(damaged("the name of an entry fails its check"));
        }
        entry(Line { line: first + index, ino: Ino(ino), kind, name })?;
        index += head.lines();
    }
    Ok(())
}

/// The parts of a name, each with its offset from the entry's start.
fn parts(name: &mut [u8]) -> impl Iterator<Item = (u64, &mut [u8])> {
    let (first, further) = name.split_at_mut(name.len().min(NAME_FIRST));
    let further = further.chunks_mut(NAME_FURTHER).zip(1..).map(|(part, line)| (line * LINE + 8, part));
    std::iter::once((NAME_AT, first)).chain(further)
}

impl Names {
    pub(crate) fn load(space: &Space, extents: &Extents, size: u64) -> Result<Names, Damage> {
        let mut names = Names::default();
        for page in 0..size / PAGE {
            let (first, piece) = extents.find(page).ok_or_else(|| Damage {
                detail: format!("page {page} of a directory is missing"),
                ..Damage::default()
            })?;
            let place = piece.place.page + (page - first);
            names.pages.push(place);
            let mut entries = Vec::new();
            let entry = |line: Line| {
                entries.push(line);
                Ok(())
            };
            let mut lines: u64 = 0;
            let free = |line| lines |= 1_u64 << (line % PAGE_LINES);
            read_page(space.media(), space.at(place), page as u32 * PAGE_LINES, entry, free)?;
            names.free.push(lines);
            for Line { line, ino, name, .. } in entries {
                if u32::try_from(ino.0).is_err() {
                    return Err(Damage::at(space.at(place), "a name leads to an inode that no volume has"));
                }
                if names.get(space, &name).is_some() {
                    return Err(Damage::at(space.at(place), "a directory has one name twice"));
                }
                names.index.insert(&name, ino, line);
            }
        }
        Ok(names)
    }

    /// The entry of a name.
    pub(crate) fn get(&self, space: &Space, name: &[u8]) -> Option<Named> {
        self.index.get(name, |line| is_named(space, &self.pages, line, name))
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Names>() + self.index.bytes() + self.pages.capacity() * 8 + self.free.capacity() * 8
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// The pages of the directory.
    pub(crate) fn pages(&self) -> &[u64] {
        &self.pages
    }

    /// A page of free lines.
    pub(crate) fn add_page(&mut self, page: u64) {
        self.pages.push(page);
        self.free.push(u64::MAX);
    }

    /// Offset of a line in the store.
    pub(crate) fn at(&self, space: &Space, line: u32) -> u64 {
        line_at(space, &self.pages, line)
    }

    /// Adjacent free lines of one page: the first of them. They are still free.
    pub(crate) fn find_free(&mut self, count: u32) -> Option<u32> {
        let used = self.free[self.first_free..].iter().take_while(|lines| **lines == 0).count();
        self.first_free += used;
        // A bit stays where the bits above it are set, too.
        let runs = |lines: u64| (1..count).fold(lines, |runs, above| runs & lines >> above);
        let pages = self.free.iter().zip(0..).skip(self.first_free);
        let found = pages.map(|(&lines, page)| (runs(lines), page)).find(|(runs, _)| *runs != 0);
        found.map(|(runs, page): (u64, u32)| page * PAGE_LINES + runs.trailing_zeros())
    }

    /// Changes which lines of an entry are free.
    fn set_free(&mut self, line: u32, len: usize, is_free: bool) {
        let (page, bits) = ((line / PAGE_LINES) as usize, (1_u64 << lines(len)) - 1);
        let bits = bits << (line % PAGE_LINES);
        if is_free {
            self.free[page] |= bits;
            self.first_free = self.first_free.min(page);
        } else {
            self.free[page] &= !bits;
        }
    }

    /// Writes the bytes of an entry where nothing leads to them. A change stores the first word,
    /// see [`crate::change::Change::name`]; then the caller calls [`Names::insert`].
    pub(crate) fn write(&self, space: &Space, line: u32, name: &[u8], kind: FileKind, ino: Ino) -> Fresh<NewEntry> {
        let at = self.at(space, line);
        let mut bytes = [0; (LINE * 5) as usize];
        let mut name = name.to_vec();
        bytes[8..16].copy_from_slice(&EntryHead::new(&name, kind.byte()).word().to_le_bytes());
        let count = u64::from(lines(name.len()));
        for (part, from) in parts(&mut name) {
            bytes[part as usize..part as usize + from.len()].copy_from_slice(from);
        }
        Blank::new(NewEntry { at, ino }).put(space.media(), &bytes[..(count * LINE) as usize])
    }

    /// A published entry.
    pub(crate) fn insert(&mut self, name: &[u8], ino: Ino, line: u32) {
        self.set_free(line, name.len(), false);
        self.index.insert(name, ino, line);
    }

    /// An entry that leads to another inode now.
    pub(crate) fn replace(&mut self, space: &Space, name: &[u8], ino: Ino) {
        let Names { index, pages, .. } = self;
        index.replace(name, ino, |line| is_named(space, pages, line, name));
    }

    /// A withdrawn entry, whose name is still on media.
    pub(crate) fn remove(&mut self, space: &Space, name: &[u8]) {
        let Names { index, pages, .. } = self;
        let line = index.remove(name, |line| is_named(space, pages, line, name));
        self.set_free(line, name.len(), true);
    }
}

/// Offset of a line in the store.
fn line_at(space: &Space, pages: &[u64], line: u32) -> u64 {
    space.at(pages[(line / PAGE_LINES) as usize]) + u64::from(line % PAGE_LINES) * LINE
}

/// Whether the entry at a line has this name.
fn is_named(space: &Space, pages: &[u64], line: u32, name: &[u8]) -> bool {
    let (media, at) = (space.media(), line_at(space, pages, line));
    let is_same = |at: u64, part: &[u8]| media.compare(at, part.len() as u64, part).is_eq();
    let (first, further) = name.split_at(name.len().min(NAME_FIRST));
    usize::from(EntryHead::of(media.load(at + 8)).len) == name.len()
        && is_same(at + NAME_AT, first)
        && further.chunks(NAME_FURTHER).zip(1..).all(|(part, line)| is_same(at + line * LINE + 8, part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewFile, Volume, VolumeOptions};
    use everbyte_media::Options;
    use everbyte_store::{FormatOptions, Store};
    use everbyte_workload::Random;

    /// Names whose hashes are the same are told apart by all of their bytes.
    #[test]
    fn an_entry_has_its_own_name_alone() {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let volume = Volume::create(&store, "volume", &VolumeOptions::default()).unwrap();
        let core = &*volume.core;
        let long: Vec<u8> = (0..255).map(|index| b'a' + index % 26).collect();
        let mut all: Vec<Vec<u8>> = [1, 47, 48, 49, 103, 104, 105, 254, 255].map(|len| long[..len].to_vec()).to_vec();
        for at in [0, 1, 47, 48, 103, 104, 160, 216, 254] {
            let mut other = long.clone();
            other[at] = b'-';
            all.push(other);
        }
        for name in &all {
            volume.make(Ino::ROOT, name, &NewFile::new(FileKind::Pipe, 0o600)).unwrap();
        }
        let root = core.node(Ino::ROOT).unwrap();
        let mut state = root.write(core).unwrap();
        let names = state.names(core, &root).unwrap();
        let lines: Vec<u32> = all.iter().map(|name| names.get(core, name).unwrap().line).collect();
        for (name, own) in all.iter().zip(&lines) {
            for line in &lines {
                assert_eq!(is_named(core, names.pages(), *line, name), line == own, "{line}");
            }
        }
    }

    /// The lowest run that fits into a page is found, and none only if there is none.
    #[test]
    fn free_lines_are_those_of_an_array() {
        let mut random = Random::new(11);
        let (mut names, mut free) = (Names::default(), Vec::new());
        let mut held: Vec<(u32, usize)> = Vec::new();
        for _ in 0..20_000 {
            let len = [10, 48, 49, 104, 105, 160, 255][random.below(7) as usize];
            let count = lines(len) as usize;
            let fits = |&at: &usize| at % 64 + count <= 64 && (at..at + count).all(|line| free[line]);
            let expected = (0..free.len()).find(fits);
            assert_eq!(names.find_free(count as u32), expected.map(|at| at as u32));
            match expected {
                Some(at) if random.chance(55) || held.is_empty() => {
                    names.set_free(at as u32, len, false);
                    free[at..at + count].fill(false);
                    held.push((at as u32, len));
                }
                None if names.free.len() < 4 => {
                    names.add_page(7);
                    free.extend([true; 64]);
                }
                _ => {
                    let (at, len) = held.swap_remove(random.index(held.len()));
                    names.set_free(at, len, true);
                    free[at as usize..at as usize + lines(len) as usize].fill(true);
                }
            }
        }
        assert_eq!(names.free.len(), 4);
    }
}
