//! `everbyte bridge new|build|check`: C++ headers of a library of persistent Rust types.

use crate::args::{BridgeArgs, BridgeCheckArgs, BridgeCommand, BridgeCommands, BridgeNewArgs};
use crate::failure::Failure;
use crate::output::Output;
use everbyte_bridge::checker::{self, CheckError};
use everbyte_bridge::describe_library;
use everbyte_bridge::headers::{self, Header};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn run(args: &BridgeCommands, output: &Output) -> Result<(), Failure> {
    match &args.command {
        BridgeCommand::New(args) => new(args, output),
        BridgeCommand::Build(args) => build(args, output),
        BridgeCommand::Check(args) => check(args, output),
    }
}

/// The files of a new crate; `NAME` in them is the library's name, `CRATES` where its dependencies
/// lie.
const FILES: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("bridge/Cargo.toml.txt")),
    ("src/lib.rs", include_str!("bridge/lib.rs.txt")),
    ("main.cpp", include_str!("bridge/main.cpp.txt")),
    ("CMakeLists.txt", include_str!("bridge/CMakeLists.txt")),
];

fn new(args: &BridgeNewArgs, output: &Output) -> Result<(), Failure> {
    let directory = &args.directory;
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_name = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_');
    if !is_name {
        return Err(Failure::Words(format!("`{name}` is no name of a library: lower-case letters, digits and `_`")));
    }
    if directory.exists() {
        return Err(Failure::Words(format!("{}: it exists already", directory.display())));
    }
    let from = |package: &str| match &args.crates {
        Some(crates) => {
            let crates = std::path::absolute(crates.join(package)).unwrap_or_else(|_| crates.join(package));
            format!("{{ path = {:?} }}", crates.display().to_string())
        }
        None => format!("{:?}", env!("CARGO_PKG_VERSION")),
    };
    for (file, text) in FILES {
        let text = text.replace("NAME", name).replace("BRIDGE", &from("bridge")).replace("OBJECT", &from("object"));
        write(&directory.join(file), &text)?;
    }
    output.say(
        format!("made {}: compile it with `everbyte bridge build {0}`", directory.display()),
        json!({ "made": directory, "library": name }),
    )
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|error| Failure::system("make it", parent, error))?;
    }
    std::fs::write(path, text).map_err(|error| Failure::system("write it", path, error))
}

fn build(args: &BridgeArgs, output: &Output) -> Result<(), Failure> {
    let (library, made) = generate(args)?;
    let directory = directory(args);
    headers::write(&made, &directory).map_err(|(path, error)| Failure::system("write it", &path, error))?;
    let names: Vec<&str> = made.iter().map(|header| header.name.as_str()).collect();
    output.say(
        format!("{}: {} in {}", library.display(), names.join(", "), directory.display()),
        json!({ "library": library, "directory": directory, "headers": names }),
    )
}

fn check(args: &BridgeCheckArgs, output: &Output) -> Result<(), Failure> {
    let (library, made) = generate(&args.bridge)?;
    let directory = directory(&args.bridge);
    if let Some(difference) = headers::difference(&made, &directory) {
        return Err(Failure::No(format!("{difference}; run `everbyte bridge build`")));
    }
    let mut said = format!("{}: {} headers are as the library", directory.display(), made.len());
    let findings = check_programs(args, &directory)?;
    if !findings.is_empty() {
        return Err(Failure::No(findings.join("\n")));
    }
    for program in &args.programs {
        said += &format!("\n{}: nothing is refused", program.display());
    }
    output.say(
        said,
        json!({ "library": library, "directory": directory, "headers": made.len(), "programs": args.programs }),
    )
}

/// The findings of the checker in the programs, a line each.
fn check_programs(args: &BridgeCheckArgs, headers: &Path) -> Result<Vec<String>, Failure> {
    // Headers that are not the program's: the generated ones, and those beside this binary.
    let mut words: Vec<OsString> = vec!["-isystem".into(), headers.into()];
    let program = std::env::current_exe().ok();
    let installed = program.and_then(|program| Some(program.parent()?.parent()?.join("include")));
    if let Some(include) = installed.filter(|include| include.join("everbyte/bridge.hpp").exists()) {
        words.extend(["-isystem".into(), include.into()]);
    }
    words.extend_from_slice(&args.words);
    let mut findings = Vec::new();
    for program in &args.programs {
        let found = checker::check(&args.clang, &words, program).map_err(|error| match error {
            CheckError::Program { .. } => Failure::No(error.to_string()),
            CheckError::NoClang { .. } | CheckError::Tree { .. } => Failure::System(error.to_string()),
        })?;
        findings.extend(found.iter().map(ToString::to_string));
    }
    Ok(findings)
}

fn directory(args: &BridgeArgs) -> PathBuf {
    args.headers.clone().unwrap_or_else(|| args.directory.join("include"))
}

/// The library, and the headers that it has now.
fn generate(args: &BridgeArgs) -> Result<(PathBuf, Vec<Header>), Failure> {
    let library = match &args.library {
        // With a slash: the loader looks for other names in its own places.
        Some(library) => std::path::absolute(library).map_err(|error| Failure::system("find it", library, error))?,
        None => compile(&args.directory, args.release)?,
    };
    let headers = headers::generate(&describe_library(&library)?)?;
    Ok((library, headers))
}

/// Compiles the crate; answers where its library is.
fn compile(directory: &Path, release: bool) -> Result<PathBuf, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--lib", "--message-format=json-render-diagnostics"]).current_dir(directory);
    command.args(release.then_some("--release")).stderr(Stdio::inherit()).stdin(Stdio::null());
    let built = command.output().map_err(|error| Failure::System(format!("cargo cannot be run: {error}")))?;
    if !built.status.success() {
        return Err(Failure::No(format!("{}: the crate does not compile", directory.display())));
    }
    let messages = String::from_utf8_lossy(&built.stdout);
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut artifacts = messages.filter(|message| message["reason"] == "compiler-artifact");
    let files = artifacts.next_back().map(|message| message["filenames"].clone()).unwrap_or_default();
    let mut files = files.as_array().into_iter().flatten().filter_map(Value::as_str);
    let library = files.find(|file| file.ends_with(".so") || file.ends_with(".dylib"));
    library.map(PathBuf::from).ok_or_else(|| {
        let say = "the crate makes no library for C++: add `[lib]` with `crate-type = [\"cdylib\"]` to its Cargo.toml";
        Failure::Words(format!("{}: {say}", directory.display()))
    })
}
