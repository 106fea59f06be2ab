//! The compilers that tests run, and their words.

use super::{generated, root};
use std::process::Command;
use std::sync::OnceLock;

pub(crate) const COMPILERS: [&str; 2] = ["g++", "clang++"];

/// Tells that a test is left out, without a program that `ci/setup test` installs. In continuous
/// integration nothing is.
pub(crate) fn is_absent(program: &str) {
    assert!(std::env::var_os("EVERBYTE_ALL_TOOLS").is_none(), "no {program}; ci/setup test installs it");
    eprintln!("skipped: no {program}; ci/setup test installs it");
}

/// The compiler with the words that every program gets; `None` where it is not installed.
pub(crate) fn compiler(name: &str) -> Option<Command> {
    if Command::new(name).arg("--version").output().is_err() {
        is_absent(name);
        return None;
    }
    let mut command = Command::new(name);
    command.args(["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]);
    command.arg("-I").arg(root().join("include")).arg("-I").arg(generated());
    Some(command)
}

/// The same, whose program ends at its first error of addresses, leak, or undefined behaviour.
pub(crate) fn sanitized(name: &str) -> Option<Command> {
    let mut command = compiler(name)?;
    if name != "clang++" || links(&["-fsanitize=address,undefined"], "sanitizers of clang++") {
        command.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    }
    Some(command)
}

pub(crate) fn has_libcxx() -> bool {
    static LINKS: OnceLock<bool> = OnceLock::new();
    *LINKS.get_or_init(|| links(&["-stdlib=libc++", "-include", "vector"], "libc++"))
}

/// Whether clang++ makes a program with these words.
fn links(words: &[&str], of: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("main.cpp");
    std::fs::write(&source, "int main() {}\n").unwrap();
    let mut command = Command::new("clang++");
    let built = command.args(words).arg(source).arg("-o").arg(dir.path().join("main")).output();
    let is_there = built.is_ok_and(|output| output.status.success());
    if !is_there {
        is_absent(of);
    }
    is_there
}
