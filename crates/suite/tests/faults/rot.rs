//! Rot of a whole store on a disk: sectors of a store that was killed under load, and of one that
//! was closed in order, are flipped, zeroed, replaced by an older version of themselves, or cannot
//! be read. Every key that was acknowledged is read as it was written, or opening, reading or
//! `check` tells of damage.
//!
//! The usual run takes a sample and prints its seed; `EVERBYTE_SOAK=1` takes every sector
//! (`cargo xtask soak`).

use everbyte_kv::Kv;
use everbyte_media::{BackendChoice, Disk, ErrorInfo, OpenOptions, Options, museum};
use everbyte_sim::{DiskCall, DiskEvent, RecordedDisk, SECTOR};
use everbyte_store::{CreateOptions, Store};
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Below this lie superblock, media heads and log; pages of data are behind.
const LOG_ROOM: u64 = 256 << 10;
const PAGE: usize = 4096;

fn options() -> Options {
    Options {
        backend: BackendChoice::File,
        background: false,
        log_bytes: LOG_ROOM,
        log_room: LOG_ROOM,
        ..Options::default()
    }
}

fn attach(disk: &Arc<RecordedDisk>) -> Result<Store, String> {
    let media = OpenOptions::new("rotten").on_disk(disk.clone()).open(&options()).map_err(|error| error.to_string())?;
    Store::attach(media).map_err(|error| error.to_string())
}

/// A store, what it was told, and what its sectors held before.
struct Rotten {
    name: &'static str,
    image: Vec<u8>,
    /// Earlier contents of each sector, the newest last.
    older: BTreeMap<usize, Vec<Vec<u8>>>,
    /// `None`: the key was deleted.
    told: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Every value that each key ever had.
    history: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Sectors of heads and log.
    log: std::ops::Range<usize>,
    /// The newest record, of which nothing proves that it was ever whole, and the key that it
    /// settled.
    newest: (std::ops::Range<usize>, Vec<u8>),
}

