//! Objects in a real file on a disk, written by one process and read by the next.

use crate::common::{Node, append, values};
use everbyte_media::{BackendChoice, Options};
use everbyte_object::{PBTreeMap, PHashMap, PRefCell, PString, Pool, pool};
use everbyte_store::{CreateOptions, Store};

/// `read` finds in a store the state that `write` left, in a store that is closed and in one that
/// is abandoned.
fn reopened(write: impl Fn(&Store), read: impl Fn(&Store)) {
    for orderly in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list.everbyte");
        let media = Options { backend: BackendChoice::File, ..Options::default() };
        let store =
            Store::create(&path, &CreateOptions { media: media.clone(), max: 1 << 30, ..CreateOptions::default() })
                .unwrap();
        write(&store);
        if orderly {
            store.close().unwrap();
            drop(store);
        } else {
            let media = store.media().clone();
            drop(store);
            media.abandon();
        }
        read(&Store::open(&path, &media).unwrap());
    }
}

#[test]
fn a_list_in_a_file_is_there_after_an_orderly_end_and_after_none() {
    pool!(P);
    let write = |store: &Store| {
        let head = P::create::<Node<u64, P>>(store, "list", |_| Node::new(0)).unwrap();
        (0..100).for_each(|v| head.tx(|j, head| append(head, v, j)).unwrap());
    };
    reopened(write, |store| {
        let head = P::open::<Node<u64, P>>(store, "list").unwrap();
        assert_eq!(values(&head), (0..100).collect::<Vec<_>>());
        assert_eq!(head.check().unwrap(), []);
    });
}

#[test]
fn maps_in_a_file_are_there_after_an_orderly_end_and_after_none() {
    pool!(P);
    type Maps = (PRefCell<PHashMap<PString<P>, u64, P>, P>, PRefCell<PBTreeMap<u64, PString<P>, P>, P>);
    let write = |store: &Store| {
        let maps = P::create::<Maps>(store, "maps", |_| Default::default()).unwrap();
        for key in 0..100 {
            let insert = maps.tx(|j, (hash, ordered)| {
                let text = || PString::from_str(&key.to_string(), j);
                let old = ordered.borrow_mut(j).insert(key * 7 % 100, text(), j);
                hash.borrow_mut(j).insert(text(), key, j).is_none() && old.is_none()
            });
            assert!(insert.unwrap());
        }
    };
    reopened(write, |store| {
        let maps = P::open::<Maps>(store, "maps").unwrap();
        let (hash, ordered) = (maps.0.borrow(), maps.1.borrow());
        assert!((0..100).all(|key| hash.get(key.to_string().as_str()) == Some(&key)));
        assert!(ordered.keys().copied().eq(0..100));
        assert!(ordered.iter().all(|(key, text)| text.parse::<u64>().unwrap() * 7 % 100 == *key));
        assert_eq!((hash.len(), maps.check().unwrap()), (100, vec![]));
    });
}
