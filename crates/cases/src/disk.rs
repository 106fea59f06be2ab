//! Power cuts of a whole store on a disk, through the `file` backend: log, checkpoint, replay and
//! everything above.

use crate::{Case, TOTAL};
use everbyte_media::{BackendChoice, OpenOptions, Options, Words};
use everbyte_sim::{DiskTape, Explorer, Failure, RecordedDisk, Report};
use everbyte_store::{CreateOptions, Error, ObjectOptions, Store};
use std::sync::Arc;

pub(crate) const CASES: &[Case] = &[Case {
    name: "media-power-cut",
    crate_name: "media",
    about: "a store on a disk that loses unsynced sectors: acknowledged objects and words are there after log replay",
    total: TOTAL,
    program: power_cut,
}];

const MAX: u64 = 2 << 20;

/// No threads but the caller's, so that a seed tells all; a small log, so that checkpoints happen.
fn options() -> Options {
    Options { backend: BackendChoice::File, background: false, log_bytes: 64 << 10, ..Options::default() }
}

fn open(disk: &Arc<RecordedDisk>) -> Result<Store, Error> {
    Store::attach(OpenOptions::new("recorded").on_disk(Arc::clone(disk) as _).open(&options())?)
}

/// Words of one line that are flushed by themselves, one after the other.
const WORDS: [u64; 2] = [0, 24];

/// Sets words behind the prime page of the object, acknowledged by a barrier.
fn set(store: &Store, value: u64) -> Result<(), Error> {
    let (media, object) = (store.media(), store.object("kept")?);
    {
        let _section = media.section();
        let line = object.prime() + 4096;
        for word in WORDS {
            media.store(line + word, value);
            media.flush_words(&[Words::new(line.get(), 1 << (word / 8))]);
        }
    }
    Ok(store.media().barrier()?)
}

/// Bytes of more than half of a batch, a quarter of the log.
const BULK: u64 = 9 << 10;

/// Flushes more than half of a batch, and writes it as the thread of the store does: before a
/// barrier asks for it.
fn set_bulk(store: &Store, value: u64) -> Result<(), Error> {
    let (media, object) = (store.media(), store.object("kept")?);
    {
        let _section = media.section();
        let at = object.prime() + 8192;
        media.store(at, value);
        media.flush(at, BULK);
        media.fence();
    }
    Ok(media.write_early()?)
}

fn record() -> Result<DiskTape, Error> {
    let path = std::env::temp_dir().join(format!("everbyte-power-cut-{}", std::process::id()));
    let create = CreateOptions { media: options(), max: MAX, ..CreateOptions::default() };
    let created = Store::create(&path, &create).and_then(|store| store.close());
    let bytes = std::fs::read(&path);
    let _ = std::fs::remove_file(&path);
    created?;
    let io = |source| everbyte_media::Error::Io { action: "record", path: path.clone(), source };
    let disk = RecordedDisk::new(&bytes.map_err(io)?).map_err(io)?;
    {
        let store = open(&disk)?;
        let span = ObjectOptions { span: Some(256 << 10), ..ObjectOptions::default() };
        drop(store.create_object("kept", span, |_| Ok::<(), Error>(()))?);
        disk.note(0);
        for value in 1..20 {
            if value % 5 == 0 {
                set_bulk(&store, value)?;
            }
            set(&store, value)?;
            disk.note(value);
            if value == 10 {
                store.media().checkpoint()?;
            }
        }
        store.media().clone().abandon(); // the process dies; the next one replays the log
    }
    let store = open(&disk)?;
    set(&store, 20)?;
    disk.note(20);
    store.media().clone().abandon();
    Ok(disk.tape())
}

fn power_cut(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let tape = record().expect("a program that no power cut disturbs");
    explorer.cut_power(&tape, |cut, disk| {
        let acked = cut.notes.last();
        let store = open(&disk).map_err(|error| error.to_string())?;
        let result = match (store.object("kept"), acked) {
            (Ok(object), _) => {
                let least = acked.copied().unwrap_or(0);
                let found = WORDS.map(|word| store.media().load(object.prime() + 4096 + word));
                let bulk = store.media().load(object.prime() + 8192);
                let findings = store.check();
                if bulk < least.min(19) / 5 * 5 {
                    Err(format!("the bulk is {bulk}, and {least} was acknowledged"))
                } else if found.iter().any(|&found| found < least || found > least + 1) {
                    Err(format!("the words are {found:?}, and {least} was acknowledged"))
                } else if findings.is_empty() {
                    Ok(())
                } else {
                    Err(format!("check: {findings:?}"))
                }
            }
            (Err(Error::NotFound { .. }), None) => Ok(()),
            (Err(error), _) => Err(error.to_string()),
        };
        store.media().clone().abandon();
        result
    })
}
