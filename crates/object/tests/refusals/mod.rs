//! Programs that must not compile, by one compilation for many of them.
//!
//! Each file in `ui/` is a crate of many small programs. A line `//@ name: codes "texts"` begins
//! one: every error within its lines must have one of these codes (`lifetime`, `general`,
//! `unsendable` and `private` stand for errors that have none), at least one must be there, and
//! each text must appear in the output of the compiler; `once` among the codes: there is one error.
//! Errors outside of programs, and programs
//! without an error, fail the test. So a misspelt program cannot pass for a refused one, and one
//! compilation a file does for all of its programs.
//!
//! A line `//@@ words` gives words to the compiler.
//!
//! The compiler is given the metadata that `cargo check` makes of the crates in `PACKAGES`.

use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A crate of programs: what they call it, its package, what its metadata is called.
pub(crate) type Used = (&'static str, &'static str, &'static str);

/// The crates that programs may use, and where their metadata lies.
fn metadata() -> &'static BTreeMap<String, PathBuf> {
    static FOUND: OnceLock<BTreeMap<String, PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let output = Command::new(cargo)
            .args(["check", "--quiet", "--offline", "--lib", "--message-format=json"])
            .args(super::PACKAGES.iter().flat_map(|package| ["-p", package]))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        let mut found = BTreeMap::new();
        for message in lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if message["reason"] != "compiler-artifact" {
                continue;
            }
            for file in message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if file.ends_with(".rmeta") {
                    found.insert(message["target"]["name"].as_str().unwrap().replace('-', "_"), PathBuf::from(file));
                }
            }
        }
        found
    })
}

/// One error of the compiler.
struct Refusal {
    code: Option<String>,
    text: String,
    /// Its lines in the file that was compiled.
    lines: Vec<u64>,
}

impl Refusal {
    fn is(&self, expected: &str) -> bool {
        match &self.code {
            Some(code) => code == expected,
            None if expected == "lifetime" => self.text.contains("lifetime may not live long enough"),
            None if expected == "unsendable" => self.text.contains("cannot be sent between threads safely"),
            None if expected == "private" => self.text.contains("is private"),
            None => expected == "general" && self.text.contains("is not general enough"),
        }
    }
}

/// A macro that adds a field, made from `ui/adds_field.rs`; a macro is a library that the compiler
/// loads; `None` if there is no such file.
fn macros() -> Option<&'static Path> {
    static MADE: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        if !path("adds_field").exists() {
            return None;
        }
        let out = tempfile::tempdir().unwrap();
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
        let status = Command::new(rustc)
            .args(["--edition=2024", "--crate-type=proc-macro", "--crate-name=adds_field", "--extern=proc_macro"])
            .arg("--out-dir")
            .arg(out.path())
            .arg(path("adds_field"))
            .status();
        assert!(status.expect("rustc runs").success());
        Some(out)
    });
    made.as_ref().map(tempfile::TempDir::path)
}

/// Compiles `source` with `crates`; answers its errors. The macros find the names in a manifest, as
/// they do in a real program.
fn compile(source: &Path, crates: &[Used]) -> Vec<Refusal> {
    let out = tempfile::tempdir().unwrap();
    let mut manifest = String::from("[package]\nname = \"programs\"\n[dependencies]\n");
    for (name, package, _) in crates {
        manifest.push_str(&format!("{name} = {{ package = \"{package}\", version = \"*\" }}\n"));
    }
    std::fs::write(out.path().join("Cargo.toml"), manifest).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let mut command = Command::new(rustc);
    command
        .args(["--edition=2024", "--crate-type=lib", "--crate-name=programs", "--emit=metadata"])
        .args(["--error-format=json", "--cap-lints=allow", "--out-dir"])
        .arg(out.path())
        .arg(source)
        .env("CARGO_MANIFEST_DIR", out.path())
        .env("CARGO_PKG_NAME", "programs")
        .env("CARGO_CRATE_NAME", "programs");
    let text = std::fs::read_to_string(source).unwrap();
    command.args(text.lines().filter_map(|line| line.strip_prefix("//@@ ")).flat_map(str::split_whitespace));
    if let Some(macros) = macros() {
        command.args(["--extern=adds_field", "-L"]).arg(macros);
    }
    for (name, _, what) in crates {
        let file = metadata().get(*what).unwrap_or_else(|| panic!("no metadata of {what}: {:?}", metadata()));
        let directory = file.parent().unwrap();
        command.arg("--extern").arg(format!("{name}={}", file.display()));
        command.arg("-L").arg(format!("dependency={}", directory.display()));
    }
    let output = command.output().expect("rustc runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let mut refusals = Vec::new();
    for message in said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let spans: Vec<&Value> = message["spans"].as_array().into_iter().flatten().collect();
        if message["level"] != "error" || spans.is_empty() {
            continue;
        }
        let primary = spans.iter().filter(|span| span["is_primary"] == true);
        refusals.push(Refusal {
            code: message["code"]["code"].as_str().map(String::from),
            text: message["rendered"].as_str().unwrap_or_default().to_string(),
            lines: primary.filter_map(|span| line(span, source)).collect(),
        });
    }
    assert!(output.status.success() == refusals.is_empty(), "{said}");
    refusals
}

