//! Running other programs: where the repository is, cargo, and whether a command succeeded.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The result of every chore; the text says what failed.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_path_buf()
}

/// A cargo command in the repository, without standard input.
pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(root()).stdin(Stdio::null());
    command
}

/// The command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    std::iter::once(name)
        .chain(command.get_args().map(|word| word.to_string_lossy().into_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs to the end; an error if it did not succeed.
pub(crate) fn run(command: &mut Command) -> Result {
    let status = command.status().map_err(|error| format!("cannot run `{}`: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", shown(command))) }
}

/// Runs to the end and returns standard output; its errors go to ours.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run `{}`: {error}", shown(command)))?;
    if !output.status.success() {
        return Err(format!("`{}` failed ({})", shown(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{}` printed something that is not UTF-8", shown(command)))
}

/// Cargo's metadata of the workspace, without outside crates.
pub(crate) fn metadata() -> Result<serde_json::Value> {
    let text = output(&mut cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]))
        .or_else(|_| output(&mut cargo(&["metadata", "--format-version", "1", "--no-deps"])))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

/// Whether the workspace has this package by now.
pub(crate) fn has_package(name: &str) -> Result<bool> {
    let metadata = metadata()?;
    Ok(metadata["packages"].as_array().is_some_and(|all| all.iter().any(|package| package["name"] == name)))
}

/// `sudo`, when we are not root.
pub(crate) fn as_root(program: &str) -> Command {
    let root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let mut command = Command::new(if root { program } else { "sudo" });
    if !root {
        command.arg(program);
    }
    command.stdin(Stdio::null());
    command
}

/// Finds a program on the path or where administrators' programs lie.
pub(crate) fn which(name: &str) -> Result<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/bin"]);
    let found = folders.map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    found.ok_or_else(|| format!("`{name}` is not installed; `ci/setup test` installs it"))
}
