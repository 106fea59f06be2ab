//! Tests of other projects, from their published sources: an archive of PyPI, or a Go module.
//!
//! The tests are unmodified. A test is left out by its name, never by an edit.

use super::programs::python;
use super::server::Server;
use super::{place, sources};
use crate::shell::{self, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages with which the tests of Python run.
const PYTEST: &[&str] = &["pytest==8.4.2", "pytest-asyncio==1.2.0", "pytest-timeout==2.4.0", "pytest-mock==3.15.1"];

/// The tests that are left out of a suite: their names, each with a reason.
fn exclusions(suite: &str) -> Result<Vec<String>> {
    let path = sources().join("exclusions.txt");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut names = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words[..] {
            [of, name, _reason] if of == suite => names.push(name.to_string()),
            [_, _, _] => {}
            _ => return Err(format!("{}: `{line}` has no reason", path.display())),
        }
    }
    println!("{suite}: {} tests or groups are left out", names.len());
    Ok(names)
}

/// The unpacked source archive of a package, as `name-version`.
fn source(python: &Path, name: &str, version: &str) -> Result<PathBuf> {
    let folder = place().join("sources");
    let found = |folder: &Path| -> Option<PathBuf> {
        let end = format!("-{version}");
        let entries = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let is_it = |path: &PathBuf| {
            let text = path.file_name().unwrap_or_default().to_string_lossy().replace('_', "-");
            path.is_dir() && text.strip_suffix(&end) == Some(name)
        };
        entries.filter(is_it).last()
    };
    if let Some(path) = found(&folder) {
        return Ok(path);
    }
    let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest"];
    shell::run(Command::new(python).args(pip).arg(&folder).arg(format!("{name}=={version}")))?;
    let archives = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for archive in archives.filter_map(|entry| Some(entry.ok()?.path())) {
        if archive.to_string_lossy().ends_with(&format!("-{version}.tar.gz")) {
            shell::run(Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(&folder))?;
        }
    }
    found(&folder).ok_or_else(|| format!("{name} {version}: its archive has another name"))
}

/// pytest, in the directory of the sources, without the tests that are left out.
fn pytest(python: &Path, folder: &Path, suite: &str, words: &[&str]) -> Result {
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "--quiet", "--tb=short", "-p", "no:cacheprovider", "--timeout=120"]).args(words);
    for name in exclusions(suite)? {
        command.args(["--deselect", &name]);
    }
    // Tests call programs of the packages by their names.
    let programs = python.parent().map(Path::to_path_buf).unwrap_or_default();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&others)));
    command.env("PATH", path.map_err(|error| format!("PATH: {error}"))?);
    shell::run(command.current_dir(folder).env("PYTHONPATH", sources()).env("PYTHONDONTWRITEBYTECODE", "1"))
}

pub(super) fn redis_py() -> Result {
    let python = python(&[PYTEST, &["redis==8.1.0", "coverage", "numpy", "cachetools", "mock", "PyJWT"]].concat())?;
    let folder = source(&python, "redis", "8.1.0")?;
    let server = Server::start()?;
    let url = format!("redis://localhost:{}/0", server.port);
    let files =
        ["commands", "pipeline", "pubsub", "scripting", "lock", "monitor", "hash", "function", "cache", "encoding"];
    let files: Vec<String> = files.iter().map(|file| format!("tests/test_{file}.py")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let marks = "not onlycluster and not redismod and not replica and not cp_integration";
    pytest(
        &python,
        &folder,
        "redis-py-suite",
        &[&["--redis-url", &url, "-m", marks, "-k", "not luster"], &files[..]].concat(),
    )
}

pub(super) fn rq() -> Result {
    let python = python(&[PYTEST, &["redis==8.1.0", "rq==3.0.0", "psutil==7.1.3"]].concat())?;
    let folder = source(&python, "rq", "3.0.0")?;
    let _server = Server::at(6379)?;
    pytest(&python, &folder, "rq", &["tests"])
}

pub(super) fn django_redis() -> Result {
    let packages = [
        "django==5.2.8",
        "asgiref==3.8.1",
        "django-redis==7.0.0",
        "msgpack",
        "lz4",
        "pytest-xdist==3.8.0",
        "setuptools",
    ];
    let python = python(&[PYTEST, &["redis==8.1.0"], &packages[..]].concat())?;
    let folder = source(&python, "django-redis", "7.0.0")?;
    let _server = Server::at(6379)?;
    // One way to compress and one to encode are enough: those are of the client alone.
    let only = "not sentinel and not usock and not zstd and not gzip and not zlib and not msgpack";
    pytest(&python, &folder, "django-redis", &["-k", only, "tests"])
}

pub(super) fn limits() -> Result {
    let packages = [
        "pytest-lazy-fixtures==1.4.0",
        "pymemcache",
        "pymongo",
        "motor",
        "coredis",
        "valkey",
        "flaky",
        "setuptools",
        "versioneer",
    ];
    let python = python(&[PYTEST, &["redis==8.1.0", "limits==5.8.0"], &packages[..]].concat())?;
    let folder = source(&python, "limits", "5.8.0")?;
    let _server = Server::on(7379, Some("/tmp/limits.redis.sock"))?;
    let marks = "redis and not redis_cluster and not redis_sentinel";
    let words = [
        &["-o", "addopts=", "-o", "filterwarnings=default", "-p", "no_docker", "-m", marks],
        &["-k", "not auth and not ssl and not sentinel and not luster", "tests/storage", "tests/test_strategy.py"][..],
    ];
    pytest(&python, &folder, "limits", &words.concat())
}

/// A copy of a Go module's sources, in which its tests can be built.
fn module(path: &str, version: &str) -> Result<PathBuf> {
    let folder = place().join("modules").join(path.replace('/', "_"));
    if !folder.exists() {
        std::fs::create_dir_all(place().join("modules")).map_err(|error| error.to_string())?;
        let mut download = Command::new("go");
        download.args(["mod", "download", "-json", &format!("{path}@{version}")]).current_dir(place().join("modules"));
        let text = shell::output(&mut download)?;
        let told: serde_json::Value = serde_json::from_str(&text).map_err(|error| format!("go: {error}"))?;
        let source = told["Dir"].as_str().ok_or_else(|| format!("go mod download: {text}"))?;
        shell::run(Command::new("cp").args(["-r", "--no-preserve=mode", source]).arg(&folder))?;
    }
    Ok(folder)
}

/// `go test` of packages of a module, without the tests that are left out.
fn go_test(suite: &str, folder: &Path, packages: &[&str], words: &[&str]) -> Result {
    let mut command = Command::new("go");
    command.args(["test", "-mod=mod", "-count=1", "-p=1"]).args(packages);
    let skip = exclusions(suite)?;
    if !skip.is_empty() {
        command.arg(format!("-skip=^({})$", skip.join("|")));
    }
    shell::run(command.args(words).current_dir(folder))
}

pub(super) fn asynq() -> Result {
    let folder = module("github.com/hibiken/asynq", "v0.26.0")?;
    let server = Server::start()?;
    let address = format!("-redis_addr=localhost:{}", server.port);
    go_test("asynq", &folder, &[".", "./internal/rdb"], &[&address])
}
