//! Recorded histories of threads in each other's way are serialisable.

use everbyte_media::{Media, Options};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::redo::Truncation;
use everbyte_tx::{Error, Redo};
use everbyte_workload::history::{Seen, circle};

/// The checker tells orders from circles: a lost update, a write skew, a load of two times at once.
#[test]
fn the_checker_knows_what_no_order_explains() {
    let history = |transactions: &[&[(u64, u64, Option<u64>)]]| -> Vec<Seen> {
        transactions.iter().map(|words| Seen { words: words.to_vec() }).collect()
    };
    let right = history(&[&[(1, 5, None), (2, 0, Some(6))], &[(1, 0, Some(5))], &[(2, 6, None), (1, 5, Some(7))]]);
    assert_eq!(circle(&right), None);
    assert!(circle(&history(&[&[(1, 0, Some(5))], &[(1, 0, Some(6))]])).is_some(), "an update is lost");
    let skew = history(&[&[(1, 0, None), (2, 0, Some(5))], &[(2, 0, None), (1, 0, Some(6))]]);
    assert!(circle(&skew).is_some(), "each has not seen the other");
    let torn = history(&[&[(1, 0, Some(5)), (2, 0, Some(6))], &[(1, 5, None), (2, 0, None)]]);
    assert!(circle(&torn).is_some(), "half of one transaction is seen");
}

/// Threads load and store words at random; the loads of committed transactions fit one order.
#[test]
fn recorded_histories_are_serialisable() {
    const WORDS: u64 = 12;
    const THREADS: u64 = 3;
    for truncation in [Truncation::Synchronous, Truncation::Asynchronous] {
        let media = Media::anonymous(8 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let options = ObjectOptions { engine: Engine::Redo, ..crate::common::options(1 << 20) };
        let redo = Redo::open(store.create_object("test", options, Redo::format).unwrap()).unwrap();
        redo.set_truncation(truncation);
        let at = redo.heap().object().prime() + 3072; // zeros, the rooms' above
        let work = |thread: u64| {
            let (mut history, mut random) = (Vec::new(), thread * 977 + 1);
            for round in 0..2000 {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let chosen = random >> 16;
                let seen = redo.atomically(|tx| {
                    let mut seen = Seen::default();
                    for step in 0..1 + chosen % 5 {
                        let word = (chosen >> (step * 7 + 8)) % WORDS;
                        if seen.words.iter().any(|(other, ..)| *other == word) {
                            continue;
                        }
                        let loaded = tx.load((at + word * 8).get())?;
                        let stored = (chosen >> step & 4 == 0).then_some((round * THREADS + thread) * 16 + step + 1);
                        if let Some(value) = stored {
                            tx.store((at + word * 8).get(), value)?;
                        }
                        std::thread::yield_now(); // others come between
                        seen.words.push((word, loaded, stored));
                    }
                    Ok::<_, Error>(seen)
                });
                history.push(seen.unwrap());
            }
            history
        };
        let history: Vec<Seen> = std::thread::scope(|threads| {
            let running: Vec<_> = (0..THREADS)
                .map(|thread| {
                    threads.spawn({
                        let work = &work;
                        move || work(thread)
                    })
                })
                .collect();
            running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let circle = circle(&history);
        let shown: Vec<_> = circle.iter().flatten().map(|&index| &history[index]).collect();
        assert!(circle.is_none(), "{truncation:?}: no order explains {shown:?}");
    }
}
