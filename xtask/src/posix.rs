//! `cargo xtask posix`: other projects' suites of file systems, on a mounted volume.
//!
//! Steps
//!   1. pjdfstest, fsx and xfstests, in the versions below, are installed in `target/posix`; the
//!      packages that they and the programs below need are installed where they are absent
//!   2. tests of `everbyte-fuse`, else skipped or short, mount a volume each and run them there,
//!      and fio, dbench, rsync, git and SQLite, which `ci/setup test` installs
//!
//! `cargo xtask ci test` installs pjdfstest and fsx in the same place: the usual tests run all of
//! pjdfstest and a thousand operations of fsx.
//!
//! Needs root and `/dev/fuse`. Exclusions, each with its reason, are in `crates/fuse/tests/mount`:
//! `pjdfstest.toml`, `loads.rs` and `xfstests/exclude`.

use crate::chores::KERNEL;
use crate::shell::{self, Result, as_root, cargo, root};
use std::path::{Path, PathBuf};
use std::process::Command;

const SUITES: &[(&str, &str)] = &[("pjdfstest", "0.2.2"), ("fsx", "0.3.2")];
/// The repository of xfstests, unless `EVERBYTE_XFSTESTS_GIT` names another, and the tag.
const XFSTESTS: (&str, &str) = ("https://github.com/kdave/xfstests", "v2026.01.05");
/// Files, and the packages that have them: programs that tests run on a mount, then parts of the
/// build of xfstests.
const PACKAGES: &[(&str, &str)] = &[
    ("/usr/bin/db_bench", "rocksdb-tools"),
    ("/usr/bin/pgbench", "postgresql"),
    ("/usr/src/linux-source-6.1.tar.xz", KERNEL),
    ("/usr/bin/xz", "xz-utils"),
    ("/usr/bin/flex", "flex"),
    ("/usr/bin/bison", "bison"),
    ("/usr/bin/bc", "bc"),
    ("/usr/bin/autoconf", "autoconf"),
    ("/usr/bin/automake", "automake"),
    ("/usr/bin/libtoolize", "libtool"),
    ("/usr/bin/gawk", "gawk"),
    ("/usr/bin/perl", "perl"),
    ("/usr/bin/killall", "psmisc"),
    ("/usr/bin/uuidgen", "uuid-runtime"),
    ("/usr/sbin/xfs_io", "xfsprogs"),
    ("/usr/include/xfs/xfs.h", "xfslibs-dev"),
    ("/usr/include/uuid/uuid.h", "uuid-dev"),
    ("/usr/include/libaio.h", "libaio-dev"),
    ("/usr/include/sys/acl.h", "libacl1-dev"),
    ("/usr/include/attr/libattr.h", "libattr1-dev"),
    ("/usr/include/sys/capability.h", "libcap-dev"),
    ("/usr/sbin/setcap", "libcap2-bin"),
];
/// Operations of each of the three runs of fsx.
const OPERATIONS: &str = "1000000";
/// The tests of `everbyte-fuse` that run programs and suites.
const TESTS: &[&str] = &["suites::", "loads::", "databases::", "stores::", "xfstests::"];

pub(crate) fn run(words: &[&str]) -> Result {
    let (mut operations, mut tests) = (OPERATIONS, Vec::new());
    let mut given = words.iter();
    while let Some(word) = given.next() {
        match (*word, given.as_slice().first()) {
            ("--operations", Some(number)) if number.parse::<u64>().is_ok() => {
                operations = number;
                given.next();
            }
            (name, _) if !name.starts_with('-') => tests.push(name),
            _ => return Err(format!("posix takes `--operations N` and names of tests, not {words:?}")),
        }
    }
    packages()?;
    let folder = install_suites()?;
    let xfstests = xfstests(&folder)?;
    let words = ["test", "--quiet", "--locked", "--package", "everbyte-fuse", "--test", "mount", "--"];
    let mut command = cargo(&words);
    command.args(if tests.is_empty() { TESTS } else { &tests }).args(["--nocapture", "--test-threads", "1"]);
    command.env("EVERBYTE_SUITES", folder.join("bin")).env("EVERBYTE_FSX_OPS", operations);
    shell::run(command.env("EVERBYTE_XFSTESTS", xfstests))
}

/// Installs pjdfstest and fsx where they are absent; returns the folder of all suites.
pub(crate) fn install_suites() -> Result<PathBuf> {
    let folder = root().join("target/posix");
    let mut outcome = Ok(());
    for (name, version) in SUITES {
        let suite = format!("{name}@{version}");
        let mut install = cargo(&["install", "--quiet", "--locked", &suite]);
        let installed = shell::run(install.arg("--root").arg(&folder).arg("--target-dir").arg(folder.join("build")));
        outcome = outcome.and(installed); // the other one is installed all the same
    }
    outcome.map(|()| folder)
}

/// Installs the packages that are absent.
fn packages() -> Result {
    let absent = PACKAGES.iter().filter(|(file, _)| !Path::new(file).exists());
    let absent: Vec<&str> = absent.map(|(_, package)| *package).collect();
    if absent.is_empty() {
        return Ok(());
    }
    println!("posix: installing {}", absent.join(" "));
    shell::run(as_root("apt-get").args(["update", "-qq"]))?;
    shell::run(as_root("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(absent))
}

/// Fetches and builds xfstests; returns its folder.
fn xfstests(folder: &Path) -> Result<PathBuf> {
    let (address, tag) = XFSTESTS;
    let tree = folder.join(format!("xfstests-{tag}"));
    let built = folder.join(format!("xfstests-{tag}.built"));
    if built.exists() {
        return Ok(tree);
    }
    let given = std::env::var("EVERBYTE_XFSTESTS_GIT");
    let address = given.as_deref().unwrap_or(address);
    println!("posix: building xfstests {tag} of {address}");
    if !tree.exists() {
        let clone = ["-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1", "--branch", tag];
        shell::run(Command::new("git").args(clone).arg(address).arg(&tree))?;
    }
    let log = std::fs::File::create(folder.join("xfstests.log")).map_err(|error| error.to_string())?;
    shell::run(Command::new("make").arg("-C").arg(&tree).stdout(log))?;
    std::fs::write(&built, b"").map_err(|error| format!("{}: {error}", built.display()))?;
    Ok(tree)
}
