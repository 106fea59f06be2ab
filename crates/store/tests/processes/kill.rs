//! Kill -9 on a real process that changes a store: on `file` each death is a crash, on `shm` memory
//! stays as it was in the middle of things.

use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CLUSTER, CreateOptions, Error, FindingKind, ObjectOptions, Store};
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Clusters and the word in the last of them, by name.
type Model = BTreeMap<String, (u64, u64)>;

/// The next change, decided by the model alone, so that the parent can follow the child.
enum Change {
    Create(String),
    Grow(String),
    Remove(String),
}

fn next(model: &Model, random: &mut Random) -> Change {
    let name = format!("object{}", random.below(8));
    match model.get(&name) {
        None => Change::Create(name),
        Some((clusters, _)) if *clusters < 7 && random.below(3) > 0 => Change::Grow(name),
        Some(_) => Change::Remove(name),
    }
}

fn apply(model: &mut Model, change: &Change) {
    match change {
        Change::Create(name) => drop(model.insert(name.clone(), (2, 2))),
        Change::Grow(name) => {
            let (clusters, word) = model.get_mut(name).unwrap();
            (*clusters, *word) = (*clusters + 1, *clusters + 1);
        }
        Change::Remove(name) => drop(model.remove(name)),
    }
}

fn put(object: &everbyte_store::Object, value: u64) {
    let media = object.media();
    let at = object.backed().get() - CLUSTER + 4096;
    let _section = media.section();
    media.store(at, value);
    media.flush(at, 8);
}

fn perform(store: &Store, change: &Change) -> Result<(), Error> {
    match change {
        Change::Create(name) => {
            let options = ObjectOptions { span: Some(8 * CLUSTER), ..ObjectOptions::default() };
            let init = |object: &everbyte_store::Object| object.grow(CLUSTER).map(|_| put(object, 2));
            store.create_object(name, options, init).map(drop)
        }
        Change::Grow(name) => {
            let object = store.object(name)?;
            object.grow(CLUSTER)?;
            put(&object, (object.backed() - object.prime()) / CLUSTER);
            Ok(store.media().barrier()?)
        }
        Change::Remove(name) => store.remove_object(name),
    }
}

fn read(store: &Store) -> Model {
    let read = |info: everbyte_store::ObjectInfo| {
        let object = store.object(&info.name).unwrap();
        let word = store.media().load(object.backed() - CLUSTER + 4096);
        (info.name, ((object.backed() - object.prime()) / CLUSTER, word))
    };
    store.objects().unwrap().into_iter().map(read).collect()
}

