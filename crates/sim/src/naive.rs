//! The rule once more, as plainly as it can be written, to hold the generator against: every image
//! of tiny recordings by enumeration of all versions of all words, at every event, filtered by the
//! law.

use crate::points::{Tear, walk};
use crate::recipes::Recipe;
use crate::tape::{Event, Recording, Settling};
use everbyte_workload::Random;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

const WORDS: [u64; 4] = [0, 8, 64, 72];

/// Values of [`WORDS`], and how many operations had been acknowledged.
type Judged = ([u64; 4], usize);

/// Event index and value of each store of a word; all recordings here store one word an event.
fn stores(recording: &Recording, word: u64) -> Vec<(usize, u64)> {
    let of = |(index, event): (usize, &Event)| match event {
        Event::Store { words, .. } => recording.words[words.clone()].iter().find(|w| w.0 == word).map(|w| (index, w.1)),
        _ => None,
    };
    recording.events.iter().enumerate().filter_map(of).collect()
}

/// For each fence: its event index, and the versions (number of stores) it makes a thread's flushes
/// demand.
fn demands(recording: &Recording) -> Vec<(usize, [usize; 4])> {
    let mut all = Vec::new();
    for (fence, event) in recording.events.iter().enumerate() {
        let Event::Fence { thread } = event else { continue };
        let mut versions = [0; 4];
        for (flush, event) in recording.events[..fence].iter().enumerate() {
            let Event::Flush { thread: by, at, len } = event else { continue };
            for (word, version) in WORDS.iter().zip(&mut versions) {
                if by == thread && (*at..at + len).contains(word) {
                    let before = stores(recording, *word).iter().filter(|store| store.0 < flush).count();
                    *version = before.max(*version);
                }
            }
        }
        all.push((fence, versions));
    }
    all
}

fn naive(recording: &Recording, settling: Settling, tear: Tear) -> BTreeSet<Judged> {
    let demands = demands(recording);
    let mut images = BTreeSet::new();
    for crash in 0..=recording.events.len() {
        let acked = recording.events[..crash].iter().filter(|event| matches!(event, Event::Acked(_))).count();
        let mark = recording.events[..crash].iter().filter_map(|event| match event {
            Event::Barrier { mark } => Some(*mark as usize),
            _ => None,
        });
        let settled_fences = match settling {
            Settling::Fence => demands.iter().filter(|(fence, _)| *fence < crash).count(),
            Settling::Barrier => mark.max().unwrap_or(0),
        };
        let versions: Vec<Vec<(usize, u64)>> = WORDS.iter().map(|&word| stores(recording, word)).collect();
        let made: Vec<usize> =
            versions.iter().map(|stores| stores.iter().filter(|store| store.0 < crash).count()).collect();
        let mut choice = [0; 4];
        loop {
            let settled =
                demands[..settled_fences].iter().all(|(_, least)| (0..4).all(|word| choice[word] >= least[word]));
            // The law: every surviving store drags along what the fences before it ordered.
            let lawful = (0..4).filter(|&word| choice[word] > 0).all(|word| {
                let store = versions[word][choice[word] - 1].0;
                let before = demands.iter().filter(|(fence, _)| *fence < store);
                before.into_iter().all(|(_, least)| (0..4).all(|other| choice[other] >= least[other]))
            });
            let torn_well = match tear {
                Tear::Words => true,
                Tear::Lines => [[0, 1], [2, 3]].into_iter().all(|line| prefix(&versions, &choice, &line, crash)),
                Tear::Stores => choice.iter().eq(made.iter()),
            };
            if (settled && lawful || tear == Tear::Stores) && torn_well {
                let value = |word: usize| if choice[word] == 0 { 0 } else { versions[word][choice[word] - 1].1 };
                images.insert(([value(0), value(1), value(2), value(3)], acked));
            }
            let Some(next) = (0..4).find(|&word| choice[word] < made[word]) else { break };
            choice[next] += 1;
            choice[..next].fill(0);
        }
    }
    images
}

