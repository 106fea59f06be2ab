//! C++ programs before the explorer as processes of their own, as `everbyte crash --run` has them:
//! the library watches their memory, by page scan and by single steps.

use super::{build, compiler, is_whole, text_of};
use everbyte_sim::{Explorer, Failure, Foreign, Report};
use everbyte_store::{CreateOptions, Store};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small store with what `part` of the program makes.
fn stand(program: &Path, part: &str) -> PathBuf {
    let store = program.with_file_name(part);
    let media = everbyte_media::Options { log_bytes: 64 << 10, ..Default::default() };
    Store::create(&store, &CreateOptions { max: 64 << 20, media, ..Default::default() }).unwrap().close().unwrap();
    let mut make = Command::new(program);
    make.arg(part).env("EVERBYTE_STORE", &store).env("EVERBYTE_BACKEND", "shm").env_remove("LD_LIBRARY_PATH");
    let output = make.output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    store
}

/// Each image is a process: few of them, and more in a soak.
fn explorer() -> Explorer {
    let explorer = Explorer::new("bridge-explored").images(2).exhaustive_words(1).depth(1).once();
    if is_whole() { explorer.total(2000) } else { explorer.total(12).floor(2).points(6).unshrunk() }
}

#[test]
fn a_program_of_cpp_is_explored_by_page_scan_and_by_single_steps() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(compiler) = compiler("g++") else { return };
    let program = build(compiler, "explored.cpp", dir.path());
    let stores = ["make", "make-roots"].map(|part| stand(&program, part));
    let explore = |store: &Path, run: &str, look: &str, precise: bool| -> Result<Report, Box<Failure>> {
        let [run, check] = [run, look].map(|word| format!("env -u LD_LIBRARY_PATH {} {word}", program.display()));
        let foreign = Foreign { store: store.into(), run, check, precise };
        explorer().explore_foreign(&foreign, dir.path()).unwrap()
    };
    for precise in [false, true] {
        let report = explore(&stores[0], "run", "look", precise).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{report}");
        assert!(report.scanned != precise && report.profiles.iter().all(|one| one.images > 5), "{report}");
        let failure = explore(&stores[1], "wrong", "look-wrong", precise).unwrap_err().to_string();
        assert!(failure.contains("visited == 7"), "{failure}");
    }
}
