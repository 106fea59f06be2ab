//! Cases of the name space: the trie's form changes, the table gives way to it, and records lie
//! outside of the table.
use everbyte_media::Checked as _;

use crate::Case;
use crate::store::{Names, image, make, observe};
use everbyte_sim::{Explorer, Failure, Image, Order, Report};
use everbyte_store::layout::{SUPERBLOCKS, Superblock};
use everbyte_store::{Access, Caller, Error, ObjectOptions, Store};
use std::collections::BTreeMap;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "store-names-burst",
        crate_name: "store",
        about: "a full container bursts, a node's skip is cut, blocks come and go: each name whole or absent, no block lost",
        total: 4000,
        program: burst,
    },
    Case {
        name: "store-names-doubt",
        crate_name: "store",
        about: "a crash in a change of form leaves its list, a second run changes the form elsewhere: each name whole or absent",
        total: 900,
        program: doubt,
    },
    Case {
        name: "store-names-begin",
        crate_name: "store",
        about: "the table is full and a trie takes over, objects get records outside of it: each name whole or absent",
        total: 4000,
        program: begin,
    },
    Case {
        name: "store-names-refused",
        crate_name: "store",
        about: "creations are refused after a trie took over and a block was cut for them, others succeed: each name whole or absent",
        total: 2000,
        program: refused,
    },
    Case {
        name: "store-names-second",
        crate_name: "store",
        about: "an object gets a record outside of the table: its name is whole or absent",
        total: 600,
        program: second,
    },
    Case {
        name: "store-names-rename",
        crate_name: "store",
        about: "objects are renamed and get other rights, in the table and outside of it: one name, old rights or new ones",
        total: 4000,
        program: rename,
    },
];

/// Images that a second run starts from: a list that is half emptied is one of few.
const DOUBT_RUNS: u64 = 120;

/// A full container, below which one name more changes the form.
pub(crate) fn full() -> (Image, Names) {
    let full: Vec<String> = ('a'..='p').map(|last| format!("shop/{last}")).collect();
    let names: Names = full.iter().cloned().zip(1..).collect();
    let image = image().then(|media| {
        let store = Store::attach(media).expect("a whole store");
        store.index_names().expect("room for a trie");
        names.iter().for_each(|(name, word)| make(&store, name, *word));
        store.close().expect("sim barriers do not fail");
    });
    (image, names)
}

/// Two changes of form; a crash in the first leaves its list behind, and the second run makes the
/// other.
fn doubt(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, names) = full();
    explorer.recovery(1 << 20, 1).again(DOUBT_RUNS, 24).explore_twin(
        &image,
        &names,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            for name in ["shop/q", "short"] {
                if !twin.model().contains_key(name) {
                    let added = move |names: &mut Names| _ = names.insert(name.into(), 99);
                    twin.step(format!("make {name}"), added, || make(&store, name, 99));
                }
            }
        },
        observe,
    )
}

fn burst(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, names) = full();
    explorer.explore_twin(
        &image,
        &names,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            let added = |name: &'static str| move |names: &mut Names| _ = names.insert(name.into(), 99);
            let is_there = |name: &str| twin.model().contains_key(name);
            for name in ["shop/q", "short"] {
                if !is_there(name) {
                    twin.step(format!("make {name}: the form changes"), added(name), || make(&store, name, 99));
                }
            }
            if is_there("shop/a") {
                let removed = |names: &mut Names| _ = names.remove("shop/a");
                twin.step("remove shop/a and its container", removed, || {
                    store.remove_object("shop/a").expect("it is there")
                });
            }
            twin.step("make shop/a again", added("shop/a"), || make(&store, "shop/a", 99));
        },
        observe,
    )
}

/// Before each creation another thread's is refused: the last change of that thread may be a form
/// of the name space that the next one builds on.
fn refused(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &small_table(),
        &Names::new(),
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            let refuse = || {
                let options = ObjectOptions { span: Some(3), ..ObjectOptions::default() };
                store.create_object("none", options, |_| Ok::<(), Error>(())).expect_err("no span has three bytes");
            };
            for (name, word) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
                if twin.model().contains_key(name) {
                    continue;
                }
                twin.on_its_thread(refuse);
                let added = move |names: &mut Names| _ = names.insert(name.into(), word);
                twin.step(format!("make {name}"), added, || make(&store, name, word));
            }
        },
        observe,
    )
}

/// One creation, in a name space with few names.
fn second(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = image().then(|media| {
        let store = Store::attach(media).expect("a whole store");
        store.index_names().expect("room for a trie");
        make(&store, "first", 1);
        store.close().expect("sim barriers do not fail");
    });
    let names = Names::from([("first".into(), 1)]);
    explorer.explore_twin(
        &image,
        &names,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            if !twin.model().contains_key("second") {
                let added = |names: &mut Names| _ = names.insert("second".into(), 2);
                twin.step("make second", added, || make(&store, "second", 2));
            }
        },
        observe,
    )
}

/// The model: names, and the word and the rights of each.
type Owned = BTreeMap<String, (u64, Access)>;

fn rename(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &small_table(),
        &Owned::new(),
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            let first = Access::of_new(&Caller::current());
            let made =
                |name: &'static str, word: u64| move |names: &mut Owned| _ = names.insert(name.into(), (word, first));
            let moved = |from: &'static str, to: &'static str| {
                move |names: &mut Owned| {
                    let object = names.remove(from).expect("it was made");
                    names.insert(to.into(), object);
                }
            };
            let is_there = |name: &str| twin.model().contains_key(name);
            let make = |name: &'static str, word: u64| {
                if !is_there(name) {
                    twin.step(format!("make {name}"), made(name, word), || make(&store, name, word));
                }
            };
            let rename = |from: &'static str, to: &'static str| {
                if is_there(from) && !is_there(to) {
                    let rename = || store.rename_object(from, to).expect("the new name is free");
                    twin.step(format!("move {from} to {to}"), moved(from, to), rename);
                }
            };
            make("a", 1);
            rename("a", "b");
            make("c", 2); // the trie begins
            rename("b", "d/d");
            rename("d/d", "a");
            // Owner and group, and the mode, lie in words of their own, each of which may be lost.
            // Any user may open the object, so that any can run this.
            let rights = [(4010, 4020, 0o646), (4011, 4020, 0o606), (4012, 4021, 0o666)];
            for new in rights.map(|(owner, group, mode)| Access { owner, group, mode }) {
                let changed = move |names: &mut Owned| names.get_mut("a").expect("it was made").1 = new;
                let root = Caller { user: 0, groups: vec![] };
                let change = || store.change_access(&root, "a", |_| new).expect("root may, and the mode is one");
                twin.step(format!("a is {new}"), changed, change);
            }
        },
        |media, seen| {
            let words = observe(media.clone(), seen)?;
            let store = Store::attach(media).map_err(|error| error.to_string())?;
            let objects = store.objects().map_err(|error| error.to_string())?;
            Ok(objects.into_iter().map(|info| (info.name.clone(), (words[&info.name], info.access))).collect())
        },
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
                if twin.model().contains_key(name) {
                    continue;
                }
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
