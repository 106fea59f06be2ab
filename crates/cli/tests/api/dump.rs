//! `object dump` and `object load`: a typed pool as text and back, without its program.

use crate::common::Place;
use everbyte_object::{MemPool, PBTreeMap, PSafe, PString, Pool, Prc, pool};
use everbyte_store::Store;
use serde_json::Value;
use std::fs;

pool!(P);

#[derive(PSafe)]
#[repr(C)]
struct World<P: MemPool> {
    stock: PBTreeMap<PString<P>, u32, P>,
    authors: [Prc<PString<P>, P>; 2],
}

#[test]
fn a_pool_is_dumped_and_loaded() {
    let place = Place::with_store();
    let open = || Store::open(&place.path("everbyte.store"), &Default::default()).unwrap();
    let store = open();
    let world = P::create::<World<P>>(&store, "world", |j| {
        let author = Prc::new(PString::from_str("Ada", j), j);
        let stock = ["bread", "milk"].map(|name| (PString::from_str(name, j), 7));
        World { stock: PBTreeMap::from_iter(stock, j), authors: [author.pclone(j), author] }
    });
    drop(world.unwrap());
    store.close().unwrap();
    drop(store);

    let text = place.good(&["object", "dump", "world"]);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[1]["value"], &lines[2]["root"]["stock"]["milk"]), (3, &"Ada".into(), &7.into()));
    let said = place.good(&["--json", "object", "dump", "world", "world.jsonl"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["lines"], &said["shared"]), (&3.into(), &1.into()));
    assert_eq!(fs::read_to_string(place.path("world.jsonl")).unwrap(), text);
    place.bad(&["object", "dump", "world", "world.jsonl"], 2, &["exists already"]);
    place.bad(&["object", "dump", "none"], 1, &["none"]);

    assert_eq!(place.good(&["object", "load", "copy", "world.jsonl"]), "loaded copy: 3 lines, 6 blocks\n");
    place.bad(&["object", "load", "copy", "world.jsonl"], 2, &["copy"]);
    assert_eq!(place.good(&["object", "dump", "copy"]).replace("\"copy\"", "\"world\""), text);
    place.good(&["check", "--deep"]);
    {
        let store = open();
        let world = P::open::<World<P>>(&store, "copy").unwrap();
        assert!(world.stock.get("bread") == Some(&7) && world.authors[0].ptr_eq(&world.authors[1]));
        drop(world);
        store.close().unwrap();
    }

    fs::write(place.path("bad.jsonl"), text.replace("\"milk\":7", "\"milk\":-7")).unwrap();
    place.bad(&["object", "load", "bad", "bad.jsonl"], 3, &["line 3 of the dump: -7 is not a value of type `u32`"]);
    place.bad(&["object", "load", "bad", "everbyte.store"], 3, &["line 1"]);
    place.bad(&["object", "load", "bad", "absent.jsonl"], 5, &["absent.jsonl"]);
    assert_eq!(place.good(&["ls"]), "copy\nworld\n");
}
