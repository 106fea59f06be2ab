//! `aarch64`: the workspace builds for 64-bit ARM, and the tests of the crates that order stores
//! pass there, under QEMU.
//!
//! QEMU runs the ARM program on this machine's memory model, which is stronger than ARM's: the run
//! shows that the instructions of `media` are the right ones and that nothing depends on x86, not
//! that no barrier is missing. The crash explorer judges that.

use crate::shell::{self, Result, as_root, cargo, which};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const CROSS_COMPILER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
const PACKAGES: [&str; 4] = ["gcc-aarch64-linux-gnu", "g++-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user"];
/// The crates whose tests run: the instructions, the logs, the tree.
const TESTED: [&str; 4] = ["everbyte-members", "everbyte-media", "everbyte-log", "everbyte-kv"];

/// Installs what is absent, builds the workspace, runs the tests.
pub(crate) fn run(words: &[&str]) -> Result {
    if which(EMULATOR).is_err() || which(CROSS_COMPILER).is_err() {
        println!("aarch64: installing {}", PACKAGES.join(" "));
        shell::run(as_root("apt-get").args(["update", "-qq"]))?;
        shell::run(as_root("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(PACKAGES))?;
    }
    shell::run(Command::new("rustup").args(["target", "add", TARGET]))?;
    if !words.contains(&"--tests-alone") {
        shell::run(for_target(
            cargo(&["check", "--workspace", "--all-targets", "--locked", "--target", TARGET]).arg("--quiet"),
        ))?;
    }
    let mut test = cargo(&["test", "--locked", "--no-fail-fast", "--target", TARGET]);
    TESTED.iter().for_each(|package| {
        test.args(["--package", package]);
    });
    shell::run(for_target(&mut test))
}

/// The cross compiler as linker and for C, the emulator as runner.
fn for_target(command: &mut Command) -> &mut Command {
    command
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", CROSS_COMPILER)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{EMULATOR} -L /usr/aarch64-linux-gnu"))
        .env("CC_aarch64_unknown_linux_gnu", CROSS_COMPILER)
        .env("CXX_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-g++")
}
