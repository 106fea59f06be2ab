//! Objects in a real file on a disk, written by one process and read by the next.

mod common;

use common::{Node, append, values};
use everbyte_media::{BackendChoice, Options};
use everbyte_object::{PHashMap, PRefCell, PString, Pool, pool};
use everbyte_store::{CreateOptions, Store};

/// What `write` leaves in a store that is closed, and in one that is abandoned, `read` finds in it.
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
fn a_map_in_a_file_is_there_after_an_orderly_end_and_after_none() {
    pool!(P);
    type Hash = PRefCell<PHashMap<PString<P>, u64, P>, P>;
    let write = |store: &Store| {
        let map = P::create::<Hash>(store, "map", |_| PRefCell::default()).unwrap();
        for key in 0..100 {
            let insert = map.tx(|j, map| map.borrow_mut(j).insert(PString::from_str(&key.to_string(), j), key, j));
            assert_eq!(insert.unwrap(), None);
        }
    };
    reopened(write, |store| {
        let map = P::open::<Hash>(store, "map").unwrap();
        assert!((0..100).all(|key| map.borrow().get(key.to_string().as_str()) == Some(&key)));
        assert_eq!((map.borrow().len(), map.check().unwrap()), (100, vec![]));
    });
}
