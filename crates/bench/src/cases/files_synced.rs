//! Files that are made durable one by one on a disk: a volume in a store there (backend `file`)
//! against the disk's own file system.
//!
//! An operation creates a file, writes 4 KiB to it and waits for `fsync`, which makes the name
//! durable on a volume, and on the disk's own file system as far as that does. Each thread has a
//! directory. With many threads the volume joins their syncs into one.

use super::Result;
use super::files_systems::{Calls, Files, Ours};
use crate::harness::{Bench, Runner, Unit};
use crate::report::Bar;
use std::path::Path;
use std::time::Instant;

/// A runner of so many threads; its operations are those of all threads together.
fn synced<'a, F: Files>(files: &'a F, directories: &'a [F::File], threads: usize) -> Runner<'a> {
    Runner::timed(files.name(), move |count| {
        let names: Vec<String> = (0..count.div_ceil(threads as u64)).map(|index| format!("mail-{index:06}")).collect();
        let bytes = [b'm'; 4096];
        let start = Instant::now();
        std::thread::scope(|scope| {
            for directory in &directories[..threads] {
                let names = &names;
                scope.spawn(move || {
                    for name in names {
                        let file = files.make(directory, name).expect("a new file");
                        files.write(&file, 0, &bytes).expect("a write");
                        files.sync(&file).expect("a durable file");
                    }
                });
            }
        });
        let took = start.elapsed();
        for directory in &directories[..threads] {
            names.iter().for_each(|name| files.unlink(directory, name).expect("a file that was made"));
        }
        took
    })
}

/// Measures and reports both.
pub(super) fn run(bench: &mut Bench<'_>, disk: &Path) -> Result {
    let threads = [1, 8];
    if !threads.iter().any(|count| bench.wants(&format!("synced_create_{count}_disk"))) {
        return Ok(());
    }
    let ours = Ours::create(&disk.join("ours"))?;
    let folder = disk.join("files");
    std::fs::create_dir(&folder)?;
    let theirs = Calls::on_disk(&folder)?;
    let mine = directories(&ours)?;
    let others = directories(&theirs)?;
    let backend = std::mem::replace(&mut bench.backend, ours.store.media().kind().name().into());
    for (count, least) in threads.into_iter().zip([1.5, 2.0]) {
        let most = bench.plan.pick(4000, 1000, 8);
        let runners = vec![synced(&ours, &mine, count).counting(ours.store.media()), synced(&theirs, &others, count)];
        bench.bars = vec![Bar::new(theirs.name(), least)];
        bench.metric(&format!("synced_create_{count}_disk"), Unit::PerSecond, most, runners);
    }
    bench.backend = backend;
    Ok(())
}

/// A directory for each thread.
fn directories<F: Files>(files: &F) -> Result<Vec<F::File>> {
    (0..8).map(|thread| files.make_directory(files.root(), &format!("mails-{thread}"))).collect()
}
