//! `tx`: undo transactions against libpmemobj on tmpfs. Both log the old bytes before a store,
//! both settle on return.
//!
//! Named ranges are logged in advance under one fence; libpmemobj has no such call, so it runs the
//! same eight ranges.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::host;
use crate::ours::NAME;
use everbyte_bench_rivals::Pmemobj;
use everbyte_media::Options;
use everbyte_store::{CreateOptions, Engine, ObjectOptions, Store};
use everbyte_tx::{Error, Tx, Undo};
use std::path::Path;

/// Bytes that the transactions store to.
const ROOM: u64 = 1 << 20;

struct Field {
    undo: Undo,
    /// Offset of the first line.
    at: u64,
}

impl Field {
    fn new(folder: &Path) -> Result<Field> {
        let create = CreateOptions { media: Options::default(), max: 1 << 30, ..CreateOptions::default() };
        let store = Store::create(&folder.join("tx"), &create)?;
        let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(64 << 20) };
        let undo = Undo::open(store.create_object("bench", options, Undo::format)?)?;
        let at = undo.run(|tx| tx.allocate(ROOM))?.at;
        undo.media().zero(at, ROOM);
        Ok(Field { undo, at: at.get() })
    }

    fn run(&self, body: impl FnOnce(&Tx<'_>) -> std::result::Result<(), Error>) {
        self.undo.run(body).expect("a transaction that must succeed");
    }

    fn line(&self, line: u64) -> u64 {
        self.at + line * 64
    }

    /// Each range is logged, then its first word stored: a fence for each.
    fn update(&self, count: u64, line: u64, ranges: u64, len: u64) {
        for value in 0..count {
            self.run(|tx| {
                for range in line..line + ranges {
                    tx.log_range(self.line(range), len)?;
                    tx.media().store(self.line(range), value);
                }
                Ok(())
            });
        }
    }

    /// Eight ranges named in advance: one fence for all.
    fn update_named(&self, count: u64, line: u64, ranges: u64) {
        let named: Vec<(u64, u64)> = (line..line + ranges).map(|range| (self.line(range), 8)).collect();
        for value in 0..count {
            self.run(|tx| {
                tx.name_ranges(&named)?;
                named.iter().for_each(|&(at, _)| tx.media().store(at, value));
                Ok(())
            });
        }
    }

    /// Each allocates a block and frees the one before.
    fn alloc_free(&self, count: u64, size: u64) {
        let mut last = None;
        for _ in 0..count {
            self.run(|tx| {
                let block = tx.allocate(size)?;
                last.replace(block.at).map_or(Ok(()), |old| tx.free(old.get()))
            });
        }
        self.run(|tx| last.map_or(Ok(()), |old| tx.free(old.get())));
    }
}

/// Two threads, each its own line.
fn two(count: u64, body: impl Fn(u64, u64) + Sync) {
    host::unpin();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let body = &body;
            scope.spawn(move || body(count / 2 + (count % 2) * thread, thread * 16));
        }
    });
    host::pin(0);
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let ours = Field::new(folder.path())?;
    let rival = Pmemobj::create(&folder.path().join("pmemobj"), bench.plan.pick(64 << 20, 64 << 20, 16 << 20))?;
    let rival = rival.as_ref();
    if rival.is_none() {
        bench.skipped("libpmemobj", "it was not installed when this was built; `cargo xtask rivals` does that");
    }
    bench.on(ours.undo.media());
    let mut metric = |name: &str, unit, mine: &dyn Fn(u64), theirs: &dyn Fn(&Pmemobj, u64)| {
        let mut runners = vec![Runner::new(NAME, mine).counting(ours.undo.media())];
        runners.extend(rival.map(|rival| Runner::new("libpmemobj", move |count| theirs(rival, count))));
        bench.metric(name, unit, 0, runners);
    };
    let ns = Unit::Nanoseconds;
    let empty = |count| (0..count).for_each(|_| ours.run(|_| Ok(())));
    metric("empty", ns, &empty, &|rival, count| rival.empty(count));
    for (name, len) in [("update_8", 8), ("update_64", 64)] {
        metric(name, ns, &|count| ours.update(count, 0, 1, len), &|rival, count| {
            rival.update(count, 0, 1, len as usize)
        });
    }
    metric("update_8_lines", ns, &|count| ours.update(count, 0, 8, 8), &|rival, count| rival.update(count, 0, 8, 8));
    let named = |count| ours.update_named(count, 0, 8);
    metric("update_8_lines_named", ns, &named, &|rival, count| rival.update(count, 0, 8, 8));
    metric("alloc_free_64", ns, &|count| ours.alloc_free(count, 64), &|rival, count| rival.alloc_free(count, 64));
    let mine = |count| two(count, |share, line| ours.update(share, line, 1, 8));
    let theirs = |rival: &Pmemobj, count| {
        two(count, |share, line| rival.update(share, line as usize, 1, 8));
    };
    metric("threads_2", Unit::PerSecond, &mine, &theirs);
    let mine = |count| two(count, |share, _| ours.alloc_free(share, 64));
    let theirs = |rival: &Pmemobj, count| two(count, |share, _| rival.alloc_free(share, 64));
    metric("alloc_free_64_threads_2", Unit::PerSecond, &mine, &theirs);
    Ok(())
}
