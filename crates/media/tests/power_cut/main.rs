//! Power cuts of the `file` backend: at every point of its life, every kind of image, recovered and compared with the
//! rule; then recovery itself is cut. And the museum: each seeded bug is found by the same exploration.

mod model;
mod program;
mod traps;

use everbyte_media::museum;
use program::{Program, explore};

/// Random programs keep the rule whatever the power cut leaves behind.
#[test]
fn random_programs_keep_the_rule() {
    let (mut images, mut exhausted, mut points) = (0, 0, 0);
    for seed in 1..=12 {
        let report = explore("random_programs_keep_the_rule", &Program::random(seed), seed)
            .unwrap_or_else(|failure| panic!("{failure}"));
        (images, exhausted, points) = (images + report.images, exhausted + report.exhausted, points + report.points);
    }
    println!("{points} points, {exhausted} of them exhausted, {images} images");
    assert!(images > 3000);
}

/// Each bug is one that the order of steps guards against; the exploration that passes without it must fail with it.
#[test]
fn the_museum_is_found() {
    for bug in [
        "media-page-before-log",
        "media-head-before-pages",
        "media-pages-unsynced",
        "media-barrier-unsynced",
        "media-replay-unsynced",
        "media-torn-record",
        "media-no-chain",
    ] {
        let found = (1..=40).find_map(|seed| {
            museum::with(bug, || {
                explore("the_museum_is_found", &Program::random(seed), seed).err().map(|failure| (seed, failure))
            })
        });
        let (seed, failure) = found.unwrap_or_else(|| panic!("{bug} was not found"));
        println!("{bug}: found with seed {seed}: {}", failure.detail);
    }
}
