//! Chores that run a heavy crate: museum, mutants, bench, plots, rivals, fuzz.

use crate::against;
use crate::shell::{self, Result, as_root, cargo};

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
