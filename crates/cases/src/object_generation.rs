//! The case of a pool's generation: a number that each opening raises. Programs store it beside
//! values that are only good until the next opening.

use crate::Case;
use everbyte_media::Media;
use everbyte_object::{PCell, Pool, PoolOptions, Root, pool};
use everbyte_sim::{Explorer, Failure, Image, Report};
use everbyte_store::{CLUSTER, FormatOptions, Store};

pub(crate) const CASES: &[Case] = &[Case {
    name: "object-generation",
    crate_name: "object",
    about: "a pool's generation is stored in it: no later opening has it again",
    total: 1000,
    program: generation,
}];

pool!(Numbered);

type Number = PCell<u64, Numbered>;

fn image() -> Image {
    Image::zeroed(CLUSTER).with_max(4 << 20).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let options = PoolOptions { span: Some((2 << 20).into()), lanes: Some(2) };
        drop(Numbered::create_with::<Number>(&store, "number", &options, |_| PCell::new(0)).expect("room for a pool"));
        store.close().expect("sim barriers do not fail");
    })
}

fn open(media: &Media) -> Result<Root<Number, Numbered>, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    Numbered::open::<Number>(&store, "number").map_err(|error| error.to_string())
}

/// The thread that stores the generation is not the one that opened the pool.
fn generation(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore(
        &image(),
        |media, oracle| {
            let root = open(&media).expect("a whole pool").detach();
            oracle.step("store the generation", || {
                let root = root.attach();
                let generation = root.generation();
                root.tx(|j, number| number.set(generation, j)).expect("room");
            });
        },
        |media, seen| {
            let root = open(&media)?;
            seen.recovered();
            match root.get() {
                0 if seen.acked_count() > 0 => Err("the value is lost".into()),
                stored if stored < root.generation() => Ok(()),
                stored => Err(format!("{stored} is stored, and the generation is {}", root.generation())),
            }
        },
    )
}
