//! Random programs beside containers of std.

use super::{COMPILERS, build, command, sanitized, succeed, text_of};
use std::path::{Path, PathBuf};

/// Random transactions beside containers of std, in one pool by programs of both compilers, and by
/// processes that are killed in the midst of them.
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
    let (mut steps, stores) = ([steps, 0], [store, dirs[0].path().join("file")]);
    for round in 0..8 {
        let of = round % 2;
        let run = |program: &Path, count: &str| {
            let mut command = command(program, &stores[of], &[count]);
            command.env("EVERBYTE_BACKEND", ["shm", "file"][of]).env("EVERBYTE_DURABILITY", "process");
            command
        };
        for program in &programs {
            if steps[of] > 0 {
                let mut running = run(program, "1000000").spawn().unwrap();
                std::thread::sleep(std::time::Duration::from_millis(40 + 7 * round as u64));
                running.kill().unwrap();
                running.wait().unwrap();
            }
            let said = run(program, if steps[of] > 0 { "0" } else { "20" }).output().unwrap();
            assert!(said.status.success(), "{of}: {}", text_of(&said));
            let reached: u64 = String::from_utf8_lossy(&said.stdout).trim().parse().unwrap();
            assert!(reached >= steps[of], "{reached} steps, and {} before", steps[of]);
            steps[of] = reached;
        }
    }
}
