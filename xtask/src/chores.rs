//! Chores that run a heavy crate: museum, bench, rivals, fuzz, schedules, soak.

use crate::against;
use crate::shell::{self, Result, as_root, cargo};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The package of the Linux kernel's sources, a tree of files for benches and tests.
pub(crate) const KERNEL: &str = "linux-source-6.1";

/// Packages that the rivals of the benches need.
const RIVALS: &[&str] = &[
    "redis-server",
    "redis-tools",
    "libpmemobj-dev",
    "librocksdb-dev",
    "libdb5.3-dev",
    "libboost-serialization-dev",
    "libclang-dev",
    "liblmdb-dev",
    "fuse3",
    "fuse2fs",
    "libfuse3-dev",
    KERNEL,
    "pkg-config",
    "sqlite3",
    "gcc",
    "g++",
    "make",
];

/// Runs a program of the workspace in the release profile.
fn release(package: &str, words: &[&str]) -> Result {
    if !shell::has_package(package)? {
        return Err(format!("the crate `{package}` is not built yet"));
    }
    shell::run(cargo(&["run", "--release", "--quiet", "--locked", "--package", package, "--"]).args(words))
}

/// Each seeded bug must be found, and the canaries told apart.
pub(crate) fn museum(words: &[&str]) -> Result {
    shell::run(
        cargo(&["run", "--quiet", "--locked", "--package", "everbyte-cases", "--features", "museum", "--", "museum"])
            .args(words),
    )
}

/// Leaves out each flush, fence, barrier and comparison of a checksum in turn; some case must fail.
/// Goes on where the last run stopped.
pub(crate) fn mutants(words: &[&str]) -> Result {
    let run = ["run", "--quiet", "--locked", "--package", "everbyte-cases", "--features", "museum", "--", "mutants"];
    shell::run(cargo(&run).args(words))
}

/// Every case of the explorer as the soak runs it: one thread for all steps, then a thread for
/// each, with a second run of the program from every image; then the C++ programs of tests.
fn explore_whole() -> Result {
    for threads in ["one", "steps"] {
        println!("soak: every case, threads: {threads}");
        let run =
            ["run", "--release", "--quiet", "--locked", "--package", "everbyte-cases", "--features", "museum", "--"];
        let mut command = cargo(&run);
        command.arg("cases").env("EVERBYTE_CRASH_THREADS", threads).env("EVERBYTE_CRASH_AGAIN", "whole");
        shell::run(&mut command)?;
    }
    println!("soak: programs of C++");
    let run = ["test", "--release", "--quiet", "--locked", "--package", "everbyte-examples-cpp", "--test", "programs"];
    let mut command = cargo(&run);
    shell::run(command.args(["--", "crashed", "explored"]).env("EVERBYTE_CRASH_AGAIN", "whole"))
}

/// Runs one bench case. Two of them have a program in C or C++, which is linked with a library as
/// it is now.
pub(crate) fn bench(words: &[&str]) -> Result {
    if let Some(at) = words.iter().position(|word| *word == "--against") {
        let commit = words.get(at + 1).ok_or("--against needs a commit")?;
        return against::run(commit, &[&words[..at], &words[at + 2..]].concat());
    }
    if words.contains(&"patomic") {
        shell::run(&mut cargo(&["build", "--release", "--quiet", "--locked", "--package", "everbyte-capi"]))?;
    }
    if words.contains(&"bridge") {
        // The library that the bench depends on is replaced by one that is optimised as a whole, as
        // a user's is.
        let flags = ["--release", "--quiet", "--locked", "--package"];
        shell::run(&mut cargo(&[&["build"], &flags[..], &["everbyte-bench"]].concat()))?;
        shell::run(&mut cargo(
            &[&["rustc"], &flags[..], &["everbyte-bench-bridge", "--crate-type", "cdylib,staticlib"]].concat(),
        ))?;
    }
    release("everbyte-bench", words)
}

/// Draws figures of files of results into docs/plots.
pub(crate) fn plots(words: &[&str]) -> Result {
    release("everbyte-bench", &[&["--plot", "docs/plots"], words].concat())
}

