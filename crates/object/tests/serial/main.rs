//! Typed objects from and to the formats of serde.

#[path = "../common/mod.rs"]
mod common;
mod refused;

use common::store;
use everbyte_object::{
    Journal, MemPool, PBTreeMap, PBTreeSet, PBinaryHeap, PCell, PDeserialize, PHashMap, PHashSet, POnceCell, PRefCell,
    PSafe, PString, PVec, PVecDeque, Parc, Pbox, Pool, Prc, UntypedPool, VCell, pool,
};
use everbyte_store::Store;
use serde::Serialize;
use serde_json::{Deserializer, Value, json};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

/// A reader of JSON.
macro_rules! reader {
    ($text:expr) => {
        &mut Deserializer::from_str($text)
    };
}

/// Blocks of a pool that nothing leads to, and damage: none.
#[track_caller]
fn require_whole(store: &Store, name: &str) {
    let report = UntypedPool::open(store, name).unwrap().examine(&|_| ());
    assert_eq!(report.findings(), []);
    assert_eq!(report.leaked.blocks, 0);
}

#[derive(PSafe, PDeserialize, Serialize)]
#[repr(C)]
struct Everything<P: MemPool> {
    number: u64,
    small: PCell<i8, P>,
    text: PRefCell<PString<P>, P>,
    boxed: Pbox<(u8, bool), P>,
    maybe: Option<Pbox<PString<P>, P>>,
    counted: Prc<u32, P>,
    shared: Parc<PString<P>, P>,
    once: POnceCell<u16, P>,
    list: PVec<[u8; 3], P>,
    queue: PVecDeque<PString<P>, P>,
    heap: PBinaryHeap<u32, P>,
    set: PHashSet<u32, P>,
    names: PBTreeSet<PString<P>, P>,
    map: PBTreeMap<PString<P>, PVec<Pair<i64>, P>, P>,
    table: PHashMap<u64, Shape<P>, P>,
    wait: Duration,
    cache: VCell<usize, P>,
    unit: Meters<Earth>,
    nothing: Nothing,
}

#[derive(PSafe, PDeserialize, Serialize, Clone, Copy)]
#[repr(C)]
struct Pair<T>(T, T);

#[derive(PSafe, PDeserialize, Serialize, Clone, Copy)]
#[repr(C)]
struct Nothing;

struct Earth;

#[derive(PSafe, PDeserialize, Serialize)]
#[repr(C)]
struct Meters<U> {
    value: f64,
    of: PhantomData<U>,
}

#[derive(PSafe, PDeserialize, Serialize)]
#[repr(u8)]
enum Shape<P: MemPool> {
    Point,
    Circle(f32),
    Line(i32, i32),
    Named {
        #[serde(rename = "called")]
        name: PString<P>,
        inner: Option<Pbox<Shape<P>, P>>,
    },
    #[serde(rename = "r")]
    Renamed,
}

fn everything() -> Value {
    json!({
        "number": u64::MAX,
        "small": -3,
        "text": "remember",
        "boxed": [7, true],
        "maybe": "there",
        "counted": 12,
        "shared": "Ada",
        "once": 9,
        "list": [[1, 2, 3], [4, 5, 6]],
        "queue": ["first", "second"],
        "heap": [9],
        "set": [77],
        "names": ["a", "b"],
        "map": { "left": [[1, -1], [2, -2]], "right": [] },
        "table": { "5": { "Named": { "called": "outer", "inner": { "Circle": 1.5 } } } },
        "wait": { "secs": 3, "nanos": 4 },
        "cache": null,
        "unit": { "value": 8848.5, "of": null },
        "nothing": null,
    })
}

pool!(All);

#[test]
fn every_type_comes_back_as_it_was_written() {
    let store = store();
    let text = everything().to_string();
    let made = All::create::<Everything<All>>(&store, "all", |j| j.deserialize(reader!(&text)).unwrap()).unwrap();
    assert_eq!(serde_json::to_value(&*made).unwrap(), everything());
    assert_eq!(made.table.get(&5).map(|shape| matches!(shape, Shape::Named { .. })), Some(true));
    assert_eq!((made.once.get(), made.heap.peek(), &**made.shared), (Some(&9), Some(&9), "Ada"));
    // inside of a transaction, too
    let inside = made.tx(|_, made| serde_json::to_value(made).unwrap()).unwrap();
    assert_eq!(inside, everything());
    drop(made);
    require_whole(&store, "all");
}

pool!(Variants);

