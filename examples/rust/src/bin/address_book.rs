//! An address book: people with any number of addresses, in the order of their names.
//!
//! `address_book STORE add NAME ADDRESS | remove NAME | find NAME | list`

#![forbid(unsafe_code)]

use everbyte::{Journal, MemPool, PBTreeMap, PCell, PRefCell, PSafe, PString, PVec, Pool, pool};
use everbyte_examples::{Outcome, arguments, store};

pool!(Book);

type Addresses<P> = PVec<PString<P>, P>;

#[derive(PSafe)]
#[repr(C)]
struct People<P: MemPool> {
    people: PRefCell<PBTreeMap<PString<P>, Addresses<P>, P>, P>,
    changes: PCell<u64, P>,
}

impl<P: MemPool> People<P> {
    fn add(&self, name: &str, address: &str, j: &Journal<P>) {
        let mut people = self.people.borrow_mut(j);
        let addresses = people.get_or_insert_with(PString::from_str(name, j), PVec::new, j);
        addresses.push(PString::from_str(address, j), j);
        self.changes.update(|count| count + 1, j);
    }

    fn remove(&self, name: &str, j: &Journal<P>) -> bool {
        // all that belongs to it is freed, at the commit
        let gone = self.people.borrow_mut(j).remove(name, j);
        if gone.is_some() {
            self.changes.update(|count| count + 1, j);
        }
        gone.is_some()
    }

    fn print(&self, wanted: impl Fn(&str) -> bool) {
        for (name, addresses) in self.people.borrow().iter().filter(|(name, _)| wanted(name)) {
            let addresses: Vec<&str> = addresses.iter().map(|address| address.as_str()).collect();
            println!("{name}: {}", addresses.join("; "));
        }
    }
}

fn main() -> Outcome {
    let usage = "address_book STORE add NAME ADDRESS | remove NAME | find NAME | list";
    let (path, words) = arguments(usage)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let store = store(path)?;
    let book = Book::open_or_create::<People<Book>>(&store, "people", |_| People {
        people: PRefCell::default(),
        changes: PCell::new(0),
    })?;
    match words[..] {
        ["add", name, address] => book.tx(|j, book| book.add(name, address, j))?,
        ["remove", name] => {
            if !book.tx(|j, book| book.remove(name, j))? {
                return Err(format!("there is no entry for {name}").into());
            }
        }
        ["find", name] => book.print(|one| one == name),
        ["list"] => {
            book.print(|_| true);
            println!("{} people, {} changes", book.people.borrow().len(), book.changes.get());
        }
        _ => return Err(format!("usage: {usage}").into()),
    }
    Ok(())
}
