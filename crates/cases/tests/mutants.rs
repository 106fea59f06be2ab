//! A few of the call sites of `mutants.txt`, others each day: the case that found each still
//! does. The whole list is the business of `cargo xtask mutants`.

use everbyte_cases::mutants::{Name, Size, Verdict, control_passes, is_reason, read_list, visit};
use std::time::{SystemTime, UNIX_EPOCH};

const SAMPLE: usize = 5;

/// The day, or the number in `EVERBYTE_SEED`.
fn seed() -> u64 {
    let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    everbyte_workload::seed(day, "-p everbyte-cases --test mutants")
}

#[test]
fn a_sample_of_fences_and_flushes_is_still_necessary() {
    let (list, seed) = (read_list().unwrap(), seed());
    let found = list.iter().filter_map(|(name, verdict)| match verdict {
        Verdict::Found(case) => Some((name.clone(), case.clone())),
        _ => None,
    });
    let found: Vec<(Name, String)> = found.collect();
    let step = found.len().div_ceil(SAMPLE).max(1);
    for (name, case) in found.into_iter().skip(seed as usize % step).step_by(step) {
        let site = name.site().expect("each line of the list is there");
        let names = std::slice::from_ref(&case);
        let found = Size::ALL.into_iter().find_map(|(_, size)| visit(&site, names, size, &mut |_, _| {}));
        let (case, total) = found.unwrap_or_else(|| panic!("{name}: {case} no longer misses it"));
        assert!(control_passes(case, total), "{name}: {case} fails with it, too");
    }
}

/// A line of the list whose call has gone, or has another text, says nothing any more.
#[test]
fn every_listed_site_is_in_the_source() {
    let list = read_list().unwrap();
    let gone: Vec<String> = list.keys().filter(|name| name.site().is_none()).map(Name::to_string).collect();
    assert!(gone.is_empty(), "correct these lines, or drop them by `cargo xtask mutants`: {gone:#?}");
}

/// `OPEN` is no reason. Sites that no run has left out yet, and sites that no case reaches, are
/// counted and printed: the list claims nothing of them.
#[test]
fn every_visited_survivor_has_a_reason() {
    let list = read_list().unwrap();
    let count = |wanted: Verdict| list.values().filter(|verdict| **verdict == wanted).count();
    let (unvisited, unreached) = (count(Verdict::NotVisited), count(Verdict::NotReached));
    println!("{} sites: {unvisited} not yet visited, {unreached} that no case reaches", list.len());
    let silent: Vec<String> = list
        .iter()
        .filter(|(_, verdict)| matches!(verdict, Verdict::Survives(reason) if !is_reason(reason)))
        .map(|(name, _)| name.to_string())
        .collect();
    assert!(silent.is_empty(), "no reason: {silent:#?}");
    assert!(!is_reason("") && !is_reason("OPEN: not looked at yet") && is_reason("finds rot"));
}