/// Installs what the rivals need.
pub(crate) fn rivals(_words: &[&str]) -> Result {
    println!("rivals: installing {}", RIVALS.join(" "));
    shell::run(as_root("apt-get").args(["update", "-qq"]))?;
    shell::run(as_root("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(RIVALS))
}

/// Fuzzes the parsers of outside bytes.
pub(crate) fn fuzz(words: &[&str]) -> Result {
    release("everbyte-fuzz", words)
}

/// Orders of threads on typed pools and on pins of versions, `--count N` (20,000) of them for each
/// program, other ones each time.
pub(crate) fn schedules(words: &[&str]) -> Result {
    let count = match words {
        [] => "20000",
        ["--count", count] => count,
        other => return Err(format!("schedules knows --count N, not {other:?}")),
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let seed = since.as_secs().to_string();
    println!("schedules: {count} each; replay: EVERBYTE_SEED={seed} EVERBYTE_SCHEDULES={count}");
    let mut command = cargo(&["test", "--release", "--locked", "--package", "everbyte-object"]);
    command.args(["--package", "everbyte-kv", "--lib", "schedules"]);
    shell::run(command.env("EVERBYTE_SCHEDULES", count).env("EVERBYTE_SEED", seed))
}

/// A list of ten million elements behind the server.
fn push_long_list() -> Result {
    println!("soak: a long list");
    let run = ["test", "--release", "--quiet", "--locked", "--package", "everbyte-server", "--test", "api"];
    shell::run(cargo(&run).args(["--", "long_lists"]).env("EVERBYTE_SOAK", "10000000"))
}

/// Every case of the explorer, whole, and a long list; then kill -9 loops on real processes, and
/// rot in every sector of a store, again and again, for `--minutes N` (60).
pub(crate) fn soak(words: &[&str]) -> Result {
    let minutes: u64 = match words {
        [] => 60,
        ["--minutes", n] => n.parse().map_err(|_| format!("--minutes {n}: not a number"))?,
        other => return Err(format!("soak knows --minutes N, not {other:?}")),
    };
    explore_whole()?;
    push_long_list()?;
    let (start, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || start.elapsed() < Duration::from_secs(60 * minutes) {
        rounds += 1;
        println!("soak: round {rounds}, minute {}", start.elapsed().as_secs() / 60);
        let mut suite = cargo(&["test", "--release", "--quiet", "--locked", "--package", "everbyte-suite"]);
        shell::run(suite.env("EVERBYTE_SOAK", "1"))?;
        let store = ["--package", "everbyte-store", "--test", "faults", "--test", "model"];
        let mut tests = cargo(&[&["test", "--release", "--quiet", "--locked"][..], &store].concat());
        tests.args(["--", "full_disk", "names_model"]);
        shell::run(tests.env("EVERBYTE_SOAK", "1").env("PROPTEST_CASES", "2000"))?;
        let typed = ["--package", "everbyte-object", "--test", "soundness"];
        let mut tests = cargo(&[&["test", "--release", "--quiet", "--locked"][..], &typed].concat());
        shell::run(tests.env("EVERBYTE_SOAK", "50").env("EVERBYTE_ROUND", rounds.to_string()))?;
        let engines = ["everbyte-kv", "everbyte-heap", "everbyte-tx", "everbyte-hkv", "everbyte-log", "everbyte-fs"];
        let packages: Vec<&str> = engines.iter().flat_map(|engine| ["--package", engine]).collect();
        let programs = ["--test", "model", "--test", "io"];
        let seed = rounds.to_string();
        let mut tests = cargo(&[&["test", "--release", "--quiet", "--locked"][..], &packages, &programs].concat());
        shell::run(tests.env("EVERBYTE_SOAK", "500").env("EVERBYTE_ROUND", &seed))?;
        let calls = ["--package", "everbyte-posix", "--test", "kernel"];
        let mut tests = cargo(&[&["test", "--release", "--quiet", "--locked"][..], &calls].concat());
        shell::run(tests.env("EVERBYTE_SOAK", "100").env("EVERBYTE_ROUND", seed))?;
    }
    println!("soak: {rounds} rounds, nothing lost");
    Ok(())
}
