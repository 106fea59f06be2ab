//! Runs the binary in a temporary directory and reads its output.

#![allow(dead_code)] // each test file uses its part

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A temporary directory, in which the binary runs.
pub(crate) struct Place {
    pub folder: TempDir,
}

/// The output of a run.
#[derive(Debug)]
pub(crate) struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    /// With a small store in ./everbyte.store.
    pub(crate) fn with_store() -> Place {
        let place = Place::new();
        place.good(&["create", "--max", "1GiB", "--log", "1MiB"]);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everbyte"));
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("EVERBYTE_")) {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Said {
        said(self.command(words).output().unwrap())
    }

    /// Runs a command that must succeed, and returns standard output.
    #[track_caller]
    pub(crate) fn good(&self, words: &[&str]) -> String {
        let said = self.run(words);
        assert_eq!(said.code, 0, "everbyte {words:?}: {said:?}");
        said.out
    }

    /// Runs a command that must fail with this code and these words on standard error.
    #[track_caller]
    pub(crate) fn bad(&self, words: &[&str], code: i32, why: &[&str]) -> Said {
        let said = self.run(words);
        assert_eq!(said.code, code, "everbyte {words:?}: {said:?}");
        for why in why {
            assert!(said.err.contains(why), "everbyte {words:?} should say `{why}`: {said:?}");
        }
        assert!(!said.err.contains("panicked"), "everbyte {words:?}: {said:?}");
        said
    }
}

pub(crate) fn said(output: Output) -> Said {
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Changes one byte of a store, by its offset there, or of a file that is none.
pub(crate) fn flip(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt;
    let at = everbyte_media::file_offset(path, at).map_or(at, |place| place.expect("a byte that has room"));
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x55], at).unwrap();
}
