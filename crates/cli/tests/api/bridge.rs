//! `everbyte bridge`: a new crate, the headers of a library, and libraries that export nothing.

use crate::common::{Place, said};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn a_new_crate_has_a_library_a_program_and_a_cmake_file() {
    let place = Place::new();
    let said = place.good(&["bridge", "new", "events", "--crates", "checkout/crates"]);
    assert_eq!(said, "made events: compile it with `everbyte bridge build events`\n");
    let read = |file: &str| std::fs::read_to_string(place.path("events").join(file)).unwrap();
    let manifest = read("Cargo.toml");
    assert!(manifest.contains("name = \"events\"") && manifest.contains("checkout/crates/bridge\" }"), "{manifest}");
    assert!(read("src/lib.rs").contains("name events;"));
    assert!(read("main.cpp").contains("events::store store(\"events.everbyte\""));
    assert!(read("CMakeLists.txt").contains("everbyte_bridge(main"));
    place.bad(&["bridge", "new", "events"], 2, &["exists already"]);
    place.bad(&["bridge", "new", "Events-2"], 2, &["no name of a library"]);
}

/// A library that describes itself, and does nothing else.
const DESCRIBED: &str = r#"
#include <stddef.h>
struct text { const char *bytes; size_t size; };
static const char said[] = "everbyte-bridge 2\nlibrary events\npool store\ntype counter\n doc Counts.\n"
    " method value() -> i64\n change add(by: i64) -> i64\n";
struct text everbyte_bridge_description(void) {
    struct text text = {said, sizeof said - 1};
    return text;
}
"#;

/// `build` compiles a crate by cargo, and writes the headers of the library that cargo names;
/// `check` compares them. Here a script stands for cargo.
#[test]
fn headers_are_made_of_a_crate_and_checked() {
    let place = Place::new();
    let library = place.path("libevents.so");
    std::fs::write(place.path("events.c"), DESCRIBED).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(place.path("events.c"));
    assert!(compiler.status().expect("a C compiler").success());
    let artifact =
        format!(r#"{{"reason":"compiler-artifact","filenames":["/absent/libevents.rlib","{}"]}}"#, library.display());
    let script =
        format!("#!/bin/sh -e\necho \"$@\" >>words\necho '{artifact}'\necho '{{\"reason\":\"build-finished\"}}'\n");
    std::fs::write(place.path("cargo"), script).unwrap();
    std::fs::set_permissions(place.path("cargo"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir(place.path("events")).unwrap();
    let run = |words: &[&str]| said(place.command(words).env("CARGO", place.path("cargo")).output().unwrap());
    let made = run(&["bridge", "build", "events", "--release"]);
    let expected = format!("{}: lib.h, store.hpp, counter.hpp in events/include\n", library.display());
    assert_eq!((made.code, made.out), (0, expected), "{}", made.err);
    let words = std::fs::read_to_string(place.path("events/words")).unwrap();
    assert_eq!(words, "build --lib --message-format=json-render-diagnostics --release\n");
    let checked = run(&["bridge", "check", "events"]);
    assert_eq!((checked.code, &*checked.out), (0, "events/include: 3 headers are as the library\n"), "{}", checked.err);
    let path = place.path("events/include/counter.hpp");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("std::int64_t by", "std::int32_t by")).unwrap();
    let checked = run(&["bridge", "check", "events"]);
    assert!(checked.code == 1 && checked.err.contains("counter.hpp: line "), "{checked:?}");
    let library = library.to_str().unwrap();
    place.good(&["bridge", "build", "--library", library, "--headers", "other"]);
    place.good(&["bridge", "check", "--library", library, "--headers", "other"]);
    std::fs::remove_file(place.path("other/lib.h")).unwrap();
    place.bad(&["bridge", "check", "--library", library, "--headers", "other"], 1, &["lib.h: it is absent"]);
}

/// `check --program` reads a program by clang, and refuses it with file, line and advice.
#[test]
fn programs_are_checked_beside_their_headers() {
    if Command::new("clang++").arg("--version").output().is_err() {
        eprintln!("skipped: no `clang++`; ci/setup test installs it");
        return;
    }
    let place = Place::new();
    std::fs::write(place.path("events.c"), DESCRIBED).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(place.path("libevents.so")).arg(place.path("events.c"));
    assert!(compiler.status().expect("a C compiler").success());
    place.good(&["bridge", "build", "--library", "libevents.so", "--headers", "include"]);
    let check = ["bridge", "check", "--library", "libevents.so", "--headers", "include", "--program", "main.cpp"];
    let program = "#ifdef WRONG\nextern \"C\" void everbyte_bridge_events();\n#endif\nint main() {}\n";
    std::fs::write(place.path("main.cpp"), program).unwrap();
    let said = place.good(&check);
    assert_eq!(said, "include: 3 headers are as the library\nmain.cpp: nothing is refused\n");
    let wrong = [&check[..], &["--", "-DWRONG"]].concat();
    place.bad(&wrong, 1, &["main.cpp:2: [raw]", "call the methods of the generated headers"]);
    std::fs::write(place.path("main.cpp"), "int main() { return nothing; }\n").unwrap();
    place.bad(&check, 1, &["main.cpp: it does not compile", "nothing"]);
    place.bad(&[&check[..], &["--clang", "no-such-clang"]].concat(), 5, &["`no-such-clang` cannot be run"]);
}

#[test]
fn a_file_that_exports_no_types_is_refused() {
    let place = Place::new();
    std::fs::write(place.path("text.so"), "text").unwrap();
    place.bad(&["bridge", "build", "--library", "text.so"], 5, &["text.so"]);
    place.bad(&["bridge", "build", "--library", "absent.so"], 5, &["absent.so"]);
    std::fs::create_dir(place.path("empty")).unwrap();
    place.bad(&["bridge", "check", "empty"], 1, &["the crate does not compile"]);
}
