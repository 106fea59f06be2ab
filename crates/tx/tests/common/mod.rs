//! Stores with an undo engine in memory.
#![allow(dead_code)] // each test file uses some of it

use everbyte_media::{Media, Options};
use everbyte_sim::Image;
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::{Error, Undo};

/// How the object of every test is made.
pub(crate) fn options(span: u64) -> ObjectOptions {
    ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(span) }
}

/// An engine in an object `test` of a store in memory.
pub(crate) fn create(max: u64, span: u64) -> (Store, Undo) {
    let media = Media::anonymous(max, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let object = store.create_object("test", options(span), Undo::format).unwrap();
    (store, Undo::open(object).unwrap())
}

/// A block with `words` words of zeros, committed, its address in the root word.
pub(crate) fn table(undo: &Undo, words: u64) -> u64 {
    (undo
        .run(|tx| {
            let block = tx.allocate(words * 8)?;
            tx.media().zero(block.at, block.size);
            tx.store(tx.heap().object().root_at().get(), block.at.get())?;
            Ok::<_, Error>(block.at)
        })
        .unwrap())
    .get()
}

/// The image of a small store with an engine of two lanes of `lane_len` bytes and a table of 64
/// words.
pub(crate) fn image(lane_len: u64) -> Image {
    let format = FormatOptions { log_len: 0, identity: Some([3; 16]) };
    Image::zeroed(128 << 10).with_max(2 << 20).then(move |media| {
        let store = Store::format(media, &format).unwrap();
        let made = store.create_object("test", options(1 << 20), |object| Undo::format_with(object, 2, lane_len));
        let undo = Undo::open(made.unwrap()).unwrap();
        table(&undo, 64);
        store.close().unwrap();
    })
}

/// Attaches to the contents of an image.
pub(crate) fn open(media: Media) -> Result<(Store, Undo), String> {
    let store = Store::attach(media).map_err(|error| error.to_string())?;
    let object = store.object("test").map_err(|error| error.to_string())?;
    Ok((store, Undo::open(object).map_err(|error| error.to_string())?))
}
