//! The explorer finds every seeded bug; if it stops finding one, this test says which.

use everbyte_cases::museum::{EXHIBITS, run};

#[test]
fn every_seeded_bug_is_found() {
    let outcomes = run();
    for outcome in &outcomes {
        println!("{:28} {}\n{}\n", outcome.name, outcome.story, outcome.report);
    }
    let missed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.found).map(|outcome| outcome.name).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn the_museum_covers_the_classes_of_bug() {
    assert!(EXHIBITS.len() >= 12);
    let rooms: std::collections::BTreeSet<_> = EXHIBITS.iter().map(|exhibit| exhibit.room).collect();
    assert!(["media", "log", "store"].iter().all(|room| rooms.contains(room)), "{rooms:?}");
}
