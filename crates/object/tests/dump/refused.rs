//! Dumps that are foreign, cut off, or contradict themselves: an error with the line, and no pool.

use crate::common::{description, make_old, store};
use crate::{dump, make};
use everbyte_object::{Error, MemPool, PBTreeMap, PHashMap, PSafe, PString, PVec, Pbox, Pool, Prc, UntypedPool, pool};
use everbyte_store::Store;
use serde_json::{Value, json};

pool!(P1, P2, P3, P4, P5, P6, P7, P8);

#[derive(PSafe)]
#[repr(C)]
struct Leaf<P: MemPool> {
    number: u8,
    next: Option<Pbox<Leaf<P>, P>>,
}

#[derive(PSafe, Default)]
#[repr(C)]
struct Root<P: MemPool> {
    small: u8,
    yes: bool,
    letter: char,
    fixed: [u8; 2],
    pair: (u8, u8),
    text: PString<P>,
    numbers: PVec<u8, P>,
    hashed: PHashMap<u16, u8, P>,
    ordered: PBTreeMap<PString<P>, u8, P>,
    leaf: Option<Pbox<Leaf<P>, P>>,
    first: Option<Prc<Leaf<P>, P>>,
    second: Option<Prc<Leaf<P>, P>>,
}

/// The lines of a pool with one shared value.
fn lines<P: Pool>(store: &Store) -> [String; 3] {
    let root = P::open_or_create::<Root<P>>(store, "root", |j| {
        let first = Some(Prc::new(Leaf { number: 1, next: None }, j));
        Root { first, letter: 'a', ..Root::default() }
    });
    drop(root.unwrap());
    dump(store, "root").try_into().unwrap()
}

#[track_caller]
fn refused(store: &Store, lines: &[impl AsRef<str>], line: u64, words: &str) {
    match make(store, "new", lines) {
        Err(Error::Dump { line: found, detail, .. }) => {
            assert!(found == line && detail.contains(words), "line {found}: {detail}");
        }
        other => panic!("{other:?}, {words}"),
    }
    assert!(store.object("new").is_err());
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let store = store();
    let [head, shared, root] = lines::<P1>(&store);
    let value: Value = serde_json::from_str(&root).unwrap();
    for (field, bad, words) in [
        ("small", json!(256), "is not a value of type `u8`"),
        ("small", json!(-1), "is not a value of type `u8`"),
        ("small", json!("x"), "is not a value of type `u8`"),
        ("small", json!(1.5), "is not a value of type `u8`"),
        ("small", json!([1]), "is not a value of type `u8`"),
        ("yes", json!(1), "is not a value of type `bool`"),
        ("letter", json!("ab"), "is not a value of type `char`"),
        ("fixed", json!([1]), "an array of 1 is not a value"),
        ("fixed", json!([1, 2, 3]), "an array of more than 2"),
        ("pair", json!([1, 2, 3]), "an array of more than 2"),
        ("text", json!(5), "5 is not a value of type `PString`"),
        ("numbers", json!(5), "PVec<u8>"),
        ("numbers", json!([1, 999]), "is not a value of type `u8`"),
        ("numbers", json!({ "$block": 1 }), "block 1 was not there before"),
        ("numbers", json!({ "block": 1 }), "PVec<u8>"),
        ("hashed", json!([[1, 2], [1, 3]]), "key 1 of `PHashMap<u16, u8>` is there twice"),
        ("hashed", json!({ "70000": 1 }), "is not a value of type `u16`"),
        ("hashed", json!([[1, 2, 3]]), "invalid length 3"),
        ("hashed", json!([[1]]), "invalid length 1"),
        ("ordered", json!({ "b": 1, "a": 2 }), ""),
        ("ordered", json!({ "b": 1, "b ": 2, "b!": 2 }), ""),
        ("leaf", json!({ "number": 1 }), ""),
        ("leaf", json!({ "next": null }), "field `number` of `Leaf` is missing"),
        ("leaf", json!({ "number": 1, "more": 1 }), "`Leaf` has no field `more`"),
        ("first", json!({ "number": 1 }), "an object is not a value of type `Prc<Leaf>`"),
        ("first", json!({ "$block": 1, "more": 2 }), "`more` behind a reference"),
        ("second", json!({ "$block": 7 }), "block 7 is named and missing"),
        ("first", json!(null), "block 1 is kept by no strong pointer"),
    ] {
        let mut value = value.clone();
        value["root"][field] = bad;
        let lines = [head.clone(), shared.clone(), value.to_string()];
        if words.is_empty() {
            make(&store, "good", &lines).unwrap();
            store.remove_object("good").unwrap();
        } else {
            refused(&store, &lines, 3, words);
        }
    }
}

