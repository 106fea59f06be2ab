//! Random programs whose options are drawn too, on stores of both kinds, against a `BTreeMap`: keys
//! with shared prefixes and of many lengths, values at the thresholds of the format, stores that
//! fill, ranges thinned out, openings in the middle, two threads. Seeds and long runs:
//! `everbyte_workload`.

use everbyte_hkv::raw::Raw as _;
use everbyte_hkv::{Direction, Kv, KvKind};
use everbyte_media::{Media, Options};
use everbyte_sim::swarm;
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::Keys;
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::ops::Bound;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Shared prefixes: about the eight bytes of a tree's slot, and far beyond.
const PREFIXES: &[usize] = &[0, 1, 7, 8, 9, 15, 16, 17, 64, 255, 256, 257, 1000];
/// Values: with the record's head about lines, the bound for writing past the cache (256), classes,
/// pages and clusters.
const VALUES: &[usize] =
    &[0, 1, 7, 8, 39, 40, 41, 200, 223, 224, 256, 1000, 4000, 4072, 4096, 8191, 8192, 65_536, 70_000];
const SPANS: &[u64] = &[1 << 20, 8 << 20, 64 << 20];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Insert,
    Update,
    Delete,
    /// Deletes most keys of a range.
    Thin,
    /// Lists ranges and prefixes.
    Walk,
    Close,
    /// Opens the present bytes of the memory.
    Crash,
    /// Two threads, each its own keys.
    Duel,
    /// A key or a value of many clusters.
    Large,
}
const ACTIONS: &[Action] = &[
    Action::Update,
    Action::Delete,
    Action::Thin,
    Action::Walk,
    Action::Close,
    Action::Crash,
    Action::Duel,
    Action::Large,
];

#[derive(Debug)]
struct Mix {
    kind: KvKind,
    span: u64,
    keys: Keys,
    values: Vec<usize>,
    actions: Vec<Action>,
    /// Percentage of plain insertions.
    insertions: u64,
    large: u64,
}

impl Mix {
    fn draw(random: &mut Random, soak: bool) -> Mix {
        Mix {
            kind: random.pick(&[KvKind::Hash, KvKind::Tree]),
            span: random.pick(SPANS),
            keys: Keys::draw(random, PREFIXES),
            values: random.some(VALUES),
            actions: random.some(ACTIONS),
            insertions: random.pick(&[20, 50, 80]),
            large: if soak && random.chance(10) { 16 << 20 } else { random.pick(&[300, 70_000, 1 << 20]) },
        }
    }

    fn value(&self, random: &mut Random) -> Vec<u8> {
        let len = if random.chance(30) { random.pick(&self.values) } else { random.below(100) as usize };
        vec![random.next() as u8; len]
    }
}

fn create(kind: KvKind, span: u64) -> (Store, Kv) {
    let store =
        Store::format(Media::anonymous(span * 4, &Options::default()).unwrap(), &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "swarm", kind, Some(span)).unwrap();
    (store, kv)
}

/// Changes a store and its model; without space it does nothing.
fn change(kv: &Kv, model: &mut Model, action: Action, key: Vec<u8>, value: Vec<u8>, story: &str) {
    let there = model.contains_key(&key);
    let (done, wanted) = match action {
        Action::Insert => (kv.insert(&key, &value), !there),
        Action::Update => (kv.update(&key, &value), there),
        _ => (kv.delete(&key), there),
    };
    match done {
        Ok(done) => {
            assert_eq!(done, wanted, "{story}: a key of {} bytes", key.len());
            match action {
                Action::Insert => drop(model.entry(key).or_insert(value)),
                Action::Update => drop(model.entry(key).and_modify(|old| *old = value)),
                _ => drop(model.remove(&key)),
            }
        }
        Err(error) => {
            let larger_than_all = error.to_string().contains("is larger than the span");
            assert!(error.is_full() || larger_than_all, "{story}: {error}");
        }
    }
}

fn assert_same(kv: &Kv, model: &Model, story: &str) {
    let mut found = Model::new();
    let mut last: Option<Vec<u8>> = None;
    kv.scan(|key, value| {
        let ordered = matches!(kv, Kv::Hash(_)) || last.as_deref().is_none_or(|last| last < key);
        assert!(ordered, "{story}: a scan is out of order");
        last = Some(key.to_vec());
        assert!(found.insert(key.to_vec(), value.to_vec()).is_none(), "{story}: {} bytes twice", key.len());
        true
    })
    .unwrap();
    assert!(found == *model, "{story}: a scan finds {} of {} keys, or other values", found.len(), model.len());
    for key in model.keys().step_by(7) {
        assert!(kv.get(key).unwrap().as_ref() == model.get(key), "{story}: get of {} bytes", key.len());
    }
    let findings = kv.check();
    assert!(findings.is_empty(), "{story}: {:#?}", &findings[..findings.len().min(3)]);
}

struct Run {
    mix: Mix,
    store: Store,
    kv: Kv,
    model: Model,
}

