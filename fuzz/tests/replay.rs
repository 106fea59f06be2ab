//! The corpora, replayed in the ordinary tests, and a short search from each with a fixed seed.

#![forbid(unsafe_code)]

use everbyte_fuzz::mutate::mutate;
use everbyte_fuzz::{TARGETS, inputs};
use everbyte_workload::Random;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// FUZZ-1 on everything that was ever worth keeping.
#[test]
fn corpora_neither_panic_nor_hang() {
    for target in TARGETS {
        let kept = inputs(target);
        let classes: BTreeSet<String> = kept.iter().map(|input| (target.run)(input)).collect();
        println!("{}: {} inputs, {} classes", target.name, kept.len(), classes.len());
    }
}

/// FUZZ-1 on a few thousand new inputs.
#[test]
fn a_short_search_finds_nothing() {
    for target in TARGETS {
        let pool: Vec<Vec<u8>> = inputs(target).into_iter().chain((target.seeds)()).collect();
        let mut random = Random::new(0x5eed);
        let start = Instant::now();
        let mut runs = 0;
        while runs < 2000 && start.elapsed() < Duration::from_secs(5) {
            let (one, other) = (random.index(pool.len()), random.index(pool.len()));
            let input = mutate(&mut random, &pool[one], &pool[other]);
            let run = std::panic::catch_unwind(|| (target.run)(&input));
            assert!(run.is_ok(), "{}: panicked on {input:02x?}", target.name);
            runs += 1;
        }
        println!("{}: {runs} inputs", target.name);
    }
}
