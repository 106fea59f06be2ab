//! Taking a backup of an open store.
//!
//!   1. from now on the media note the pages that change
//!   2. all pages that hold data are copied to the file, while other threads store
//!   3. the pages that changed meanwhile are copied again, until few are left
//!   4. the gate of write sections closes; the pages that changed since are copied to memory; the
//!      gate opens: this is the moment of the image
//!   5. these pages, the table and the end mark are written; the file is synced and gets its name
//!
//! Invariants
//!   TAKE-1  The image is one that a death of the process could have left at the moment, or a loss
//!           of power: the crash rule holds, and all that was acknowledged before is in it.
//!   TAKE-2  Under the closed gate this thread takes no lock of the store.
//!
//! Threads: any number beside it; one backup of a store at a time.

use crate::files::{Files, PartName, random};
use crate::layout::{Entry, FORMAT, Head, MAGIC, PAGE, hash};
use crate::read::BackupFile;
use crate::write::Writer;
use crate::{Error, Options, Phase, Progress, Result, Summary};
use everbyte_media::{ChangedPages, Media, seeded};
use everbyte_store::Store;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use zerocopy::FromZeros;

/// Pages copied between two reports of progress.
const STEP: u64 = 256;
/// So few pages that changed are left for the closed gate: 4 MiB, a millisecond.
const FEW: usize = 1024;
/// Copies of pages that changed before the gate closes.
const ROUNDS: u32 = 6;

/// The pages of an image in the making.
struct Image<'a> {
    store: &'a Store,
    head: Head,
    parent: Option<BackupFile>,
    writer: Writer,
    to: &'a Path,
    table: BTreeMap<u64, Copied>,
    report: &'a mut dyn FnMut(Progress),
    step: u64,
}

/// The newest copy of a page.
#[derive(Clone, Copy, Default)]
struct Copied {
    /// `None`: zeros.
    hash: Option<[u8; 32]>,
    /// The file has bytes of this page, perhaps older ones: then it must have the newest.
    in_file: bool,
}

/// See [`crate::backup`].
pub(crate) fn take(
    store: &Store,
    to: &Path,
    options: &Options,
    files: &dyn Files,
    report: &mut dyn FnMut(Progress),
) -> Result<Summary> {
    let start = Instant::now();
    let media = store.media();
    require_possible(store)?;
    // Stores of other processes cannot be held back.
    let _alone = store.keep_alone()?;
    let parent = options.since.as_deref().map(BackupFile::open).transpose()?;
    let head = head(store, parent.as_ref(), options)?;
    let part = PartName::beside(to, files)?;
    let io = |action| move |source| Error::Io { action, path: to.into(), source };
    let sink = files.create(&part.part).map_err(io("create"))?;
    let writer = Writer::new(sink, &head).map_err(io("write"))?;
    let step = options.step.unwrap_or(STEP).max(1);
    let mut image = Image { store, head, parent, writer, to, table: BTreeMap::new(), report, step };

    let busy = |wait: Duration| {
        let detail = format!(
            "another backup runs, or a transaction has been open for {} s; try again when it has ended",
            wait.as_secs()
        );
        Error::Busy { path: media.path().into(), detail }
    };
    let changed = media.note_changes(options.wait).ok_or_else(|| busy(options.wait))?; // 1
    media.checkpoint()?; // what was flushed before is in the file, where `data` finds it
    image.copy_all()?; // 2
    let rest = image.copy_changed(&changed)?; // 3
    let moment = image.close(&changed, rest, options).ok_or_else(|| busy(options.wait))??; // 4
    drop(changed);
    store.require_whole()?; // an object may have got a backing file meanwhile

    let Image { writer, table, parent, head, .. } = image;
    let table: Vec<Entry> = table
        .into_iter()
        .filter(|(page, _)| *page < moment.len / PAGE)
        .filter_map(|(page, copied)| Some(Entry { page, hash: copied.hash? }))
        .collect();
    let finish = || writer.finish(&table, moment.len, moment.time);
    let (end, size) = finish().map_err(io("write"))?;
    part.publish()?; // 5
    Ok(Summary {
        store: head.store,
        identity: head.identity,
        parent: parent.map(|parent| parent.head().identity),
        len: end.len,
        pages: end.pages,
        stored: end.stored,
        size,
        pause: moment.pause,
        time: start.elapsed(),
    })
}

/// Refuses a store of which one file does not hold all, or of which this process does not see all.
fn require_possible(store: &Store) -> Result<()> {
    let media = store.media();
    let refused = |detail: &str| Err(Error::Refused { path: media.path().into(), detail: detail.into() });
    media.require_opener()?;
    if store.is_read_only() {
        return refused("the store is open for reading only; open it for writing to back it up");
    }
    store.require_whole()?;
    Ok(())
}

fn head(store: &Store, parent: Option<&BackupFile>, options: &Options) -> Result<Head> {
    let geometry = store.geometry();
    let random = random().map_err(|source| Error::Io { action: "read", path: "/dev/urandom".into(), source })?;
    let head = Head {
        magic: MAGIC,
        format: FORMAT,
        store: store.identity(),
        identity: options.fixed.map_or(random, |(identity, _)| identity),
        max: geometry.max,
        linear: geometry.len,
        log_at: geometry.log_at,
        log_len: geometry.log_len,
        binding: store.media().binding().unwrap_or(0),
        ..Head::new_zeroed()
    };
    let Some(parent) = parent else { return Ok(head) };
    if parent.head().store != head.store {
        let detail = "is a backup of another store; an increment needs one of this store".into();
        return Err(Error::WrongParent { path: parent.path().into(), detail });
    }
    Ok(Head { parent: parent.head().identity, depth: parent.head().depth + 1, ..head })
}

