//! Cases of the name space: the trie's form changes, the table gives way to it, and records lie outside of the table.

use crate::Case;
use crate::store::{Names, image, make, observe};
use everbyte_sim::{Explorer, Failure, Image, Order, Report};
use everbyte_store::Store;
use everbyte_store::layout::{SUPERBLOCKS, Superblock};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "store-names-burst",
        room: "store",
        about: "a full container bursts, a node's skip is cut, blocks come and go: each name whole or absent, no block lost",
        total: 4000,
        program: burst,
    },
    Case {
        name: "store-names-begin",
        room: "store",
        about: "the table is full and a trie takes over, objects get records outside of it: each name whole or absent",
        total: 4000,
        program: begin,
    },
];

fn burst(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let full: Vec<String> = ('a'..='p').map(|last| format!("shop/{last}")).collect();
    let names: Names = full.iter().cloned().zip(1..).collect();
    let image = image().then(|media| {
        let store = Store::attach(media).expect("a whole store");
        store.index_names().expect("room for a trie");
        names.iter().for_each(|(name, word)| make(&store, name, *word));
        store.close().expect("sim barriers do not fail");
    });
    explorer.explore_twin(
        &image,
        &names,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            let added = |name: &'static str| move |names: &mut Names| _ = names.insert(name.into(), 99);
            for name in ["shop/q", "short"] {
                twin.step(format!("make {name}: the form changes"), added(name), || make(&store, name, 99));
            }
            let removed = |names: &mut Names| _ = names.remove("shop/a");
            twin.step("remove shop/a and its container", removed, || {
                store.remove_object("shop/a").expect("it is there")
            });
            twin.step("make shop/a again", added("shop/a"), || make(&store, "shop/a", 99));
        },
        observe,
    )
}

/// A store whose table has three records only: the trie takes the last.
fn small_table() -> Image {
    image().then(|media| {
        let superblock = Superblock { table_slots: 3, ..media.get(SUPERBLOCKS[0]) }.sealed();
        let _section = media.section();
        for at in SUPERBLOCKS {
            media.put(at, &superblock);
            media.flush(at, size_of::<Superblock>() as u64);
        }
        media.barrier().expect("sim barriers do not fail");
    })
}

fn begin(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &small_table(),
        &Names::new(),
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            for (name, word) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
                let added = move |names: &mut Names| _ = names.insert(name.into(), word);
                twin.step(format!("make {name}"), added, || make(&store, name, word));
            }
            for name in ["a", "d"] {
                let removed = move |names: &mut Names| _ = names.remove(name);
                twin.step(format!("remove {name}"), removed, || store.remove_object(name).expect("it is there"));
            }
        },
        observe,
    )
}
