//! `kv-bytes`: bytes that the process sends to the disk for a put that is durable on its own, the
//! share of checkpoints, compactions and the close included.

use super::Result;
use super::kv::load;
use crate::harness::{Bench, Unit};
use crate::ours;
use crate::pairs::{KEY, VALUE, key, value};
use everbyte_bench_rivals::KV;
use everbyte_workload::Random;

/// Bytes of pages that this process has made the kernel send to disks, counted when a clean page is
/// written to; none where the kernel does not count them. The file system's own are not among them.
fn written() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes:")?.trim().parse().ok())
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let keys: u64 = bench.plan.pick(1_000_000, 20_000, 100);
    let puts: u64 = bench.plan.pick(100_000, 10_000, 20);
    let mut measured = Vec::new();
    for name in std::iter::once(ours::NAME).chain(KV.iter().copied()) {
        let folder = tempfile::tempdir_in(&bench.plan.disk)?;
        // Closed and opened again, so that nothing of the load is written later.
        load(&*ours::open(name, folder.path())?, keys)?;
        let kv = ours::open(name, folder.path())?;
        let (before, mut random) = (written(), Random::new(13));
        for version in 0..puts {
            let number = random.below(keys);
            kv.put(&key(number), &value(number, version))?;
        }
        drop(kv);
        let bytes = written().zip(before).map(|(after, before)| after - before);
        match bytes.filter(|&bytes| bytes > 0) {
            Some(bytes) => measured.push((name.to_string(), vec![bytes as f64 / puts as f64])),
            None => {
                bench.skipped("put_disk_bytes", "the kernel counts no bytes written to this disk");
                break;
            }
        }
    }
    bench.backend = "file".into();
    if measured.len() == KV.len() + 1 {
        measured.push(("key and value".into(), vec![(KEY + VALUE) as f64]));
        bench.report("put_disk_bytes", Unit::Bytes, measured, None);
    }
    Ok(())
}
