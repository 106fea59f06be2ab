//! Stores of both kinds against a `BTreeMap` with the same changes.

use everbyte_hkv::layout::{FORMAT, HASH_MAGIC, LOG_RECORD_AT, LOG_RECORD_STEP, RootHead, TREE_MAGIC};
use everbyte_hkv::raw::Raw as _;
use everbyte_hkv::{Direction, Error, Hash, Kv, KvKind, Tree};
use everbyte_media::{BackendChoice, Checked, Media, Options};
use everbyte_sim::Image;
use everbyte_store::{CreateOptions, Engine, FormatOptions, ObjectOptions, Store};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

const KINDS: [KvKind; 2] = [KvKind::Hash, KvKind::Tree];

fn memory(len: u64) -> Store {
    Store::format(Media::anonymous(len, &Options::default()).unwrap(), &FormatOptions::default()).unwrap()
}

fn contents(kv: &Kv) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    kv.scan(|key, value| {
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
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_store_is_its_twin(steps in steps(), kind in prop_oneof![Just(KvKind::Hash), Just(KvKind::Tree)]) {
        let store = memory(32 << 20);
        let mut kv = Kv::create(&store, "twin", kind, Some(16 << 20)).unwrap();
        let mut twin = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(number, len) => {
                    let new = !twin.contains_key(&key(number));
                    prop_assert_eq!(kv.insert(&key(number), &value(number, len)).unwrap(), new);
                    twin.entry(key(number)).or_insert_with(|| value(number, len));
                }
                Step::Update(number, len) => {
                    prop_assert_eq!(kv.update(&key(number), &value(number, len)).unwrap(), twin.contains_key(&key(number)));
                    twin.entry(key(number)).and_modify(|old| *old = value(number, len));
                }
                Step::Delete(number) => {
                    prop_assert_eq!(kv.delete(&key(number)).unwrap(), twin.remove(&key(number)).is_some());
                }
                Step::Get(number) => prop_assert_eq!(kv.get(&key(number)).unwrap(), twin.get(&key(number)).cloned()),
                Step::Reopen => {
                    drop(kv);
                    kv = Kv::open(store.object("twin").unwrap()).unwrap();
                }
            }
        }
        prop_assert_eq!(contents(&kv), twin);
        prop_assert_eq!(kv.check(), vec![]);
    }

    /// Ranges of a tree, forward and backward, are those of its twin; prefixes too.
    #[test]
    fn a_tree_goes_through_ranges_in_order(numbers in prop::collection::vec(0..400_u16, 0..300), from in bound(), to in bound()) {
        let store = memory(32 << 20);
        let tree = Tree::create(&store, "ordered", Some(16 << 20)).unwrap();
        let mut twin = BTreeMap::new();
        for number in numbers {
            let new = twin.insert(key(number), value(number, 5)).is_none();
            let put = if new { Tree::insert } else { Tree::update };
            prop_assert!(put(&tree, &key(number), &value(number, 5)).unwrap());
        }
        let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        let wanted: Vec<_> = twin.iter().filter(|(key, _)| {
            let after = match &from {
                Bound::Included(from) => *key >= from,
                Bound::Excluded(from) => *key > from,
                Bound::Unbounded => true,
            };
            after && match &to {
                Bound::Included(to) => *key <= to,
                Bound::Excluded(to) => *key < to,
                Bound::Unbounded => true,
            }
        }).map(|(key, value)| (key.clone(), value.clone())).collect();
        prop_assert_eq!(pairs(|each| tree.range(range, Direction::Forward, each)), wanted.clone());
        let mut backward = pairs(|each| tree.range(range, Direction::Backward, each));
        backward.reverse();
        prop_assert_eq!(backward, wanted);
        for prefix in [&b""[..], &[3], &[3, 0], &[255], &[255, 255]] {
            let wanted: Vec<_> = twin.clone().into_iter().filter(|(key, _)| key.starts_with(prefix)).collect();
            prop_assert_eq!(pairs(|each| tree.prefix(prefix, Direction::Forward, each)), wanted);
        }
    }
}

/// A bound that may be a key of the tree, or lie between two.
fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    let key = prop_oneof![(0..400_u16).prop_map(key), prop::collection::vec(any::<u8>(), 0..5)];
    prop_oneof![
        3 => key.clone().prop_map(Bound::Included),
        3 => key.prop_map(Bound::Excluded),
        1 => Just(Bound::Unbounded),
    ]
}

/// The pairs of a scan.
fn pairs(
    scan: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]) -> bool) -> everbyte_hkv::Result<()>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    scan(&mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        true
    })
    .unwrap();
    found
}

