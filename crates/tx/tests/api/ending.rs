//! Transactions of a thread that is ending and has lost its thread-local values.

use crate::common::{create, options, table};
use everbyte_media::{Media, Options};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::{Error, Redo, TxError, Undo};
use std::cell::RefCell;

/// Runs at the end of its thread.
struct Last(Option<Box<dyn FnOnce()>>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|last| last());
    }
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last(None)) };
}

/// Runs `last` in a thread that has run `first`, after the values that `first` left in the thread:
/// these are dropped in the reverse order of their first use.
fn after(first: impl FnOnce() + Send, last: impl FnOnce() + Send + 'static) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            LAST.with_borrow_mut(|at_end| at_end.0 = Some(Box::new(last)));
            first();
        });
        thread.join().unwrap(); // waits for the end of its values, which the scope does not
    });
}

/// A lost page of one object, of which the thread has heard before, stops no other object.
#[test]
fn a_thread_that_is_ending_hears_of_a_lost_page_once() {
    let media = Media::anonymous(32 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let made = |name: &str| Undo::open(store.create_object(name, options(2 << 20), Undo::format).unwrap()).unwrap();
    let (hurt, whole) = (made("hurt"), made("whole"));
    let lost = hurt.run(|tx| tx.allocate(64 << 10)).unwrap().at.get().next_multiple_of(4096);
    let at = table(&whole, 64);
    store.media().raise_memory_error(lost);
    let (own, hears) = (whole.clone(), store.clone());
    let first = move || {
        hears.media().store(lost, 1);
        hears.media().flush(lost, 8);
        hears.media().barrier().unwrap_err();
        hears.media().barrier().unwrap();
    };
    after(first, move || own.run(|tx| tx.store(at, 2)).unwrap());
    assert_eq!(store.media().load(at), 2);
}

/// All of a transaction or nothing, with others inside it too (TX-1).
#[test]
fn a_thread_that_is_ending_runs_whole_transactions() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let at = table(&undo, 64);
    let load = |word: u64| undo.media().load(at + word * 8);
    let ending = move |undo: &Undo| {
        undo.run(|tx| {
            tx.store(at, 2)?;
            undo.run(|inner| inner.store(at + 8, 2)).map_err(|_| Error::NoLane { object: "inner".into() })
        })
        .unwrap();
        let outcome = undo.run(|tx| {
            tx.store(at, 3)?;
            let inner = undo.run(|inner| {
                inner.store(at + 8, 3)?;
                Err::<(), _>(Error::NoLane { object: "on purpose".into() })
            });
            assert!(matches!(inner, Err(TxError::Aborted(_))));
            Ok::<_, Error>(())
        });
        assert!(matches!(outcome, Err(TxError::Doomed)));
        undo.run(|tx| tx.store(at + 16, 4)).unwrap();
    };
    let own = undo.clone();
    after(|| undo.run(|tx| tx.store(at, 1)).unwrap(), move || ending(&own));
    assert_eq!([load(0), load(1), load(2)], [2, 2, 4]);
}

#[test]
fn a_thread_that_is_ending_runs_isolated_transactions() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let options = ObjectOptions { engine: Engine::Redo, ..options(4 << 20) };
    let redo = Redo::open(store.create_object("test", options, Redo::format).unwrap()).unwrap();
    let root = redo.heap().object().root_at().get();
    let add = move |redo: &Redo| {
        let added = redo.atomically(|tx| {
            let block = tx.allocate(64)?;
            tx.store(root, block.at.get())
        });
        added.unwrap();
    };
    let blocks = || {
        let mut blocks = 0;
        redo.heap().blocks(|_| blocks += 1).unwrap();
        blocks
    };
    let (own, first, before) = (redo.clone(), redo.clone(), blocks());
    after(move || add(&first), move || add(&own));
    assert_eq!(blocks(), before + 2);
}
