//! Random input and output of a few files of a small volume against plain vectors, in the manner of
//! fsx: each read, each hole and each size is compared, while pages run short, the volume is opened
//! again, and processes end without closing it.

use everbyte_fs::{Allocate, Error, FileKind, Held, Ino, NewFile, PageSize, Volume, VolumeOptions};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::Random;

const PAGE: u64 = 4096;
const MODES: [Allocate; 5] =
    [Allocate::Grow, Allocate::KeepSize, Allocate::Punch, Allocate::Zero, Allocate::ZeroKeepSize];

/// The options of one program: which offsets and lengths it draws.
struct Mix {
    size_max: u64,
    /// Of a hundred offsets so many are near a multiple of a page.
    near_pages: u64,
    len_max: u64,
    /// Of a hundred operations so many change pages without bytes.
    maps: u64,
}

struct Program {
    media: Media,
    volume: Option<Volume>,
    names: Vec<Vec<u8>>,
    files: Vec<Vec<u8>>,
    /// Keeps a file without a name.
    unnamed: Option<(Held, Vec<u8>)>,
    mix: Mix,
}

fn is_full<T>(outcome: &everbyte_fs::Result<T>) -> bool {
    matches!(outcome, Err(Error::NoSpace { .. }))
}

impl Program {
    fn new(random: &mut Random) -> Program {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
        let span = random.pick(&[1 << 20, 2 << 20, 8 << 20]);
        let (lanes, page_size) = (1 + random.below(3) as u32, random.pick(&[PageSize::Small, PageSize::Large]));
        let options = VolumeOptions { lanes, page_size, span: Some(span), ..Default::default() };
        let volume = Volume::create(&store, "volume", &options).unwrap();
        let names: Vec<Vec<u8>> = (b'a'..b'e').map(|byte| vec![byte]).collect();
        for name in &names {
            volume.make(Ino::ROOT, name, &NewFile::new(FileKind::Regular, 0o644)).unwrap();
        }
        let mix = match random.below(4) {
            0 => Mix { size_max: 140, near_pages: 0, len_max: 40, maps: random.pick(&[0, 1]) },
            _ => Mix {
                size_max: random.pick(&[200, 20_000, 100_000, 400_000]),
                near_pages: random.pick(&[0, 40, 90]),
                len_max: random.pick(&[100, 700, 6000, 60_000]),
                maps: random.pick(&[5, 20, 50]),
            },
        };
        let files = vec![Vec::new(); names.len()];
        Program { media, volume: Some(volume), names, files, unnamed: None, mix }
    }

    fn volume(&self) -> &Volume {
        self.volume.as_ref().expect("it is open")
    }

    fn ino(&self, file: usize) -> Ino {
        self.volume().lookup(Ino::ROOT, &self.names[file]).unwrap().expect("it has its name")
    }

    fn offset(&self, random: &mut Random, size: u64) -> u64 {
        let any = match random.below(4) {
            0 => size.saturating_sub(random.below(20)),
            1 => random.below(size + 1),
            _ => random.below(self.mix.size_max),
        };
        match random.chance(self.mix.near_pages) {
            true => {
                (any.next_multiple_of(PAGE) + random.pick(&[0, 0, 1, 8])).saturating_sub(random.pick(&[0, 0, 1, 7]))
            }
            false => any,
        }
    }

    fn len(&self, random: &mut Random) -> u64 {
        match random.below(8) {
            0 if self.mix.len_max > 50 => random.pick(&[0, 1, 2, 8, 128, 512, 513, PAGE]),
            _ => random.below(self.mix.len_max) + 1,
        }
    }

