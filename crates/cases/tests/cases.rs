//! Every case passes.

mod halves;

use everbyte_cases::{Settings, cases, find};

#[test]
fn every_case_passes() {
    halves::in_halves("every_case_passes", cases(), |half| {
        for case in half {
            let report = case.explore_sample();
            println!("{report}");
            assert!(report.passed(), "{report}");
            assert!(report.profiles.iter().all(|profile| profile.points > 0 && profile.images > 1), "{report}");
        }
    });
}

#[test]
fn names_are_unique_and_say_their_crate() {
    let mut names: Vec<_> = cases().iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1]));
    cases().iter().for_each(|case| assert!(case.name.starts_with(&format!("{}-", case.crate_name)), "{}", case.name));
    assert!(find("no such case").is_none());
}

#[test]
fn unknown_profiles_are_named() {
    let settings = Settings { profiles: Some(vec!["pmem".into(), "pram".into()]), ..Settings::default() };
    assert!(settings.validate().unwrap_err().contains("`pram`"));
}
