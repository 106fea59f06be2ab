//! C programs under the crash explorer: right programs pass, and each wrong one is found by the
//! mode that can detect it.

mod programs;

use everbyte_sim::{Explorer, Failure, Foreign, Report};
use everbyte_store::{CreateOptions, Store};
use programs::{compile, pkg_config_of, prefix, root, succeed, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, and a small store with the objects that its parts start with.
fn stand(dir: &Path, language: Language) -> (PathBuf, PathBuf) {
    let store = dir.join("first.store");
    let program = match language {
        Language::Plain => compile("crates/capi/tests/c/crash.c", dir),
        Language::C => compile_blocks(&["gcc", "-std=c11"], dir),
        Language::Cpp => compile_blocks(&["g++", "-std=c++20", "-x", "c++"], dir),
    };
    let media = everbyte_media::Options { log_bytes: 64 << 10, ..Default::default() };
    Store::create(&store, &CreateOptions { max: 4 << 30, bound: true, media }).unwrap().close().unwrap();
    succeed(&program, &store, "shm", &["make"]);
    (program, store)
}

/// The language of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Language {
    /// C over objects: crash.c.
    Plain,
    /// C with persistent variables and `patomic` blocks: crash_variables.c.
    C,
    /// The same file as C++.
    Cpp,
}

fn compile_blocks(compiler: &[&str], into: &Path) -> PathBuf {
    let program = into.join("program");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(["-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
    command.arg(root().join("crates/capi/tests/c/crash_variables.c")).args(["-x", "none"]);
    command.args(pkg_config_of("everbyte-patomic", &["--cflags", "--libs"]));
    command.arg(format!("-Wl,-rpath,{}", prefix().join("lib").display())).arg("-o").arg(&program);
    let output = command.output().expect("gcc");
    assert!(output.status.success(), "{}", text(&output));
    program
}

/// `crashes`: 2 crashes recovery, too.
fn explore(part: &str, look: &str, precise: bool, crashes: u32) -> Result<Report, Box<Failure>> {
    explore_in(Language::Plain, part, look, precise, crashes)
}

fn explore_in(language: Language, part: &str, look: &str, precise: bool, crashes: u32) -> Result<Report, Box<Failure>> {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let (program, store) = stand(dir.path(), language);
    let program = program.display();
    let foreign = Foreign { store, run: format!("{program} {part}"), check: format!("{program} {look}"), precise };
    // Each image is a process: few of them.
    let explorer = Explorer::new(part).total(150).images(8).exhaustive_words(3).recovery(64, 1).depth(crashes);
    explorer.explore_foreign(&foreign, dir.path()).unwrap()
}

#[test]
fn right_programs_pass_by_page_scan_and_by_single_steps() {
    let programs = [("right", "look", true, 1), ("pair", "look-pairs", false, 2)];
    for (part, look, precise, crashes) in programs {
        let report = explore(part, look, precise, crashes).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{report}");
        assert!(report.scanned != precise && report.profiles.len() == 2);
        let crashed = |images: u64| (crashes == 2) == (images > 0);
        assert!(report.profiles.iter().all(|one| one.images > 20 && crashed(one.recovery_images)), "{report}");
    }
}

#[test]
fn what_is_published_before_it_is_flushed_is_found() {
    for precise in [false, true] {
        let failure = explore("unflushed", "look", precise, 1).unwrap_err().to_string();
        assert!(failure.contains("node->value == ~node->proof"), "{failure}");
    }
}

/// A value that lives shorter than an interval between flushes: a page scan cannot detect it, and
/// says so.
#[test]
fn single_steps_see_what_page_scan_cannot() {
    let report = explore("detour", "look-detour", false, 1).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.to_string().contains("found by page scan"));
    let failure = explore("detour", "look-detour", true, 1).unwrap_err().to_string();
    assert!(failure.contains("(uintptr_t)node > 4096"), "{failure}");
}

/// Persistent variables are watched where the program has them, `patomic` blocks as its own stores,
/// in C and in C++.
#[test]
fn right_programs_with_persistent_variables_pass() {
    for (language, part, look, precise, crashes) in [
        (Language::C, "blocks", "look-blocks", false, 2),
        (Language::Cpp, "blocks", "look-blocks", true, 1),
        (Language::C, "flushes", "look-pair", true, 1),
    ] {
        let report = explore_in(language, part, look, precise, crashes);
        let report = report.unwrap_or_else(|failure| panic!("{language:?} {failure}"));
        println!("{report}");
        assert!(report.profiles.iter().all(|one| one.images > 10), "{report}");
    }
}

#[test]
fn wrong_orders_of_persistent_variables_are_found() {
    for (part, precise) in [("forgotten", false), ("forgotten", true), ("early", true)] {
        let failure = explore_in(Language::C, part, "look-pair", precise, 1).unwrap_err().to_string();
        assert!(failure.contains("pair.value >= pair.ready * 7"), "{failure}");
    }
}

#[test]
fn what_cannot_be_explored_is_said() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let (program, store) = stand(dir.path(), Language::Plain);
    let foreign = |run: String| Foreign { store: store.clone(), run, check: "true".into(), precise: false };
    let say = |foreign: Foreign| Explorer::new("none").explore_foreign(&foreign, dir.path()).unwrap_err();
    assert!(say(foreign("exit 3".into())).contains("fails without any crash: exit status: 3"));
    assert!(say(foreign("true".into())).contains("acknowledges nothing"));
    let missing = Foreign { store: dir.path().join("none"), ..foreign(format!("{} right", program.display())) };
    assert!(say(missing).contains("none"));
}