/// Buckets split one by one, so chains stay short for any number of keys; a tree is as high as it
/// must be, and loses its levels again. Nothing is left when the keys are gone.
#[test]
fn a_hundred_thousand_keys_come_and_go() {
    for kind in KINDS {
        let store = memory(256 << 20);
        let kv = Kv::create(&store, "many", kind, Some(128 << 20)).unwrap();
        for key in 0..100_000_u32 {
            assert!(kv.insert(&key.to_le_bytes(), &(key ^ 7).to_le_bytes()).unwrap());
        }
        assert_eq!(kv.check(), vec![]);
        match &kv {
            // Every store hashes with a seed of its own: of 60, one had a chain of three. Two more
            // exceed every honest one.
            Kv::Hash(hash) => assert!(hash.longest_chain().unwrap() <= 5),
            Kv::Tree(tree) => assert!(tree.levels().unwrap() <= 7, "seven slots a node at the least"),
        }
        for key in 0..100_000_u32 {
            assert_eq!(kv.get(&key.to_le_bytes()).unwrap().unwrap(), (key ^ 7).to_le_bytes());
            assert!(kv.delete(&key.to_le_bytes()).unwrap());
        }
        assert_eq!((contents(&kv).len(), kv.check()), (0, vec![]));
        if let Kv::Tree(tree) = &kv {
            assert_eq!(tree.levels().unwrap(), 1);
        }
    }
}

/// A change writes one log record of a line, has one fence, and flushes no other lines than those
/// it changes. Exactly: nine lines are the pair's record, and log record, bitmap, slot and order
/// have one each.
#[test]
fn a_change_logs_one_line_and_has_one_fence() {
    for (kind, [insert, update, delete]) in KINDS.into_iter().zip(EXPECTED) {
        let store = memory(32 << 20);
        let kv = Kv::create(&store, "counted", kind, Some(16 << 20)).unwrap();
        // puts a run of blocks into use
        assert!(kv.insert(b"the first of all", &[7; 512]).unwrap());
        let count = |change: &dyn Fn() -> everbyte_hkv::Result<bool>| {
            let (before, logged) = (store.media().counts(), kv.logged());
            assert!(change().unwrap());
            let used = store.media().counts() - before;
            (used.fences, used.lines, kv.logged() - logged)
        };
        let key = b"a key of 16 byte";
        assert_eq!(count(&|| kv.insert(key, &[7; 512])), insert, "{kind:?}");
        assert_eq!(count(&|| kv.update(key, &[8; 512])), update, "{kind:?}");
        assert_eq!(count(&|| kv.delete(key)), delete, "{kind:?}");
    }
}
/// Fences, lines, and bytes logged of an insertion, an update and a deletion.
const EXPECTED: [[(u64, u64, u64); 3]; 2] =
    [[(1, 12, 32), (1, 12, 40), (1, 3, 32)], [(1, 12, 64), (1, 12, 40), (1, 3, 32)]];

