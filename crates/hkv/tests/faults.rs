//! Memory errors under both kinds of store: of each page in turn the bytes are gone, and no pair is
//! missing without an error.

use everbyte_hkv::layout::{BUCKET, BUCKETS_AT, LINK, PLACE_AT, SEGMENTS_AT, SLOTS_AT, TOP_AT};
use everbyte_hkv::raw::Raw as _;
use everbyte_hkv::{Error, Hash, Kv, KvKind, Tree};
use everbyte_media::{Media, Options, museum};
use everbyte_store::{FormatOptions, Store};

fn each_page_in_turn(kind: KvKind) -> Result<(), String> {
    let media = Media::anonymous(32 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "pairs", kind, Some(2 << 20)).unwrap();
    let pairs: Vec<_> = (0..400_u32).map(|number| (number.to_be_bytes(), vec![number as u8 | 1; 40])).collect();
    pairs.iter().for_each(|(key, value)| assert!(kv.insert(key, value).unwrap()));
    let object = store.object("pairs").unwrap();
    let pages: Vec<u64> = (object.prime().get()..object.backed().get()).step_by(4096).collect();
    for page in pages.into_iter().rev().step_by(3) {
        store.media().raise_memory_error(page);
        let mut seen = 0;
        if kv
            .scan(|_, _| {
                seen += 1;
                true
            })
            .is_ok()
            && seen < pairs.len()
        {
            return Err(format!("{page:#x}: a scan finds {seen} pairs"));
        }
        for (key, value) in &pairs {
            match kv.get(key) {
                Ok(found) if found.as_ref() == Some(value) => {}
                Ok(found) => return Err(format!("{page:#x}: {key:?} reads {found:?}")),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        if kv.insert(b"new", b"1").is_ok() {
            return Err(format!("{page:#x}: a pair was added over a lost page"));
        }
    }
    Ok(())
}

#[test]
fn no_pair_is_missing_without_an_error_when_a_page_is_lost() {
    for kind in [KvKind::Hash, KvKind::Tree] {
        each_page_in_turn(kind).unwrap();
        let blind = || each_page_in_turn(kind);
        let found = museum::with("media-zeros-answered", || std::panic::catch_unwind(blind));
        assert!(!matches!(found, Ok(Ok(()))), "the seeded bug was not found");
    }
}

fn store() -> Store {
    let options = FormatOptions { identity: Some([7; 16]), ..FormatOptions::default() }; // and so the seeds of hashes
    Store::format(Media::anonymous(32 << 20, &Options::default()).unwrap(), &options).unwrap()
}

/// Damage of a leaf, which its neighbour cannot be joined with then.
#[test]
fn a_deletion_beside_a_damaged_leaf_is_answered_as_made() {
    let store = store();
    let tree = Tree::create(&store, "pairs", Some(2 << 20)).unwrap();
    (0..20_u8).for_each(|key| assert!(tree.insert(&[key], b"value").unwrap()));
    let media = store.media();
    let top = media.load(tree.object().root() + TOP_AT);
    let leaf = media.load(top + SLOTS_AT + 16 + PLACE_AT);
    let order = media.load(leaf);
    media.store(leaf, u64::MAX);
    let beside = (0..20_u8).take_while(|key| tree.get(&[*key]).is_ok()).count() as u8;
    assert!((7..20).contains(&beside) && tree.delete(&[beside]).is_err());
    for key in 1..beside {
        assert!(tree.delete(&[key]).unwrap(), "{key}");
        assert!(!tree.delete(&[key]).unwrap() && tree.get(&[key]).unwrap().is_none(), "{key}");
    }
    media.store(leaf, order);
    assert!(tree.delete(&[beside]).unwrap());
    let mut left = Vec::new();
    let each = |key: &[u8], _: &[u8]| {
        left.push(key[0]);
        true
    };
    tree.scan(each).unwrap();
    assert_eq!(left, [&[0][..], &(beside + 1..20).collect::<Vec<_>>()].concat());
    assert_eq!(tree.check(), []);
}

/// Damage of a bucket that is to be split, or of the root while a group of buckets is added.
#[test]
fn an_insertion_beside_a_damaged_bucket_is_answered_as_made() {
    let store = store();
    let media = store.media();
    for name in ["chain", "root"] {
        let hash = Hash::create(&store, name, Some(2 << 20)).unwrap();
        let root = hash.object().root();
        let insert = |keys: std::ops::Range<u8>| keys.filter(|key| hash.insert(&[*key], b"value").unwrap()).count();
        assert_eq!(insert(0..13), 13);
        assert_eq!(media.load(root + BUCKETS_AT), 20, "one group was added");
        // the first of the next group, which no key of this test may be in
        let at = if name == "chain" { media.load(root + SEGMENTS_AT) + 4 * BUCKET + LINK } else { root + 8 };
        let was = media.load(at);
        media.store(at, was ^ 7);
        let good = |key: &u8| name == "root" || hash.get(&[*key]).is_ok();
        let keys: Vec<u8> = (13..100).filter(good).collect();
        for key in &keys {
            assert!(hash.insert(&[*key], b"value").unwrap(), "{name}: {key}");
            assert!(hash.get(&[*key]).unwrap().is_some(), "{name}: {key}");
        }
        assert_eq!(media.load(root + BUCKETS_AT) > 20, name == "root");
        media.store(at, was);
        assert!(keys.iter().chain(&(0..13).collect::<Vec<_>>()).all(|key| hash.get(&[*key]).unwrap().is_some()));
        assert_eq!(hash.check(), []);
    }
}

/// The format has 32 bits for a length: a longer value is refused before anything of it is read.
#[test]
fn a_value_of_four_gigabytes_is_refused() {
    let store = Store::format(Media::anonymous(16 << 20, &Options::default()).unwrap(), &FormatOptions::default());
    let long = vec![0; 1 << 32]; // zeros that no page backs
    for kind in [KvKind::Hash, KvKind::Tree] {
        let name = format!("{kind:?}");
        let kv = Kv::create(store.as_ref().unwrap(), &name, kind, Some(1 << 20)).unwrap();
        assert!(matches!(kv.insert(b"key", &long), Err(Error::TooLarge { .. })));
        assert!(kv.insert(b"key", b"value").unwrap());
        assert_eq!(kv.check(), []);
    }
}