/// The moment of an image.
struct Moment {
    len: u64,
    time: u64,
    pause: Duration,
}

impl Image<'_> {
    fn media(&self) -> &Media {
        self.store.media()
    }

    fn say(&mut self, phase: Phase, done: u64, total: u64) {
        (self.report)(Progress { phase, done: done * PAGE, total: total * PAGE });
    }

    /// The pages that may hold something else than zeros.
    fn with_data(&self) -> Vec<Range<u64>> {
        let media = self.media();
        let data = media.data(0, media.len()).unwrap_or_else(|| std::iter::once(0..media.len()).collect());
        data.into_iter().map(|range| range.start / PAGE..range.end.div_ceil(PAGE)).collect()
    }

    fn copy_all(&mut self) -> Result<()> {
        let ranges = self.with_data();
        let total = ranges.iter().map(|range| range.end - range.start).sum();
        let mut done = 0;
        for range in ranges {
            for first in range.clone().step_by(self.step as usize) {
                self.say(Phase::Copy, done, total);
                let end = range.end.min(first + self.step);
                self.copy(first..end)?;
                done += end - first;
            }
        }
        self.say(Phase::Copy, done, total);
        Ok(())
    }

    /// Copies the pages that changed, again and again while that makes them fewer. Returns those
    /// that are left.
    fn copy_changed(&mut self, changed: &ChangedPages<'_>) -> Result<Vec<u64>> {
        let mut pages = changed.take();
        for _ in 0..ROUNDS {
            if pages.len() <= FEW {
                break;
            }
            let (before, total) = (pages.len(), pages.len() as u64);
            for (index, pages) in pages.chunks(self.step as usize).enumerate() {
                self.say(Phase::Again, index as u64 * self.step, total);
                pages.iter().try_for_each(|&page| self.copy(page..page + 1))?;
            }
            pages = changed.take();
            if pages.len() > before / 2 {
                break; // they change as fast as they are copied
            }
        }
        Ok(pages)
    }

    /// `None` if the gate does not close.
    fn close(&mut self, changed: &ChangedPages<'_>, mut rest: Vec<u64>, options: &Options) -> Option<Result<Moment>> {
        self.say(Phase::Close, 0, rest.len() as u64);
        // The system gives memory page by page: before the gate closes, where it may take its time.
        let mut copies = vec![1; (rest.len() + rest.len() / 4 + STEP as usize) * PAGE as usize];
        let closed = changed.close_gate(options.wait)?;
        let start = Instant::now();
        let media = self.media();
        if !seeded("backup-last-changes") {
            rest.extend(changed.take());
        }
        rest.sort_unstable();
        rest.dedup();
        let len = media.len();
        rest.retain(|&page| self.head.has(page) && page < len / PAGE);
        copies.resize(rest.len() * PAGE as usize, 0);
        for (page, copy) in rest.iter().zip(copies.chunks_exact_mut(PAGE as usize)) {
            media.read(page * PAGE, copy);
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let time = options.fixed.map_or(time, |(_, time)| time);
        drop(closed);
        let moment = Moment { len, time, pause: start.elapsed() };
        let put = || {
            for (page, copy) in rest.iter().zip(copies.chunks_exact(PAGE as usize)) {
                self.media().require_readable(page * PAGE, PAGE)?;
                self.put(*page, copy)?;
            }
            Ok(moment)
        };
        Some(put())
    }

    fn copy(&mut self, pages: Range<u64>) -> Result<()> {
        let mut bytes = vec![0; PAGE as usize];
        let end = pages.end.min(self.head.max / PAGE);
        for page in pages.start..end {
            if self.head.has(page) && self.media().holds(page * PAGE, PAGE) {
                self.media().read(page * PAGE, &mut bytes);
                self.media().require_readable(page * PAGE, PAGE)?;
                self.put(page, &bytes)?;
            }
        }
        Ok(())
    }

    /// Adds a page to the image: to the file unless it is zeros, or the parent's.
    fn put(&mut self, page: u64, bytes: &[u8]) -> Result<()> {
        let (hash, before) =
            ((!is_zero(bytes)).then(|| hash(bytes)), self.table.get(&page).copied().unwrap_or_default());
        let known = before.hash == hash || !before.in_file && hash == self.parents(page);
        let in_file = before.in_file || !known && hash.is_some();
        self.table.insert(page, Copied { hash, in_file });
        if known || hash.is_none() {
            return Ok(());
        }
        self.writer.page(page, bytes).map_err(|source| Error::Io { action: "write", path: self.to.into(), source })
    }

    /// The hash of a page in the image of the parent.
    fn parents(&self, page: u64) -> Option<[u8; 32]> {
        let table = self.parent.as_ref()?.table();
        table.binary_search_by_key(&page, |entry| entry.page).ok().map(|index| table[index].hash)
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks_exact(64).all(|line| line.iter().fold(0, |all, byte| all | byte) == 0)
}