/// Run by `a_killed_process_loses_nothing_it_was_told` in a process of its own.
#[test]
fn changes_a_store_until_it_is_killed() {
    let Some(path) = std::env::var_os("EVERBYTE_TEST_KILL") else { return };
    let seed: u64 = std::env::var("EVERBYTE_TEST_SEED").unwrap().parse().unwrap();
    let shared = std::env::var("EVERBYTE_TEST_BACKEND").unwrap() == "Shm";
    let backend = if shared { BackendChoice::Shm } else { BackendChoice::File };
    let store = Store::open(Path::new(&path), &Options { backend, ..Options::default() }).unwrap();
    let mut model = read(&store);
    let mut random = Random::new(seed);
    let mut out = std::io::stdout().lock();
    for count in 1.. {
        let change = next(&model, &mut random);
        perform(&store, &change).unwrap();
        apply(&mut model, &change);
        writeln!(out, "acknowledged {count}").unwrap();
        if random.below(40) == 0 {
            store.trim().unwrap();
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_it_was_told() {
    for backend in [BackendChoice::File, BackendChoice::Shm] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.store");
        let media = Options { backend, log_bytes: 128 << 10, ..Options::default() };
        drop(
            Store::create(&path, &CreateOptions { media: media.clone(), max: 16 << 20, ..CreateOptions::default() })
                .unwrap(),
        );
        let mut model = Model::new();
        let mut total = 0;
        for seed in 0..20 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["kill::changes_a_store_until_it_is_killed", "--exact", "--nocapture"])
                .env("EVERBYTE_TEST_KILL", &path)
                .env("EVERBYTE_TEST_SEED", seed.to_string())
                .env("EVERBYTE_TEST_BACKEND", format!("{backend:?}"))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut told = lines.map_while(Result::ok).filter(|line| line.contains("acknowledged"));
            let mut acknowledged = told.by_ref().take(1 + seed as usize % 9).count();
            // somewhere inside a change
            std::thread::sleep(Duration::from_micros(seed * 131 % 1500));
            child.kill().unwrap();
            child.wait().unwrap();
            acknowledged += told.count(); // what it had still said
            total += acknowledged;

            let mut random = Random::new(seed);
            for _ in 0..acknowledged {
                let change = next(&model, &mut random);
                apply(&mut model, &change);
                random.below(40); // the child's dice
            }
            let store = Store::open(&path, &media).unwrap();
            // A kill between a growth of the file and its bit leaves room that `trim` gives back: a
            // note.
            let wrong = store.check().into_iter().find(|finding| finding.kind != FindingKind::Note);
            assert_eq!(wrong, None, "seed {seed}: {:?}", store.recovery());
            let found = read(&store);
            let acked = model.clone();
            let change = next(&model, &mut random);
            apply(&mut model, &change); // the pending one, which may be there
            // An ordered growth whose cluster's word was not stored yet is there, with zeros.
            let half = acked.iter().any(|(name, (clusters, _))| found.get(name) == Some(&(clusters + 1, 0)));
            assert!(found == acked || found == model || half, "seed {seed}: {found:?}, told {acked:?}");
            if half {
                let names: Vec<String> = acked.keys().filter(|name| found[*name] != acked[*name]).cloned().collect();
                assert_eq!(names.len(), 1, "seed {seed}: more than one in flight");
            }
            model = found;
        }
        assert!(total > 20, "{total} changes were acknowledged in all: the test saw nothing");
        println!("{backend:?}: {total} acknowledged changes over 20 kills");
    }
}

/// Several threads make, grow and remove objects of their own, and one gives room back all the
/// time.
#[test]
fn threads_with_objects_of_their_own_do_not_disturb_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.store");
    let media = Options { log_bytes: 1 << 20, ..Options::default() };
    let store =
        Store::create(&path, &CreateOptions { media: media.clone(), max: 64 << 20, ..CreateOptions::default() })
            .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = store.clone();
            scope.spawn(move || {
                for round in 1..12 {
                    let name = format!("thread{thread}");
                    let options = ObjectOptions { span: Some(8 * CLUSTER), ..ObjectOptions::default() };
                    let object = store.create_object(&name, options, |_| Ok::<(), Error>(())).unwrap();
                    for _ in 0..6 {
                        let range = object.grow(CLUSTER).unwrap();
                        assert_eq!(store.media().read_vec(range.start, 4096), [0; 4096]);
                        put(&object, range.start + round);
                    }
                    let third = object.prime() + 2 * CLUSTER..object.prime() + 3 * CLUSTER;
                    object.release(third.clone()).unwrap();
                    object.back(third.clone()).unwrap();
                    assert_eq!(store.media().load(third.start + 4096), 0);
                    for at in (object.prime().get() + 3 * CLUSTER..object.backed().get()).step_by(CLUSTER as usize) {
                        assert_eq!(store.media().load(at + 4096), at + round, "another thread wrote here");
                    }
                    drop(object);
                    if round < 11 {
                        store.remove_object(&name).unwrap();
                    }
                }
            });
        }
        let store = store.clone();
        scope.spawn(move || (0..10).for_each(|_| assert!(store.trim().is_ok())));
    });
    assert_eq!(store.check(), []);
    assert_eq!(store.objects().unwrap().len(), 4);
    store.close().unwrap();
    drop(store);
    let store = Store::open(&path, &media).unwrap();
    assert_eq!(store.check(), []);
    for thread in 0..4 {
        let object = store.object(&format!("thread{thread}")).unwrap();
        for at in (object.prime().get() + 3 * CLUSTER..object.backed().get()).step_by(CLUSTER as usize) {
            assert_eq!(store.media().load(at + 4096), at + 11);
        }
    }
}
