//! The last parts of `files`: the price of write windows. Writes of 4 KiB and of 64 bytes, and the
//! work of a file server, without windows (ours) and with windows by the page table; by protection
//! keys where the CPU has them. The counters of windows are those by the page table: with keys each
//! is two switches of a register.

use super::Result;
use super::files::{filled, offsets};
use super::files_barriers::serve;
use super::files_systems::{Files, Ours};
use crate::harness::{Bench, Runner, Unit};
use everbyte_fs::OpenVolume;
use everbyte_media::WriteWindows;
use everbyte_posix::OpenFile;
use std::path::Path;

pub(super) fn run(bench: &mut Bench<'_>, folder: &Path) -> Result {
    let sizes = [("write_window_4k", 4096), ("write_window_64", 64)];
    let (server, counted) = ("write_window_server", "write_window_count");
    if ![sizes[0].0, sizes[1].0, server, counted].iter().any(|metric| bench.wants(metric)) {
        return Ok(());
    }
    let mut systems = vec![guarded(folder, WriteWindows::Off)?, guarded(folder, WriteWindows::PageTable)?];
    match guarded(folder, WriteWindows::Keys) {
        Ok(keys) => systems.push(keys),
        Err(why) => bench.skipped("write_window_*", &why.to_string()),
    }
    let len = bench.plan.pick(16 << 20, 16 << 20, 64 << 10);
    let files = systems.iter().map(|ours| filled(ours, "bytes", len)).collect::<Result<Vec<_>>>()?;
    for (metric, size) in sizes {
        let runners = systems.iter().zip(&files).map(|(ours, file)| writes(ours, file, len, size)).collect();
        bench.metric(metric, Unit::Nanoseconds, 0, runners);
    }
    let bytes = bench.plan.pick(128 << 10, 128 << 10, 8 << 10);
    let runners = systems.iter().map(|ours| Runner::new(name(ours), serve(ours, bytes))).collect();
    bench.metric(server, Unit::Microseconds, 0, runners);
    // By the page table: without windows none is counted.
    let runner = writes(&systems[1], &files[1], len, 4096).counting(systems[1].store.media());
    bench.metric(counted, Unit::Nanoseconds, 0, vec![runner]);
    Ok(())
}

fn name(ours: &Ours) -> String {
    match ours.volume().windows() {
        WriteWindows::Off => ours.name().into(),
        windows => format!("by {}", windows.name()),
    }
}

/// A volume with windows of this kind.
fn guarded(folder: &Path, windows: WriteWindows) -> Result<Ours> {
    let path = folder.join(windows.name());
    Ours::create(&path)?.close()?;
    Ours::open_with(&path, &OpenVolume { windows, ..OpenVolume::default() })
}

fn writes<'a>(ours: &'a Ours, file: &'a OpenFile, len: u64, size: u64) -> Runner<'a> {
    let (mut offset, mut bytes) = (offsets(len, size, true), vec![b'y'; size as usize]);
    Runner::new(name(ours), move |count| {
        for _ in 0..count {
            let other = bytes[0].wrapping_add(1);
            bytes.fill(other); // a volume logs only words that change
            ours.write(file, offset(), &bytes).expect("a write");
        }
    })
}
