//! Compiling C programs against the library, and running them.

#![allow(dead_code)] // each file of tests uses its part

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").into()
}

/// The installed library, as `make install` does it: copied from cargo's place beside this test.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
        let test = std::env::current_exe().unwrap();
        let mut install = Command::new(root().join("ci/install"));
        let output = install.arg(test.parent().expect("the directory of tests")).arg(&prefix).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        prefix
    })
}

/// The flags that pkg-config prints.
pub(crate) fn pkg_config(words: &[&str]) -> Vec<String> {
    pkg_config_of("everbyte", words)
}

pub(crate) fn pkg_config_of(package: &str, words: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(words).arg(package).env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    let output = command.output().expect("pkg-config");
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(String::from).collect()
}

/// Compiles a program as C11, with every warning an error, and links it as its users would.
pub(crate) fn compile(source: &str, into: &Path) -> PathBuf {
    let run_path = format!("-Wl,-rpath,{}", prefix().join("lib").display());
    link(source, into, &[pkg_config(&["--libs"]), vec![run_path]].concat())
}

pub(crate) fn link(source: &str, into: &Path, libraries: &[String]) -> PathBuf {
    let program = into.join("program");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    cc.args(pkg_config(&["--cflags"])).arg(root().join(source)).args(libraries).arg("-o").arg(&program);
    let output = cc.output().expect("a C compiler");
    assert!(output.status.success(), "{}", text(&output));
    program
}

/// Copies a program, over what is at `to`. Another process does it: what this one has open for
/// writing, the children that other tests start meanwhile have, too, until they execute, and such a
/// file cannot be executed.
pub(crate) fn copy(program: &Path, to: &Path) {
    assert!(Command::new("cp").args([program, to]).status().expect("cp").success());
}

pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(crate) fn run(program: &Path, store: &Path, backend: &str, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).env("EVERBYTE_STORE", store).env("EVERBYTE_BACKEND", backend);
    command.output().unwrap()
}

pub(crate) fn succeed(program: &Path, store: &Path, backend: &str, words: &[&str]) -> String {
    let output = run(program, store, backend, words);
    assert!(output.status.success(), "{words:?} on {backend}: {:?} {}", output.status, text(&output));
    String::from_utf8(output.stdout).unwrap()
}
