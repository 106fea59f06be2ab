//! `reopen`: from opening a store to the first value read, after a clean close and after `kill -9`
//! under load; ours also with ten times as many keys, which should make no difference.

use super::Result;
use super::kv::load;
use crate::harness::{Bench, Unit};
use crate::ours;
use crate::pairs::{key, value};
use everbyte_bench_rivals::{KV, KvRival};
use everbyte_workload::Random;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The hidden word that makes this program a victim: loads what is not loaded, says so, and puts
/// until it is killed.
pub(super) const VICTIM: &str = "__victim";

/// The victim's life: `NAME FOLDER KEYS`.
///
/// # Errors
/// Bad words, or what the store says.
pub(super) fn victim(words: &[String]) -> Result {
    let [name, folder, keys] = words else { return Err("a victim is NAME FOLDER KEYS".into()) };
    let keys = keys.parse()?;
    let kv = ours::open(name, Path::new(folder))?;
    if !kv.get(&key(0), &mut Vec::new())? {
        load(&*kv, keys)?;
    }
    println!("loaded");
    let mut random = Random::new(3);
    for version in 1.. {
        let number = random.below(keys);
        kv.put(&key(number), &value(number, version))?;
    }
    Ok(())
}

/// Milliseconds from opening to the first value.
pub(super) fn first_value(name: &str, folder: &Path, number: u64) -> Result<(f64, Box<dyn KvRival>)> {
    let start = Instant::now();
    let kv = ours::open(name, folder)?;
    let mut found = Vec::new();
    if !kv.get(&key(number), &mut found)? || found[..8] != number.to_le_bytes() {
        return Err(format!("{name}: a loaded key is gone").into());
    }
    Ok((start.elapsed().as_secs_f64() * 1e3, kv))
}

/// Lets another process load, unless one did before, and put for a while, and kills it.
pub(super) fn kill(name: &str, folder: &Path, keys: u64) -> Result {
    let words = [VICTIM, name, &folder.to_string_lossy(), &keys.to_string()].map(String::from);
    let mut child = Command::new(std::env::current_exe()?).args(words).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("a pipe")?).read_line(&mut line)?;
    std::thread::sleep(std::time::Duration::from_millis(30));
    child.kill()?;
    child.wait()?;
    if line == "loaded\n" { Ok(()) } else { Err(format!("{name}: the victim failed before it was killed").into()) }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let keys = bench.plan.pick(1_000_000, 50_000, 300);
    let rounds = bench.plan.rounds.min(5);
    for (place, suffix) in [(bench.plan.memory.clone(), ""), (bench.plan.disk.clone(), "_disk")] {
        let (mut clean, mut killed) = (Vec::new(), Vec::new());
        for name in std::iter::once(ours::NAME).chain(KV.iter().copied()) {
            let folder = tempfile::tempdir_in(&place)?;
            let (mut values, mut after_kill) = (Vec::new(), Vec::new());
            for round in 0..rounds {
                kill(name, folder.path(), keys)?;
                after_kill.push(first_value(name, folder.path(), 2 * round as u64)?.0);
                values.push(first_value(name, folder.path(), 2 * round as u64 + 1)?.0);
            }
            clean.push((name.to_string(), values));
            killed.push((name.to_string(), after_kill));
        }
        bench.backend = if suffix.is_empty() { "shm" } else { "file" }.into();
        bench.report(&format!("open{suffix}"), Unit::Milliseconds, clean, None);
        bench.report(&format!("open_killed{suffix}"), Unit::Milliseconds, killed, None);
    }
    // Ours alone: loading ten million pairs takes the rivals minutes.
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let mut killed = Vec::new();
    for round in 0..rounds {
        kill(ours::NAME, folder.path(), 10 * keys)?;
        killed.push(first_value(ours::NAME, folder.path(), round as u64)?.0);
    }
    bench.backend = "shm".into();
    bench.report("open_killed_10x", Unit::Milliseconds, vec![(ours::NAME.into(), killed)], None);
    Ok(())
}
