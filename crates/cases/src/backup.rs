//! A backup as the crash: its image is recovered like one that a death of the process has left.
//!
//! A program changes a store on recorded media. At each of its stores, flushes and fences a second
//! thread copies some pages of a backup, by a schedule that a seed chooses, so that pages are
//! copied before, between and after all steps of a change. The image of the backup is then explored
//! like any other: recovered, crashed in recovery, and changed once more.

use crate::Case;
use everbyte_backup::{BackupFile, Files, Options, Phase, Progress, Sink, backup_with};
use everbyte_kv::Kv;
use everbyte_media::museum::carried;
use everbyte_media::{Media, Recorder};
use everbyte_sim::{Explorer, Failure, Image, Report};
use everbyte_store::{CLUSTER, Error, FormatOptions, ObjectOptions, Store};
use everbyte_workload::Random;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::path::Path;
use std::sync::Arc;

pub(crate) const CASES: &[Case] = &[Case {
    name: "backup-moments",
    crate_name: "backup",
    about: "a store is backed up while a table and objects change, and the image of the backup is recovered: whole changes, in order, with all that was acknowledged",
    total: 600,
    program: moments,
}];

const MAX: u64 = 8 << 20;
/// Changes that the program makes.
const CHANGES: u8 = 8;
/// Schedules of one exploration.
const SCHEDULES: u64 = 5;

/// The turns of the program and of the thread that copies.
#[derive(Default)]
struct Turns {
    /// Pages that the thread may copy before the program goes on.
    pages: u64,
    /// The thread has begun, or ended.
    begun: bool,
    /// Neither waits for the other any more.
    free: bool,
    /// Events of the program up to which the thread does not close the gate.
    before_close: u64,
    /// The program has ended.
    ended: bool,
}

#[derive(Default)]
struct Schedule {
    turns: Mutex<Turns>,
    changed: Condvar,
}

impl Schedule {
    fn change(&self, change: impl FnOnce(&mut Turns)) {
        change(&mut self.turns.lock());
        self.changed.notify_all();
    }

    /// The program waits until the thread has copied so many pages, or copies no more beside it.
    fn copy(&self, pages: u64) {
        let mut turns = self.turns.lock();
        turns.pages = pages;
        if turns.free {
            turns.before_close = turns.before_close.saturating_sub(1);
        }
        self.changed.notify_all();
        self.changed.wait_while(&mut turns, |turns| turns.pages > 0 && !turns.free);
    }

    /// Before the thread copies a page, or closes the gate.
    fn report(&self, progress: Progress) {
        let mut turns = self.turns.lock();
        turns.begun = true;
        turns.free |= progress.phase == Phase::Close;
        turns.pages = turns.pages.saturating_sub(1);
        self.changed.notify_all();
        self.changed.wait_while(&mut turns, |turns| match progress.phase {
            Phase::Close => turns.before_close > 0 && !turns.ended,
            _ => turns.pages == 0 && !turns.free,
        });
    }
}

/// Lets pages be copied at every event of the program.
struct Interleaved {
    schedule: Arc<Schedule>,
    random: Random,
    most: u64,
}

impl Interleaved {
    fn turn(&mut self) {
        let pages = self.random.below(self.most);
        self.schedule.copy(pages);
    }
}

impl Recorder for Interleaved {
    fn store(&mut self, _at: u64, _bytes: &[u8]) {
        self.turn();
    }

    fn flush(&mut self, _at: u64, _len: u64) {
        self.turn();
    }

    fn fence(&mut self) {
        self.turn();
    }

    fn barrier(&mut self, _mark: u64) -> io::Result<()> {
        self.turn();
        Ok(())
    }

    fn allocate(&mut self, _at: u64, _len: u64) -> io::Result<()> {
        self.turn();
        Ok(())
    }
}

/// The bytes of a backup.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Files for Memory {
    fn create(&self, _path: &Path) -> io::Result<Box<dyn Sink>> {
        Ok(Box::new(self.clone()))
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _path: &Path) {}
}

impl Sink for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn fresh() -> Image {
    Image::zeroed(2 * CLUSTER).with_max(MAX).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([3; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        drop(Kv::create(&store, "pairs").expect("room for a tree"));
        store.close().expect("sim barriers do not fail");
    })
}

/// Makes an object, then adds the pair of that number. Settled.
fn change(store: &Store, kv: &Kv, number: u8) -> Result<(), String> {
    let options = ObjectOptions { span: Some(2 * CLUSTER), ..ObjectOptions::default() };
    store.create_object(&name(number), options, |_| Ok::<(), Error>(())).map_err(|error| error.to_string())?;
    kv.put(&[number], &[number; 90]).map_err(|error| error.to_string())
}

fn name(number: u8) -> String {
    format!("object {number}")
}

/// Recovers, and counts the pairs: each is whole, those before it are there, and so is its object.
fn count(media: Media) -> Result<(Store, Kv, u8), String> {
    let store = Store::attach(media).map_err(|error| error.to_string())?;
    let findings = store.check();
    if !findings.is_empty() {
        return Err(format!("check: {findings:?}"));
    }
    let kv = Kv::open(&store, "pairs").map_err(|error| error.to_string())?;
    let findings = kv.check();
    if findings.iter().any(|found| found.kind != everbyte_store::FindingKind::Note) {
        return Err(format!("check: {findings:?}"));
    }
    let mut pairs = 0;
    for entry in kv.range::<[u8]>(..) {
        let (key, value) = entry.map_err(|error| error.to_string())?;
        if key != [pairs] || value != [pairs; 90] {
            return Err(format!("pair {pairs} is {key:?} of {} bytes", value.len()));
        }
        store.stat(&name(pairs)).map_err(|error| format!("pair {pairs} is there, and not its object: {error}"))?;
        pairs += 1;
    }
    Ok((store, kv, pairs))
}

