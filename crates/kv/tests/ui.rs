//! Types that cannot be in a table do not compile, and the compiler says why.
//!
//! A file in `ui/` is one crate of many small programs. A line `//@ text` begins one: there is an
//! error within its lines, and each says this text. An error elsewhere fails the test, and so does
//! a program without one: a misspelt program cannot pass for a refused one.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The metadata that `cargo check` makes of this crate.
fn metadata() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let output = Command::new(cargo)
            .args(["check", "--quiet", "--offline", "--lib", "--message-format=json", "-p", "everbyte-kv"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        let mut files = said.split('"').filter(|part| part.ends_with(".rmeta"));
        let is_it = |file: &&str| file.rsplit('/').next().is_some_and(|name| name.starts_with("libeverbyte_kv-"));
        PathBuf::from(files.rfind(is_it).expect("metadata of the crate"))
    })
}

/// The errors in a file: line and first line of the text.
fn errors(file: &str) -> (Vec<(usize, String)>, String) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui").join(file);
    let out = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"programs\"\n[dependencies]\neverbyte-kv = \"*\"\n";
    std::fs::write(out.path().join("Cargo.toml"), manifest).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let kv = metadata();
    let output = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=lib", "--crate-name=programs", "--emit=metadata"])
        .args(["--error-format=short", "--cap-lints=allow", "--out-dir"])
        .arg(out.path())
        .arg(&source)
        .arg(format!("--extern=everbyte_kv={}", kv.display()))
        .arg(format!("-Ldependency={}", kv.parent().unwrap().display()))
        .env("CARGO_MANIFEST_DIR", out.path())
        .env("CARGO_PKG_NAME", "programs")
        .env("CARGO_CRATE_NAME", "programs")
        .output()
        .expect("rustc runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let place = format!("{}:", source.display());
    let found = said.lines().filter_map(|line| {
        let (at, text) = line.strip_prefix(&place)?.split_once(": error")?;
        Some((at.split(':').next()?.parse().ok()?, text.to_string()))
    });
    let found: Vec<_> = found.collect();
    assert_eq!(found.is_empty(), output.status.success(), "{said}");
    (found, said)
}

/// Compares the errors with the marks.
fn refused(file: &str) {
    let source = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui").join(file)).unwrap();
    let marks: Vec<(usize, &str)> =
        (1..).zip(source.lines()).filter_map(|(at, line)| Some((at, line.strip_prefix("//@ ")?))).collect();
    let (errors, said) = errors(file);
    let owner = |line: usize| marks.iter().rposition(|(at, _)| *at < line);
    for (line, text) in &errors {
        let mark = owner(*line).unwrap_or_else(|| panic!("an error outside of programs: {said}"));
        assert!(text.contains(marks[mark].1), "line {line} says {text:?}, expected {:?}\n{said}", marks[mark].1);
    }
    for (index, (at, text)) in marks.iter().enumerate() {
        assert!(errors.iter().any(|(line, _)| owner(*line) == Some(index)), "line {at} compiles: {text}\n{said}");
    }
    assert!(!marks.is_empty());
}

#[test]
fn the_derive_says_what_to_write() {
    refused("derive.rs");
}

#[test]
fn fields_and_tables_of_other_types_are_refused() {
    refused("types.rs");
}

#[test]
fn types_of_tables_compile() {
    let (errors, said) = errors("accepted.rs");
    assert!(errors.is_empty(), "{said}");
}
