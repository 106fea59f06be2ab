//! Model twins: programs beside their models, in order and on several threads.

use everbyte_media::Media;
use everbyte_sim::{Explorer, Image, Order};
use std::collections::BTreeMap;

type Slots = BTreeMap<u64, u64>;

/// A register file: each put is one word, settled or not before it is acknowledged.
fn put(media: &Media, slot: u64, value: u64) {
    media.store(slot * 64, value);
    media.flush(slot * 64, 8);
    media.barrier().unwrap();
}

fn read(media: &Media) -> Slots {
    (0..8).map(|slot| (slot, media.load(slot * 64))).filter(|(_, value)| *value != 0).collect()
}

#[test]
fn states_in_order_are_judged_by_what_was_acknowledged() {
    let explore = |early: bool| {
        Explorer::new("registers").explore_twin(
            &Image::zeroed(4096),
            &BTreeMap::new(),
            Order::InOrder,
            move |media, twin| {
                for value in 1..6 {
                    let op = twin.begin(format!("put {value}"), move |model: &mut Slots| {
                        model.insert(value % 3, value);
                    });
                    if early && value == 4 {
                        twin.acked(op);
                        put(&media, value % 3, value);
                    } else {
                        put(&media, value % 3, value);
                        twin.acked(op);
                    }
                }
            },
            |media, _| Ok(read(&media)),
        )
    };
    explore(false).unwrap();
    let failure = explore(true).unwrap_err();
    assert!(
        failure.message.contains("no state of the model") && failure.message.contains("4 acknowledged"),
        "{failure}"
    );
}

#[test]
fn threads_put_in_any_order() {
    Explorer::new("threads").twin(
        &Image::zeroed(4096),
        &BTreeMap::new(),
        Order::Free,
        |media, twin| {
            std::thread::scope(|scope| {
                for slot in 0..3 {
                    let media = &media;
                    scope.spawn(move || {
                        for value in 1..3 {
                            let change = move |model: &mut Slots| {
                                model.insert(slot, value);
                            };
                            twin.step(format!("{slot} = {value}"), change, || put(media, slot, value));
                        }
                    });
                }
            });
        },
        |media, _| Ok(read(&media)),
    );
}