    /// One operation on one file. A refusal for lack of space changes nothing.
    fn step(&mut self, random: &mut Random) {
        let file = random.index(self.files.len());
        let (ino, size) = (self.ino(file), self.files[file].len() as u64);
        let (at, len) = (self.offset(random, size), self.len(random));
        let mut bytes = self.files[file].clone();
        let volume = self.volume();
        let (refused, what);
        if random.chance(self.mix.maps) {
            let (aligned, pages) = (at / PAGE * PAGE, (len / PAGE + 1) * PAGE);
            match random.below(4) {
                0 if aligned + pages < size => {
                    let done = volume.collapse(ino, aligned, pages);
                    bytes.drain(aligned as usize..(aligned + pages) as usize);
                    (refused, what) = (is_full(&done), format!("collapse {aligned} {pages}"));
                    assert!(refused || done.is_ok(), "{what}: {done:?}");
                }
                1 if aligned < size && size + pages < 2 * self.mix.size_max => {
                    let done = volume.insert(ino, aligned, pages);
                    bytes.splice(aligned as usize..aligned as usize, vec![0; pages as usize]);
                    (refused, what) = (is_full(&done), format!("insert {aligned} {pages}"));
                    assert!(refused || done.is_ok(), "{what}: {done:?}");
                }
                _ => {
                    let mode = random.pick(&MODES);
                    let done = volume.allocate(ino, at, len, mode);
                    let end = (at + len) as usize;
                    if len > 0 && matches!(mode, Allocate::Grow | Allocate::Zero) && end > bytes.len() {
                        bytes.resize(end, 0);
                    }
                    if !matches!(mode, Allocate::Grow | Allocate::KeepSize) && (at as usize) < bytes.len() {
                        let end = end.min(bytes.len());
                        bytes[at as usize..end].fill(0);
                    }
                    (refused, what) = (is_full(&done), format!("allocate {at} {len} {mode:?}"));
                    assert!(refused || done.is_ok(), "{what}: {done:?}");
                }
            }
        } else {
            let new: Vec<u8> = (0..len).map(|_| random.below(255) as u8 + 1).collect();
            let done = match random.below(8) {
                0 | 1 => {
                    what = format!("resize {size} to {at}");
                    bytes.resize(at as usize, 0);
                    volume.resize(ino, at)
                }
                2 | 3 => {
                    what = format!("append {len} at {size}");
                    bytes.extend(&new);
                    volume.append(ino, &new).map(|at| assert_eq!(at, size))
                }
                _ => {
                    what = format!("write {at} {len}");
                    if len > 0 && bytes.len() < (at + len) as usize {
                        bytes.resize((at + len) as usize, 0);
                    }
                    if len > 0 {
                        bytes[at as usize..(at + len) as usize].copy_from_slice(&new);
                    }
                    volume.write(ino, at, &new)
                }
            };
            refused = is_full(&done);
            assert!(refused || done.is_ok(), "{what}: {done:?}");
        }
        if !refused {
            self.files[file] = bytes;
        }
        self.compare(random, file, &what);
        if self.files[file].len() as u64 > self.mix.size_max {
            let to = random.below(self.mix.size_max);
            self.volume().resize(ino, to).unwrap();
            self.files[file].truncate(to as usize);
        }
    }

    /// A part of a file, and all of it sometimes.
    fn compare(&self, random: &mut Random, file: usize, what: &str) {
        let (ino, expected) = (self.ino(file), &self.files[file]);
        let volume = self.volume();
        assert_eq!(volume.attributes(ino).unwrap().size, expected.len() as u64, "{what}");
        let (at, len) = match random.chance(10) {
            true => (0, expected.len() as u64 + 10),
            false => (self.offset(random, expected.len() as u64), self.len(random)),
        };
        let mut found = vec![0xee; len as usize];
        let count = volume.read(ino, at, &mut found).unwrap();
        let from = (at as usize).min(expected.len());
        let until = (at as usize + len as usize).min(expected.len());
        assert_eq!(count, until - from, "{what}: read {at} {len}");
        let wrong = (0..count).find(|&index| found[index] != expected[from + index]);
        assert_eq!(wrong.map(|index| from + index), None, "{what}: read {at} {len}: the first wrong byte");
        // A hole is zeros, and the end of a hole is the start of data.
        if let Some(hole) = volume.next_hole(ino, at).unwrap().filter(|&hole| hole < expected.len() as u64) {
            let end = volume.next_data(ino, hole).unwrap().unwrap_or(expected.len() as u64);
            assert!(hole < end, "{what}");
            assert!(expected[hole as usize..end as usize].iter().all(|&byte| byte == 0), "{what}: hole {hole}");
        }
    }

    /// Replaces a file by another one, removes and makes it, or lets it lose its name while it is
    /// held.
    fn change_names(&mut self, random: &mut Random) {
        let (one, other) = (random.index(self.files.len()), random.index(self.files.len()));
        let volume = self.volume.as_ref().expect("it is open");
        let root = Ino::ROOT;
        match random.below(4) {
            0 if one != other => {
                let (from, to) = (&self.names[one], &self.names[other]);
                volume.rename(root, from, root, to, everbyte_fs::Rename::Exchange).unwrap();
                self.files.swap(one, other);
            }
            1 => {
                let held = volume.hold(self.ino(one)).unwrap();
                if let Some((held, bytes)) = self.unnamed.take() {
                    let mut found = vec![0; bytes.len() + 1];
                    assert_eq!(volume.read(held.ino(), 0, &mut found).unwrap(), bytes.len());
                    assert!(found[..bytes.len()] == bytes, "a file without a name keeps its bytes");
                }
                volume.unlink(root, &self.names[one]).unwrap();
                let bytes = std::mem::take(&mut self.files[one]);
                volume.make(root, &self.names[one], &NewFile::new(FileKind::Regular, 0o644)).unwrap();
                self.unnamed = Some((held, bytes));
            }
            _ => {
                let name = &self.names[one];
                volume.unlink(root, name).unwrap();
                volume.make(root, name, &NewFile::new(FileKind::Regular, 0o644)).unwrap();
                self.files[one].clear();
            }
        }
    }

