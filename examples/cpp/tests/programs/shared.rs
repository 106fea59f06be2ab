//! Programs and their shared objects.

use super::{COMPILERS, build, compiler, sanitized, succeed};

/// A shared object that leaves the process takes the destructors of its classes along.
#[test]
fn a_destructor_ends_with_its_shared_object() {
    for name in COMPILERS {
        let (Some(mut plugin), Some(program)) = (sanitized(name), sanitized(name)) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("parts");
        std::fs::create_dir(&shared).unwrap();
        // g++ lets no object with templates' variables leave, unless it is told to.
        plugin.args(["-shared", "-fPIC"]).args((name == "g++").then_some("-fno-gnu-unique"));
        let (plugin, program) = (build(plugin, "plugin.cpp", &shared), build(program, "unloads.cpp", dir.path()));
        succeed(&program, &dir.path().join("store"), &[plugin.to_str().unwrap()]);
    }
}

/// The exception of a destructor in a shared object that hides its symbols reaches the program,
/// where the program lets the linker see its own; else the program gets an error.
#[test]
fn an_exception_of_a_shared_object_that_hides_its_symbols_reaches_the_program() {
    for (name, words, said) in [("g++", None, "unsupported\n"), ("clang++", Some("-rdynamic"), "the plugin's\n")] {
        let (Some(mut plugin), Some(mut program)) = (compiler(name), compiler(name)) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("parts");
        std::fs::create_dir(&shared).unwrap();
        plugin.args(["-DIS_PLUGIN=1", "-shared", "-fPIC", "-fvisibility=hidden"]);
        program.arg("-DIS_PLUGIN=0").args(words);
        let (plugin, program) = (build(plugin, "hidden.cpp", &shared), build(program, "hidden.cpp", dir.path()));
        assert_eq!(succeed(&program, &dir.path().join("store"), &[plugin.to_str().unwrap()]), said, "{name}");
    }
}
