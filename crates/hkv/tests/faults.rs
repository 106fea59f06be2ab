//! Memory errors under both kinds of store: of each page in turn the bytes are gone, and no pair is
//! missing without an error.

use everbyte_hkv::{Error, Kv, KvKind};
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
