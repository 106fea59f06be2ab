//! A list in a real file, by each backend that a file can have, written by one process and read by the next.

mod common;

use common::{Node, append, values};
use everbyte_media::{BackendChoice, Options};
use everbyte_object::{Pool, pool};
use everbyte_store::{CreateOptions, Store};

#[test]
fn a_list_in_a_file_is_there_after_an_orderly_end_and_after_none() {
    pool!(P);
    for orderly in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list.everbyte");
        let media = Options { backend: BackendChoice::File, ..Options::default() };
        let store = Store::create(&path, &CreateOptions { media: media.clone(), max: 1 << 30 }).unwrap();
        let head = P::create::<Node<u64, P>>(&store, "list", |_| Node::new(0)).unwrap();
        for v in 0..100 {
            head.tx(|j, head| append(head, v, j)).unwrap();
        }
        drop(head);
        if orderly {
            store.close().unwrap();
            drop(store);
        } else {
            let media = store.media().clone();
            drop(store);
            media.abandon();
        }
        let store = Store::open(&path, &media).unwrap();
        let head = P::open::<Node<u64, P>>(&store, "list").unwrap();
        assert_eq!(values(&head), (0..100).collect::<Vec<_>>());
        assert_eq!(head.check().unwrap(), []);
    }
}
