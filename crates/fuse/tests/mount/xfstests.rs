//! The generic group of xfstests on a mount. `cargo xtask posix` fetches and builds it, and runs
//! this test; `xfstests/exclude` lists the tests that are left out, each with its reason.

use crate::harness::{check, make, works};
use everbyte_media::BackendChoice;
use std::path::Path;
use std::process::Command;

/// Room of each of the two volumes.
const SPAN: u64 = 2 << 30;

/// The group `quick`, or what `EVERBYTE_XFSTESTS_ARGS` says in words of xfstests' `check`.
#[test]
fn xfstests_pass() {
    if !works() {
        return;
    }
    let Some(suite) = std::env::var_os("EVERBYTE_XFSTESTS") else {
        eprintln!("skipped: `cargo xtask posix` runs xfstests");
        return;
    };
    let words = std::env::var("EVERBYTE_XFSTESTS_ARGS").unwrap_or_else(|_| "-g generic/quick".into());
    for (backend, name, place) in
        [(BackendChoice::Shm, "shm", "/dev/shm"), (BackendChoice::File, "file", env!("CARGO_TARGET_TMPDIR"))]
    {
        let folder = tempfile::tempdir_in(place).unwrap();
        for store in ["test", "scratch"] {
            make(&folder.path().join(store), backend, SPAN);
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mount/xfstests/run.sh");
        let mut command = Command::new(script);
        command.args(words.split_whitespace()).env("FOLDER", folder.path()).env("EVERBYTE_XFSTESTS", &suite);
        command.env("EVERBYTE_TEST_DAEMON", std::env::current_exe().unwrap()).env("EVERBYTE_TEST_BACKEND", name);
        if !command.status().unwrap().success() {
            let kept = folder.keep();
            panic!("xfstests has failures on {name}: see {}", kept.join("results").display());
        }
        for store in ["test", "scratch"] {
            check(&folder.path().join(store), backend);
        }
    }
}
