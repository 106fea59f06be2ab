//! Power cuts of the `file` backend: at every point of its life, every kind of image, recovered and
//! compared with the rule; then recovery itself is cut. `traps` holds the shortest program for each
//! sentence of the contract, and proves that the explorer finds the sentence's violation.

mod chunks;
mod early;
mod formats;
mod growth;
mod interval;
mod model;
mod program;
mod rot;
mod traps;

use program::{Program, explore};

/// Random programs keep the rule after every power cut.
#[test]
fn random_programs_keep_the_rule() {
    let (mut images, mut exhausted, mut points) = (0, 0, 0);
    for seed in 1..=16 {
        let report = explore("random_programs_keep_the_rule", &Program::random(seed), seed)
            .unwrap_or_else(|failure| panic!("{failure}"));
        (images, exhausted, points) = (images + report.images, exhausted + report.exhausted, points + report.points);
    }
    println!("{points} points, {exhausted} of them exhausted, {images} images");
    assert!(images > 2500);
}
