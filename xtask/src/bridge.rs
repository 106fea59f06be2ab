//! `cargo xtask bridge`: persistent types and their C++ program as a user makes them, with nothing
//! in place of any part.
//!
//! Steps, below `target/bridge`, where cargo finds what the last run has compiled:
//!   1. `ci/install` copies headers, libraries, CMake's files and `everbyte` to a prefix
//!   2. `everbyte bridge new` makes a crate over the crates of this checkout
//!   3. CMake finds Everbyte in the prefix alone, compiles crate and program, and links them: the
//!      static library, then the shared one
//!   4. each program runs: the number that it keeps goes on
//!
//! The crate is compiled without optimisation, which would be most of the time, and in the versions
//! of our `Cargo.lock`, which are on this machine.

use crate::shell::{self, Result, cargo, root};
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "events";

pub(crate) fn run(programs_built: bool) -> Result {
    let place = root().join("target/bridge");
    let (made, built, prefix) = (place.join(NAME), place.join("built"), place.join("prefix"));
    for old in [&made, &prefix] {
        let _ = std::fs::remove_dir_all(old);
    }
    create(&place)?;
    install(&place.join("programs"), &prefix, programs_built)?;
    let everbyte = prefix.join("bin/everbyte");
    let mut new = Command::new(&everbyte);
    new.args(["bridge", "new", NAME, "--crates"]).arg(root().join("crates")).current_dir(&place);
    shell::run(&mut new)?;
    copy(&root().join("Cargo.lock"), &made.join("Cargo.lock"))?;
    let manifest = made.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    let shared = text.replace("\"cdylib\", \"staticlib\"", "\"cdylib\"");
    if shared == text {
        return Err(format!("{}: it makes no static library", manifest.display()));
    }
    for (text, runs) in [(&text, [1, 2]), (&shared, [3, 4])] {
        std::fs::write(&manifest, text).map_err(|error| format!("{}: {error}", manifest.display()))?;
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&made).arg("-B").arg(&built).env("CMAKE_PREFIX_PATH", &prefix);
        shell::run(&mut configure)?;
        let mut build = Command::new("cmake");
        build
            .arg("--build")
            .arg(&built)
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
            .env("CARGO_PROFILE_RELEASE_LTO", "off");
        shell::run(&mut build)?;
        for number in runs {
            let said = shell::output(Command::new(built.join("main")).current_dir(&made))?;
            if said != format!("run number {number}\n") {
                return Err(format!("run {number} of the program said `{}`", said.trim_end()));
            }
        }
    }
    Ok(())
}

/// The prefix, with the programs that tests have built or this function builds.
fn install(programs: &Path, prefix: &Path, programs_built: bool) -> Result {
    let target = root().join("target/debug");
    let mut libraries = target.join("deps"); // those of a test lie beside it
    if !programs_built && std::env::var_os("EVERBYTE_PROGRAMS_BUILT").is_none() {
        shell::run(&mut cargo(&["build", "--quiet", "--locked", "-p", "everbyte-capi", "-p", "everbyte-cli"]))?;
        libraries = target.clone();
    }
    create(programs)?;
    let files: [(&PathBuf, &str); 3] =
        [(&libraries, "libeverbyte_capi.so"), (&libraries, "libeverbyte_capi.a"), (&target, "everbyte")];
    for (from, file) in files {
        let _ = std::fs::remove_file(programs.join(file));
        copy(&from.join(file), &programs.join(file))?;
    }
    shell::run(Command::new(root().join("ci/install")).arg(programs).arg(prefix))
}

fn create(directory: &Path) -> Result {
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))
}

fn copy(from: &Path, to: &Path) -> Result {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}
