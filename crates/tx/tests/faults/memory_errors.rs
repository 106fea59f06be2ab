//! Memory errors under both engines: no transaction commits or answers over a page that is lost.

use crate::common::options;
use everbyte_media::{BackendChoice, Media, Options, museum};
use everbyte_store::{CreateOptions, Engine, FormatOptions, ObjectOptions, Store};
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

fn redo(store: &Store, name: &str) -> Redo {
    let options = ObjectOptions { engine: Engine::Redo, ..options(2 << 20) };
    let object = store.create_object(name, options, |object| Redo::format_with(object, 4, 4096)).unwrap();
    Redo::open(object).unwrap()
}

fn redo_over_a_lost_page() -> Result<(), String> {
    let store = store();
    let redo = redo(&store, "hurt");
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

/// A thread that was refused a commit over a lost page, or gave one up, works on in another object.
#[test]
fn a_lost_page_stops_no_engine_of_another_object() {
    let dir = tempfile::tempdir().unwrap();
    let media = Options { backend: BackendChoice::File, ..Options::default() };
    let create = CreateOptions { max: 64 << 20, media, bound: false };
    let store = Store::create(&dir.path().join("store"), &create).unwrap();
    let (hurt, whole) = (redo(&store, "hurt"), redo(&store, "whole"));
    let word = (whole.heap().object().prime() + 3072).get();
    for (round, passed_on) in [(1, false), (2, true)] {
        let mut lost = 0;
        let outcome = hurt.atomically(|tx| {
            let block = tx.allocate(64 << 10)?;
            lost = block.at.get();
            store.media().raise_memory_error(lost);
            tx.store(lost, 7)?;
            if passed_on { Err(Error::NoLane { object: "on purpose".into() }) } else { Ok(()) }
        });
        if !passed_on {
            told(outcome, lost).unwrap();
        }
        whole.atomically(|tx| tx.store(word, round)).unwrap();
        assert_eq!(store.media().load(word), round);
    }
}
