//! `everbyte-fuzz [TARGET] [--seconds N] [--seed N] [--save]`: runs one target, or each in turn,
//! for ten minutes each. `everbyte-fuzz TARGET --input FILE` runs one input.
//!
//! Before each run the input is noted in a file, so that an abort leaves it behind too. A finding
//! is kept under target/fuzz/ and its replay command printed; with `--save` inputs of new classes
//! join the corpus in the repository.
//!
//! Threads: a watchdog beside the one that runs inputs.

#![forbid(unsafe_code)]

use everbyte_fuzz::mutate::mutate;
use everbyte_fuzz::{HANG, TARGETS, Target, corpus, inputs};
use everbyte_workload::Random;
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, exit};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

struct Words {
    targets: Vec<&'static Target>,
    seconds: u64,
    seed: u64,
    save: bool,
    input: Option<PathBuf>,
}

fn main() -> ExitCode {
    let words = match words() {
        Ok(words) => words,
        Err(message) => {
            eprintln!("fuzz: {message}");
            return ExitCode::from(2);
        }
    };
    if let (Some(path), [target]) = (&words.input, words.targets.as_slice()) {
        match std::fs::read(path) {
            Ok(input) => println!("{}", (target.run)(&input)),
            Err(error) => {
                eprintln!("fuzz: {}: {error}", path.display());
                return ExitCode::from(2);
            }
        }
        return ExitCode::SUCCESS;
    }
    let findings: usize = words.targets.iter().map(|target| fuzz(target, &words)).sum();
    if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn words() -> Result<Words, String> {
    let mut words = Words { targets: Vec::new(), seconds: 600, seed: 1, save: false, input: None };
    let mut rest = std::env::args().skip(1);
    while let Some(word) = rest.next() {
        let mut number = || rest.next().and_then(|n| n.parse().ok()).ok_or(format!("{word} needs a number"));
        match word.as_str() {
            "--seconds" => words.seconds = number()?,
            "--seed" => words.seed = number()?,
            "--save" => words.save = true,
            "--input" => words.input = Some(rest.next().ok_or("--input needs a file")?.into()),
            name => {
                let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
                let target = TARGETS.iter().find(|target| target.name == name);
                words.targets.push(target.ok_or_else(|| format!("no target `{name}`; there are {}", known()))?);
            }
        }
    }
    if words.targets.is_empty() {
        words.targets = TARGETS.iter().collect();
    }
    Ok(words)
}

/// Fuzzes one target; returns how many findings there were.
fn fuzz(target: &Target, words: &Words) -> usize {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/fuzz");
    std::fs::create_dir_all(&folder).expect("target/ can be written");
    let last = folder.join(format!("{}.last", target.name));
    watch(target, &last);
    let mut pool = inputs(target);
    pool.extend((target.seeds)());
    let mut classes = BTreeSet::new();
    for input in &pool {
        if let Ok(class) = run(target, input, &last) {
            classes.insert(class);
        }
    }
    let (known, start) = (classes.len(), Instant::now());
    let mut random = Random::new(words.seed);
    let (mut runs, mut findings) = (0u64, 0);
    let mut panics = BTreeSet::new();
    while start.elapsed() < Duration::from_secs(words.seconds) {
        let one = random.index(pool.len());
        let other = random.index(pool.len());
        let input = mutate(&mut random, &pool[one], &pool[other]);
        runs += 1;
        match run(target, &input, &last) {
            Ok(class) => {
                if classes.insert(class) {
                    if words.save {
                        keep(&corpus(target), &input);
                    }
                    pool.push(input);
                }
            }
            Err(message) => {
                if panics.insert(message.clone()) {
                    findings += 1;
                    let path = keep(&folder.join(format!("{}-findings", target.name)), &input);
                    println!(
                        "FUZZ-1: {}: {message}\n  replay: cargo xtask fuzz {} --input {}",
                        target.name,
                        target.name,
                        path.display()
                    );
                }
            }
        }
    }
    println!(
        "fuzz {}: {runs} inputs, {known} classes before and {} now, {findings} findings",
        target.name,
        classes.len()
    );
    findings
}

/// The number of the input that runs now; 0: none runs.
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// Runs one input; the error is what it panicked with.
fn run(target: &Target, input: &[u8], last: &Path) -> Result<String, String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let _ = std::fs::write(last, input);
    RUNNING.store(1 + COUNT.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    let result = catch_unwind(|| (target.run)(input));
    RUNNING.store(0, Ordering::Relaxed);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "a panic".into())
    })
}

/// Ends the process when an input hangs; its bytes are in `last`. Counts its own seconds, which
/// pass only while the process runs: a process that was stopped for a while does not hang.
fn watch(target: &Target, last: &Path) {
    let (name, last) = (target.name, last.to_path_buf());
    std::thread::spawn(move || {
        let (mut seen, mut seconds) = (0, 0);
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let running = RUNNING.load(Ordering::Relaxed);
            seconds = if running == seen { seconds + 1 } else { 0 };
            seen = running;
            if running != 0 && seconds > HANG.as_secs() {
                println!("FUZZ-1: {name}: hangs\n  replay: cargo xtask fuzz {name} --input {}", last.display());
                exit(1);
            }
        }
    });
}

/// Writes an input under a name made from its bytes.
fn keep(folder: &Path, input: &[u8]) -> PathBuf {
    let path = folder.join(format!("{:08x}", crc32c::crc32c(input)));
    std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, input)).expect("a finding can be kept");
    path
}
