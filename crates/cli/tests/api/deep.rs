//! `check --deep` walks typed pools without their programs.

use crate::common::Place;
use everbyte_heap::Heap;
use everbyte_object::layout::HEADER;
use everbyte_object::{MemPool, PRefCell, PSafe, PVec, Pbox, Pool, Prc, Root, UntypedPool, pool};
use everbyte_store::{Engine, ObjectOptions, Store};
use everbyte_tx::Undo;
use serde_json::{Value, json};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

pool!(P);

#[derive(PSafe)]
#[repr(C)]
struct Graph<P: MemPool> {
    numbers: PRefCell<PVec<Pbox<u64, P>, P>, P>,
    first: PRefCell<Option<Prc<Knot<P>, P>>, P>,
}

/// May lead in a circle.
#[derive(PSafe)]
#[repr(C)]
struct Knot<P: MemPool> {
    other: PRefCell<Option<Prc<Knot<P>, P>>, P>,
    shared: PRefCell<Option<Prc<u32, P>>, P>,
}

/// The change that a test makes to the pool before the tool runs.
type Change = fn(&Root<Graph<P>, P>);

/// Lets one test at a time use the pool type.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store with a typed pool, a table, and an object that only its program understands.
fn place(change: Change) -> Place {
    let _alone = alone();
    let place = Place::with_store();
    place.good(&["kv", "put", "a", "1"]);
    let store = open(&place);
    let graph = P::create::<Graph<P>>(&store, "graph", |j| {
        let knot = Knot { other: PRefCell::new(None), shared: PRefCell::new(Some(Prc::new(7, j))) };
        Graph {
            numbers: PRefCell::new(PVec::from_iter([1, 2, 3].map(|number| Pbox::new(number, j)), j)),
            first: PRefCell::new(Some(Prc::new(knot, j))),
        }
    });
    let graph = graph.unwrap();
    change(&graph);
    drop(graph);
    let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(1 << 20) };
    store.create_object("accounts", options, Undo::format).unwrap();
    store.close().unwrap();
    place
}

fn open(place: &Place) -> Store {
    Store::open(&place.path("everbyte.store"), &Default::default()).unwrap()
}

/// Leaks a number and a circle of two; both share values with the root.
fn leak(graph: &Root<Graph<P>, P>) {
    graph.tx(|j, _| std::mem::forget(Pbox::new(5u64, j))).unwrap();
    let circle = graph.tx(|j, graph| {
        let first = graph.first.borrow();
        let shared =
            || PRefCell::new(first.as_ref().and_then(|knot| knot.shared.borrow().as_ref().map(|all| all.pclone(j))));
        let one = Prc::new(Knot { other: PRefCell::new(None), shared: shared() }, j);
        let two = Prc::new(Knot { other: PRefCell::new(Some(one.pclone(j))), shared: shared() }, j);
        *one.other.borrow_mut(j) = Some(two.pclone(j));
    });
    circle.unwrap();
}

/// The lines that a command prints, as JSON.
fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_whole_store_is_clean_and_says_what_was_walked() {
    let place = place(|_| ());
    let bytes = || fs::read(place.path("everbyte.store")).unwrap();
    let before = bytes();
    let out = place.good(&["check", "--deep"]);
    assert!(bytes() == before, "a check changes nothing");
    for line in [
        "everbyte.store: `accounts`: not walked: what its blocks hold only its program knows",
        "everbyte.store: `graph`: walked: 9 blocks of ",
        "everbyte.store: `kv`: not walked: it is a table, whose own check reads all of it",
        "everbyte.store: no damage, no leaks",
    ] {
        assert!(out.contains(line), "`{line}`: {out}");
    }
    let said = lines(&place.good(&["check", "--deep", "--json"]));
    let graph = said.iter().find(|line| line["object"] == "graph").unwrap();
    assert_eq!((&graph["in_use"]["blocks"], &graph["leaked"]["blocks"]), (&json!(9), &json!(0)));
    assert_eq!(said.last().unwrap()["wrong"], 0);
}

