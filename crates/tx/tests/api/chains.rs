//! Long logs: a transaction of very many changes, in a lane that goes through block after block of
//! the heap, and very many transactions in a word log. They are undone, replayed and truncated on a
//! stack of 256 KiB.
//!
//! With `EVERBYTE_SOAK` set, there are a million of them.

use crate::common::options;
use everbyte_media::{Media, Options};
use everbyte_sim::swarm::{self, on_a_small_stack};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::redo::Truncation;
use everbyte_tx::{Error, Redo, TxError, Undo};
use everbyte_workload::long_or;

const MAX: u64 = 8 << 30;

fn span() -> u64 {
    long_or(64 << 20, 2 << 30)
}

fn store() -> Store {
    Store::format(Media::anonymous(MAX, &Options::default()).unwrap(), &FormatOptions::default()).unwrap()
}

#[test]
fn a_long_transaction_is_undone_on_a_small_stack() {
    let changes = long_or(20_000, 1_000_000);
    let store = store();
    let made = store.create_object("test", options(span()), |object| Undo::format_with(object, 2, 256));
    let undo = Undo::open(made.unwrap()).unwrap();
    let at = crate::common::table(&undo, 2 * changes);
    let mut crashed = None;
    let outcome = on_a_small_stack(|| {
        undo.run(|tx| {
            // Every other word, so that no two ranges are one; and blocks of its own.
            for index in 0..changes {
                tx.store(at + index * 16, index + 1)?;
                if index % 100 == 0 {
                    tx.allocate(64)?;
                }
            }
            crashed = Some(swarm::copy(store.media(), undo.heap().object().backed().get(), MAX));
            Err::<(), _>(Error::NoLane { object: "on purpose".into() })
        })
    });
    assert!(matches!(outcome, Err(TxError::Aborted(_))));
    let zeros = |media: &Media| (0..changes).all(|index| media.load(at + index * 16) == 0);
    assert!(zeros(store.media()), "rolled back");
    on_a_small_stack(|| {
        let store = Store::attach(crashed.unwrap()).unwrap();
        assert!(!zeros(store.media()));
        let undo = Undo::open(store.object("test").unwrap()).unwrap();
        assert!(zeros(undo.media()), "undone");
        assert_eq!(undo.check(None), []);
        undo.run(|tx| tx.store(at, 7)).unwrap();
    });
}

#[test]
fn a_long_word_log_is_replayed_and_truncated_on_a_small_stack() {
    let transactions = long_or(20_000, 1_000_000);
    let store = store();
    let options = ObjectOptions { engine: Engine::Redo, ..options(span()) };
    // A log that is less than half full calls no thread.
    let format =
        |object: &everbyte_store::Object| Redo::format_with(object, 1, (transactions * 256).next_multiple_of(64));
    let redo = Redo::open(store.create_object("test", options, format).unwrap()).unwrap();
    redo.set_truncation(Truncation::Asynchronous);
    let at = redo.heap().alloc_set(transactions * 8, redo.heap().object().root_at().get(), 0).unwrap().at;
    let mut worker = redo.worker();
    for index in 0..transactions {
        worker.begin().unwrap();
        worker.store((at + index * 8).get(), index + 1).unwrap();
        worker.commit().unwrap();
    }
    drop(worker);
    let whole = |media: &Media| (0..transactions).all(|index| media.load(at + index * 8) == index + 1);
    let crashed = swarm::copy(store.media(), redo.heap().object().backed().get(), MAX);
    // As if no store had reached its place.
    crashed.zero(at, transactions * 8);
    on_a_small_stack(|| {
        let store = Store::attach(crashed).unwrap();
        let redo = Redo::open(store.object("test").unwrap()).unwrap();
        assert!(whole(redo.media()), "replayed");
        assert_eq!(redo.check(None), []);
    });
    on_a_small_stack(|| redo.truncate());
    assert!(whole(redo.media()));
    drop(redo);
    assert!(whole(Redo::open(store.object("test").unwrap()).unwrap().media()));
}
