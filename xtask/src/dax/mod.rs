//! `cargo xtask dax`: the store on real `MAP_SYNC` mappings, in an emulated machine with an NVDIMM.
//!
//! Steps
//!   1. Debian's cloud kernel, and an archive with the tools and our test programs
//!   2. first boot: fsdax namespace, ext4, `mount -o dax`; the crates' tests run with their files
//!      there, on `pmem`
//!   3. more boots: a writer acknowledges batches on the console until the host kills the machine
//!      at a random moment
//!   4. after each kill the host takes the store out of the image and compares it with what was
//!      acknowledged
//!
//! The guest is emulated and slow, so the usual run takes an eighth of the tests, another each
//! day; `cargo xtask dax all` takes every one.
//!
//! A machine that is silent for too long has failed; a failure prints the console.
//!
//! Design: docs/design/dax-in-an-emulator.md

mod cpio;
mod guest;
mod image;
mod machine;

use crate::shell::{self, Result, cargo, root};
use guest::Kernel;
use machine::Machine;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Crates whose tests run in the guest, those of them that open store files. Explorations of
/// recorded media stay at home.
const TESTED: &[&str] = &["members", "media", "store", "heap", "tx", "kv"];
/// Test programs that run whole each time: crate and program. No other machine has protection keys.
const KEYED: &[(&str, &str)] = &[("media", "write_windows"), ("fs", "windows")];
/// The program that writes until it is killed, and compares.
const WRITER: &str = "suite-writer";
const IMAGE_LEN: u64 = 512 << 20;
/// The stream of batches that the writer follows.
const SEED: &str = "20260517";
/// Each kill: after this many more batches, and so many milliseconds.
const KILLS: &[(u64, u64)] = &[(25, 0), (60, 7), (120, 31), (5, 3), (200, 1)];
/// Longest time without a line from the guest. It is emulated, and each of its tests prints a line;
/// long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// The usual run takes one of so many parts of the tests.
const PARTS: u64 = 8;

/// Runs both halves, or one of them.
pub(crate) fn run(words: &[&str]) -> Result {
    let (test, kill, part) = match words {
        [] => (true, true, Some(part_of_today())),
        ["all"] => (true, true, None),
        ["tests"] => (true, false, None),
        ["kills"] => (false, true, None), // on the image that the tests have left
        other => return Err(format!("dax takes `all`, `tests`, `kills` or nothing, not {other:?}")),
    };
    let folder = root().join("target/dax");
    let kernel = Kernel::get(&folder.join("kernel"))?;
    let start = Instant::now();
    let programs = programs(part)?;
    let archive = folder.join("guest.cpio");
    guest::pack(&archive, &kernel, &programs, include_str!("init.sh"))?;
    let count: usize = programs.iter().map(|program| program.tests.len()).sum();
    let which = part.map_or(String::new(), |part| format!(" (part {part} of {PARTS})"));
    println!("dax: {count} tests{which} packed in {:.1} s", start.elapsed().as_secs_f64());
    let nvdimm = folder.join("nvdimm.img");
    if test {
        image::blank(&nvdimm, IMAGE_LEN)?;
        tests(&kernel, &archive, &nvdimm)?;
    }
    let writer = programs.iter().find(|program| program.name == WRITER).ok_or("the tests build no writer")?;
    if kill { kills(&writer.path, &kernel, &archive, &nvdimm) } else { Ok(()) }
}

