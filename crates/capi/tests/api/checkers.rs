//! C programs under tools that find mistakes: sparse and clang, Memcheck, AddressSanitizer.

use crate::posix::PARTS;
use crate::programs::{compile, link, pkg_config_of, prefix, root, succeed, text};
use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CreateOptions, Store};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Both objections are the checker's alone: the compiler of the program does not know the word.
#[test]
fn checkers_tell_persistent_pointers_from_others() {
    let source = root().join("crates/capi/tests/c/annotated.c");
    for (checker, words) in
        [("sparse", &["-Wsparse-error", "-Wall"][..]), ("clang", &["-fsyntax-only", "-DEVERBYTE_CHECK", "-std=c11"])]
    {
        for (mix, good) in [("-DNO_MIX", true), ("-DMIX=1", false), ("-DMIX=2", false)] {
            let mut command = Command::new(checker);
            command.args(words).arg(mix).arg(format!("-I{}", root().join("include").display())).arg(&source);
            let output =
                command.output().unwrap_or_else(|error| panic!("{checker}: {error}; ci/setup test installs it"));
            assert_eq!(output.status.success(), good, "{checker} {mix}: {}", text(&output));
            assert!(good || text(&output).contains("address space"), "{checker} {mix}: {}", text(&output));
        }
    }
    for mix in ["-DNO_MIX", "-DMIX=1", "-DMIX=2"] {
        let dir = tempfile::tempdir().unwrap();
        compile_with("crates/capi/tests/c/annotated.c", dir.path(), "everbyte", &[mix]);
    }
}

/// Compiles a program with the flags of a package, and these.
fn compile_with(source: &str, into: &Path, package: &str, words: &[&str]) -> PathBuf {
    let run_path = format!("-Wl,-rpath,{}", prefix().join("lib").display());
    let words = words.iter().map(ToString::to_string);
    link(
        source,
        into,
        &words.chain(pkg_config_of(package, &["--cflags", "--libs"])).chain([run_path]).collect::<Vec<_>>(),
    )
}

/// Runs a program under Memcheck, on a store that is small enough for its shadow of all memory.
fn memcheck(program: &Path, name: &str, runs: &[&[&str]]) {
    let backend: BackendChoice = name.parse().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let media = Options { backend, log_bytes: 1 << 20, log_room: 1 << 20, ..Options::default() };
    Store::create(&store, &CreateOptions { max: 256 << 20, bound: true, media }).unwrap().close().unwrap();
    for words in runs {
        let mut memcheck = Command::new("valgrind");
        memcheck.args(["-q", "--error-exitcode=9", "--leak-check=no"]).arg(program).args(*words);
        memcheck.env("EVERBYTE_STORE", &store).env("EVERBYTE_BACKEND", name).env("EVERBYTE_FLUSH", "clflush");
        let output = memcheck.output().expect("valgrind, which ci/setup test installs");
        assert!(output.status.success(), "{words:?} on {name}: {}", text(&output));
    }
}

#[test]
fn memcheck_has_nothing_to_say_of_variables_and_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let tree = compile("examples/c/bst.c", dir.path());
    memcheck(&tree, "file", &[&["5", "2", "8", "1"], &["3"]]);
    memcheck(&tree, "shm", &[&["5", "2", "8", "1"]]);
    let blocks = compile_with("crates/capi/tests/c/patomic_blocks.c", dir.path(), "everbyte-patomic", &[]);
    memcheck(&blocks, "shm", &[&[]]);
}

#[test]
fn memcheck_has_nothing_to_say_of_objects_and_pairs() {
    let dir = tempfile::tempdir().unwrap();
    memcheck(&compile("crates/capi/tests/c/heapo.c", dir.path()), "file", &[&["transactions"]]);
    memcheck(&compile("crates/capi/tests/c/heapo_kv.c", dir.path()), "shm", &[&["calls", "tree"]]);
}

#[test]
fn memcheck_has_nothing_to_say_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("crates/capi/tests/c/posix.c", dir.path());
    for (part, backend) in PARTS.into_iter().zip(["file", "shm"].into_iter().cycle()) {
        memcheck(&program, backend, &[&[part]]);
    }
}

/// Leaks included, of the library too.
#[test]
fn the_address_sanitizer_has_nothing_to_say() {
    let dir = tempfile::tempdir().unwrap();
    for (source, parts) in [
        ("heapo.c", &[&["objects"][..], &["transactions"]][..]),
        ("heapo_kv.c", &[&["calls", "hash"], &["ordered", "tree"]]),
        ("kv.c", &[&["calls"], &["batches"], &["hostile"]]),
        ("log.c", &[&["calls"], &["restart"]]),
        ("regions.c", &[&["first"], &["second"]]),
        ("posix.c", &[&["volumes"], &["bytes"], &["names"], &["attributes"], &["locks"], &["again"]]),
    ] {
        let source = format!("crates/capi/tests/c/{source}");
        let program = compile_with(&source, dir.path(), "everbyte", &["-fsanitize=address"]);
        for backend in ["file", "shm"] {
            let store = dir.path().join(format!("{}-{backend}", source.replace('/', "-")));
            parts.iter().for_each(|words| drop(succeed(&program, &store, backend, words)));
        }
    }
}
