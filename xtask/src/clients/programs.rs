//! The programs of `xtask/clients`, each with its client from the client's registry.

use super::server::Server;
use super::{place, sources};
use crate::shell::{self, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment of Python in `target/clients/venv`, with packages.
pub(super) fn python(packages: &[&str]) -> Result<PathBuf> {
    let venv = place().join("venv");
    let python = venv.join("bin/python");
    if !python.exists() {
        shell::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    shell::run(Command::new(&python).args(pip).args(packages))?;
    Ok(python)
}

/// A directory of `target/clients` with these files of `xtask/clients`.
fn folder(name: &str, files: &[&str]) -> Result<PathBuf> {
    let folder = place().join(name);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for file in files {
        let source = sources().join(file);
        let target = folder.join(source.file_name().expect("a file"));
        std::fs::copy(&source, target).map_err(|error| format!("{}: {error}", source.display()))?;
    }
    Ok(folder)
}

/// Runs a program with the server's port and socket as its last arguments.
fn run(command: &mut Command) -> Result {
    let server = Server::start()?;
    shell::run(command.arg(server.port.to_string()).arg(&server.socket).stdin(Stdio::null()))
}

pub(super) fn redis_py() -> Result {
    let python = python(&["redis==8.1.0"])?;
    run(Command::new(python).arg(sources().join("redis_py.py")))
}

pub(super) fn ioredis() -> Result {
    let folder = folder("ioredis", &["ioredis.js"])?;
    let words =
        ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", ".", "ioredis@6.0.0"];
    shell::run(Command::new("npm").args(words).current_dir(&folder))?;
    run(Command::new("node").arg("ioredis.js").current_dir(&folder))
}

pub(super) fn go_redis() -> Result {
    let files = ["go-redis/go.mod", "go-redis/go.sum", "go-redis/main.go"];
    let folder = folder("go-redis", &files)?;
    shell::run(Command::new("go").args(["build", "-o", "uses", "."]).current_dir(&folder))?;
    run(Command::new(folder.join("uses")).current_dir(&folder))
}

pub(super) fn jedis() -> Result {
    let folder = folder("jedis", &["jedis/pom.xml", "jedis/Uses.java"])?;
    if !Path::new(&folder.join("lib")).exists() {
        let words = ["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib"];
        shell::run(Command::new("mvn").args(words).current_dir(&folder))?;
    }
    shell::run(Command::new("javac").args(["-cp", "lib/*", "-d", ".", "Uses.java"]).current_dir(&folder))?;
    run(Command::new("java").args(["-cp", "lib/*:.", "Uses"]).current_dir(&folder))
}