#[test]
fn threads_see_whole_pairs() {
    for kind in KINDS {
        let store = memory(64 << 20);
        let kv = Kv::create(&store, "shared", kind, Some(32 << 20)).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let kv = &kv;
                scope.spawn(move || {
                    for round in 0..2000_u32 {
                        let key = (round % 50).to_le_bytes();
                        let value = vec![(round ^ thread) as u8; 100];
                        match round % 4 {
                            0 => drop(kv.insert(&key, &value).unwrap()),
                            1 => drop(kv.update(&key, &value).unwrap()),
                            2 => drop(kv.delete(&key).unwrap()),
                            _ => {
                                let found = kv.get(&key).unwrap().unwrap_or_default();
                                assert!(found.iter().all(|byte| *byte == found[0]), "torn");
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(kv.check(), vec![]);
    }
}

#[test]
fn a_full_store_refuses_and_keeps_what_it_has() {
    for kind in KINDS {
        let store = memory(32 << 20);
        let kv = Kv::create(&store, "small", kind, Some(1 << 20)).unwrap();
        let mut count = 0_u32;
        let refused = loop {
            match kv.insert(&count.to_le_bytes(), &[1; 1000]) {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
        };
        assert!(refused.is_full(), "{refused}");
        assert_eq!((contents(&kv).len() as u32, kv.check()), (count, vec![]));
        assert!(kv.delete(&3_u32.to_le_bytes()).unwrap() && kv.insert(b"again", &[1; 1000]).unwrap());
    }
}

#[test]
fn another_kind_of_object_and_one_that_is_open_are_refused() {
    let store = memory(32 << 20);
    let options = ObjectOptions { engine: Engine::None, fingerprint: 0, span: Some(1 << 20) };
    let other = store.create_object("other", options, |_| Ok::<(), everbyte_store::Error>(())).unwrap();
    assert!(matches!(Kv::open(other), Err(Error::Store(everbyte_store::Error::WrongEngine { .. }))));
    let tree = Tree::create(&store, "open", Some(1 << 20)).unwrap();
    let again = Tree::open(store.object("open").unwrap());
    assert!(matches!(again, Err(Error::Store(everbyte_store::Error::Claimed { .. }))));
    drop(tree);
    let hash = Hash::open(store.object("open").unwrap());
    assert!(matches!(hash, Err(Error::Store(everbyte_store::Error::WrongFingerprint { .. }))));
    assert!(matches!(Kv::open(store.object("open").unwrap()), Ok(Kv::Tree(_))));
}

/// Its log records may have another meaning, so that opening ignores them.
#[test]
fn a_store_of_another_format_is_refused_and_stays_as_it_is() {
    for (kind, magic) in KINDS.into_iter().zip([HASH_MAGIC, TREE_MAGIC]) {
        let store = memory(32 << 20);
        let kv = Kv::create(&store, "other", kind, Some(1 << 20)).unwrap();
        assert!(kv.insert(b"Oslo", b"Norway").unwrap());
        let (object, media) = (kv.object().clone(), store.media());
        drop(kv);
        let records = object.prime() + LOG_RECORD_AT;
        media.store(records, 0x1234_5621); // no log record of this format
        let before = media.read_vec(records, 2 * LOG_RECORD_STEP as usize);
        for format in [FORMAT - 1, FORMAT + 1] {
            let head = RootHead { format, ..RootHead::new(magic, [0; 2]) };
            media.put(object.root(), &head.sealed());
            let refused = Kv::open(object.clone()).expect_err("it has another format");
            assert!(refused.to_string().contains(&format!("has format {format}")), "{refused}");
            assert_eq!(media.read_vec(records, before.len()), before);
        }
    }
}

#[test]
fn settled_pairs_are_there_after_a_process_ended_without_closing() {
    let dir = tempfile::tempdir().unwrap();
    let backends = [BackendChoice::File, BackendChoice::Shm];
    for (backend, kind) in backends.into_iter().flat_map(|backend| KINDS.map(|kind| (backend, kind))) {
        let path = dir.path().join(format!("{backend:?}-{kind:?}"));
        let media = Options { backend, log_bytes: 1 << 20, ..Options::default() };
        let create = CreateOptions { media: media.clone(), max: 1 << 30, ..CreateOptions::default() };
        let store = Store::create(&path, &create).unwrap();
        let kv = Kv::create(&store, "kept", kind, Some(16 << 20)).unwrap();
        for key in 0..500_u32 {
            assert!(kv.insert(&key.to_le_bytes(), b"value").unwrap());
        }
        drop(kv);
        let media_of_store = store.media().clone();
        drop(store);
        media_of_store.abandon();
        let store = Store::open(&path, &media).unwrap();
        let kv = Kv::open(store.object("kept").unwrap()).unwrap();
        assert_eq!((contents(&kv).len(), kv.check()), (500, vec![]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// For any value of a word of the store no operation panics or runs for ever.
    #[test]
    fn damage_is_an_error_and_never_a_panic(at in 0u64..1024, inside in 0u64..8, word in prop_oneof![any::<u64>(), Just(0), 0u64..1 << 25], kind in prop_oneof![Just(KvKind::Hash), Just(KvKind::Tree)]) {
        let store = memory(32 << 20);
        let kv = Kv::create(&store, "hurt", kind, Some(1 << 20)).unwrap();
        for key in 0..200_u32 {
            kv.insert(&key.to_le_bytes(), &[3; 40]).unwrap();
        }
        // Anywhere behind the lanes, where its blocks are.
        let object = kv.object().clone();
        let at = object.prime() + (64 << 10) + at * 64 + inside * 8;
        drop(kv);
        if object.is_backed(at) {
            store.media().store(at, word);
        }
        if let Ok(kv) = Kv::open(object) {
            let _ = kv.check();
            for key in 0..200_u32 {
                let _ = kv.get(&key.to_le_bytes());
            }
            let _ = kv.insert(b"new", b"one");
            let _ = kv.scan(|_, _| true);
            for key in 0..200_u32 {
                let _ = kv.delete(&key.to_le_bytes());
            }
        }
    }
}

/// A log record that is applied again frees a record. Its block serves the process that applies it,
/// and not only the next one.
#[test]
fn blocks_that_a_repeated_log_record_frees_are_allocated_by_the_same_process() {
    for kind in KINDS {
        let store = memory(8 << 20);
        let kv = Kv::create(&store, "pairs", kind, Some(1 << 20)).unwrap();
        kv.insert(b"long", &[1; 300_000]).unwrap();
        kv.insert(b"other", b"1").unwrap();
        assert!(kv.delete(b"long").unwrap());
        let crashed = Image::of(store.media());
        let [first, second] = [1, 2].map(|openings| {
            let store = Store::attach(crashed.media()).unwrap();
            let open = || Kv::open(store.object("pairs").unwrap()).unwrap();
            (1..openings).for_each(|_| drop(open()));
            let kv = open();
            (0..100_u32).take_while(|number| kv.insert(&number.to_be_bytes(), &[2; 50_000]).is_ok()).count()
        });
        assert_eq!(first, second, "pairs of 50 kB until the heap is full");
        assert!(first >= 5, "{first}");
    }
}
