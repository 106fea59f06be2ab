//! A hash store against a `HashMap` that has the same done to it.

use everbyte_hkv::{Error, Hash};
use everbyte_media::{BackendChoice, Media, Options};
use everbyte_store::{CreateOptions, Engine, FormatOptions, ObjectOptions, Store};
use proptest::prelude::*;
use std::collections::HashMap;

fn memory(len: u64) -> Store {
    Store::format(Media::anonymous(len, &Options::default()).unwrap(), &FormatOptions::default()).unwrap()
}

fn contents(hash: &Hash) -> HashMap<Vec<u8>, Vec<u8>> {
    let mut found = HashMap::new();
    hash.scan(|key, value| {
        assert!(found.insert(key.to_vec(), value.to_vec()).is_none(), "{key:?} twice");
        true
    })
    .unwrap();
    found
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u16),
    Update(u16, u16),
    Delete(u16),
    Get(u16),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..400_u16;
    let step = prop_oneof![
        8 => (key.clone(), 0..900_u16).prop_map(|(key, len)| Step::Insert(key, len)),
        3 => (key.clone(), 0..900_u16).prop_map(|(key, len)| Step::Update(key, len)),
        4 => key.clone().prop_map(Step::Delete),
        3 => key.prop_map(Step::Get),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..600)
}

/// Keys of all lengths, the empty one among them.
fn key(number: u16) -> Vec<u8> {
    number.to_le_bytes().repeat(usize::from(number % 17))
}

fn value(number: u16, len: u16) -> Vec<u8> {
    (0..len).map(|at| (at ^ number) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_hash_store_is_its_twin(steps in steps()) {
        let store = memory(32 << 20);
        let mut hash = Hash::create(&store, "twin", Some(16 << 20)).unwrap();
        let mut twin = HashMap::new();
        for step in steps {
            match step {
                Step::Insert(number, len) => {
                    let new = !twin.contains_key(&key(number));
                    prop_assert_eq!(hash.insert(&key(number), &value(number, len)).unwrap(), new);
                    twin.entry(key(number)).or_insert_with(|| value(number, len));
                }
                Step::Update(number, len) => {
                    prop_assert_eq!(hash.update(&key(number), &value(number, len)).unwrap(), twin.contains_key(&key(number)));
                    twin.entry(key(number)).and_modify(|old| *old = value(number, len));
                }
                Step::Delete(number) => {
                    prop_assert_eq!(hash.delete(&key(number)).unwrap(), twin.remove(&key(number)).is_some());
                }
                Step::Get(number) => prop_assert_eq!(hash.get(&key(number)).unwrap(), twin.get(&key(number)).cloned()),
                Step::Reopen => {
                    drop(hash);
                    hash = Hash::open(store.object("twin").unwrap()).unwrap();
                }
            }
        }
        prop_assert_eq!(contents(&hash), twin);
        prop_assert_eq!(hash.check(), vec![]);
    }
}

/// Buckets split one by one, so chains stay short however many keys there are, and nothing is left when they are gone.
#[test]
fn a_hundred_thousand_keys_come_and_go() {
    let store = memory(256 << 20);
    let hash = Hash::create(&store, "many", Some(128 << 20)).unwrap();
    for key in 0..100_000_u32 {
        assert!(hash.insert(&key.to_le_bytes(), &(key ^ 7).to_le_bytes()).unwrap());
    }
    assert_eq!(hash.check(), vec![]);
    let longest = hash.longest_chain().unwrap();
    assert!(longest <= 4, "a chain of {longest} buckets");
    for key in 0..100_000_u32 {
        assert_eq!(hash.get(&key.to_le_bytes()).unwrap().unwrap(), (key ^ 7).to_le_bytes());
        assert!(hash.delete(&key.to_le_bytes()).unwrap());
    }
    assert_eq!((contents(&hash).len(), hash.check()), (0, vec![]));
}

/// An insertion notes one word, which is a line of the lane; another noted word would be another line. Ten lines are the
/// record's; the others those of lane, bitmap and slot. Exactly.
#[test]
fn an_insertion_notes_one_word() {
    let store = memory(32 << 20);
    let hash = Hash::create(&store, "counted", Some(16 << 20)).unwrap();
    assert!(hash.insert(b"the first of all", &[7; 512]).unwrap()); // takes a run of blocks into use
    let before = store.media().counts();
    assert!(hash.insert(b"a key of 16 byte", &[7; 512]).unwrap());
    let used = store.media().counts() - before;
    assert_eq!((used.fences, used.lines), EXPECTED, "fences, lines");
}
const EXPECTED: (u64, u64) = (5, 16);

#[test]
fn threads_see_whole_pairs() {
    let store = memory(64 << 20);
    let hash = Hash::create(&store, "shared", Some(32 << 20)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let hash = &hash;
            scope.spawn(move || {
                for round in 0..2000_u32 {
                    let key = (round % 50).to_le_bytes();
                    let value = vec![(round ^ thread) as u8; 100];
                    match round % 4 {
                        0 => drop(hash.insert(&key, &value).unwrap()),
                        1 => drop(hash.update(&key, &value).unwrap()),
                        2 => drop(hash.delete(&key).unwrap()),
                        _ => {
                            let found = hash.get(&key).unwrap().unwrap_or_default();
                            assert!(found.iter().all(|byte| *byte == found[0]), "torn");
                        }
                    }
                }
            });
        }
    });
    assert_eq!(hash.check(), vec![]);
}

