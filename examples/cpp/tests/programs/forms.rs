//! Programs by each library of std, with and without exceptions and RTTI.

use super::compilers::{compiler, has_libcxx};
use super::{build, succeed};
use std::path::PathBuf;

/// A list whose links are Rust's, as the root "list1", and a number that threads share; by libc++,
/// too, by both compilers without exceptions and RTTI, and in turns.
#[test]
fn a_list_of_rust_and_a_shared_number_by_every_library_of_std() {
    let forms: [(&str, &[&str]); 4] = [
        ("g++", &[]),
        ("g++", &["-fno-exceptions", "-fno-rtti"]),
        ("clang++", &["-stdlib=libc++"]),
        ("clang++", &["-stdlib=libc++", "-fno-exceptions", "-fno-rtti"]),
    ];
    let dir = tempfile::tempdir().unwrap();
    let built = forms.iter().enumerate().filter_map(|(index, (name, words))| {
        let mut compiler = compiler(name)?;
        if words.contains(&"-stdlib=libc++") && !has_libcxx() {
            return None;
        }
        let place = dir.path().join(index.to_string());
        std::fs::create_dir(&place).unwrap();
        compiler.args(*words);
        Some(build(compiler, "list.cpp", &place))
    });
    let programs: Vec<PathBuf> = built.collect();
    for (index, program) in programs.iter().enumerate() {
        let store = dir.path().join(format!("store{index}"));
        succeed(program, &store, &["first"]);
        succeed(&programs[(index + 1) % programs.len()], &store, &["second"]);
    }
}

/// The persistent containers and classes of C++ over libc++.
#[test]
fn libcxx_keeps_the_promises_of_containers_and_classes() {
    if !has_libcxx() {
        return;
    }
    for source in ["containers.cpp", "classes.cpp"] {
        let Some(mut compiler) = compiler("clang++") else { return };
        compiler.arg("-stdlib=libc++");
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (build(compiler, source, dir.path()), dir.path().join("store"));
        for part in ["first", "second"] {
            succeed(&program, &store, &[part]);
        }
    }
}