/// First boot: the crates' own tests on a DAX file system.
fn tests(kernel: &Kernel, archive: &Path, nvdimm: &Path) -> Result {
    let start = Instant::now();
    let mut machine = Machine::boot(kernel, archive, nvdimm, "format,tests", PATIENCE)?;
    let release = machine.expect("READY")?;
    println!("dax: Linux {release} with ext4 -o dax after {:.1} s", start.elapsed().as_secs_f64());
    let backend = machine.expect("BACKEND")?;
    if backend != "pmem" {
        return Err(machine.report(&format!("the DAX file system gives `{backend}` and not `pmem`")));
    }
    let mut passed = 0;
    loop {
        let Some(line) = machine.line()? else { return Err(machine.report("the machine went off during the tests")) };
        if line.starts_with("FAILED") {
            return Err(machine.report(&line));
        }
        if let Some(rest) = line.strip_prefix("test result: ok. ") {
            passed += rest.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
        if line.starts_with("DONE") {
            break;
        }
    }
    println!("dax: {passed} tests passed on the guest's pmem in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// More boots: a writer acknowledges batches until the machine is killed, and the host compares.
fn kills(writer: &Path, kernel: &Kernel, archive: &Path, nvdimm: &Path) -> Result {
    let mut acked = 0;
    for (round, (batches, then_ms)) in KILLS.iter().enumerate() {
        let start = Instant::now();
        let mut machine = Machine::boot(kernel, archive, nvdimm, &format!("write,{SEED}"), PATIENCE)?;
        machine.expect("READY")?;
        let enough = acked + batches;
        while acked < enough {
            acked = number(&machine.expect("ACK")?)?;
        }
        std::thread::sleep(Duration::from_millis(*then_ms));
        for line in machine.kill() {
            // The last line may be cut anywhere, so only a line with another after it counts; here
            // all that parse do, for a cut number is a smaller number.
            acked = line.strip_prefix("ACK ").and_then(|n| n.trim().parse().ok()).unwrap_or(acked).max(acked);
        }
        let Some(store) = image::take(nvdimm, "acked.store")? else {
            return Err(machine.report(&format!("round {round}: {acked} batches acknowledged, and the store is gone")));
        };
        for backend in ["file", "shm"] {
            let mut verify = Command::new(writer);
            verify.arg("verify").arg(copy(&store, backend)?).args([
                "--backend",
                backend,
                "--seed",
                SEED,
                "--acked",
                &acked.to_string(),
            ]);
            let said = shell::output(&mut verify).map_err(|error| machine.report(&error))?;
            println!(
                "dax: killed after {acked} acknowledged batches, {} on `{backend}` ({:.1} s)",
                said.trim().to_lowercase(),
                start.elapsed().as_secs_f64()
            );
        }
    }
    Ok(())
}

/// A copy, so that each check sees what the kill left.
fn copy(store: &Path, backend: &str) -> Result<PathBuf> {
    let to = store.with_extension(backend);
    fs::copy(store, &to).map_err(|error| format!("{}: {error}", to.display()))?;
    Ok(to)
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| format!("the console said `{text}` where a number was expected"))
}

/// One test program.
pub(crate) struct Program {
    /// Its name in the guest.
    name: String,
    path: PathBuf,
    /// The folder of its crate: tests run there, beside their testdata.
    folder: PathBuf,
    /// The tests to run; none for a program that is no test.
    tests: Vec<String>,
}

/// The part of the tests that is run today.
fn part_of_today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() / (24 * 60 * 60) % PARTS
}

/// The names of a program's tests, or those of `part`: the sum of the name's bytes decides.
fn tests_of(program: &str, part: Option<u64>) -> Result<Vec<String>> {
    let listed = shell::output(Command::new(program).args(["--list", "--format", "terse"]))?;
    let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let taken = |name: &&str| part.is_none_or(|part| name.bytes().map(u64::from).sum::<u64>() % PARTS == part);
    // Time means nothing in the guest, so tests of delays stay at home.
    Ok(names.filter(taken).filter(|name| !name.contains("device_profiles")).map(String::from).collect())
}

/// The test programs that open store files, as cargo builds them for the ordinary tests.
fn programs(part: Option<u64>) -> Result<Vec<Program>> {
    let text = shell::output(&mut cargo(&["test", "--workspace", "--no-run", "--quiet", "--message-format=json"]))?;
    let mut programs = Vec::new();
    for line in text.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let (Some(path), Some(source)) = (message["executable"].as_str(), message["target"]["src_path"].as_str())
        else {
            continue;
        };
        let folder = Path::new(message["manifest_path"].as_str().unwrap_or_default()).parent().unwrap_or(Path::new(""));
        let crate_ = folder.file_name().unwrap_or_default().to_string_lossy();
        let target = message["target"]["name"].as_str().unwrap_or("test");
        let kind = &message["target"]["kind"][0];
        let body = sources(Path::new(source));
        // no repository there
        let opens_files = body.contains("tempfile::") && !body.contains("CARGO_MANIFEST_DIR");
        let is_keyed = KEYED.contains(&(&*crate_, target));
        let tests = kind == "test" && (TESTED.contains(&&*crate_) && opens_files || is_keyed);
        let writer = kind == "bin" && target == WRITER;
        if tests && message["profile"]["test"] == true {
            let part = part.filter(|_| !is_keyed);
            let (name, tests) = (format!("tests-{crate_}-{target}"), tests_of(path, part)?);
            if !tests.is_empty() {
                programs.push(Program { name, path: path.into(), folder: folder.into(), tests });
            }
        } else if writer && message["profile"]["test"] == false {
            let (name, tests) = (target.into(), Vec::new());
            programs.push(Program { name, path: path.into(), folder: folder.into(), tests });
        }
    }
    Ok(programs)
}

/// The text of a test program: its file, or every file beside its `main.rs`.
fn sources(root: &Path) -> String {
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let folder = root.parent().filter(|_| root.ends_with("main.rs"));
    match folder.and_then(|folder| fs::read_dir(folder).ok()) {
        Some(files) => files.flatten().map(|file| text(&file.path())).collect(),
        None => text(root),
    }
}
