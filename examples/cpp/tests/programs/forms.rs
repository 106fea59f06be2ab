//! Programs by each library of std, with and without exceptions and RTTI.

use super::compilers::{compiler, has_libcxx, sanitized};
use super::{build, run, succeed, text_of};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

const PLAIN: [&str; 2] = ["-fno-exceptions", "-fno-rtti"];

/// The program by both libraries of std, each with and without exceptions and RTTI; and whether it
/// has exceptions.
fn in_each_form(source: &str, into: &Path) -> Vec<(PathBuf, bool)> {
    let forms =
        [("g++", "libstdc++"), ("clang++", "libc++")].into_iter().filter(|(_, of)| of != &"libc++" || has_libcxx());
    let forms = forms.flat_map(|(name, of)| [(name, of, true), (name, of, false)]);
    let built = forms.enumerate().filter_map(|(index, (name, of, has_exceptions))| {
        let mut compiler = if has_exceptions { sanitized(name)? } else { compiler(name)? };
        compiler.args((of == "libc++").then_some("-stdlib=libc++")).args(&PLAIN[..if has_exceptions { 0 } else { 2 }]);
        let place = into.join(index.to_string());
        std::fs::create_dir(&place).unwrap();
        Some((build(compiler, source, &place), has_exceptions))
    });
    built.collect()
}

/// A list whose links are Rust's, as the root "list1", and a number that threads share, in turns.
#[test]
fn a_list_of_rust_and_a_shared_number_by_every_library_of_std() {
    let dir = tempfile::tempdir().unwrap();
    let programs = in_each_form("list.cpp", dir.path());
    for (index, (program, _)) in programs.iter().enumerate() {
        let store = dir.path().join(format!("store{index}"));
        succeed(program, &store, &["first"]);
        succeed(&programs[(index + 1) % programs.len()].0, &store, &["second"]);
    }
}

/// Containers of std, a destructor and a table over classes of C++, in turns. An error ends a
/// program without exceptions with its message, and is rolled back, as one that is not caught.
#[test]
fn containers_and_destructors_need_neither_exceptions_nor_rtti() {
    let dir = tempfile::tempdir().unwrap();
    let programs = in_each_form("plain.cpp", dir.path());
    for (index, (program, has_exceptions)) in programs.iter().enumerate() {
        let store = dir.path().join(format!("store{index}"));
        succeed(program, &store, &["first"]);
        let ended = run(program, &store, &["error"]);
        let text = text_of(&ended);
        assert!(ended.status.signal() == Some(6) && text.contains("only 0 are left"), "{:?} {text}", ended.status);
        assert!(*has_exceptions || text == "everbyte: only 0 are left\n", "{text}");
        succeed(&programs[(index + 1) % programs.len()].0, &store, &["second"]);
    }
}

/// The promises of the face, of the persistent containers and classes of C++, of callbacks that
/// throw, and of the pool's allocator, over libc++.
#[test]
fn libcxx_keeps_the_promises() {
    if !has_libcxx() {
        return;
    }
    let both = &["first", "second"][..];
    for (source, parts) in [
        ("face.cpp", &["closed", "first", "second"][..]),
        ("containers.cpp", both),
        ("classes.cpp", both),
        ("own_template.cpp", both),
        ("kv_store.cpp", &["print", "check"]),
    ] {
        let Some(mut compiler) = compiler("clang++") else { return };
        compiler.args(["-stdlib=libc++", "-O2"]);
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (build(compiler, source, dir.path()), dir.path().join("store"));
        for part in parts {
            succeed(&program, &store, &[part]);
        }
    }
}