    /// Opens the volume again: after a clean end, or as the next process finds it after a kill.
    fn reopen(&mut self, is_kill: bool) {
        let usage = {
            self.unnamed = None;
            let volume = self.volume();
            assert_eq!(volume.check(), []);
            volume.usage()
        };
        let object = self.volume().object().clone();
        self.volume = None;
        let object = match is_kill {
            true => {
                drop(object);
                Store::attach(self.media.clone()).unwrap().object("volume").unwrap()
            }
            false => object,
        };
        let volume = Volume::open(object).unwrap();
        assert_eq!((volume.recovery().undone, volume.recovery().trimmed), (0, 0), "every call had returned");
        assert_eq!(volume.usage(), usage, "no page and no inode is lost");
        assert_eq!(volume.check(), []);
        self.volume = Some(volume);
    }
}

/// Every byte that is read is the one that was written last.
#[test]
fn bytes_are_what_a_vector_has() {
    everbyte_workload::programs(80, |random, is_long| {
        let mut program = Program::new(random);
        let steps = if is_long { 10_000 } else { 400 };
        for step in 0..steps {
            program.step(random);
            match step % 100 {
                33 | 66 => program.change_names(random),
                99 => program.reopen(random.chance(50)),
                _ => (),
            }
        }
        for file in 0..program.files.len() {
            let mut found = vec![0; program.files[file].len()];
            program.volume().read(program.ino(file), 0, &mut found).unwrap();
            assert!(found == program.files[file], "file {file} at the end");
        }
        program.reopen(true);
    });
}

