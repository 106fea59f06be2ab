//! A pool is made of a dump, used, and crashed at every step.

use crate::Case;
use crate::object::{Explored, empty, recover};
use everbyte_media::Media;
use everbyte_object::prc::PWeak;
use everbyte_object::{
    Journal, MemPool, PBTreeMap, PHashMap, PRefCell, PSafe, PString, PVec, Pool, PoolOptions, Prc, UntypedPool, load,
};
use everbyte_sim::{Explorer, Failure, Order, Report, Seen, Twin};
use everbyte_store::Store;

pub(crate) const CASES: &[Case] = &[Case {
    name: "object-load",
    crate_name: "object",
    about: "a pool is made of a dump, and changed: it is whole or absent, and what was changed is there",
    total: 6000,
    program,
}];

#[derive(PSafe)]
#[repr(C)]
struct Shelf<P: MemPool> {
    numbers: PRefCell<PVec<u64, P>, P>,
    names: PHashMap<PString<P>, u64, P>,
    ordered: PBTreeMap<u64, PString<P>, P>,
    first: Prc<u64, P>,
    weak: PWeak<u64, P>,
}

impl<P: MemPool> Shelf<P> {
    fn new(j: &Journal<P>) -> Shelf<P> {
        let text = |number: u64| PString::from_str(&number.to_string(), j);
        let first = Prc::new(7, j);
        Shelf {
            numbers: PRefCell::new(PVec::from_iter(0..3, j)),
            names: PHashMap::from_iter((0..9).map(|number| (text(number), number)), j),
            ordered: PBTreeMap::from_iter((0..70).map(|number| (number, text(number))), j),
            weak: first.downgrade(j),
            first,
        }
    }

    /// The numbers; an error if anything else is not as it was dumped.
    fn read(&self, j: &Journal<P>) -> Result<Vec<u64>, String> {
        let names = (0..9).all(|number: u64| self.names.get(number.to_string().as_str()) == Some(&number));
        let ordered = (0..70).all(|number| self.ordered.get(&number).is_some_and(|text| **text == number.to_string()));
        let shared = self.weak.upgrade(j).is_some_and(|weak| weak.ptr_eq(&self.first)) && *self.first == 7;
        match names && ordered && shared {
            true => Ok(self.numbers.borrow().to_vec()),
            false => Err(format!("names {names}, ordered {ordered}, shared {shared}")),
        }
    }
}

fn options() -> PoolOptions {
    PoolOptions { span: Some((2 << 20).into()), lanes: Some(2) }
}

/// The dump of a pool that the store does not have.
fn dump() -> Vec<u8> {
    let mut text = Vec::new();
    #[allow(clippy::redundant_closure)] // a function is not general enough
    let new = |store: &Store| Explored::create_with::<Shelf<Explored>>(store, "shelf", &options(), |j| Shelf::new(j));
    let store = Store::attach(empty().media()).expect("a whole store");
    drop(new(&store).expect("room for a pool"));
    UntypedPool::open(&store, "shelf").expect("a pool").dump(&mut text, &|_| ()).expect("a description");
    text
}

fn program(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let text = dump();
    let program = |media: Media, twin: &Twin<'_, Option<Vec<u64>>>| {
        let store = Store::attach(media).expect("a whole store");
        if twin.model().is_none() {
            let loaded = || _ = load(&store, "graph", &options(), &mut &*text, &|_| ()).expect("room for a pool");
            twin.step("load", |pool| *pool = Some(vec![0, 1, 2]), loaded);
        }
        let root = Explored::open::<Shelf<Explored>>(&store, "graph").expect("it was loaded");
        for number in [3, 4] {
            let push = move |pool: &mut Option<Vec<u64>>| pool.as_mut().expect("loaded").push(number);
            twin.step_here(format!("push {number}"), push, || {
                root.tx(|j, shelf| shelf.numbers.borrow_mut(j).push(number, j)).expect("room");
            });
        }
    };
    explorer.explore_twin(&empty(), &None, Order::InOrder, program, observe)
}

fn observe(media: Media, seen: &Seen) -> Result<Option<Vec<u64>>, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    if store.objects().map_err(|error| error.to_string())?.is_empty() {
        seen.recovered();
        return Ok(None);
    }
    drop(store);
    let root = recover::<Shelf<Explored>>(&media, seen)?;
    root.tx(|j, shelf| shelf.read(j)).map_err(|error| error.to_string())?.map(Some)
}
