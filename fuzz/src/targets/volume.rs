//! A store with a file volume in it, whose bytes are patched: opened, checked, walked, and written
//! to. Checks inside of words can be put right afterwards, so that places, runs and numbers of
//! inodes lead anywhere.

use crate::class;
use crate::patch::{Image, RESEAL, memory, store};
use everbyte_fs::layout::{
    GROUP_INODES, HEAD_AT, HEAD_COPY_AT, INLINE_EXTENTS, INODE, Inode, LANES_PAGE, LINE, LIST_HEAD, PAGE, Place, Run,
    State, TABLE_AT, inode,
};
use everbyte_fs::{Allocate, Error, FileKind, Ino, NewFile, Rename, SetXattr, Volume, VolumeOptions};
use everbyte_media::sealed::seal_low;
use everbyte_store::Store;
use std::sync::OnceLock;
use zerocopy::{FromBytes, IntoBytes};

const LEN: u64 = 2 << 20;
/// Bit 1 of the first byte of an input: put the checks inside of words right after patching.
const RESEAL_WORDS: u8 = 2;

struct Good {
    image: Image,
    /// Start of the volume's object.
    start: usize,
}

fn clock() -> i64 {
    1_000_000_000
}

/// Files of every form, a directory of two pages, a chain of extents, attributes.
fn good() -> &'static Good {
    static GOOD: OnceLock<Good> = OnceLock::new();
    GOOD.get_or_init(|| {
        let store = store(LEN);
        let options =
            VolumeOptions { lanes: 1, span: Some(1 << 20), uuid: Some([1; 16]), clock, ..VolumeOptions::default() };
        let volume = Volume::create(&store, "volume", &options).expect("a volume");
        fill(&volume).expect("room for the files");
        let start = volume.object().prime().get() as usize;
        drop(volume);
        store.media().barrier().expect("a barrier");
        let sealed = [HEAD_AT, HEAD_COPY_AT].map(|at| (start + at as usize, 256)).to_vec();
        Good { image: Image::new(store.media().read_vec(0, LEN as usize), sealed), start }
    })
}

fn fill(volume: &Volume) -> Result<(), Error> {
    let file = NewFile::new(FileKind::Regular, 0o644);
    let home = volume.make(Ino::ROOT, b"home", &NewFile::new(FileKind::Directory, 0o755))?;
    volume.make(home, b"empty", &NewFile::new(FileKind::Directory, 0o755))?;
    let small = volume.make(home, b"small", &file)?;
    volume.append(small, &[1; 100])?;
    let sparse = volume.make(home, b"sparse", &file)?;
    for number in 0..12 {
        volume.write(sparse, number * 8192, &[2; 10])?;
    }
    volume.allocate(sparse, 100_000, 8192, Allocate::KeepSize)?;
    let pages = volume.make(home, b"pages", &file)?;
    volume.append(pages, &[3; 9000])?;
    volume.set_xattr(pages, b"user.one", &[4; 30], SetXattr::Any)?;
    volume.set_xattr(pages, b"user.two", &[5; 5000], SetXattr::Any)?;
    volume.make(home, b"link", &NewFile { target: &[b't'; 300], ..NewFile::new(FileKind::Link, 0o777) })?;
    volume.make(home, &[b'n'; 200], &NewFile::new(FileKind::Pipe, 0o600))?;
    (0..70).try_for_each(|number| volume.link(small, Ino::ROOT, format!("name {number}").as_bytes()))
}

/// Puts the checks inside of the words of a volume right, wherever its places lead today.
struct Words<'b> {
    bytes: &'b mut [u8],
    start: usize,
}

