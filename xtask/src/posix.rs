//! `cargo xtask posix`: other projects' suites of file systems, on a mounted volume.
//!
//! Steps
//!   1. pjdfstest and fsx, in the versions below, are installed in `target/posix`; RocksDB's tools
//!      and PostgreSQL are installed as packages where they are absent
//!   2. tests of `everbyte-fuse`, else skipped or short, mount a volume each and run them there,
//!      and fio, dbench, rsync, git and SQLite, which `ci/setup test` installs
//!
//! Needs root and `/dev/fuse`. Exclusions: `crates/fuse/tests/mount/pjdfstest.toml` and `loads.rs`,
//! each with its reason.

use crate::shell::{self, Result, as_root, cargo, root};
use std::path::Path;

const SUITES: &[(&str, &str)] = &[("pjdfstest", "0.2.2"), ("fsx", "0.3.2")];
/// Files, and the packages that have them.
const PACKAGES: &[(&str, &str)] = &[("/usr/bin/db_bench", "rocksdb-tools"), ("/usr/bin/pgbench", "postgresql")];
/// Operations of each run of fsx.
const OPERATIONS: &str = "100000";

pub(crate) fn run(words: &[&str]) -> Result {
    let operations = match words {
        [] => OPERATIONS,
        ["--operations", number] if number.parse::<u64>().is_ok() => number,
        other => return Err(format!("posix takes `--operations N` or nothing, not {other:?}")),
    };
    let folder = root().join("target/posix");
    for (name, version) in SUITES {
        let suite = format!("{name}@{version}");
        let mut install = cargo(&["install", "--quiet", "--locked", &suite]);
        shell::run(install.arg("--root").arg(&folder).arg("--target-dir").arg(folder.join("build")))?;
    }
    let absent = PACKAGES.iter().filter(|(file, _)| !Path::new(file).exists());
    let absent: Vec<&str> = absent.map(|(_, package)| *package).collect();
    if !absent.is_empty() {
        println!("posix: installing {}", absent.join(" "));
        shell::run(as_root("apt-get").args(["update", "-qq"]))?;
        shell::run(as_root("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(absent))?;
    }
    let words = ["test", "--quiet", "--locked", "--package", "everbyte-fuse", "--test", "mount", "--"];
    let mut tests = cargo(&words);
    tests.args(["suites::", "loads::", "databases::", "stores::", "--nocapture", "--test-threads", "1"]);
    tests.env("EVERBYTE_SUITES", folder.join("bin")).env("EVERBYTE_FSX_OPS", operations);
    shell::run(&mut tests)
}
