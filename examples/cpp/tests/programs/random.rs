//! Random programs beside containers of std.

use super::{COMPILERS, build, command, sanitized, succeed, text_of};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Random transactions beside containers of std, in one pool by programs of both compilers, and by
/// processes that are killed: while a transaction waits in its lambda, and in those behind one that
/// was said.
#[test]
fn random_programs_agree_with_std_and_survive_kills() {
    let dirs = COMPILERS.map(|_| tempfile::tempdir().unwrap());
    let built = COMPILERS.iter().zip(&dirs).filter_map(|(name, dir)| {
        let compiler = sanitized(name)?;
        Some(build(compiler, "random.cpp", dir.path()))
    });
    let (programs, store): (Vec<PathBuf>, _) = (built.collect(), dirs[0].path().join("store"));
    let mut steps = 0;
    for program in programs.iter().chain(&programs) {
        steps += 200;
        assert_eq!(succeed(program, &store, &["200"]), format!("{steps}\n"));
    }
    // The death of a process is a crash to the backend `file`, which has a pool of its own.
    let stores = [("shm", store), ("file", dirs[0].path().join("file"))];
    let mut steps = [steps, 0];
    for round in 0..8 {
        let (of, is_inside) = (round % 2, round / 2 % 2 == 0);
        let (backend, store) = &stores[of];
        let run = |program: &Path, words: &[&str]| {
            let mut command = command(program, store, words);
            command.env("EVERBYTE_BACKEND", backend).env("EVERBYTE_DURABILITY", "process");
            command
        };
        for program in &programs {
            let more = 4 + round as u64;
            let wait = if is_inside { more } else { 0 };
            let mut command = run(program, &["1000000", &wait.to_string()]);
            let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let said = BufReader::new(running.stdout.take().unwrap()).lines().map(Result::unwrap);
            let until = match is_inside {
                true => format!("inside {}", steps[of] + more - 1),
                false => format!("step {}", steps[of] + more),
            };
            let said: Vec<String> = said.take_while(|line| *line != until).collect();
            assert_eq!(said.first(), Some(&format!("compared {}", steps[of])), "{backend}: {said:?}");
            running.kill().unwrap();
            assert_eq!(running.wait().unwrap().signal(), Some(9), "{backend}: {said:?}");
            let said = run(program, &["0"]).output().unwrap();
            assert!(said.status.success(), "{backend}: {}", text_of(&said));
            let reached: u64 = String::from_utf8_lossy(&said.stdout).trim().parse().unwrap();
            // The transaction that waited is not there; those that were said are.
            let least = steps[of] + if is_inside { more - 1 } else { more };
            assert!(reached == least || reached > least && !is_inside, "{backend}: {reached} steps, not {least}");
            steps[of] = reached;
        }
    }
}