/// Keys that every program orders in one way.
#[test]
fn keys_that_are_not_in_order_are_refused() {
    let store = store();
    let [head, shared, root] = lines::<P8>(&store);
    for (keys, words) in [
        (r#"{"b":1,"a":2}"#, "are not in order: `b`, then `a`"),
        (r#"{"a":1,"a":2}"#, "are not in order: `a`, then `a`"),
        (r#"{"a":1,"b":2,"$$x":3}"#, "are not in order: `b`, then `$x`"),
    ] {
        let root = root.replace("\"ordered\":{}", &format!("\"ordered\":{keys}"));
        refused(&store, &[&*head, &*shared, &*root], 3, words);
    }
}

#[test]
fn lines_that_contradict_each_other_are_refused() {
    let store = store();
    let [head, shared, root] = lines::<P4>(&store);
    let all = [&*head, &*shared, &*root];
    let with = |line: &'static str| [&*head, &*shared, line, &*root].map(String::from);
    refused(&store, &[""; 0], 0, "it is empty");
    refused(&store, &["hello"], 1, "it is no dump of a pool");
    refused(&store, &["{}"], 1, "it is no dump of a pool");
    refused(&store, &all[..1], 1, "the root is missing");
    refused(&store, &all[..2], 2, "the root is missing");
    refused(&store, &[all[0], all[1], all[2], all[2]], 4, "a second root");
    refused(&store, &[all[0], all[2]], 2, "block 1 is named and missing");
    refused(&store, &[all[0], all[1], all[1], all[2]], 3, "block 1 is there twice");
    refused(&store, &[all[0], all[1], &root[..root.len() - 9]], 3, "while parsing");
    refused(&store, &with(r#"{"block":2,"owned":"Pbox<Leaf>","value":{"number":1}}"#), 4, "nothing owns block 2");
    refused(&store, &with(r#"{"block":2,"owned":"Pbox<None>","value":1}"#), 3, "`Pbox<None>` is not described");
    refused(&store, &with(r#"{"block":2,"value":1,"owned":"Pbox<Leaf>"}"#), 3, "`value` does not belong here");
    refused(&store, &with(r#"{"block":2,"owned":"Pbox<Leaf>"}"#), 3, "neither a root nor a block");
    refused(&store, &with(r#"{"block":1,"shared":"Leaf","dropped":true}"#), 3, "block 1 is there twice");
    refused(&store, &with(r#"{"block":1,"shared":"Root","dropped":true}"#), 3, "where a `Root` belongs");
    refused(&store, &with(r#"{"block":3,"shared":"Leaf","value":{"number":1}}"#), 4, "kept by no strong pointer");
    refused(&store, &with(r#"{"more":3}"#), 3, "`more` does not belong here");
    refused(&store, &with("[]"), 3, "a line of a dump");
    let twice = root.replace("\"leaf\":null", "\"leaf\":{\"$block\":2}");
    let owned = r#"{"block":2,"owned":"Pbox<Leaf>","value":{"number":1,"next":null}}"#;
    make(&store, "good", &[&*head, &*shared, owned, &*twice]).unwrap();
    let other = owned.replace("Pbox<Leaf>", "PVec<u8>").replace(r#"{"number":1,"next":null}"#, "[1]");
    refused(&store, &[&*head, &*shared, &*other, &*twice], 4, "where a `Pbox<Leaf>` belongs");
    let dropped = shared.split(",\"value\"").next().unwrap().to_string() + ",\"dropped\":true}";
    refused(&store, &[&*head, &*dropped, &*root], 3, "is dropped, and strong pointers lead to it");
}

#[test]
fn foreign_and_newer_dumps_are_refused() {
    let store = store();
    let [head, shared, root] = lines::<P5>(&store);
    let changed = |key: &str, value: Value| {
        let mut new: Value = serde_json::from_str(&head).unwrap();
        new[key] = value;
        [new.to_string(), shared.clone(), root.clone()]
    };
    for (key, value) in [("version", json!(2)), ("format", json!(99))] {
        assert!(matches!(make(&store, "new", &changed(key, value)), Err(Error::NewerFormat { .. })));
    }
    refused(&store, &changed("version", json!("1")), 1, "`version` is no number");
    refused(&store, &changed("version", json!(0)), 1, "there is no version 0");
    refused(&store, &changed("description", json!("root")), 1, "`description` is no list of lines");
    refused(&store, &changed("description", json!(["hello"])), 1, "the description cannot be read");
    refused(&store, &changed("description", json!(["root Unknown"])), 1, "opaque");
    let lines: Vec<String> = (0..100_000).map(|number| format!("T{number} 8 8")).collect();
    refused(&store, &changed("description", json!(lines)), 1, "too long");
    // more than there is memory
    let large = json!(["root A", "A 9000000000000000000 8 { a: [u64; 1125000000000000000] @0 }"]);
    refused(&store, &changed("description", large), 1, "too large");
    let large = json!(["root PVec<A>", "PVec<A> 24 8", "A 1099511627776 8 { a: [u64; 137438953472] @0 }"]);
    let root = r#"{"root":[[[1]]]}"#.to_string();
    let [head, ..] = changed("description", large);
    refused(&store, &[head, root], 2, "too large");
}

/// A description may say anything: an error, or a pool that is whole; never a panic.
#[test]
fn descriptions_with_flipped_bits_are_refused_or_loaded() {
    let store = store();
    let [head, shared, root] = lines::<P6>(&store);
    let mut loaded = 0;
    for at in 0..head.len() {
        for bit in [1, 4, 16] {
            let mut bytes = head.clone().into_bytes();
            bytes[at] ^= bit;
            let Ok(head) = String::from_utf8(bytes) else { continue };
            if make(&store, "new", &[&*head, &*shared, &*root]).is_ok() {
                loaded += 1;
                let report = UntypedPool::open(&store, "new").unwrap().examine(&|_| ());
                assert!(report.faults.is_empty(), "{head}: {report:?}");
                store.remove_object("new").unwrap();
            }
            assert!(store.object("new").is_err());
        }
    }
    assert!(loaded > 20, "{loaded}");
}

#[derive(PSafe)]
#[repr(C)]
struct Vague<P: MemPool> {
    first: Option<u8>,
    marker: PVec<u8, P>,
}

/// A pool whose description does not explain a value, and a damaged one.
#[test]
fn what_cannot_be_read_is_not_dumped() {
    let store = store();
    drop(P2::create::<Vague<P2>>(&store, "vague", |_| Vague { first: Some(3), marker: PVec::new() }).unwrap());
    let text = description(&store, "vague").replace(" u8 { None = 0; Some = 1; Some.0: u8 @1 }", "");
    make_old(&store, "vague", 1, &text);
    let mut out = Vec::new();
    let dumped = UntypedPool::open(&store, "vague").unwrap().dump(&mut out, &|_| ());
    assert!(matches!(dumped, Err(Error::Opaque { ref of, .. }) if of == "Option<u8>"), "{dumped:?}");
    assert!(out.is_empty());

    drop(P3::create::<Option<Pbox<bool, P3>>>(&store, "damaged", |j| Some(Pbox::new(true, j))).unwrap());
    let pool = UntypedPool::open(&store, "damaged").unwrap();
    let report = pool.examine(&|_| ());
    let prime = store.object("damaged").unwrap().prime();
    let root = store.media().load(prime + everbyte_object::layout::HEADER + 72);
    let block = store.media().load(prime + root);
    store.media().write(prime + block, &[7]);
    assert!(report.faults.is_empty());
    assert!(matches!(pool.dump(&mut out, &|_| ()), Err(Error::Damaged(_))));
}

/// Output that fails half-way.
#[test]
fn output_that_fails_is_an_error() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let store = store();
    lines::<P7>(&store);
    let len = dump(&store, "root").iter().map(|line| line.len() + 1).sum();
    let pool = UntypedPool::open(&store, "root").unwrap();
    for room in (0..len).step_by(100) {
        match pool.dump(&mut Full(room), &|_| ()) {
            Err(Error::Output { source, .. }) => assert_eq!(source.kind(), std::io::ErrorKind::StorageFull),
            other => panic!("{room}: {other:?}"),
        }
    }
}