/// The line of `span` in `source`, by way of the macros that made it.
fn line(span: &Value, source: &Path) -> Option<u64> {
    if Path::new(span["file_name"].as_str()?) == source {
        return span["line_start"].as_u64();
    }
    line(span["expansion"].as_object().map(|expansion| &expansion["span"])?, source)
}

/// A program that must be refused.
struct Program {
    name: String,
    codes: Vec<String>,
    texts: Vec<String>,
    from: u64,
}

fn programs(source: &str) -> Vec<Program> {
    let lines = source.lines().zip(1..);
    let marks = lines.filter_map(|(line, from)| Some((line.strip_prefix("//@ ")?, from)));
    let program = |(mark, from): (&str, u64)| {
        let (name, expected) = mark.split_once(": ").expect("`//@ name: codes \"texts\"`");
        let parts: Vec<&str> = expected.split('"').collect(); // odd ones were quoted
        Program {
            name: name.to_string(),
            codes: parts.iter().step_by(2).flat_map(|part| part.split_whitespace()).map(String::from).collect(),
            texts: parts.iter().skip(1).step_by(2).map(|part| part.to_string()).collect(),
            from,
        }
    };
    marks.map(program).collect()
}

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui").join(file).with_extension("rs")
}

/// Compiles `ui/{file}.rs`, which should.
pub(crate) fn accepted(file: &str, crates: &[Used]) {
    let refusals = compile(&path(file), crates);
    let said: String = refusals.iter().map(|refusal| refusal.text.as_str()).collect();
    assert!(refusals.is_empty(), "{said}");
}

/// Compiles `ui/{file}.rs` with [`super::CRATES`] and compares the errors with the marks.
pub(crate) fn refused(file: &str) {
    let path = path(file);
    let programs = programs(&std::fs::read_to_string(&path).unwrap());
    assert!(!programs.is_empty());
    let refusals = compile(&path, &super::CRATES);
    let mut wrong = Vec::new();
    let mut seen: BTreeMap<&str, (String, u32)> = BTreeMap::new();
    for refusal in &refusals {
        let within = refusal.lines.first().and_then(|line| programs.iter().rev().find(|program| program.from < *line));
        match within {
            None => wrong.push(format!("outside of the programs:\n{}", refusal.text)),
            Some(program) => {
                // Macros' own errors have no code; their texts identify them.
                let own = refusal.code.is_none() && program.codes.is_empty();
                if !own && !program.codes.iter().any(|code| refusal.is(code)) {
                    wrong.push(format!("{}: not the error that was expected:\n{}", program.name, refusal.text));
                }
                let (said, count) = seen.entry(&program.name).or_default();
                said.push_str(&refusal.text);
                *count += 1;
            }
        }
    }
    for program in &programs {
        match seen.get(&*program.name) {
            None => wrong.push(format!("{}: compiles", program.name)),
            Some((said, count)) => {
                if *count > 1 && program.codes.iter().any(|code| code == "once") {
                    wrong.push(format!("{}: {count} errors:\n{said}", program.name));
                }
                let missing = program.texts.iter().filter(|text| !said.contains(*text));
                wrong.extend(missing.map(|text| format!("{}: does not say {text:?}, but:\n{said}", program.name)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} programs:\n{}", wrong.len(), programs.len(), wrong.join("\n"));
}