#[test]
fn leaks_and_wrong_counts_are_reported() {
    let place = place(leak);
    assert_eq!(place.run(&["check"]).code, 0, "only a walk finds them");
    let said = place.bad(&["check", "--deep"], 1, &["everbyte.store: 4 findings", "check --deep --repair"]);
    let number = "bytes are allocated and no pointer leads to them; they could be a u64";
    assert!(said.out.contains("object: leak at 0x") && said.out.contains(number), "{said:?}");
    assert_eq!(said.out.matches("they could be a Prc<Knot>").count(), 2, "{said:?}");
    let count = "root.first.shared: its counts say 3 strong and 0 weak pointers, and 1 and 0 were found";
    assert!(said.out.contains(count), "{said:?}");
    assert!(said.out.contains("3 blocks of 80 bytes have leaked"), "{said:?}");
    let json = lines(&place.run(&["check", "--deep", "--json"]).out);
    let kinds: Vec<_> =
        json.iter().filter(|line| line["object"] == "graph").map(|line| line["kind"].as_str()).collect();
    assert_eq!(kinds, [Some("damage"), Some("leak"), Some("leak"), Some("leak"), None]);
}

#[test]
fn damage_is_named_with_its_way() {
    let place = place(|_| ());
    let store = open(&place);
    let prime = store.object("graph").unwrap().prime();
    let root = prime + store.media().load(prime + HEADER + 72);
    let media = store.media();
    let numbers = prime + media.load(root);
    let section = media.section();
    media.store(numbers + 8, media.load(numbers)); // the second pointer leads to the first number
    media.store(root + 24, 1 << 40); // and the pointer to the knots leads outside the pool
    media.flush(numbers, 16);
    media.flush(root, 32);
    drop(section);
    store.close().unwrap();
    drop(store);
    let said = place.bad(&["check", "--deep"], 1, &["everbyte.store: 2 findings"]);
    for line in
        ["double use at 0x", "root.numbers[0], root.numbers[1]: a block with 2 owners", "root.first: a pointer to 0x1"]
    {
        assert!(said.out.contains(line), "`{line}`: {said:?}");
    }
    assert!(said.out.contains("have leaked, unless something that cannot be followed leads there"), "{said:?}");
}

/// The token of a plan.
fn token(place: &Place) -> String {
    let said = lines(&place.run(&["check", "--deep", "--repair", "--json"]).out);
    let token = said.iter().find_map(|line| line["token"].as_str());
    token.unwrap_or_else(|| panic!("{said:?}")).into()
}

#[test]
fn a_repair_is_rehearsed_and_then_done_under_its_token() {
    let place = place(leak);
    let bytes = || fs::read(place.path("everbyte.store")).unwrap();
    let before = bytes();
    let said = place.bad(&["check", "--deep", "--repair"], 1, &["--token"]);
    assert!(bytes() == before, "a rehearsal changes nothing");
    for line in
        ["to be done: `graph`: mend the counts of 0x", "(root.first.shared): 1 strong, 0 weak", "could be a u64"]
    {
        assert!(said.out.contains(line), "`{line}`: {said:?}");
    }
    assert_eq!(said.out.matches("to be done: `graph`: free 0x").count(), 3, "{said:?}");
    let token = token(&place);
    assert!(said.out.contains(&format!("token: {token}")), "{said:?}");
    place.bad(&["check", "--token", &token], 2, &["--deep", "--repair"]);
    place.bad(
        &["check", "--deep", "--repair", "--token", "0123"],
        1,
        &["the store changed after token 0000000000000123 was printed"],
    );
    let wrong = |place: &Place| lines(&place.run(&["check", "--deep", "--json"]).out).last().unwrap()["wrong"].clone();
    assert_eq!(wrong(&place), 4, "nothing was repaired");
    let out = place.good(&["check", "--deep", "--repair", "--token", &token]);
    assert!(out.matches("done: `graph`: ").count() == 4 && out.contains("no damage, no leaks"), "{out}");
    assert_eq!(wrong(&place), 0);
    assert!(place.good(&["check", "--deep", "--repair"]).contains("no damage, no leaks"), "and nothing is left to do");
    let store = open(&place);
    let mut pool = UntypedPool::open(&store, "graph").unwrap();
    assert_eq!(pool.examine(&|_| ()).reached.blocks, 9);
    assert!(pool.repair(token.parse().unwrap(), &|_| ()).is_err());
}

#[test]
fn a_token_is_of_no_use_when_the_pool_has_changed() {
    let place = place(leak);
    let token = token(&place);
    let store = open(&place);
    {
        let _alone = alone();
        P::open::<Graph<P>>(&store, "graph").unwrap();
    }
    store.close().unwrap();
    drop(store);
    place.bad(&["check", "--deep", "--repair", "--token", &token], 1, &["nothing was repaired", "plans again"]);
}

