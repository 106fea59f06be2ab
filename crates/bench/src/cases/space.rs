//! `space`: bytes that a store takes on its file system, loaded and after every value was replaced once.

use super::Result;
use super::kv::load;
use crate::harness::{Bench, Unit};
use crate::ours;
use crate::pairs::{KEY, Random, VALUE, key, value};
use everbyte_bench_rivals::KV;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes allocated to the files under `folder`.
fn allocated(folder: &Path) -> Result<f64> {
    let mut sum = 0.0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        sum += if data.is_dir() { allocated(&entry.path())? } else { (data.blocks() * 512) as f64 };
    }
    Ok(sum)
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let keys: u64 = bench.plan.pick(1_000_000, 50_000, 300);
    let names = || std::iter::once(ours::NAME).chain(KV.iter().copied());
    let (mut loaded, mut replaced) = (Vec::new(), Vec::new());
    for name in names() {
        let folder = tempfile::tempdir_in(&bench.plan.memory)?;
        let kv = ours::open(name, folder.path())?;
        load(&*kv, keys)?;
        loaded.push((name.to_string(), vec![allocated(folder.path())?]));
        let mut random = Random::new(5);
        for version in 1..=keys {
            let number = random.below(keys);
            kv.put(&key(number), &value(number, version))?;
        }
        drop(kv);
        replaced.push((name.to_string(), vec![allocated(folder.path())?]));
    }
    bench.report("loaded", Unit::Bytes, loaded, None);
    bench.report("replaced", Unit::Bytes, replaced, None);
    let payload = (keys * (KEY + VALUE) as u64) as f64;
    bench.report("payload", Unit::Bytes, vec![("keys and values".into(), vec![payload])], None);
    Ok(())
}
