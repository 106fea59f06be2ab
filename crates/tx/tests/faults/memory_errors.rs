//! Memory errors under both engines: no transaction commits or answers over a page that is lost.

use crate::common::options;
use everbyte_media::{Media, Options, museum};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::{Error, Redo, Undo};

fn store() -> Store {
    let media = Media::anonymous(32 << 20, &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

fn undo(store: &Store, name: &str) -> (Undo, u64) {
    let undo = Undo::open(store.create_object(name, options(2 << 20), Undo::format).unwrap()).unwrap();
    let block = undo.run(|tx| tx.allocate(64 << 10)).unwrap();
    (undo, block.at.get())
}

fn told<T>(outcome: Result<T, impl std::fmt::Display>, at: u64) -> Result<(), String> {
    let Err(error) = outcome else { return Err(format!("{at:#x}: a transaction over a lost page was answered")) };
    let text = error.to_string();
    assert!(text.contains("object `hurt` is damaged at offset") && text.contains(&format!("{at:#x}")), "{text}");
    Ok(())
}

fn undo_over_a_lost_page() -> Result<(), String> {
    let store = store();
    let ((hurt, at), (whole, other)) = (undo(&store, "hurt"), undo(&store, "whole"));
    let page = at.next_multiple_of(4096) + 4096;
    hurt.run(|tx| tx.store(at, 1)).unwrap();
    store.media().raise_memory_error(page);
    told(hurt.run(|tx| Ok::<_, Error>(tx.media().load(page))), page)?;
    told(hurt.run(|tx| tx.store(page, 7)), page)?;
    told(hurt.run(|tx| tx.store(at, tx.media().load(page))), page)?;
    assert_eq!(store.media().load(at), 1, "rolled back");
    // The thread got the error: its work elsewhere succeeds.
    whole.run(|tx| tx.store(other, 2)).map_err(|error| format!("another object: {error}"))?;
    Ok(())
}

fn redo_over_a_lost_page() -> Result<(), String> {
    let store = store();
    let options = ObjectOptions { engine: Engine::Redo, ..options(2 << 20) };
    let object = store.create_object("hurt", options, |object| Redo::format_with(object, 4, 4096)).unwrap();
    let redo = Redo::open(object).unwrap();
    let at = redo.atomically(|tx| Ok::<_, Error>(tx.allocate(64 << 10)?.at)).unwrap();
    let page = (at.align_up(4096) + 4096).get();
    store.media().raise_memory_error(page);
    told(redo.atomically(|tx| tx.load(page)), page)?;
    told(redo.atomically(|tx| tx.store(at.get(), 3)), page)
}

#[test]
fn no_transaction_commits_or_answers_over_a_lost_page() {
    for case in [undo_over_a_lost_page, redo_over_a_lost_page] {
        case().unwrap();
        museum::with("tx-commits-over-lost-page", case).expect_err("the seeded bug was not found");
    }
}
