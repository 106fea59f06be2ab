//! Programs with variables of their files that start at the same moment.

use crate::programs::{copy, link, pkg_config, prefix, succeed, text};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Each looks for files that are gone in the variables of all others, and finds one.
#[test]
fn programs_that_start_at_once_find_their_variables() {
    let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    let run_path = format!("-Wl,-rpath,{}", prefix().join("lib").display());
    let words = [pkg_config(&["--libs"]), vec![run_path, "-DBEGIN=10".into()]].concat();
    let program = link("crates/capi/tests/c/pdata.c", dir.path(), &words);
    let store = dir.path().join("store");
    let programs: Vec<PathBuf> = (0..4).map(|number| dir.path().join(format!("program-{number}"))).collect();
    programs.iter().for_each(|at| copy(&program, at));
    let start = |program: &PathBuf| -> Child {
        let mut command = Command::new(program);
        command.env("EVERBYTE_STORE", &store).env("EVERBYTE_BACKEND", "shm");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for run in 11..31 {
        let gone: &Path = &dir.path().join(format!("gone-{run}"));
        copy(&program, gone);
        assert_eq!(succeed(gone, &store, "shm", &[]), "11 11\n");
        std::fs::remove_file(gone).unwrap();
        let started: Vec<Child> = programs.iter().map(start).collect();
        for (program, child) in programs.iter().zip(started) {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{} in run {run}: {}", program.display(), text(&output));
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{run} {run}\n"), "{}", program.display());
        }
    }
}