/// No crash leaves such blocks, so this test constructs one.
#[test]
fn what_a_table_has_lost_is_freed_as_well() {
    let place = place(|_| ());
    let store = open(&place);
    let heap = Heap::open(store.object("kv").unwrap()).unwrap();
    let lost = heap.alloc_into(500, (heap.object().prime() + 3072).get()).unwrap();
    store.close().unwrap();
    drop((heap, store));
    let said = place.bad(&["check", "--deep", "--repair"], 1, &["1 findings", "--token"]);
    assert!(said.out.contains(&format!("to be done: `kv`: free {:#x}: {} bytes", lost.at, lost.size)), "{said:?}");
    let out = place.good(&["check", "--deep", "--repair", "--token", &token(&place)]);
    assert!(out.contains(&format!("done: `kv`: free {:#x}", lost.at)) && out.contains("no damage, no leaks"), "{out}");
    assert_eq!(place.good(&["kv", "get", "a"]), "1\n");
}

/// A damaged pool keeps its leaks and those of the other pools.
#[test]
fn nothing_is_repaired_while_there_is_damage() {
    let place = place(leak);
    let token = token(&place);
    let store = open(&place);
    let prime = store.object("graph").unwrap().prime();
    let root = prime + store.media().load(prime + HEADER + 72);
    {
        let _section = store.media().section();
        store.media().store(root + 24, 1 << 40);
        store.media().flush(root + 24, 8);
    }
    store.close().unwrap();
    drop(store);
    for words in [&["check", "--deep", "--repair"][..], &["check", "--deep", "--repair", "--token", &token]] {
        place.bad(
            words,
            1,
            &["object `graph` is damaged at offset 0x", "root.first: a pointer to", "nothing is sure to have leaked"],
        );
    }
}

/// A store that a server has served: its tables are compared with each other.
#[test]
fn the_tables_of_a_server_are_checked() {
    let place = Place::with_store();
    let store = open(&place);
    let kv = everbyte_kv::Kv::open_or_create(&store, "kv").unwrap();
    let mut server = everbyte_server::ServerScript::open(kv.clone(), 1, false, Default::default()).unwrap();
    let lines_sent = "RPUSH l a b\r\nSET k v PX 100000000\r\nSELECT 2\r\nSADD s m\r\n";
    assert_eq!(server.iteration(&[(0, lines_sent.into())]).unwrap()[0], b":2\r\n+OK\r\n+OK\r\n:1\r\n");
    drop((server, kv));
    store.close().unwrap();
    drop(store);
    let sums = "`kv`: the server's tables: 3 records, 2 collections of 3 elements, 1 deadlines";
    assert!(place.good(&["check", "--deep"]).contains(sums));
    let elements = kv_table(&place, "server/elements");
    elements.1.put(b"\x02\0\0\0\0\0\0\0\x09odd", b"").unwrap();
    let keys = elements.0.open_table("server/keys").unwrap();
    let record = keys.get(b"\0l").unwrap().unwrap();
    keys.put(b"\0l", &[&record[..24], &5_u64.to_le_bytes(), &record[32..]].concat()).unwrap();
    drop((elements, keys));
    let said = place.bad(&["check", "--deep"], 1, &["everbyte.store: 2 findings"]);
    for line in [
        "`kv`: server: damage in database 0 at key \"l\", id 1: the record says 5 elements, and there are 2 (KEYS-3)",
        "`kv`: server: leak in database 2, id 9: 1 elements of no collection (KEYS-3)",
    ] {
        assert!(said.out.contains(line), "`{line}`: {said:?}");
    }
    let json = lines(&place.run(&["check", "--deep", "--json"]).out);
    let found = json.iter().find(|line| line["kind"] == "damage").unwrap();
    let place_of = [&found["room"], &found["object"], &found["rule"], &found["database"], &found["key"], &found["id"]];
    assert_eq!(place_of, [&json!("server"), &json!("kv"), &json!("KEYS-3"), &json!(0), &json!("l"), &json!(1)]);
    assert_eq!(json.last().unwrap()["wrong"], 2);
}

/// A table of the store's key-value store, and that itself.
fn kv_table(place: &Place, name: &str) -> (everbyte_kv::Kv, everbyte_kv::KvTable) {
    let kv = everbyte_kv::Kv::open(&open(place), "kv").unwrap();
    let table = kv.open_table(name).unwrap();
    (kv, table)
}
