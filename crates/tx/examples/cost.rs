//! Costs of transactions on this machine: `cargo run --release -p everbyte-tx --example cost`. On
//! memory that stands in for persistent memory; pin it to a core (`taskset -c 1`) and let nothing
//! else run.

use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CreateOptions, Engine, ObjectOptions, Store};
use everbyte_tx::{Error, Undo};
use std::cell::Cell;
use std::time::Instant;

const ROUNDS: u64 = 300_000;

fn measure(what: &str, mut body: impl FnMut()) {
    (0..ROUNDS / 10).for_each(|_| body());
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        (0..ROUNDS / 5).for_each(|_| body());
        best = best.min(start.elapsed().as_nanos() as f64 / (ROUNDS / 5) as f64);
    }
    println!("{what:40} {best:8.1} ns");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir_in("/dev/shm")?;
    // EVERBYTE_EADR: without flush instructions, the engine's own work and the fences remain.
    let flush_on_fail = std::env::var_os("EVERBYTE_EADR").is_some();
    let media = Options { backend: BackendChoice::Shm, flush_on_fail, ..Options::default() };
    let store = Store::create(
        &directory.path().join("store"),
        &CreateOptions { media, max: 1 << 30, ..CreateOptions::default() },
    )?;
    let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(256 << 20) };
    let undo = Undo::open(store.create_object("cost", options, Undo::format)?)?;
    let heap = undo.heap().clone();
    let table = undo.run(|tx| tx.allocate(64 << 10))?.at.get();

    measure("empty transaction", || undo.run(|_| Ok::<_, Error>(())).unwrap());
    measure("update of 8 bytes", || undo.run(|tx| tx.store(table, 1)).unwrap());
    let turn = Cell::new(0);
    measure("update of 8 bytes, lines in turn", || {
        let at = table + turn.replace((turn.get() + 64) % 65_536);
        undo.run(|tx| tx.store(at, 1)).unwrap();
    });
    measure("update of 1 KiB", || undo.run(|tx| tx.write(table, &[1; 1024])).unwrap());
    let eight: Vec<(u64, u64)> = (0..8).map(|line| (table + line * 64, 8)).collect();
    measure("eight lines", || undo.run(|tx| eight.iter().try_for_each(|&(at, _)| tx.store(at, 1))).unwrap());
    measure("eight lines, named", || {
        undo.run(|tx| {
            tx.name_ranges(&eight)?;
            eight.iter().try_for_each(|&(at, _)| tx.store(at, 1))
        })
        .unwrap();
    });
    let old = Cell::new(undo.run(|tx| tx.allocate(64))?.at);
    measure("64 bytes allocated, others freed", || {
        undo.run(|tx| {
            let block = tx.allocate(64)?;
            tx.store(block.at.get(), 1)?;
            tx.free(old.replace(block.at).get())
        })
        .unwrap();
    });
    measure("reserve + cancel", || heap.cancel(heap.reserve(64).unwrap()));
    measure("reserve + op + finish (no media)", || {
        let block = heap.reserve(64).unwrap();
        let ops = [heap.op_allocate(&block)];
        heap.finish(&ops);
        heap.abandon(&ops);
    });
    let root = heap.object().root_at();
    measure("alloc_into + free_from", || {
        heap.alloc_into(64, root.get()).unwrap();
        heap.free_from(root.get()).unwrap();
    });
    for threads in [1, 2] {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let undo = &undo;
                scope.spawn(move || {
                    (0..ROUNDS).for_each(|_| undo.run(|tx| tx.store(table + 8192 * (thread + 1), 1)).unwrap());
                });
            }
        });
        let each = start.elapsed().as_nanos() as f64 / (ROUNDS * threads) as f64;
        println!("{threads} thread(s), 8 bytes each: {:.2} M/s", 1000.0 / each);
    }
    Ok(())
}