#[test]
fn a_full_store_refuses_and_keeps_what_it_has() {
    let store = memory(32 << 20);
    let hash = Hash::create(&store, "small", Some(1 << 20)).unwrap();
    let mut count = 0_u32;
    let refused = loop {
        match hash.insert(&count.to_le_bytes(), &[1; 1000]) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&refused, Error::Tx(everbyte_tx::Error::Heap(error)) if error.is_full()), "{refused}");
    assert_eq!((contents(&hash).len() as u32, hash.check()), (count, vec![]));
    assert!(hash.delete(&3_u32.to_le_bytes()).unwrap() && hash.insert(b"again", &[1; 1000]).unwrap());
}

#[test]
fn another_kind_of_object_and_one_that_is_open_are_refused() {
    let store = memory(32 << 20);
    let options = ObjectOptions { engine: Engine::None, fingerprint: 0, span: Some(1 << 20) };
    let other = store.create_object("other", options, |_| Ok::<(), everbyte_store::Error>(())).unwrap();
    assert!(matches!(Hash::open(other), Err(Error::Store(everbyte_store::Error::WrongEngine { .. }))));
    let hash = Hash::create(&store, "open", Some(1 << 20)).unwrap();
    let again = Hash::open(store.object("open").unwrap());
    assert!(matches!(again, Err(Error::Store(everbyte_store::Error::Claimed { .. }))));
    drop(hash);
    Hash::open(store.object("open").unwrap()).unwrap();
}

#[test]
fn what_was_settled_is_there_after_a_process_ended_without_closing() {
    let dir = tempfile::tempdir().unwrap();
    for backend in [BackendChoice::File, BackendChoice::Shm] {
        let path = dir.path().join(format!("{backend:?}"));
        let media = Options { backend, log_bytes: 1 << 20, ..Options::default() };
        let create = CreateOptions { media: media.clone(), max: 1 << 30, ..CreateOptions::default() };
        let store = Store::create(&path, &create).unwrap();
        let hash = Hash::create(&store, "kept", Some(16 << 20)).unwrap();
        for key in 0..500_u32 {
            assert!(hash.insert(&key.to_le_bytes(), b"value").unwrap());
        }
        drop(hash);
        let media_of_store = store.media().clone();
        drop(store);
        media_of_store.abandon();
        let store = Store::open(&path, &media).unwrap();
        let hash = Hash::open(store.object("kept").unwrap()).unwrap();
        assert_eq!((contents(&hash).len(), hash.check()), (500, vec![]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever a word of the store becomes, nothing panics and nothing runs for ever.
    #[test]
    fn damage_is_an_error_and_never_a_panic(at in 0u64..4096, word in prop_oneof![any::<u64>(), Just(0), 0u64..1 << 25]) {
        let store = memory(32 << 20);
        let hash = Hash::create(&store, "hurt", Some(1 << 20)).unwrap();
        for key in 0..200_u32 {
            hash.insert(&key.to_le_bytes(), &[3; 40]).unwrap();
        }
        // Anywhere behind the lanes, where its blocks are.
        let object = hash.object().clone();
        let at = object.prime() + (128 << 10) + at * 64;
        drop(hash);
        if object.is_backed(at) {
            store.media().store(at, word);
        }
        if let Ok(hash) = Hash::open(object) {
            let _ = hash.check();
            for key in 0..200_u32 {
                let _ = hash.get(&key.to_le_bytes());
            }
            let _ = hash.insert(b"new", b"one");
            let _ = hash.delete(&7_u32.to_le_bytes());
        }
    }
}
