//! `cargo xtask python [--release]`: the Python package, built as a wheel, installed, and tried by
//! its tests. Without `--release` it is compiled as tests are, which takes a third of the time.
//!
//! Steps:
//!   1. formatting, and lints as errors
//!   2. an environment in target/python/venv, with maturin of the version below
//!   3. the wheel, by `python/pyproject.toml`
//!   4. its tests, on the installed package

use crate::shell::{self, Result, cargo, root};
use std::process::Command;

/// The program that builds wheels.
const MATURIN: &str = "maturin==1.9.6";

pub(crate) fn run(words: &[&str]) -> Result {
    let release = match words {
        [] => None,
        ["--release"] => Some("--release"),
        _ => return Err(format!("python takes --release or nothing, not {words:?}")),
    };
    let (package, place) = (root().join("python"), root().join("target/python"));
    let (venv, wheels, builds) = (place.join("venv"), place.join("wheels"), root().join("target"));
    let manifest = package.join("Cargo.toml").display().to_string();
    shell::run(&mut cargo(&["fmt", "--check", "--manifest-path", &manifest]))?;
    let mut lint = cargo(&["clippy", "--locked", "--quiet", "--manifest-path", &manifest]);
    shell::run(lint.args(release).args(["--", "-D", "warnings"]).env("CARGO_TARGET_DIR", &builds))?;
    let python = venv.join("bin/python");
    if !python.exists() {
        shell::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    shell::run(Command::new(&python).args(["-m", "pip", "install", "--quiet", MATURIN]))?;
    let _ = std::fs::remove_dir_all(&wheels);
    let mut build = Command::new(venv.join("bin/maturin"));
    build.args(["build", "--locked", "--quiet"]).args(release);
    build.arg("--interpreter").arg(&python).arg("--out").arg(&wheels);
    shell::run(build.current_dir(&package).env("CARGO_TARGET_DIR", &builds))?;
    let wheel = std::fs::read_dir(&wheels).ok().and_then(|mut found| found.next()?.ok());
    let wheel = wheel.ok_or_else(|| format!("maturin left no wheel in {}", wheels.display()))?.path();
    let install = ["-m", "pip", "install", "--quiet", "--no-index", "--force-reinstall"];
    shell::run(Command::new(&python).args(install).arg(wheel))?;
    // Not from the folder of the sources: the installed package is tried.
    let mut tests = Command::new(&python);
    tests.args(["-m", "unittest", "discover", "-s"]).arg(package.join("tests"));
    shell::run(tests.current_dir(&place))
}
