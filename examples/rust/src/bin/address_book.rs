//! An address book: people with any number of addresses, in the order of their names.
//!
//! `address_book STORE add NAME ADDRESS | remove NAME | find NAME | list`

#![forbid(unsafe_code)]

use everbyte::{Journal, MemPool, PCell, PRefCell, PSafe, PString, PVec, Pool, pool};
use everbyte_examples::{Outcome, arguments, store};

pool!(Book);

#[derive(PSafe)]
#[repr(C)]
struct Person<P: MemPool> {
    name: PString<P>,
    addresses: PVec<PString<P>, P>,
}

#[derive(PSafe)]
#[repr(C)]
struct People<P: MemPool> {
    /// Sorted by name.
    people: PRefCell<PVec<Person<P>, P>, P>,
    changes: PCell<u64, P>,
}

impl<P: MemPool> People<P> {
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.people.borrow().binary_search_by(|person| person.name.as_str().cmp(name))
    }

    fn add(&self, name: &str, address: &str, j: &Journal<P>) {
        let place = self.place(name);
        let mut people = self.people.borrow_mut(j);
        let index = place.unwrap_or_else(|index| {
            people.insert(index, Person { name: PString::from_str(name, j), addresses: PVec::new() }, j);
            index
        });
        if let Some(person) = people.get_mut(index, j) {
            person.addresses.push(PString::from_str(address, j), j);
        }
        self.changes.update(|count| count + 1, j);
    }

    fn remove(&self, name: &str, j: &Journal<P>) -> bool {
        let Ok(index) = self.place(name) else { return false };
        drop(self.people.borrow_mut(j).remove(index, j)); // frees all that belongs to it, at the commit
        self.changes.update(|count| count + 1, j);
        true
    }

    fn print(&self, wanted: impl Fn(&str) -> bool) {
        for person in self.people.borrow().iter().filter(|person| wanted(&person.name)) {
            let addresses: Vec<&str> = person.addresses.iter().map(|address| address.as_str()).collect();
            println!("{}: {}", person.name, addresses.join("; "));
        }
    }
}

fn main() -> Outcome {
    let usage = "address_book STORE add NAME ADDRESS | remove NAME | find NAME | list";
    let (path, words) = arguments(usage)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let store = store(path)?;
    let book = Book::open_or_create::<People<Book>>(&store, "people", |_| People {
        people: PRefCell::new(PVec::new()),
        changes: PCell::new(0),
    })?;
    match words[..] {
        ["add", name, address] => book.tx(|j, book| book.add(name, address, j))?,
        ["remove", name] => {
            if !book.tx(|j, book| book.remove(name, j))? {
                return Err(format!("nobody is called {name}").into());
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
