//! Changes of names that fail half way, on a name space with damage: what was taken is given back,
//! and no caller finds an object that is gone.

use everbyte_media::{Checked, Media, Options};
use everbyte_names::layout::{Block, HEAD_MAGIC, SLAB_BITS, head};
use everbyte_store::layout::{Record, STATE_CREATING, STATE_REMOVING, SUPERBLOCKS, Superblock};
use everbyte_store::{CLUSTER, Error, FindingKind, FormatOptions, ObjectOptions, Store};

const MAX: u64 = 64 << 20;

fn make(store: &Store, name: &str) -> Result<(), Error> {
    let options = ObjectOptions { span: Some(CLUSTER), ..ObjectOptions::default() };
    store.create_small_object(name, options, |_| Ok::<(), Error>(())).map(drop)
}

fn store() -> Store {
    let media = Media::anonymous(MAX, &Options::default()).unwrap();
    Store::format(media, &FormatOptions { identity: Some([7; 16]), log_len: 0 }).unwrap()
}

/// The offset of the object that holds the trie, if the store has one.
fn name_space(media: &Media) -> Option<u64> {
    (0..media.max()).step_by(CLUSTER as usize).find(|at| media.read_vec(at + head::AT, 8) == HEAD_MAGIC)
}

/// A store with a trie whose one container is full, and the offset of the trie's first bits of
/// blocks.
fn full_container() -> (Store, u64) {
    let store = store();
    store.index_names().unwrap();
    (0..16).for_each(|number| make(&store, &format!("{number:x}")).unwrap());
    let bits = name_space(store.media()).unwrap() + everbyte_names::PRIME_LEN + SLAB_BITS;
    (store, bits)
}

/// The trie cannot take the new name: the record and its span are free again, and so is the name.
#[test]
fn a_name_that_the_trie_cannot_take_leaves_nothing_behind() {
    for rename in [false, true] {
        let (store, bits) = full_container();
        let good = store.media().load(bits);
        for _ in 0..3 {
            store.media().store(bits, good ^ 1 << 20);
            let refused = if rename { store.rename_object("7", "more") } else { make(&store, "more") };
            assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
            store.media().store(bits, good);
            assert_eq!(store.find("more").unwrap(), None);
            assert!(store.stat("7").is_ok());
        }
        match rename {
            true => store.rename_object("7", "more").unwrap(),
            false => make(&store, "more").unwrap(),
        }
        assert_eq!(store.find_on_media("7").unwrap().is_none(), rename);
        assert!(store.find("more").unwrap().is_some());
        assert_eq!(store.check(), []);
    }
}

/// The removal is settled before the trie is found to be damaged: the object is gone, and a caller
/// that looked its id up before does not get it from a cache.
#[test]
fn an_object_is_gone_though_its_name_cannot_leave_the_trie() {
    let (store, _) = full_container();
    let media = store.media().clone();
    let root = name_space(&media).unwrap() + head::ROOT;
    let good = media.load(root);
    assert!(Block::of_word(good).is_some());
    assert!(store.find("7").unwrap().is_some(), "its id is in the cache now");
    media.store(root, good ^ 1 << 30);
    assert!(matches!(store.remove_object("7"), Err(Error::Damaged(_))));
    assert_eq!(store.find("7").unwrap(), None);
    assert!(matches!(store.stat("7"), Err(Error::NotFound { .. })));
    media.store(root, good);
    drop(store);
    let store = Store::attach(media).unwrap();
    assert_eq!(store.recovery().removals, ["7"]);
    assert_eq!((store.find("7").unwrap(), store.check()), (None, vec![]));
}

/// Each refusal gives the record back that it had chosen: the table does not fill up, and no name
/// space is made before its time.
#[test]
fn refused_creations_use_no_records_up() {
    let store = store();
    let options = ObjectOptions { span: Some(MAX), ..ObjectOptions::default() };
    for _ in 0..300 {
        let refused = store.create_object("large", options, |_| Ok::<(), Error>(()));
        assert!(matches!(refused, Err(Error::NoSpan { .. })));
        let failed = store.create_object("failed", ObjectOptions { span: Some(CLUSTER), ..options }, |_| {
            Err(Error::NotFound { name: "a part of it".into() })
        });
        assert!(matches!(failed, Err(Error::NotFound { .. })));
    }
    (0..250).for_each(|number| make(&store, &format!("n{number}")).unwrap());
    assert_eq!(name_space(store.media()), None);
    assert_eq!(store.check(), []);
}

/// A record that recovery would act on names the clusters that it would release: if the record has
/// rotted, they may be another object's.
#[test]
fn a_rotten_record_of_an_unfinished_change_releases_nothing() {
    for state in [STATE_CREATING, STATE_REMOVING] {
        let store = store();
        for name in ["a", "b"] {
            make(&store, name).unwrap();
        }
        let media = store.media().clone();
        store.close().unwrap();
        drop(store);
        let table = media.get::<Superblock>(SUPERBLOCKS[0]).table_at.get();
        let places = (table..).step_by(size_of::<Record>()).take(256);
        let find = |name: &[u8]| {
            let of = |at: &u64| media.get::<Record>(*at).name.starts_with(name);
            places.clone().find(of).unwrap()
        };
        let (one, other) = (find(b"a"), find(b"b"));
        let span_at = media.get::<Record>(other).span_at;
        let record = Record { state, span_at, ..media.get(one) };
        assert!(!{ record }.checksum_agrees());
        media.put(one, &record);
        let store = Store::attach(media).unwrap();
        assert!(store.recovery().creations.is_empty() && store.recovery().removals.is_empty());
        let object = store.object("b").unwrap();
        assert!(object.is_backed(object.prime()));
        assert!(store.check().iter().any(|finding| finding.kind == FindingKind::Damage));
    }
}
