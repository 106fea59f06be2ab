//! Programs that are killed while they write, and checked afterwards.

use crate::programs::succeed;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Killed at moments that the output decides, so each kill comes at another point of a transaction.
pub(crate) fn killed_again_and_again(compile: impl Fn(&Path) -> PathBuf, words: &[&str]) {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (compile(dir.path()), dir.path().join("store"));
        let mut told = 0;
        for round in 0..20 {
            let mut filler = Command::new(&program);
            filler.arg("fill").args(words).env("EVERBYTE_STORE", &store).env("EVERBYTE_BACKEND", backend);
            let mut filler = filler.stdout(Stdio::piped()).spawn().unwrap();
            let mut lines = BufReader::new(filler.stdout.take().unwrap()).lines();
            for _ in 0..=round * 7 % 60 {
                told = lines.next().expect("it writes until it is killed").unwrap().parse().unwrap();
            }
            filler.kill().unwrap();
            filler.wait().unwrap();
            for line in lines.map_while(Result::ok) {
                // the lines printed before it died, and the rest of a line
                told = line.parse().unwrap_or(told);
            }
            let found: u64 = succeed(&program, &store, backend, &["look"]).trim().parse().unwrap();
            assert!(found == told || found == told + 1, "round {round} on {backend}: told {told}, found {found}");
            told = found;
        }
    }
}
