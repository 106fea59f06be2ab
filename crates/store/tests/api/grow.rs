//! Raising the declared maximum of a store.

use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CreateOptions, Error, ObjectOptions, Store};

#[test]
fn a_grown_store_has_room_for_larger_spans_and_keeps_what_it_had() {
    for backend in [BackendChoice::File, BackendChoice::Shm] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.store");
        let media = Options { backend, log_bytes: 256 << 10, ..Options::default() };
        let store =
            Store::create(&path, &CreateOptions { media: media.clone(), max: 4 << 20, ..CreateOptions::default() })
                .unwrap();
        store
            .create_object("a", ObjectOptions::default(), |object| {
                object.set_root(7);
                Ok::<(), Error>(())
            })
            .unwrap();
        // Addresses there are more of: they end at a GiB.
        let wish = ObjectOptions { span: Some(1 << 30), ..ObjectOptions::default() };
        let refused = store.create_object("b", wish, |_| Ok::<(), Error>(()));
        assert!(matches!(refused, Err(Error::NoSpan { .. })));
        assert_eq!(store.info().max_max, 9 << 29);
        store.grow(64 << 20).unwrap();
        assert_eq!(store.max(), 64 << 20);
        let refused = store.grow(2 << 30).unwrap_err();
        assert!(refused.to_string().contains("everbyte grow"), "{refused}");
        assert!(matches!(store.grow(1 << 20), Err(Error::BadOption { .. })));
        store.close().unwrap();
        drop(store);

        let refused = Store::options(&path).grown(8 << 30).open(&media).unwrap_err();
        assert!(matches!(refused, Error::BadOption { .. }), "{refused}");
        let store = Store::options(&path).grown(4 << 30).open(&media).unwrap();
        assert_eq!(store.info().max, 4 << 30);
        assert_eq!(store.object("a").unwrap().root(), 7);
        let made = store.create_object("b", wish, |_| Ok::<(), Error>(())).unwrap();
        assert_eq!(made.prime(), 1 << 30);
        assert_eq!(store.check(), []);
        drop((made, store));
        let store = Store::open(&path, &media).unwrap();
        assert_eq!(store.info().max, 4 << 30);
        assert_eq!(store.objects().unwrap().len(), 2);
    }
}