/// Whether the choice for these words is what some prefix of their stores leaves.
fn prefix(versions: &[Vec<(usize, u64)>], choice: &[usize; 4], words: &[usize], crash: usize) -> bool {
    (0..=crash).any(|cut| {
        words.iter().all(|&word| versions[word].iter().filter(|store| store.0 < cut).count() == choice[word])
    })
}

fn generated(recording: &Recording, settling: Settling, tear: Tear) -> BTreeSet<Judged> {
    let mut images = BTreeSet::new();
    let mut settled: HashMap<u64, u64> = HashMap::new();
    let settle = |settled: &mut HashMap<u64, u64>, word, value| {
        settled.insert(word, value);
    };
    let read = |settled: &HashMap<u64, u64>, word: u64| settled.get(&word).copied().unwrap_or(0);
    let _ = walk::<_, ()>(recording, (settling, tear, false, 0), &mut settled, settle, read, |settled, point| {
        let count: usize = point.units.iter().map(|unit| unit.stores.len() + 1).product();
        for number in 0..count {
            let choice = Recipe::Nth(number as u64).choice(&point.units);
            let mut image = settled.clone();
            for (unit, &count) in point.units.iter().zip(&choice) {
                image.extend(unit.stores[..count as usize].iter().map(|store| (store.word, store.value)));
            }
            images.insert((WORDS.map(|word| read(&image, word)), point.acked));
        }
        ControlFlow::Continue(())
    });
    images
}

fn random_recording(seed: u64) -> (Recording, String) {
    let mut random = Random::new(seed);
    let (mut recording, mut text) = (Recording { len: 4096, ..Recording::default() }, String::new());
    let mut memory = BTreeMap::new();
    for index in 0..3 + random.below(9) {
        let thread = random.below(2) as u32;
        let word = WORDS[random.below(4) as usize];
        let event = match random.below(10) {
            0..4 => {
                let value = random.below(4);
                if memory.insert(word, value).unwrap_or(0) == value {
                    continue; // the tape leaves such stores out
                }
                recording.words.push((word, value));
                let words = recording.words.len() - 1..recording.words.len();
                Event::Store { thread, at: word, len: 8, words }
            }
            4 | 5 => Event::Flush { thread, at: word & !63, len: 64 },
            6 => Event::Flush { thread, at: word, len: 8 }, // as a non-temporal copy
            7 => {
                recording.fences += 1;
                Event::Fence { thread }
            }
            8 => Event::Barrier { mark: recording.fences - random.below(2).min(recording.fences) },
            _ => Event::Acked(index as usize),
        };
        text += &format!("{event:?}\n");
        recording.events.push(event);
    }
    (recording, text)
}

/// Every image the generator makes is permitted with exactly its promises, and every permitted
/// image is made with promises at least as strict.
#[test]
fn the_generator_makes_exactly_the_images_of_the_rule() {
    let mut images = 0;
    for seed in 0..6000 {
        let (recording, text) = random_recording(seed);
        let profiles = [
            (Settling::Fence, Tear::Words),
            (Settling::Barrier, Tear::Words),
            (Settling::Fence, Tear::Lines),
            (Settling::Barrier, Tear::Lines),
            (Settling::Fence, Tear::Stores),
        ];
        for (settling, tear) in profiles {
            let (ours, rule) = (generated(&recording, settling, tear), naive(&recording, settling, tear));
            images += ours.len();
            let too_many: Vec<_> = ours.difference(&rule).collect();
            assert!(too_many.is_empty(), "seed {seed}, {settling:?} {tear:?}: not permitted: {too_many:?}\n{text}");
            for (image, acked) in &rule {
                let found = ours.iter().any(|(other, promised)| other == image && promised >= acked);
                assert!(found, "seed {seed}, {settling:?} {tear:?}: missing {image:?} after {acked}\n{text}");
            }
        }
    }
    assert!(images > 50_000, "the recordings are too tame: {images} images");
}
