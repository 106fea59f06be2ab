//! `everbyte bridge`: a new crate, and libraries that export nothing.

use crate::common::Place;

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

#[test]
fn a_file_that_exports_no_types_is_refused() {
    let place = Place::new();
    std::fs::write(place.path("text.so"), "text").unwrap();
    place.bad(&["bridge", "build", "--library", "text.so"], 5, &["text.so"]);
    place.bad(&["bridge", "build", "--library", "absent.so"], 5, &["absent.so"]);
    std::fs::create_dir(place.path("empty")).unwrap();
    place.bad(&["bridge", "check", "empty"], 1, &["the crate does not compile"]);
}
