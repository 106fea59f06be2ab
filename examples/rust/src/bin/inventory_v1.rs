//! Items in stock, and their prices: the first version of a program whose types will change. See
//! `inventory_v2`.
//!
//! `inventory_v1 STORE [NAME EUROS ..]`

#![forbid(unsafe_code)]

use everbyte::{MemPool, PRefCell, PSafe, PString, PVec, Pool, pool};
use everbyte_examples::{Outcome, arguments, store};

pool!(P);

#[derive(PSafe)]
#[repr(C)]
struct Item<P: MemPool> {
    name: PString<P>,
    euros: u32,
}

type Inventory<P> = PRefCell<PVec<Item<P>, P>, P>;

fn main() -> Outcome {
    let (path, words) = arguments("inventory_v1 STORE [NAME EUROS ..]")?;
    let store = store(path)?;
    let items = P::open_or_create::<Inventory<P>>(&store, "inventory", |_| PRefCell::new(PVec::new()))?;
    for pair in words.chunks_exact(2) {
        let euros = pair[1].parse()?;
        items.tx(|j, items| items.borrow_mut(j).push(Item { name: PString::from_str(&pair[0], j), euros }, j))?;
    }
    for Item { name, euros } in &*items.borrow() {
        println!("{name}: {euros}");
    }
    Ok(())
}
