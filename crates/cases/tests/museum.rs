//! The explorer finds every seeded bug; if it stops finding one, this test says which.

mod halves;

use everbyte_cases::find;
use everbyte_cases::museum::{canaries, exhibits};
use everbyte_media::museum::with;

#[test]
fn every_seeded_bug_is_found() {
    halves::in_halves("every_seeded_bug_is_found", exhibits(), |half| {
        let outcomes: Vec<_> = half.iter().map(|exhibit| exhibit.visit()).collect();
        for outcome in &outcomes {
            println!("{:28} {}\n{}\n", outcome.name, outcome.story, outcome.report);
        }
        let missed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.found).map(|outcome| outcome.name).collect();
        assert!(missed.is_empty(), "not found: {missed:?}");
    });
}

/// The first run leaves words behind that `check` does not mention with the bug on: a second crash,
/// of a second run, shows them.
#[test]
fn a_list_of_doubts_that_is_half_emptied_is_found_by_a_second_run_alone() {
    let exhibit = exhibits().into_iter().find(|exhibit| exhibit.name == "names-doubt-unseen").expect("it is shown");
    let failure = exhibit.visit().report.failure.expect("it is found");
    assert!(failure.image.contains("+g"), "{failure:?}");
}

/// One crash leaves the name on media, and recovery fences its removal; only the recovery of a
/// recovery that died rests on a removal that is in the caches alone.
#[test]
fn a_removal_that_a_recovery_left_in_the_caches_is_found_by_a_further_death_alone() {
    let exhibit = exhibits().into_iter().find(|exhibit| exhibit.name == "names-removal-unseen").expect("it is shown");
    let once = || find("store-names-second").expect("a case").explore_deaths((u64::MAX, 0), 60);
    let report = with(exhibit.name, once);
    assert!(report.passed(), "{report}");
    let failure = exhibit.visit().report.failure.expect("it is found");
    let crashes: Vec<&str> = failure.image.split('+').collect();
    assert!(crashes.len() == 3 && crashes[1].ends_with('d'), "{failure:?}");
}

/// A right program passes and a wrong one fails, under every profile.
#[test]
fn canaries_are_told_apart() {
    let canaries = canaries();
    assert_eq!(canaries.len(), 5);
    canaries.iter().for_each(|canary| assert!(canary.right_passes && canary.wrong_fails, "{canary:?}"));
}

#[test]
fn the_museum_covers_the_classes_of_bug() {
    assert!(exhibits().len() >= 12);
    let crates: std::collections::BTreeSet<_> = exhibits().iter().map(|exhibit| exhibit.crate_name).collect();
    assert!(
        ["media", "log", "space", "store", "heap", "tx", "kv"].iter().all(|name| crates.contains(name)),
        "{crates:?}"
    );
}