impl Rotten {
    /// Some lives, of which the first ends in order, and the others do if `closed`. Else the log
    /// holds all but the first.
    fn new(name: &'static str, closed: bool, lives: u32) -> Rotten {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let create = CreateOptions { media: options(), max: 16 << 20, ..CreateOptions::default() };
        Store::create(&path, &create).unwrap().close().unwrap();
        let disk = RecordedDisk::new(&std::fs::read(&path).unwrap()).unwrap();
        let (mut told, mut history) = (BTreeMap::new(), BTreeMap::<Vec<u8>, Vec<Vec<u8>>>::new());
        let mut last = Vec::new();
        for life in 0..lives {
            let store = attach(&disk).unwrap();
            let kv = Kv::open_or_create(&store, "t").unwrap();
            for number in 0..40_u32 {
                last = format!("key{:04}", (number * 7 + life * 31) % 100).into_bytes();
                let deletes = number % 11 == 5;
                let value = vec![number as u8 + life as u8; if number % 20 == 0 { 900 } else { 40 }];
                if deletes {
                    kv.delete(&last).unwrap();
                } else {
                    kv.put(&last, &value).unwrap();
                }
                history.entry(last.clone()).or_default().push(value.clone());
                told.insert(last.clone(), (!deletes).then_some(value));
            }
            drop(kv);
            let media = store.media().clone();
            if closed || life == 0 {
                store.close().unwrap();
            }
            media.abandon();
        }
        let (image, tape) = (disk.content(), disk.tape());
        let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap()) as usize;
        let (log_at, log_len) = (word((8 << 10) + 40), word((8 << 10) + 48));
        let mut older: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        let (mut content, mut newest) = (tape.image.clone(), 0..0);
        content.resize(image.len(), 0);
        for event in &tape.events {
            let DiskEvent::Write { at, bytes } = event else { continue };
            let (start, end) = (*at as usize, *at as usize + bytes.len());
            for sector in (start / SECTOR..end.div_ceil(SECTOR)).map(|sector| sector * SECTOR) {
                older.entry(sector).or_default().push(content[sector..sector + SECTOR].to_vec());
            }
            content[start..end].copy_from_slice(bytes);
            if (log_at..log_at + log_len).contains(&start) {
                newest = start..end;
            }
        }
        for (&sector, versions) in &mut older {
            versions.retain(|version| *version != image[sector..sector + SECTOR]);
        }
        let newest = if closed { 0..0 } else { newest };
        Rotten { name, image, older, told, history, log: 8 << 10..log_at + log_len, newest: (newest, last) }
    }

    /// Every sector that holds anything.
    fn sectors(&self) -> Vec<usize> {
        let used = |at: &usize| self.image[*at..*at + SECTOR].iter().any(|&byte| byte != 0);
        (0..self.image.len() / SECTOR * SECTOR).step_by(SECTOR).filter(used).collect()
    }

    /// Opens what is left, reads all that was told, and checks.
    fn judge(&self, what: &str, at: usize, disk: &Arc<RecordedDisk>) -> Result<(), String> {
        let Ok(store) = attach(disk) else { return Ok(()) };
        let kv = match Kv::open(&store, "t") {
            Ok(kv) => kv,
            Err(_) => return Ok(()),
        };
        let wrong = self.told.iter().find(|(key, value)| {
            let unproven = self.newest.0.contains(&at) && **key == self.newest.1;
            !unproven && kv.get(key).is_ok_and(|found| found != **value)
        });
        let walked: Result<Vec<_>, _> = kv.range::<[u8]>(..).collect();
        let live = self.told.values().flatten().count();
        let short = walked.is_ok_and(|walked| walked.len() + usize::from(self.newest.0.contains(&at)) < live);
        let checked = || store.check().is_empty() && kv.check().is_empty();
        let verdict = match wrong {
            // Heads and log are strict: opening must have told. Elsewhere `check` must see it.
            Some((key, value)) if self.log.contains(&at) || checked() => Err(format!(
                "{}: {what} at {at:#x}: {} reads {:?}, and {:?} bytes were acknowledged",
                self.name,
                String::from_utf8_lossy(key),
                kv.get(key).map(|found| found.map(|found| found.len())),
                value.as_ref().map(Vec::len),
            )),
            None if short && (self.log.contains(&at) || checked()) => {
                Err(format!("{}: {what} at {at:#x}: a walk finds less than {live} keys", self.name))
            }
            _ => Ok(()),
        };
        drop(kv);
        store.media().clone().abandon();
        verdict
    }

    /// A page behind heads and log is older than it should be, which no format detects everywhere:
    /// still no key reads a value that it never had, and nothing panics.
    fn judge_stale(&self, what: &str, at: usize, image: &[u8]) -> Result<(), String> {
        let disk = RecordedDisk::new(image).unwrap();
        let Ok(store) = attach(&disk) else { return Ok(()) };
        let verdict = Kv::open(&store, "t").map_or(Ok(()), |kv| {
            let foreign =
                |key: &Vec<u8>, value: &Vec<u8>| !self.history.get(key).is_some_and(|had| had.contains(value));
            let wrong = self.told.keys().find(|key| matches!(kv.get(key), Ok(Some(value)) if foreign(key, &value)));
            let walked = kv.range::<[u8]>(..).flatten().find(|(key, value)| foreign(key, value)).map(|(key, _)| key);
            let _ = (store.check(), kv.check());
            match wrong.or(walked.as_ref()) {
                Some(key) => Err(format!("{}: {what} at {at:#x}: {key:?} reads what it never had", self.name)),
                None => Ok(()),
            }
        });
        store.media().clone().abandon();
        verdict
    }

    /// The page at `at` as it was before: each of its sectors that ever was different.
    fn older_page(&self, at: usize) -> Option<Vec<u8>> {
        let mut image = self.image.clone();
        let mut changed = false;
        for sector in (at..at + PAGE).step_by(SECTOR) {
            if let Some(older) = self.older.get(&sector).and_then(|versions| versions.last()) {
                image[sector..sector + SECTOR].copy_from_slice(older);
                changed = true;
            }
        }
        changed.then_some(image)
    }

    fn rot(&self, at: usize, random: &mut Random) -> Result<usize, String> {
        let mut count = 0;
        let mut changed = |what: &str, bytes: &[u8]| {
            let mut image = self.image.clone();
            image[at..at + SECTOR].copy_from_slice(bytes);
            count += 1;
            self.judge(what, at, &RecordedDisk::new(&image).unwrap())
        };
        let mut bytes = self.image[at..at + SECTOR].to_vec();
        let used: Vec<usize> = (0..SECTOR).filter(|&byte| bytes[byte] != 0).collect();
        let byte = used[random.below(used.len() as u64) as usize];
        bytes[byte] ^= 1 << random.below(8);
        changed("a flipped bit", &bytes)?;
        changed("zeros", &[0; SECTOR])?;
        // A page of data has no checksum above it: only where heads and log lie is an older version
        // told from the newest.
        if self.log.contains(&at)
            && let Some(older) = self.older.get(&at).and_then(|versions| versions.last())
        {
            changed("an older version", older)?;
        }
        if let Some(older) = self.older.get(&at).and_then(|versions| versions.last())
            && !self.log.contains(&at)
        {
            let mut image = self.image.clone();
            image[at..at + SECTOR].copy_from_slice(older);
            self.judge_stale("an older sector", at, &image)?;
            count += 1;
        }
        let page = at / PAGE * PAGE;
        // If the newest record is gone with the page, the records before it in the page are missing
        // without a trace.
        let has_newest = page < self.newest.0.end && self.newest.0.start < page + PAGE;
        if let Some(image) = self.older_page(page).filter(|_| !has_newest) {
            match self.log.contains(&page) && self.log.contains(&(page + PAGE - 1)) {
                true => self.judge("an older page", page, &RecordedDisk::new(&image).unwrap())?,
                false => self.judge_stale("an older page", page, &image)?,
            }
            count += 1;
        }
        if self.log.contains(&at) {
            let disk = RecordedDisk::new(&self.image).unwrap();
            disk.make_unreadable(at as u64, SECTOR as u64);
            self.judge("unreadable", at, &disk)?;
            count += 1;
        }
        Ok(count)
    }
}

