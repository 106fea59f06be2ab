//! Random programs whose options are drawn too: each run has its own shapes of keys and values and
//! its own mix of operations, and is compared with a `BTreeMap` all along. Seeds and long runs:
//! `everbyte_workload`.

use everbyte_kv::{Kv, Snapshot};
use everbyte_media::{Media, Options};
use everbyte_sim::swarm;
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::Keys;
use everbyte_workload::Random;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Steps of one program.
const STEPS: usize = 600;

/// Shared prefixes: about the room of a node's header (24), of what a long key repeats in its node
/// (32), of an inline key (256), and far beyond.
const PREFIXES: &[usize] = &[0, 1, 7, 8, 16, 23, 24, 25, 31, 32, 33, 64, 240, 255, 256, 257, 300, 700, 1000];
/// Values at the thresholds of words, of what lies inline (512), and of the heap's classes and
/// pages.
const VALUES: &[usize] =
    &[0, 1, 7, 8, 9, 63, 64, 65, 120, 200, 504, 511, 512, 513, 520, 1024, 4095, 4096, 4097, 8192, 16_384, 40_000];
/// Operations of a step; a run leaves most of them out.
const ACTIONS: &[Action] = &[
    Action::Delete,
    Action::Thin,
    Action::Batch,
    Action::Abort,
    Action::Clear,
    Action::Snapshot,
    Action::Forget,
    Action::Close,
    Action::Crash,
    Action::Duel,
    Action::Large,
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Put,
    Delete,
    /// Deletes most keys of a range, so that leaves thin out and empty.
    Thin,
    Batch,
    Abort,
    Clear,
    Snapshot,
    /// Drops a snapshot that was held across commits.
    Forget,
    /// Closes the table, snapshots first, and opens it again.
    Close,
    /// Opens what the memory holds at this instant, snapshots and all, as after the death of the
    /// process.
    Crash,
    /// Two threads write at once, each its own keys.
    Duel,
    /// A value or a key of its own zone.
    Large,
}

/// How one program behaves.
#[derive(Debug)]
struct Mix {
    keys: Keys,
    values: Vec<usize>,
    ascending: bool,
    actions: Vec<Action>,
    /// Percentage of plain puts.
    puts: u64,
    /// Longest key and value of [`Action::Large`].
    large: (u64, u64),
    max: u64,
}

impl Mix {
    fn draw(random: &mut Random, soak: bool) -> Mix {
        let huge = soak && random.chance(5);
        Mix {
            keys: Keys::draw(random, PREFIXES),
            values: random.some(VALUES),
            ascending: random.chance(15),
            actions: random.some(ACTIONS),
            puts: random.pick(&[20, 50, 80]),
            large: if huge { (16 << 20, 48 << 20) } else { (random.pick(&[300, 70_000, 1 << 20]), 3 << 20) },
            max: if huge { 2 << 30 } else { 1 << 30 },
        }
    }

    fn any_key(&self, random: &mut Random, step: usize) -> Vec<u8> {
        if self.ascending && random.chance(80) { self.keys.key(step as u64) } else { self.keys.any(random) }
    }

    fn value(&self, random: &mut Random) -> Vec<u8> {
        let len = if random.chance(30) { random.pick(&self.values) } else { random.below(100) as usize };
        vec![random.next() as u8; len]
    }
}

fn assert_same(snapshot: &Snapshot, model: &Model, random: &mut Random, story: &str) {
    assert_eq!(snapshot.len(), model.len() as u64, "{story}: len");
    let all: Model = snapshot.range::<[u8]>(..).map(Result::unwrap).collect();
    assert!(all == *model, "{story}: a forward walk finds {} of {} keys", all.len(), model.len());
    let back: Vec<_> = snapshot.range::<[u8]>(..).rev().map(Result::unwrap).collect();
    assert!(back.iter().rev().map(|(key, _)| key).eq(model.keys()), "{story}: a backward walk differs");
    let skip = 1 + random.below(7) as usize;
    for (key, value) in model.iter().step_by(skip) {
        assert!(snapshot.get(key).unwrap().as_ref() == Some(value), "{story}: get of {} bytes", key.len());
        let from: Vec<_> = snapshot.range(key.as_slice()..).take(2).map(|entry| entry.unwrap().0).collect();
        assert!(from.iter().eq(model.range(key.clone()..).take(2).map(|(key, _)| key)), "{story}: a range differs");
    }
}