impl Run {
    fn step(&mut self, action: Action, random: &mut Random, story: &str) {
        match action {
            Action::Insert | Action::Update | Action::Delete => {
                let (key, value) = (self.mix.keys.any(random), self.mix.value(random));
                change(&self.kv, &mut self.model, action, key, value, story);
            }
            Action::Thin => {
                let (from, kept) = (self.mix.keys.any(random), random.pick(&[0, 10]));
                let count = random.pick(&[10, 100, 1000]);
                let gone: Vec<_> = self.model.range(from..).map(|(key, _)| key.clone()).take(count).collect();
                for key in gone {
                    if !random.chance(kept) {
                        change(&self.kv, &mut self.model, Action::Delete, key, Vec::new(), story);
                    }
                }
            }
            Action::Walk => self.walk(random, story),
            Action::Close | Action::Crash => {
                if action == Action::Crash {
                    let backed = self.kv.object().backed();
                    self.store =
                        Store::attach(swarm::copy(self.store.media(), backed.get(), self.mix.span * 4)).unwrap();
                }
                // The old one is closed before the object is opened again.
                self.kv = create(self.mix.kind, 1 << 20).1;
                self.kv = Kv::open(self.store.object("swarm").unwrap()).unwrap();
                assert_same(&self.kv, &self.model, &format!("{story}: opened again"));
            }
            Action::Duel => self.duel(random, story),
            Action::Large => {
                let number = random.below(4);
                let large = self.mix.large - number;
                let (key, value) = match random.chance(50) {
                    true => (vec![number as u8; large as usize], vec![1; 10]),
                    false => (self.mix.keys.key(number), vec![2; random.below(2 * large) as usize]),
                };
                let action = random.pick(&[Action::Insert, Action::Update, Action::Delete]);
                change(&self.kv, &mut self.model, action, key, value, story);
            }
        }
    }

    fn walk(&self, random: &mut Random, story: &str) {
        let Kv::Tree(tree) = &self.kv else { return };
        let (one, two) = (self.mix.keys.any(random), self.mix.keys.any(random));
        let (from, to) = if one <= two { (one, two) } else { (two, one) };
        let most = random.pick(&[1, 30, usize::MAX]);
        let wanted = |keys: &mut dyn Iterator<Item = &Vec<u8>>| keys.take(most).cloned().collect::<Vec<_>>();
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        for way in [Direction::Forward, Direction::Backward] {
            let mut found = Vec::new();
            let each = |key: &[u8], _: &[u8]| {
                found.push(key.to_vec());
                found.len() < most
            };
            tree.range(range, way, each).unwrap();
            let mut keys = self.model.range::<[u8], _>(range).map(|(key, _)| key);
            let expected = match way {
                Direction::Forward => wanted(&mut keys),
                Direction::Backward => wanted(&mut keys.rev()),
            };
            assert!(found == expected, "{story}: a range has {} keys instead of {}", found.len(), expected.len());
        }
        let prefix = &from[..random.below(from.len() as u64 + 1) as usize];
        let mut found = 0;
        let each = |key: &[u8], _: &[u8]| {
            found += usize::from(key.starts_with(prefix));
            true
        };
        tree.prefix(prefix, Direction::Forward, each).unwrap();
        assert_eq!(found, self.model.keys().filter(|key| key.starts_with(prefix)).count(), "{story}: a prefix");
    }

    fn duel(&mut self, random: &mut Random, story: &str) {
        let half = |key: &[u8]| key.iter().fold(0_u8, |sum, &byte| sum.rotate_left(1) ^ byte) & 1;
        let seeds = [random.next(), random.next()];
        let (mix, kv, model) = (&self.mix, &self.kv, &self.model);
        let write = |which: u8| {
            let random = &mut Random::new(seeds[usize::from(which)]);
            let mut mine: Model =
                model.iter().filter(|(key, _)| half(key) == which).map(|(k, v)| (k.clone(), v.clone())).collect();
            for _ in 0..40 {
                let (key, value) = (mix.keys.any(random), mix.value(random));
                if half(&key) == which {
                    let action = random.pick(&[Action::Insert, Action::Insert, Action::Update, Action::Delete]);
                    change(kv, &mut mine, action, key, value, story);
                }
            }
            mine
        };
        self.model = std::thread::scope(|scope| {
            let other = scope.spawn(|| write(1));
            let mut all = write(0);
            all.extend(other.join().unwrap());
            all
        });
    }
}

fn run(random: &mut Random, soak: bool) {
    let mix = Mix::draw(random, soak);
    let steps = if soak { 3000 } else { 800 };
    let story = format!("{mix:?}");
    let (store, kv) = create(mix.kind, mix.span);
    let mut run = Run { mix, store, kv, model: Model::new() };
    for step in 0..steps {
        let action = if random.chance(run.mix.insertions) { Action::Insert } else { random.pick(&run.mix.actions) };
        // Some operations cost as much as many others.
        let share = match action {
            Action::Insert | Action::Update | Action::Delete => 100,
            Action::Thin | Action::Walk | Action::Large => 20,
            Action::Close | Action::Crash | Action::Duel => 4,
        };
        if !random.chance(share) {
            continue;
        }
        let story = format!("{story} step {step} {action:?}");
        run.step(action, random, &story);
        let key = run.mix.keys.any(random);
        assert!(run.kv.get(&key).unwrap().as_ref() == run.model.get(&key), "{story}: get of {} bytes", key.len());
        if step % (steps / 3) == steps / 3 - 1 {
            assert_same(&run.kv, &run.model, &story);
        }
    }
    // Deletes all pairs, which gives all space back.
    for key in std::mem::take(&mut run.model).into_keys() {
        assert!(run.kv.delete(&key).unwrap(), "{story}");
    }
    assert_same(&run.kv, &run.model, &story);
}

#[test]
fn hkv_programs_with_options_of_their_own() {
    everbyte_workload::programs(20, run);
}