impl Words<'_> {
    fn word(&self, at: usize) -> u64 {
        self.bytes.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn set(&mut self, at: usize, word: u64) {
        if let Some(bytes) = self.bytes.get_mut(at..at + 8) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    fn at(&self, page: u64) -> usize {
        self.start + page.min(LEN / PAGE) as usize * PAGE as usize
    }

    /// The place of a word, put right, and where it leads.
    fn place(&mut self, at: usize) -> Option<usize> {
        let word = self.word(at);
        if word == 0 {
            return None;
        }
        let flags = (word >> 44) as u8 & 1; // unwritten
        let page = Place::raw_page(word) % (LEN / PAGE);
        self.set(at, Place { flags, ..Place::page(page.max(1)) }.word());
        Some(self.at(page.max(1)))
    }

    fn slots(&mut self, from: usize, count: usize) {
        for at in (0..count).map(|slot| from + slot * 16) {
            let run = self.word(at);
            if run != 0 && self.place(at + 8).is_some() {
                let len = Run::raw_len(run).clamp(1, 1 << 19);
                self.set(at, Run { first: run & 0xff_ffff, len }.word());
            }
        }
    }

    fn all(&mut self) {
        let lane_pages = LANES_PAGE as usize + 1;
        let table = self.place(self.start + TABLE_AT as usize).unwrap_or(self.start + lane_pages * PAGE as usize);
        let second = self.place(table).unwrap_or(table);
        let Some(group) = self.place(second) else { return };
        for number in 1..GROUP_INODES as usize {
            let at = group + number * INODE as usize;
            let Some(bytes) = self.bytes.get(at..at + INODE as usize) else { return };
            let mut inode = Inode::read_from_bytes(bytes).expect("an inode's bytes");
            inode.checksum = inode.owner_sum();
            let state = State::of(inode.state);
            inode.state = state.word();
            (inode.links, inode.size) = (seal_low(inode.link_count()), seal_low(inode.file_size()));
            self.bytes[at..at + INODE as usize].copy_from_slice(inode.as_bytes());
            if state.mode == 0 || state.flags != 0 {
                continue;
            }
            self.slots(at + inode::INLINE as usize, INLINE_EXTENTS as usize);
            self.place(at + inode::ATTRIBUTES as usize);
            if let Some(list) = self.place(at + inode::LIST as usize) {
                self.place(list);
                self.slots(list + LIST_HEAD as usize, 8);
            }
            if FileKind::of_mode(state.mode) == Some(FileKind::Directory) {
                let Some(page) = self.place(at + inode::INLINE as usize + 8) else { continue };
                for line in (0..PAGE as usize).step_by(LINE as usize) {
                    let word = self.word(page + line);
                    if word != 0 {
                        self.set(page + line, seal_low(word & 0xffff));
                    }
                }
            }
        }
    }
}

pub(crate) fn run(input: &[u8]) -> String {
    let Good { image, start } = good();
    let mut bytes = image.patched(input);
    let flags = input.first().copied().unwrap_or(0);
    if flags & RESEAL_WORDS != 0 {
        Words { bytes: &mut bytes, start: *start }.all();
    }
    let media = memory(LEN);
    {
        let _section = media.section();
        media.write(0, &bytes);
    }
    let opened = Store::attach(media).map_err(Error::from).and_then(|store| Volume::open(store.object("volume")?));
    let volume = match opened {
        Ok(volume) => volume,
        Err(error) => return class(&error.to_string()),
    };
    let found = volume.check();
    let mut said = found.first().map_or_else(|| "whole ".into(), |finding| class(&finding.detail));
    said += match volume.recovery().damaged.is_empty() {
        true => "",
        false => "damaged ",
    };
    said += &walk(&volume);
    if let Err(error) = change(&volume) {
        said += &class(&error.to_string());
    }
    drop(volume.check());
    said
}

/// Reads everything that the names lead to; the first error of each is told.
fn walk(volume: &Volume) -> String {
    let mut first = None;
    let mut keep = |error: Error| _ = first.get_or_insert_with(|| class(&error.to_string()));
    let mut directories = vec![(Ino::ROOT, 0)];
    let mut seen = 0;
    while let Some((directory, depth)) = directories.pop() {
        seen += 1;
        let entries = volume.entries(directory, 0, 300).map_err(&mut keep).unwrap_or_default();
        for entry in entries {
            _ = volume.lookup(directory, &entry.name).map_err(&mut keep);
            let size = volume.attributes(entry.ino).map_err(&mut keep).map_or(0, |found| found.size);
            let mut bytes = vec![0; 20_000];
            drop(volume.read(entry.ino, size.saturating_sub(10_000), &mut bytes));
            drop(volume.read_link(entry.ino));
            for name in volume.xattrs(entry.ino).map_err(&mut keep).unwrap_or_default() {
                drop(volume.xattr(entry.ino, &name).map_err(&mut keep));
            }
            drop(volume.next_data(entry.ino, 1).map(|at| at.map(|at| volume.next_hole(entry.ino, at))));
            if entry.kind == FileKind::Directory && depth < 4 && seen < 12 {
                directories.push((entry.ino, depth + 1));
            }
        }
    }
    first.unwrap_or_else(|| "read ".into())
}

/// A little of every change.
fn change(volume: &Volume) -> Result<(), Error> {
    let mut outcome = Ok(());
    let mut keep = |result: Result<(), Error>| {
        if outcome.is_ok() {
            outcome = result;
        }
    };
    let home = volume.lookup(Ino::ROOT, b"home")?.unwrap_or(Ino::ROOT);
    for name in ["small", "sparse", "pages", "link"] {
        let Ok(Some(ino)) = volume.lookup(home, name.as_bytes()) else { continue };
        keep(volume.write(ino, 4090, &[9; 20]));
        keep(volume.append(ino, &[9; 5000]).map(drop));
        keep(volume.allocate(ino, 1000, 9000, Allocate::Punch));
        keep(volume.insert(ino, 4096, 4096));
        keep(volume.collapse(ino, 0, 4096));
        keep(volume.resize(ino, 3000));
        keep(volume.set_xattr(ino, b"user.one", b"new", SetXattr::Any));
        keep(volume.remove_xattr(ino, b"user.two"));
    }
    keep(volume.rename(home, b"sparse", Ino::ROOT, b"moved", Rename::Replace));
    keep(volume.rename(home, b"pages", home, b"small", Rename::Exchange));
    keep(volume.make(home, b"new", &NewFile::new(FileKind::Regular, 0o600)).map(drop));
    keep(volume.remove_directory(home, b"empty"));
    for name in ["small", "pages", "link"] {
        keep(volume.unlink(home, name.as_bytes()));
    }
    outcome
}

/// Those of the other targets, with checks of words put right, too.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = crate::patch::seeds();
    for index in 0..seeds.len() {
        let mut seed = seeds[index].clone();
        seed[0] |= RESEAL | RESEAL_WORDS;
        seeds.push(seed);
    }
    // Words of inodes get words of others.
    for place in 0..60_u32 {
        for from in [3_u64, 40, 97, 301] {
            let mut seed = vec![RESEAL | RESEAL_WORDS, 7];
            seed.extend((place * 11).to_le_bytes());
            seed.extend((u64::from(place) * 13 + from).to_le_bytes());
            seeds.push(seed);
        }
    }
    seeds
}
