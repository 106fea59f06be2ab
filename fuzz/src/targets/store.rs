//! A store whose metadata was patched: attached, walked, checked, and used a little if it opens.

use crate::class;
use crate::patch::{Image, store};
use everbyte::Engines;
use everbyte_store::layout::{Header, Record, SUPERBLOCKS, Superblock};
use everbyte_store::{Engine, Error, ObjectOptions, Store};
use std::collections::BTreeSet;
use std::sync::OnceLock;

const LEN: u64 = 1 << 20;

/// A small store with two objects.
fn good() -> &'static Image {
    static GOOD: OnceLock<Image> = OnceLock::new();
    GOOD.get_or_init(|| {
        let store = store(LEN);
        let mut sealed: Vec<(usize, usize)> =
            SUPERBLOCKS.iter().map(|&at| (at as usize, size_of::<Superblock>())).collect();
        for (name, span) in [("first", 128 << 10), ("second/of two", 256 << 10)] {
            let options = ObjectOptions { engine: Engine::None, fingerprint: 3, span: Some(span) };
            let made = store.create_object(name, options, |object| object.grow(1).map(drop)).expect("an object");
            sealed.push((made.prime().get() as usize, everbyte_store::layout::HEADER_FIXED));
        }
        // The table starts where the media head ends.
        let table = everbyte_media::HEAD_END as usize;
        sealed.extend((0..4).map(|slot| (table + slot * size_of::<Record>(), size_of::<Record>())));
        const { assert!(size_of::<Header>() >= everbyte_store::layout::HEADER_FIXED) };
        Image::new(store.media().read_vec(0, LEN as usize), sealed)
    })
}

pub(crate) fn run(input: &[u8]) -> String {
    let store = match Store::attach(good().media(input)) {
        Ok(store) => store,
        Err(error) => return class(&error.to_string()),
    };
    // Which kinds of findings, not how many of each: else every combination would be a class.
    let findings = Engines::standard().check(&store, |_| ());
    let found: BTreeSet<String> = findings.iter().map(|finding| class(&finding.detail)).collect();
    let mut said = format!("opened {}", found.into_iter().next_back().unwrap_or_default());
    match store.objects() {
        Err(error) => said += &class(&error.to_string()),
        Ok(objects) => {
            for object in objects {
                said += &used(&store, &object.name);
            }
        }
    }
    said
}

/// Opens one object and grows it.
fn used(store: &Store, name: &str) -> String {
    let grown = store.object(name).and_then(|object| {
        object.holes();
        object.grow(1)
    });
    match grown {
        Ok(_) => "grew ".into(),
        Err(Error::OutOfSpace { .. }) => "full ".into(),
        Err(error) => class(&error.to_string()),
    }
}