fn assert_sound(kv: &Kv, story: &str) {
    let findings = kv.check();
    assert!(findings.is_empty(), "{story}: {:#?}", &findings[..findings.len().min(3)]);
}

struct Run {
    mix: Mix,
    store: Store,
    kv: Kv,
    model: Model,
    old: Vec<(Snapshot, Model)>,
}

impl Run {
    fn new(mix: Mix) -> Run {
        let media = Media::anonymous(mix.max, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let kv = Kv::create(&store, "swarm").unwrap();
        Run { mix, store, kv, model: Model::new(), old: Vec::new() }
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.kv.put(&key, &value).unwrap();
        self.model.insert(key, value);
    }

    fn step(&mut self, action: Action, random: &mut Random, step: usize, story: &str) {
        match action {
            Action::Put => {
                let (key, value) = (self.mix.any_key(random, step), self.mix.value(random));
                self.put(key, value);
            }
            Action::Delete => {
                let key = match self.mix.ascending {
                    true => self.model.keys().next().cloned().unwrap_or_default(),
                    false => self.mix.any_key(random, step),
                };
                assert_eq!(self.kv.delete(&key).unwrap(), self.model.remove(&key).is_some(), "{story}");
            }
            Action::Thin => {
                let from = self.mix.any_key(random, step);
                let count = random.pick(&[10, 100]);
                let gone: Vec<_> = self.model.range(from..).map(|(key, _)| key.clone()).take(count).collect();
                let kept = random.pick(&[0, 10]);
                for key in gone.iter().filter(|_| !random.chance(kept)) {
                    assert!(self.kv.delete(key).unwrap(), "{story}");
                    self.model.remove(key);
                }
            }
            Action::Batch | Action::Abort | Action::Clear => self.batch(action, random, step, story),
            Action::Snapshot => {
                if self.old.len() > 3 {
                    self.old.remove(random.below(3) as usize);
                }
                self.old.push((self.kv.snapshot(), self.model.clone()));
            }
            Action::Forget => {
                if !self.old.is_empty() {
                    let (snapshot, model) = self.old.remove(random.below(self.old.len() as u64) as usize);
                    assert_same(&snapshot, &model, random, &format!("{story}: old version"));
                }
            }
            Action::Close | Action::Crash => self.reopen(action == Action::Crash, story),
            Action::Duel => self.duel(random, step),
            Action::Large => {
                let (key, value) = self.mix.large;
                let number = random.below(4);
                match random.chance(50) {
                    true => self.put(vec![number as u8; key as usize - number as usize], vec![1; 10]),
                    false => self.put(self.mix.keys.key(number), vec![2; random.below(value) as usize]),
                }
            }
        }
    }

    fn batch(&mut self, action: Action, random: &mut Random, step: usize, story: &str) {
        let mut batch = self.kv.batch();
        let mut twin = self.model.clone();
        if action == Action::Clear && random.chance(30) {
            batch.clear().unwrap();
            twin.clear();
        }
        let (mix, most) = (&self.mix, random.pick(&[1, 5, 150]));
        for _ in 0..random.below(most) + 1 {
            let key = mix.any_key(random, step);
            match random.below(10) {
                0..6 => {
                    let value = mix.value(random);
                    assert_eq!(batch.put(&key, &value).unwrap(), twin.insert(key, value).is_some(), "{story}");
                }
                6..9 => assert_eq!(batch.delete(&key).unwrap(), twin.remove(&key).is_some(), "{story}"),
                _ => assert_eq!(batch.get(&key).unwrap(), twin.get(&key).cloned(), "{story}"),
            }
        }
        assert_eq!(batch.len(), twin.len() as u64, "{story}");
        if action == Action::Abort {
            batch.abort();
        } else {
            let commit = batch.commit().unwrap();
            self.kv.settle(commit).unwrap();
            self.model = twin;
        }
    }

    fn reopen(&mut self, crash: bool, story: &str) {
        if crash {
            let backed = self.store.object("swarm").unwrap().backed();
            let media = swarm::copy(self.store.media(), backed.get(), self.mix.max);
            self.store = Store::attach(media).unwrap();
        }
        self.old.clear();
        // The old table is closed before the new one is opened, but where it crashed its copy was
        // taken before.
        let parked = Store::format(Media::anonymous(1 << 24, &Options::default()).unwrap(), &FormatOptions::default());
        self.kv = Kv::create(&parked.unwrap(), "parked").unwrap();
        self.kv = Kv::open(&self.store, "swarm").unwrap();
        if crash {
            assert_sound(&self.kv, &format!("{story}: reopened"));
        }
    }

    /// Two threads write at once, each the keys of its own half.
    fn duel(&mut self, random: &mut Random, step: usize) {
        let half = |key: &[u8]| key.iter().fold(0_u8, |sum, &byte| sum.rotate_left(1) ^ byte) & 1;
        let seeds = [random.next(), random.next()];
        let (mix, kv) = (&self.mix, &self.kv);
        let write = |which: u8| {
            let (random, mut done) = (&mut Random::new(seeds[usize::from(which)]), Vec::new());
            for _ in 0..30 {
                let key = mix.any_key(random, step);
                if half(&key) != which {
                    continue;
                }
                if random.chance(25) {
                    kv.delete(&key).unwrap();
                    done.push((key, None));
                } else {
                    let value = mix.value(random);
                    kv.put(&key, &value).unwrap();
                    done.push((key, Some(value)));
                }
            }
            done
        };
        let done = std::thread::scope(|scope| {
            let other = scope.spawn(|| write(1));
            [write(0), other.join().unwrap()].concat()
        });
        for (key, value) in done {
            match value {
                Some(value) => self.model.insert(key, value),
                None => self.model.remove(&key),
            };
        }
    }
}

fn run(random: &mut Random, soak: bool) {
    let steps = STEPS;
    let mix = Mix::draw(random, soak);
    let story = format!("{mix:?}");
    let mut run = Run::new(mix);
    for step in 0..steps {
        let action = match random.chance(run.mix.puts) {
            true => Action::Put,
            false => random.pick(&run.mix.actions),
        };
        // Some cost as much as many others.
        let share = match action {
            Action::Put | Action::Delete | Action::Forget => 100,
            Action::Thin | Action::Batch | Action::Abort | Action::Snapshot => 30,
            _ => 5,
        };
        if !random.chance(share) {
            continue;
        }
        let story = format!("{story} step {step} {action:?}");
        run.step(action, random, step, &story);
        let key = run.mix.any_key(random, step);
        assert!(run.kv.get(&key).unwrap().as_ref() == run.model.get(&key), "{story}: get of {} bytes", key.len());
        if step % (steps / 3) == steps / 3 - 1 {
            assert_same(&run.kv.snapshot(), &run.model, random, &story);
            assert_sound(&run.kv, &story);
        }
    }
    for (snapshot, model) in run.old.drain(..) {
        assert_same(&snapshot, &model, random, &format!("{story}: old version"));
    }
    // Held-back frees are worked off.
    (0..40_u8).for_each(|_| run.kv.put(b"tick", b"").unwrap());
    run.model.insert(b"tick".to_vec(), Vec::new());
    assert_same(&run.kv.snapshot(), &run.model, random, &story);
    assert_sound(&run.kv, &story);
}

#[test]
fn programs_with_options_of_their_own() {
    everbyte_workload::programs(10, run);
}

/// Separators longer than an inline key lie in blocks of their own, which are freed with the
/// entries that die: a search that compared such an entry all the same went astray, and
/// acknowledged keys vanished.
#[test]
fn keys_that_share_300_bytes_stay_where_searches_find_them() {
    let random = &mut Random::new(12345);
    let media = Media::anonymous(1 << 30, &Options::default()).unwrap();
    let kv = Kv::create(&Store::format(media, &FormatOptions::default()).unwrap(), "t").unwrap();
    let key = |number: u64| [&[b'a'; 300][..], format!("{number:08}").as_bytes()].concat();
    let mut model = Model::new();
    for step in 0..6000_u64 {
        let some = key(random.below(20_000));
        if random.chance(25) {
            assert_eq!(kv.delete(&some).unwrap(), model.remove(&some).is_some(), "step {step}");
        } else {
            let value = vec![step as u8; random.below(100) as usize];
            kv.put(&some, &value).unwrap();
            model.insert(some, value);
        }
        let some = key(random.below(20_000));
        assert_eq!(kv.get(&some).unwrap(), model.get(&some).cloned(), "step {step}");
    }
    assert_same(&kv.snapshot(), &model, random, "the end");
    assert_sound(&kv, "the end");
}
