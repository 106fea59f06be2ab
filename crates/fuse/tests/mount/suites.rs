//! Other projects' suites on a mount. `cargo xtask posix` installs them and runs these tests; the
//! usual tests run all of pjdfstest and a short form of fsx, which `cargo xtask ci test` installs.

use crate::harness::{Mounted, long, works};
use everbyte_media::BackendChoice;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of a suite, in the folder that the environment names, or where the chores install it.
fn program(name: &str) -> Option<PathBuf> {
    let installed = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/posix/bin");
    let folder = std::env::var_os("EVERBYTE_SUITES").map_or_else(installed, PathBuf::from);
    let program = folder.join(name);
    if !program.exists() {
        eprintln!("skipped: `cargo xtask posix` installs {name}");
        return None;
    }
    works().then_some(program)
}

fn mounted() -> Mounted {
    Mounted::on(BackendChoice::Shm, tempfile::tempdir_in("/dev/shm").unwrap(), "")
}

/// Runs the tests of pjdfstest whose names contain a word, on a mount of their own.
fn pjdfstest(word: Option<&str>, config: &str) {
    let Some(program) = program("pjdfstest") else { return };
    let mut on = mounted();
    let inner = on.path("pjdfstest");
    std::fs::create_dir(&inner).unwrap();
    for path in [&on.at, &inner] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mount").join(config);
    let mut command = Command::new(program);
    command.arg("-c").arg(config).arg("-p").arg(&inner).args(["-s", "/dev/shm"]).args(word);
    // mount(8) gives every remount of FUSE to a helper that knows none, unless it is told `-i`. The
    // kernel refuses one while the daemon has not been told of the last closed file.
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path().join("mount");
    let script = "#!/bin/sh\nfor n in $(seq 100); do /bin/mount -i \"$@\" && exit; sleep 0.02; done; exit 1\n";
    std::fs::write(&mount, script).unwrap();
    std::fs::set_permissions(&mount, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    let output = command.output().unwrap();
    on.unmount();
    on.check();
    let said = String::from_utf8_lossy(&output.stdout);
    eprintln!("{}", said.lines().last().unwrap_or_default());
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// Every test of pjdfstest, with each feature that Linux and FUSE have; the exclusions and their
/// reasons are in pjdfstest.toml.
#[test]
fn pjdfstest_passes() {
    pjdfstest(None, "pjdfstest.toml");
}

/// The tests of pjdfstest that mount the volume anew as read-only, which the run of all leaves out.
#[test]
fn pjdfstest_passes_read_only() {
    pjdfstest(Some("erofs"), "pjdfstest-read-only.toml");
}

/// fsx: reads, writes, mappings, truncations, holes and copies of one file, compared with a copy in
/// memory; several seeds, with and without the kernel's write cache. `EVERBYTE_FSX_OPS` is the
/// number of operations of each run. The usual tests run a few, with one seed.
#[test]
fn fsx_finds_no_difference() {
    let Some(program) = program("fsx") else { return };
    let operations = std::env::var("EVERBYTE_FSX_OPS").unwrap_or_else(|_| "1000".into());
    let runs = [("1", ""), ("2", ""), ("3", "writeback")];
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mount/fsx.toml");
    for &(seed, options) in &runs[..if long() { 3 } else { 1 }] {
        let mut on = mounted();
        on.unmount();
        on.set_options(options);
        on.mount();
        let mut command = Command::new(&program);
        command.arg("-f").arg(&config).args(["-N", &operations, "-S", seed, "-q"]).arg(on.path("file"));
        let output = command.current_dir(env!("CARGO_TARGET_TMPDIR")).output().unwrap();
        on.unmount();
        on.check();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "fsx, seed {seed}, options `{options}`: {said}");
    }
}
