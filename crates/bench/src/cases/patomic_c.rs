//! The third part of `patomic`: what a C program sees, compiled as its users compile it, with the
//! library that lies beside this program, shared or not. It is asked through a pipe, and keeps the
//! time itself.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::host;
use crate::ours::NAME;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How the program is linked.
#[derive(Clone, Copy)]
enum Library {
    Shared,
    Archive,
}

impl Library {
    /// As metrics end with it.
    fn name(self) -> &'static str {
        match self {
            Library::Shared => "c",
            Library::Archive => "c_static",
        }
    }
}

struct Program {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Installs the library in a folder, compiles the program there, and starts it with its store
    /// on `memory`.
    fn start(folder: &Path, memory: &Path, library: Library) -> Result<Program> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let built = std::env::current_exe()?.parent().ok_or("a program lies in a folder")?.to_path_buf();
        if !built.join("libeverbyte_capi.so").exists() {
            return Err("the library is not built; `cargo build --release --package everbyte-capi` does that".into());
        }
        said(Command::new(root.join("ci/install")).arg(built).arg(folder))?;
        let mut words = Command::new("pkg-config");
        words.args(["--cflags", "--libs", "everbyte-patomic"]).env("PKG_CONFIG_PATH", folder.join("lib/pkgconfig"));
        let (words, program) = match library {
            Library::Shared => (said(&mut words)?, folder.join("program")),
            Library::Archive => (
                said(words.arg("--static"))?.replace("-leverbyte", "-l:libeverbyte.a"),
                folder.join("program_of_archive"),
            ),
        };
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=c11", "-O2"]).arg(root.join("crates/bench/c/patomic.c")).args(words.split_whitespace());
        said(gcc.arg(format!("-Wl,-rpath,{}", folder.join("lib").display())).arg("-o").arg(&program))?;
        host::unpin(); // the thread that truncates is to have a CPU of its own
        let mut child = Command::new(program)
            .envs([("EVERBYTE_BACKEND", "shm"), ("EVERBYTE_TRUNCATION", "async")])
            .env("EVERBYTE_STORE", memory.join(library.name()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (questions, answers) = (child.stdin.take(), child.stdout.take().ok_or("no pipe")?);
        Ok(Program { child, questions, answers: BufReader::new(answers) })
    }

    /// How long `times` blocks took that load or store so many words.
    fn ask(&mut self, what: &str, words: u64, times: u64) -> Duration {
        let mut answer = String::new();
        let questions = self.questions.as_mut().expect("it is closed at the end alone");
        writeln!(questions, "{what} {words} {times}").expect("the program listens");
        self.answers.read_line(&mut answer).expect("the program answers");
        Duration::from_nanos(answer.trim().parse().expect("nanoseconds"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.questions.take()); // it ends when its input does
        let _ = self.child.wait();
    }
}

/// The output of a command.
fn said(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    // The operation of a block, the number of words, and the number of operations.
    const METRICS: [(&str, &str, u64, u64); 3] =
        [("load", "load", 4096, 4096), ("word", "store", 1, 1), ("words_64", "store", 64, 1)];
    for library in [Library::Shared, Library::Archive] {
        let metrics = METRICS.map(|(metric, ..)| format!("{metric}_{}", library.name()));
        if !metrics.iter().any(|metric| bench.wants(metric)) {
            continue;
        }
        let (folder, memory) = (tempfile::tempdir_in(&bench.plan.disk)?, tempfile::tempdir_in(&bench.plan.memory)?);
        let mut program = match Program::start(folder.path(), memory.path(), library) {
            Ok(program) => program,
            Err(error) => {
                metrics.iter().for_each(|metric| bench.skipped(metric, &error.to_string()));
                continue;
            }
        };
        for (metric, (_, what, words, operations)) in metrics.iter().zip(METRICS) {
            let run = |count: u64| {
                let blocks = count.div_ceil(operations);
                program.ask(what, words, blocks).mul_f64(count as f64 / (blocks * operations) as f64)
            };
            bench.metric(metric, Unit::Nanoseconds, 0, vec![Runner::timed(NAME, run)]);
        }
    }
    Ok(())
}
