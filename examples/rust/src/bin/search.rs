//! A full-text search over an index that is never built twice.
//!
//! `search STORE COMMAND`, where the command is `find WORD ..`, `phrase WORD ..`, `terms PREFIX`,
//! `put TITLE WORD ..`, `remove TITLE ..` or `titles`. The first run indexes the texts that the
//! program carries, each in one transaction; a run that is stopped meanwhile goes on in the next.

#![forbid(unsafe_code)]

use everbyte::{MemPool, PCell, PRefCell, PSafe, Pool, pool};
use everbyte_examples::search::Index;
use everbyte_examples::{Outcome, arguments, store};

pool!(Library);

/// The texts of the first run.
const TEXTS: [(&str, &str); 6] = [
    ("caches", "A cache writes its lines back at any time and in any order, so a store is not yet durable."),
    ("flush", "A flush sends one cache line on its way to the medium. A flush alone orders nothing."),
    ("fence", "A fence orders stores: no store behind the fence survives a crash without the flush before it."),
    ("undo log", "An undo log keeps the old bytes. After a crash recovery writes the old bytes back."),
    ("redo log", "A redo log keeps the new bytes. After the commit recovery writes the new bytes again."),
    ("torn store", "A crash in the middle of a long store leaves a torn value: some words are old, some are new."),
];

#[derive(PSafe)]
#[repr(C)]
struct Shelf<P: MemPool> {
    index: PRefCell<Index<P>, P>,
    /// Texts of the first run that are indexed.
    done: PCell<u64, P>,
}

const USAGE: &str =
    "search STORE find WORD .. | phrase WORD .. | terms PREFIX | put TITLE WORD .. | remove TITLE .. | titles";

fn main() -> Outcome {
    let (path, words) = arguments(USAGE)?;
    let store = store(path)?;
    let shelf = Library::open_or_create::<Shelf<Library>>(&store, "library", |_| Shelf {
        index: PRefCell::default(),
        done: PCell::new(0),
    })?;
    let warm = shelf.index.borrow().len();
    println!("warm: {warm} documents, {} terms", shelf.index.borrow().term_count());
    for (title, text) in TEXTS.iter().skip(shelf.done.get() as usize) {
        shelf.tx(|j, shelf| {
            shelf.index.borrow_mut(j).put(title, text, j);
            shelf.done.update(|done| done + 1, j);
        })?;
    }

    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let index = || shelf.index.borrow();
    match words[..] {
        ["find", ref words @ ..] => {
            index().find(&words.join(" ")).iter().for_each(|hit| println!("{:.3} {}", hit.score, hit.title));
        }
        ["phrase", ref words @ ..] => {
            index().phrase(&words.join(" ")).iter().for_each(|title| println!("{title}"));
        }
        ["terms", prefix] => index().terms(prefix).for_each(|(term, count)| println!("{term} {count}")),
        ["titles"] => index().titles().for_each(|title| println!("{title}")),
        ["put", title, ref words @ ..] => {
            let text = words.join(" ");
            println!("{:?}", shelf.tx(|j, shelf| shelf.index.borrow_mut(j).put(title, &text, j))?);
        }
        ["remove", title] => {
            let there = shelf.tx(|j, shelf| shelf.index.borrow_mut(j).remove(title, j))?;
            println!("{}", if there { "removed" } else { "not there" });
        }
        ["remove", ref titles @ ..] => {
            let keep = |title: &str| !titles.contains(&title);
            println!("{} removed", shelf.tx(|j, shelf| shelf.index.borrow_mut(j).retain(keep, j))?);
        }
        _ => return Err(format!("usage: {USAGE}").into()),
    }
    Ok(())
}