fn seed() -> u64 {
    everbyte_workload::seed(u64::from(std::process::id()), "-p everbyte-suite --test faults rot")
}

#[test]
fn no_rotten_sector_loses_a_key_without_an_error() {
    let whole = everbyte_workload::is_long();
    let seed = seed();
    let mut random = Random::new(seed);
    for (name, closed) in [("killed under load", false), ("closed in order", true)] {
        let rotten = Rotten::new(name, closed, 3);
        let sectors = rotten.sectors();
        let step = if whole { 1 } else { sectors.len() / 40 + 1 };
        let first = random.below(step as u64) as usize;
        let sampled: Vec<usize> = sectors.iter().copied().skip(first).step_by(step).collect();
        let mut count = 0;
        for at in &sampled {
            count += rotten.rot(*at, &mut random).unwrap_or_else(|detail| panic!("seed {seed:#x}: {detail}"));
        }
        println!("{name}: {} of {} sectors, {count} kinds of rot", sampled.len(), sectors.len());
    }
}

/// Each page of the table in turn cannot be read, sampled: its keys are an error and all others are
/// there, and no writer goes on. If it was so once, the next opening has everything.
#[test]
fn a_page_that_cannot_be_read_loses_no_key_without_an_error() {
    let whole = everbyte_workload::is_long();
    let mut random = Random::new(seed());
    for (name, closed) in [("killed under load", false), ("closed in order", true)] {
        let rotten = Rotten::new(name, closed, 3);
        let pages = |store: &Store| {
            let object = store.object("t").unwrap();
            (object.prime().get()..object.backed().get()).step_by(PAGE).collect::<Vec<_>>()
        };
        let all = pages(&attach(&RecordedDisk::new(&rotten.image).unwrap()).unwrap());
        let step = if whole { 1 } else { all.len() / 12 + 1 };
        for &at in all.iter().skip(random.below(step as u64) as usize).step_by(step) {
            let disk = RecordedDisk::new(&rotten.image).unwrap();
            for lost in [true, false] {
                let store = attach(&disk).unwrap();
                let kv = Kv::open(&store, "t").unwrap();
                if lost {
                    store.media().raise_memory_error(at);
                }
                for (key, value) in &rotten.told {
                    match kv.get(key) {
                        Ok(found) => assert_eq!(found, *value, "{name}, {at:#x}"),
                        Err(error) => assert!(lost && error.damage().is_some_and(|damage| damage.offset.is_some())),
                    }
                }
                let live = rotten.told.values().flatten().count();
                let walked: Result<Vec<_>, _> = kv.range::<[u8]>(..).collect();
                assert!(walked.map_or(lost, |walked| walked.len() == live), "{name}, {at:#x}");
                assert_eq!(kv.put(b"new", b"1").is_err(), lost, "{name}, {at:#x}");
                drop(kv);
                store.media().clone().abandon();
            }
        }
        println!("{name}: {} of {} pages", all.len().div_ceil(step), all.len());
    }
}

/// The sweep of heads and log finds a store that writes one copy of its head only, and one that
/// takes a broken life for the end of the log.
#[test]
fn the_sweep_finds_what_it_looks_for() {
    for (bug, lives) in [("media-one-head-copy", 2), ("media-witness-of-one-life", 3)] {
        let found = museum::with(bug, || {
            let rotten = Rotten::new("killed under load", false, lives);
            let mut random = Random::new(1);
            let sectors = rotten.sectors().into_iter().filter(|at| rotten.log.contains(at));
            sectors.map(|at| rotten.rot(at, &mut random)).find(Result::is_err)
        });
        println!("{bug}: {}", found.expect("the seeded bug was not found").unwrap_err());
    }
}

/// Each read of an opening fails once: the opening tells, or nothing is missing; and the next one
/// has everything.
#[test]
fn a_read_that_fails_once_loses_no_key() {
    for (name, closed) in [("killed under load", false), ("closed in order", true)] {
        let rotten = Rotten::new(name, closed, 3);
        for nth in 0..100 {
            let disk = RecordedDisk::new(&rotten.image).unwrap();
            disk.fail(DiskCall::Read, nth, 5);
            rotten.judge("a read that fails once", 8 << 10, &disk).unwrap();
            let done = disk.calls(DiskCall::Read) <= nth;
            disk.heal();
            let mut byte = [0];
            disk.read_at(0, &mut byte).unwrap();
            let store = attach(&disk).unwrap_or_else(|error| panic!("{name}, {nth}: {error}"));
            let kv = Kv::open(&store, "t").unwrap();
            for (key, value) in &rotten.told {
                assert_eq!(kv.get(key).unwrap(), *value, "{name}, {nth}");
            }
            drop(kv);
            store.media().clone().abandon();
            if done {
                break;
            }
        }
    }
}
