//! The second version of `inventory_v1`: prices have cents, and items have places. It migrates the
//! first one's pool when it is asked to, whole or not at all.
//!
//! `inventory_v2 STORE [--rehearse | --migrate | NAME CENTS SHELF]`

#![forbid(unsafe_code)]

use everbyte::{Journal, MemPool, Migrate, PRefCell, PSafe, PString, PVec, Pool, pool};
use everbyte_examples::{Outcome, arguments, store};

pool!(P);

#[derive(PSafe)]
#[persist(version = 2, from = ItemV1<P>)]
#[repr(C)]
struct Item<P: MemPool> {
    name: PString<P>,
    cents: u64,
    place: Place,
}

#[derive(PSafe)]
#[repr(u8)]
enum Place {
    Unknown,
    Shelf(u16),
}

/// The type `Item` of the first version.
#[derive(PSafe)]
#[persist(version = 1, name = "Item")]
#[repr(C)]
struct ItemV1<P: MemPool> {
    name: PString<P>,
    euros: u32,
}

impl<P: MemPool> Migrate<ItemV1<P>, P> for Item<P> {
    fn migrate(old: ItemV1<P>, _: &Journal<P>) -> Item<P> {
        Item { name: old.name, cents: u64::from(old.euros) * 100, place: Place::Unknown }
    }
}

/// As it was: what holds items does not change.
type Inventory<P> = PRefCell<PVec<Item<P>, P>, P>;

fn main() -> Outcome {
    let (path, words) = arguments("inventory_v2 STORE [--rehearse | --migrate | NAME CENTS SHELF]")?;
    let store = store(path)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let items = match words[..] {
        ["--rehearse"] => {
            println!("{}", P::rehearse_migration::<Inventory<P>>(&store, "inventory")?);
            return Ok(());
        }
        ["--migrate"] => P::open_migrating::<Inventory<P>>(&store, "inventory")?,
        _ => P::open::<Inventory<P>>(&store, "inventory")?, // says so if it is of the first version
    };
    if let [name, cents, shelf] = words[..] {
        let (cents, place) = (cents.parse()?, Place::Shelf(shelf.parse()?));
        items.tx(|j, items| {
            items.borrow_mut(j).push(Item { name: PString::from_str(name, j), cents, place }, j);
        })?;
    }
    for Item { name, cents, place } in &*items.borrow() {
        match place {
            Place::Unknown => println!("{name}: {}.{:02}", cents / 100, cents % 100),
            Place::Shelf(shelf) => println!("{name}: {}.{:02}, shelf {shelf}", cents / 100, cents % 100),
        }
    }
    Ok(())
}