/// An image of a backup, and the changes that it must and may have.
struct Taken {
    image: Image,
    least: u8,
    most: u8,
}

/// Runs the program with a backup beside it.
fn take(seed: u64) -> Result<Taken, String> {
    let start = fresh().media();
    let bytes = start.read_vec(0, start.len() as usize);
    let schedule = Arc::new(Schedule::default());
    // A copy takes some of the changes, or nearly all.
    let (mut random, schedules) = (Random::new(seed), Arc::clone(&schedule));
    let most = 2 + random.below(6);
    let recorder = Interleaved { schedule: schedules, random: Random::new(random.next()), most };
    schedule.change(|turns| turns.pages = u64::MAX); // until the store is open
    schedule.change(|turns| turns.free = true);
    let media = Media::recorded(MAX, &bytes, Box::new(recorder)).map_err(|error| error.to_string())?;
    let store = Store::attach(media).map_err(|error| error.to_string())?;
    let kv = Kv::open(&store, "pairs").map_err(|error| error.to_string())?;
    // Before the gate closes the program goes on, by nothing or by up to a few changes.
    let before_close = if seed == 0 { 0 } else { 1 + random.below(90) };
    schedule.change(|turns| *turns = Turns { before_close, ..Turns::default() });

    let (memory, mut settled) = (Memory::default(), 0);
    let options = Options { step: Some(1), ..Options::default() };
    let (summary, least) = std::thread::scope(|scope| {
        let copy = carried(|| {
            let taken = backup_with(&store, Path::new("backup"), &options, &memory, &mut |progress| {
                schedule.report(progress);
            });
            schedule.change(|turns| (turns.begun, turns.free) = (true, true));
            taken
        });
        let copier = scope.spawn(copy);
        schedule.changed.wait_while(&mut schedule.turns.lock(), |turns| !turns.begun);
        let mut least = None;
        let mut program = || {
            for number in 0..CHANGES {
                change(&store, &kv, number)?;
                if least.is_none() && schedule.turns.lock().free {
                    least = Some(number); // the changes before this one were settled before the moment
                }
                settled += 1;
            }
            Ok::<_, String>(())
        };
        let ran = program();
        schedule.change(|turns| (turns.free, turns.ended) = (true, true));
        let summary = copier.join().map_err(|_| "the thread that copies has panicked".to_string())?;
        ran?;
        Ok::<_, String>((summary.map_err(|error| error.to_string())?, least.unwrap_or(settled)))
    })?;
    let bytes = memory.0.lock();
    let file = BackupFile::of(&bytes[..], Path::new("backup")).map_err(|error| error.to_string())?;
    let mut image = vec![0; summary.len as usize];
    let mut put = |page: u64, at: u64| {
        let (page, at) = (page as usize * 4096, at as usize);
        if let Some(into) = image.get_mut(page..page + 4096) {
            into.copy_from_slice(&bytes[at..at + 4096]);
        }
    };
    file.walk(&mut put).map_err(|error| error.to_string())?;
    for page in (0..summary.len / 4096).filter(|&page| file.table().iter().all(|entry| entry.page != page)) {
        image[page as usize * 4096..][..4096].fill(0);
    }
    let restored = Image::zeroed(summary.len).with_max(MAX).then(|media| media.write(0, &image));
    Ok(Taken { image: restored, least, most: settled })
}

fn moments(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut last = None;
    for seed in 0..SCHEDULES {
        last = Some(match take(seed) {
            Ok(taken) => explore(&explorer, &taken)?,
            Err(text) => refuse(&explorer, &text)?,
        });
    }
    Ok(last.expect("schedules are explored"))
}

/// The image and one more change, crashed everywhere.
fn explore(explorer: &Explorer, Taken { image, least, most }: &Taken) -> Result<Report, Box<Failure>> {
    let more = |media: Media, oracle: &everbyte_sim::Oracle| {
        if let Ok((store, kv, pairs)) = count(media) {
            let _ = store.remove_object(&name(pairs)); // the object of a pair that the image lacks
            oracle.step("one more change", || change(&store, &kv, pairs).expect("room for a change"));
        }
    };
    explorer.explore(image, more, |media, seen| {
        let (.., pairs) = count(media)?;
        seen.recovered();
        let expected = *least + seen.acked_count() as u8..=*most + seen.begun_count() as u8;
        match expected.contains(&pairs) {
            true => Ok(()),
            false => Err(format!("{pairs} changes, and not {expected:?}")),
        }
    })
}

/// A failure before there was an image.
fn refuse(explorer: &Explorer, text: &str) -> Result<Report, Box<Failure>> {
    let touch = |media: Media, oracle: &everbyte_sim::Oracle| {
        oracle.step("a store", || {
            media.store(0, 1);
            media.flush(0, 8);
            media.barrier().expect("sim barriers do not fail");
        });
    };
    explorer.explore(&Image::zeroed(4096), touch, |_, _| Err(text.into()))
}