/// After every end that moves back, each call that moves it on again, or leaves a gap, shows zeros.
#[test]
fn bytes_behind_an_end_never_come_back() {
    type Call = fn(&Volume, Ino, u64, &mut Vec<u8>);
    let calls: [(&str, Call); 8] = [
        ("resize", |volume, ino, to, bytes| {
            volume.resize(ino, to).unwrap();
            bytes.resize(to as usize, 0);
        }),
        ("write behind a gap", |volume, ino, to, bytes| {
            volume.write(ino, to, &[7; 3]).unwrap();
            bytes.resize(to as usize, 0);
            bytes.extend([7; 3]);
        }),
        ("write behind a gap, of pages", |volume, ino, to, bytes| {
            volume.write(ino, to, &[7; 5000]).unwrap();
            bytes.resize(to as usize, 0);
            bytes.extend([7; 5000]);
        }),
        ("allocate", |volume, ino, to, bytes| {
            volume.allocate(ino, to - 1, 1, Allocate::Grow).unwrap();
            bytes.resize(to as usize, 0);
        }),
        ("zeros", |volume, ino, to, bytes| {
            volume.allocate(ino, to - 1, 1, Allocate::Zero).unwrap();
            bytes.resize(to as usize, 0);
        }),
        ("allocate behind the end, then resize", |volume, ino, to, bytes| {
            volume.allocate(ino, 0, to + 5000, Allocate::KeepSize).unwrap();
            volume.resize(ino, to).unwrap();
            bytes.resize(to as usize, 0);
        }),
        ("a hole behind the end, then resize", |volume, ino, to, bytes| {
            volume.allocate(ino, bytes.len() as u64, 3000, Allocate::Punch).unwrap();
            volume.resize(ino, to).unwrap();
            bytes.resize(to as usize, 0);
        }),
        ("append, then resize", |volume, ino, to, bytes| {
            volume.append(ino, &[8; 2]).unwrap();
            bytes.extend([8; 2]);
            volume.resize(ino, to + 10).unwrap();
            bytes.resize(to as usize + 10, 0);
        }),
    ];
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let volume =
        Volume::create(&store, "volume", &VolumeOptions { span: Some(4 << 20), ..Default::default() }).unwrap();
    for first in [20, 100, 128, 200, 4096, 5000, 12_000] {
        for cut in [0, 1, 10, 50, 127, 128, 129, 4090, 4096, 4100, 9000].into_iter().filter(|&cut| cut < first) {
            for to in [5, 11, 60, 128, 130, 4095, 4096, 4099, 6000, 13_000].into_iter().filter(|&to| to > cut) {
                for (what, call) in calls {
                    let ino = volume.make(Ino::ROOT, b"file", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
                    let mut bytes: Vec<u8> = (0..first).map(|index| index as u8 | 1).collect();
                    volume.append(ino, &bytes).unwrap();
                    volume.resize(ino, cut).unwrap();
                    bytes.truncate(cut as usize);
                    call(&volume, ino, to, &mut bytes);
                    let mut found = vec![9; bytes.len() + 1];
                    let len = volume.read(ino, 0, &mut found).unwrap();
                    assert!(found[..len] == bytes, "{first} bytes, cut at {cut}, {what} {to}");
                    volume.unlink(Ino::ROOT, b"file").unwrap();
                }
            }
        }
    }
    assert_eq!(volume.check(), []);
}

/// A hole of a tebibyte with a few bytes at its ends and in its middle: each call costs what the
/// bytes cost, and finds them, also in the next process.
#[test]
fn a_file_of_a_tebibyte_has_the_pages_of_its_bytes() {
    const TIB: u64 = 1 << 40;
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
    let options = VolumeOptions { span: Some(4 << 20), ..Default::default() };
    let volume = Volume::create(&store, "volume", &options).unwrap();
    let make = |name: &[u8]| volume.make(Ino::ROOT, name, &NewFile::new(FileKind::Regular, 0o644)).unwrap();
    // Offsets of single bytes in order, the size, and the number of pages.
    let require = |volume: &Volume, ino: Ino, bytes: &[u64], size: u64, pages: u64| {
        let found = volume.attributes(ino).unwrap();
        assert_eq!((found.size, found.allocated), (size, pages * PAGE));
        let mut at = 0;
        let mut expected = bytes.iter().copied().peekable();
        while let Some(data) = volume.next_data(ino, at).unwrap() {
            let mut page = vec![9; PAGE as usize];
            let count = volume.read(ino, data, &mut page).unwrap();
            for offset in (0..count).filter(|&offset| page[offset] != 0) {
                assert_eq!((expected.next(), page[offset]), (Some(data + offset as u64), 7));
            }
            at = data + count as u64;
        }
        assert_eq!(expected.next(), None);
    };
    let ino = make(b"file");
    let at = [10, TIB / 2 - 1, TIB / 2, TIB - 1];
    at.iter().for_each(|&at| volume.write(ino, at, &[7]).unwrap());
    require(&volume, ino, &at, TIB, 4);
    assert_eq!(volume.next_hole(ino, TIB / 2 - PAGE).unwrap(), Some(TIB / 2 + PAGE));
    assert_eq!(volume.append(ino, &[7]).unwrap(), TIB);
    // Pages for all of it are refused, and none is lost.
    let before = volume.usage();
    for mode in [Allocate::Grow, Allocate::ZeroKeepSize] {
        assert!(is_full(&volume.allocate(ino, 0, TIB + 1, mode)), "{mode:?}");
    }
    require(&volume, ino, &[&at[..], &[TIB]].concat(), TIB + 1, 5);
    assert_eq!(volume.available_pages(), before.free_pages + before.pages_max - before.pages);
    let clone = make(b"clone");
    assert_eq!(volume.clone_range(ino, 0, clone, 0, 0).unwrap(), TIB + 1);
    volume.snapshot(b"kept").unwrap();
    volume.collapse(ino, PAGE, TIB / 2).unwrap(); // those of the middle go with it
    require(&volume, ino, &[10, TIB / 2 - 1, TIB / 2], TIB / 2 + 1, 3);
    volume.insert(ino, TIB / 2, TIB).unwrap();
    require(&volume, ino, &[10, TIB / 2 - 1, TIB / 2 + TIB], TIB / 2 + TIB + 1, 3);
    volume.allocate(ino, 11, TIB, Allocate::Punch).unwrap();
    require(&volume, ino, &[10, TIB / 2 + TIB], TIB / 2 + TIB + 1, 2);
    volume.resize(ino, TIB).unwrap();
    require(&volume, ino, &[10], TIB, 1);
    assert_eq!(volume.copy_range(clone, 1, ino, PAGE, TIB / 2).unwrap(), TIB / 2);
    let copied = [10, PAGE + 9, PAGE + TIB / 2 - 2, PAGE + TIB / 2 - 1];
    require(&volume, ino, &copied, TIB, 4);
    assert_eq!(volume.check(), []);
    drop((volume, store)); // as a kill leaves it
    let volume = Volume::open(Store::attach(media).unwrap().object("volume").unwrap()).unwrap();
    let root = volume.snapshot_root(b"kept").unwrap();
    for (directory, name) in [(Ino::ROOT, b"clone" as &[u8]), (root, b"clone"), (root, b"file")] {
        let ino = volume.lookup(directory, name).unwrap().unwrap();
        require(&volume, ino, &[&at[..], &[TIB]].concat(), TIB + 1, 5);
    }
    require(&volume, ino, &copied, TIB, 4);
    assert_eq!(volume.check(), []);
}
