//! `patomic`: transactions of the redo engine, as `patomic` blocks run them, against libpmemobj on
//! tmpfs. Both settle on return; only ours are isolated.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::host;
use crate::ours::NAME;
use everbyte_bench_rivals::Pmemobj;
use everbyte_media::Options;
use everbyte_store::{CreateOptions, Engine, ObjectOptions, Store};
use everbyte_tx::Redo;
use everbyte_tx::redo::{Truncation, Worker};
use std::cell::RefCell;
use std::hint::black_box;
use std::path::Path;

/// Words that transactions change or load.
const WORDS: u64 = 4096;
/// Words of a long transaction.
const MANY: u64 = 64;

struct Field {
    redo: Redo,
    worker: RefCell<Worker>,
    /// Offset of the first word.
    at: u64,
}

impl Field {
    fn new(folder: &Path) -> Result<Field> {
        let create = CreateOptions { media: Options::default(), max: 1 << 30, ..CreateOptions::default() };
        let store = Store::create(&folder.join("patomic"), &create)?;
        let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span: Some(64 << 20) };
        let redo = Redo::open(store.create_object("bench", options, Redo::format)?)?;
        let at = redo.atomically(|tx| tx.allocate(WORDS * 8))?.at;
        redo.media().zero(at, WORDS * 8);
        let worker = RefCell::new(redo.worker());
        let field = Field { redo, worker, at: at.get() };
        host::unpin(); // the thread that truncates starts here, and is to have a CPU of its own
        field.truncating(Truncation::Asynchronous).store(WORDS, MANY);
        host::pin(0);
        Ok(field)
    }

    fn truncating(&self, truncation: Truncation) -> &Field {
        self.redo.truncate();
        self.redo.set_truncation(truncation);
        self
    }

    fn run(&self, body: impl Fn(&mut Worker)) {
        let worker = &mut *self.worker.borrow_mut();
        worker.begin().expect("a sound engine");
        body(worker);
        worker.commit().expect("there is no other thread");
    }

    /// Transactions that store `words` adjacent words each.
    fn store(&self, count: u64, words: u64) {
        for value in 0..count {
            self.run(|tx| (0..words).for_each(|word| tx.store(self.at + word * 8, value).expect("a place of its own")));
        }
    }

    /// `count` loads, in transactions of [`WORDS`].
    fn load(&self, count: u64) {
        for from in (0..count).step_by(WORDS as usize) {
            self.run(|tx| {
                for word in 0..WORDS.min(count - from) {
                    black_box(tx.load(self.at + word * 8).expect("there is no other thread"));
                }
            });
        }
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let ours = Field::new(folder.path())?;
    let rival = Pmemobj::create(&folder.path().join("pmemobj"), bench.plan.pick(64 << 20, 64 << 20, 16 << 20))?;
    let rival = rival.as_ref();
    if rival.is_none() {
        bench.skipped("libpmemobj", "it was not installed when this was built; `cargo xtask rivals` does that");
    }
    let media = ours.redo.media();
    bench.on(media);
    let ns = Unit::Nanoseconds;
    let mut alone = |name: &str, mine: &dyn Fn(u64)| {
        bench.metric(name, ns, 0, vec![Runner::new(NAME, mine).counting(media)]);
    };
    alone("begin_commit", &|count| (0..count).for_each(|_| ours.run(|_| ())));
    alone("load", &|count| ours.load(count));
    for (mode, truncation) in [("sync", Truncation::Synchronous), ("async", Truncation::Asynchronous)] {
        alone(&format!("words_{MANY}_{mode}"), &|count| ours.truncating(truncation).store(count, MANY));
    }
    for (mode, truncation) in [("sync", Truncation::Synchronous), ("async", Truncation::Asynchronous)] {
        let mut runners = vec![Runner::new(NAME, |count| ours.truncating(truncation).store(count, 1)).counting(media)];
        runners.extend(rival.map(|rival| Runner::new("libpmemobj", move |count| rival.update(count, 0, 1, 8))));
        bench.metric(&format!("word_{mode}"), ns, 0, runners);
    }
    super::patomic_c::run(bench)?;
    super::patomic_table::run(bench)
}
