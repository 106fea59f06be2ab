//! Words that a dead process has left in the caches: the next process relies on them, so no power
//! cut may take them back.

use crate::common::options;
use everbyte_media::Media;
use everbyte_media::sealed::seal_low;
use everbyte_sim::{Explorer, Image, Oracle, Profile, Seen};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::Redo;
use everbyte_tx::redo::{Truncation, layout};

fn open(media: Media) -> Result<(Store, Redo), String> {
    let store = Store::attach(media).map_err(|error| error.to_string())?;
    let object = store.object("test").map_err(|error| error.to_string())?;
    let redo = Redo::open(object).map_err(|error| error.to_string())?;
    Ok((store, redo))
}

/// A word outside of blocks that transactions may change.
fn word(redo: &Redo) -> u64 {
    (redo.heap().object().prime() + 3072).get()
}

/// A pass has flushed what two records store, the older one in the later log; it has stored the
/// floor and died. Recovery empties one log after the other: where a power cut comes between them,
/// the floor keeps the older record from being stored over the newer one.
#[test]
fn a_floor_that_a_dead_process_has_raised_stays() {
    let image = Image::zeroed(128 << 10).with_max(4 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([3; 16]) }).unwrap();
        let options = ObjectOptions { engine: Engine::Redo, ..options(1 << 20) };
        let made = store.create_object("test", options, |object| Redo::format_with(object, 4, 1024));
        let redo = Redo::open(made.unwrap()).unwrap();
        redo.set_truncation(Truncation::Asynchronous);
        let (mut first, mut second) = (redo.worker(), redo.worker()); // each has the next log
        for (worker, value) in [(&mut second, 1), (&mut first, 2)] {
            worker.begin().unwrap();
            worker.store(word(&redo), value).unwrap();
            worker.commit().unwrap();
        }
    });
    let replayed = open(image.media()).unwrap().1.replayed();
    assert_eq!(replayed.transactions, 2, "both records are left");
    let program = |media: Media, oracle: &Oracle| {
        let floor = {
            let store = Store::attach(media.clone()).unwrap();
            store.object("test").unwrap().prime() + layout::FLOOR
        };
        media.store(floor, seal_low(1 << 20));
        oracle.step("recover", || drop(open(media).unwrap()));
    };
    let check = |media: Media, _: &Seen| {
        let (_store, redo) = open(media)?;
        let found = redo.media().load(word(&redo));
        if found == 2 { Ok(()) } else { Err(format!("the word is {found}: the older record came last")) }
    };
    Explorer::new("redo-floor").profiles(&[Profile::PMEM]).total(2_000).run(&image, program, check);
}
