//! Warnings of the compilers, whose versions the headers are made for.

use super::compilers::{compiler, is_absent};
use super::{program, text_of};
use std::process::Command;

/// GCC from 12, clang from 14.
#[test]
fn the_compilers_are_those_that_the_headers_are_for() {
    for (name, least) in [("g++", 12), ("clang++", 14)] {
        let Ok(output) = Command::new(name).arg("-dumpversion").output() else {
            is_absent(name);
            continue;
        };
        let version = text_of(&output);
        println!("{name} {}", version.trim_end());
        let major: Option<u32> = version.trim_end().split('.').next().and_then(|first| first.parse().ok());
        assert!(major.is_some_and(|major| major >= least), "{name} {version}: {least} is the least");
    }
}

/// Of GCC, where it looks through calls, in the programs that use most of the headers. `forms` has
/// such programs by clang; the others are compiled without optimisation, and their warnings are
/// errors, too.
#[test]
fn optimised_programs_give_no_warnings() {
    let dir = tempfile::tempdir().unwrap();
    for source in ["containers.cpp", "bad_days.cpp"] {
        let Some(mut compiler) = compiler("g++") else { return };
        compiler.args(["-O2", "-c", "-o"]).arg(dir.path().join("object")).arg(program(source));
        let output = compiler.output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
    }
}