#[test]
fn variants_of_every_form() {
    let store = store();
    let text = r#"["Point",{"Circle":0.5},{"Line":[1,2]},{"Named":{"called":"x","inner":"Point"}},"r",{"Named":{"called":"y","inner":null}}]"#;
    let shapes = Variants::create::<PVec<Shape<Variants>, Variants>>(&store, "shapes", |j| {
        j.deserialize(reader!(text)).unwrap()
    });
    assert_eq!(serde_json::to_string(&*shapes.unwrap()).unwrap(), text);
    require_whole(&store, "shapes");
}

#[derive(PSafe, PDeserialize, Serialize)]
#[repr(C)]
struct Defaults<P: MemPool> {
    must: u8,
    #[serde(default)]
    count: u32,
    #[serde(default, rename = "label")]
    text: PString<P>,
    may: Option<u8>,
    #[serde(skip)]
    skipped: u16,
    cell: PRefCell<Option<u8>, P>,
}

pool!(Missing);

#[test]
fn missing_fields_have_their_defaults_and_unknown_ones_are_passed_over() {
    let store = store();
    let text = r#"{"unknown":{"deep":[1,2,{}]},"must":1,"skipped":5}"#;
    let made = Missing::create::<Defaults<Missing>>(&store, "pool", |j| j.deserialize(reader!(text)).unwrap()).unwrap();
    assert_eq!((made.must, made.count, made.text.len(), made.may, made.skipped), (1, 0, 0, None, 0));
    let text = r#"{"must":1,"count":7,"label":"here","may":3,"cell":4}"#;
    made.tx(|j, _| {
        let again: Defaults<_> = j.deserialize(reader!(text)).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    })
    .unwrap();
    drop(made);
    require_whole(&store, "pool");
}

/// Of a key that comes twice the last value counts, as in std's maps.
#[test]
fn keys_that_come_twice() {
    pool!(Twice);
    let store = store();
    type Pools<P> = (PBTreeMap<PString<P>, u8, P>, PHashSet<u8, P>);
    let text = r#"[{"a":1,"b":2,"a":3},[1,1,2]]"#;
    let made = Twice::create::<Pools<Twice>>(&store, "pool", |j| j.deserialize(reader!(text)).unwrap()).unwrap();
    assert_eq!((made.0.get("a"), made.0.len(), made.1.len()), (Some(&3), 2, 2));
    drop(made);
    require_whole(&store, "pool");
}

/// Forms of foreign types, and types in place of the standard library's.
#[test]
fn forms_of_other_types() {
    use everbyte_object::{PBound, PRangeInclusive, PResult, ShortString, Stored};
    type Plain = (std::ops::Range<u8>, std::num::Saturating<i8>, std::cmp::Reverse<u8>);
    type Root = (Stored<SocketAddr>, ShortString<8>, PResult<u8, u16>, PBound<u8>, PRangeInclusive<i8>, Plain);
    pool!(Forms);
    let store = store();
    let text = r#"["[::1]:80","short",{"Err":4},"Unbounded",{"start":-1,"end":9},[{"start":1,"end":2},-7,3]]"#;
    let made = Forms::create::<Root>(&store, "pool", |j| j.deserialize(reader!(text)).unwrap()).unwrap();
    assert_eq!(serde_json::to_string(&*made).unwrap(), text);
    made.tx(|j, _| {
        let long =
            r#"["1.2.3.4:5","far too long",{"Ok":4},"Unbounded",{"start":-1,"end":9},[{"start":1,"end":2},-7,3]]"#;
        assert!(j.deserialize::<Root, _>(reader!(long)).is_err());
    })
    .unwrap();
}

/// A function over any pool, as programs write it.
fn add<P: MemPool>(list: &mut PVec<Defaults<P>, P>, text: &str, j: &Journal<P>) -> serde_json::Result<()> {
    list.push(j.deserialize(reader!(text))?, j);
    Ok(())
}

pool!(Errors);

/// An error half-way frees what was read, and the transaction goes on.
#[test]
fn an_error_frees_what_was_read() {
    let store = store();
    let root = Errors::create::<PRefCell<PVec<Defaults<Errors>, Errors>, Errors>>(&store, "pool", |_| {
        PRefCell::new(PVec::new())
    });
    let root = root.unwrap();
    for bad in
        [r#"{"must":1,"label":"a text of some length","cell":"x"}"#, r#"{"label":"text"}"#, "[", r#"{"must":300}"#]
    {
        root.tx(|j, root| {
            let mut list = root.borrow_mut(j);
            assert!(add(&mut list, bad, j).is_err(), "{bad}");
            add(&mut list, r#"{"must":2,"label":"kept"}"#, j).unwrap();
        })
        .unwrap();
    }
    assert_eq!(root.borrow().len(), 4);
    let refused = root.try_tx(|j, root| add(&mut root.borrow_mut(j), "{", j));
    assert!(refused.is_err());
    assert_eq!(root.borrow().len(), 4, "rolled back");
    drop(root);
    require_whole(&store, "pool");
}
