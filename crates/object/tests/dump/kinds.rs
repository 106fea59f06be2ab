//! Every kind of value, to text and back.

use crate::common::{Twins, store};
use crate::{copy, copy_of, dump, make};
use everbyte_object::{
    MemPool, PBTreeMap, PBTreeSet, PBinaryHeap, PCell, PHashMap, PHashSet, PMutex, POnceCell, PRefCell, PSafe, PString,
    PVec, PVecDeque, Pbox, Pool, VCell, pool,
};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::{NonZeroI16, NonZeroU32, NonZeroU128, Wrapping};
use std::time::Duration;

pool!(P1, P2, P3, P4, P5);

#[derive(PSafe, Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum Shape {
    Empty,
    Circle(f64),
    Line(i8, i8),
    Box { width: u16, height: Option<u16> } = 200,
}

#[derive(PSafe, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Meters(u32);

#[derive(PSafe)]
#[repr(C)]
struct Numbers<P: MemPool> {
    small: (u8, i8, i16, u32, i64),
    large: [u128; 2],
    lowest: i128,
    floats: (f32, f64, f64, f32),
    yes: bool,
    letter: char,
    spare: (Option<bool>, Option<char>, [Option<Option<u8>>; 3]),
    nonzero: (NonZeroU32, Option<NonZeroI16>, Option<NonZeroU128>, Option<NonZeroU128>),
    wrapped: (Wrapping<u8>, Reverse<i32>),
    time: Duration,
    hosts: (Ipv4Addr, Ipv6Addr, IpAddr, IpAddr, Option<IpAddr>),
    shapes: [Shape; 5],
    meters: Meters,
    unit: (),
    marker: PhantomData<u8>,
    cell: PCell<i32, P>,
    once: POnceCell<u8, P>,
    lock: PMutex<u16, P>,
    volatile: VCell<u64, P>,
}

fn numbers<P: MemPool>() -> Numbers<P> {
    Numbers {
        small: (255, -128, -300, u32::MAX, i64::MIN),
        large: [u128::MAX, 5],
        lowest: i128::MIN,
        floats: (0.1, -0.0, f64::NAN, f32::NEG_INFINITY),
        yes: true,
        letter: 'ß',
        spare: (None, Some('$'), [None, Some(None), Some(Some(7))]),
        nonzero: (NonZeroU32::MAX, NonZeroI16::new(-3), None, NonZeroU128::new(1 << 90)),
        wrapped: (Wrapping(9), Reverse(-9)),
        time: Duration::new(4, 999_999_999),
        hosts: (
            Ipv4Addr::LOCALHOST,
            Ipv6Addr::LOCALHOST,
            Ipv4Addr::BROADCAST.into(),
            Ipv6Addr::UNSPECIFIED.into(),
            None,
        ),
        shapes: [
            Shape::Empty,
            Shape::Circle(1.5e300),
            Shape::Line(-1, 1),
            Shape::Box { width: 1, height: None },
            Shape::Box { width: 2, height: Some(3) },
        ],
        meters: Meters(12),
        unit: (),
        marker: PhantomData,
        cell: PCell::new(-4),
        once: POnceCell::new(),
        lock: PMutex::new(11),
        volatile: VCell::new(),
    }
}

#[test]
fn plain_values_are_the_same_after_a_round() {
    let store = store();
    drop(P1::create::<Numbers<P1>>(&store, "numbers", |_| numbers()).unwrap());
    let lines = copy(&store, "numbers", "copy");
    let root: Value = serde_json::from_str(&lines[1]).unwrap();
    let root = &root["root"];
    assert_eq!(root["small"], json!([255, -128, -300, u32::MAX, i64::MIN]));
    assert_eq!(root["large"], json!(["340282366920938463463374607431768211455", "5"]));
    assert_eq!(root["floats"].as_array().unwrap()[2..], [json!("0x7ff8000000000000"), json!("0xff800000")]);
    assert_eq!(root["spare"], json!([null, "$", [null, [null], [7]]]));
    assert_eq!(root["hosts"], json!(["127.0.0.1", "::1", "255.255.255.255", "::", null]));
    let shapes = json!([
        "Empty",
        { "Circle": 1.5e300 },
        { "Line": [-1, 1] },
        { "Box": { "width": 1, "height": null } },
        { "Box": { "width": 2, "height": 3 } }
    ]);
    assert_eq!(root["shapes"], shapes);
    assert_eq!((&root["meters"], &root["time"]), (&json!(12), &json!({ "secs": 4, "nanos": 999_999_999 })));
    assert!(root.get("volatile").is_none() && root.get("marker").is_none());

    let found = P1::open::<Numbers<P1>>(&store, "copy").unwrap();
    let wanted = numbers::<P1>();
    assert_eq!((found.small, found.large, found.lowest), (wanted.small, wanted.large, wanted.lowest));
    assert!(found.floats.1.is_sign_negative() && found.floats.2.is_nan() && found.floats.3 == f32::NEG_INFINITY);
    assert_eq!((found.floats.0, found.letter, found.spare), (0.1, 'ß', wanted.spare));
    assert_eq!((found.nonzero, found.wrapped, found.time), (wanted.nonzero, wanted.wrapped, wanted.time));
    assert_eq!((found.hosts, found.shapes, found.meters), (wanted.hosts, wanted.shapes, wanted.meters));
    assert_eq!((found.cell.get(), found.once.get()), (-4, None));
}

#[derive(PSafe, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
struct Point(u8, u8);

#[derive(PSafe, Default)]
#[repr(C)]
struct Collections<P: MemPool> {
    text: PString<P>,
    none: PString<P>,
    names: PVec<PString<P>, P>,
    units: PVec<(), P>,
    queue: PVecDeque<u16, P>,
    no_queue: PVecDeque<(), P>,
    heap: PBinaryHeap<i64, P>,
    by_name: PHashMap<PString<P>, Pbox<u32, P>, P>,
    by_number: PHashMap<i16, PString<P>, P>,
    by_point: PHashMap<Point, u8, P>,
    ordered: PBTreeMap<PString<P>, u64, P>,
    numbers: PBTreeMap<u64, (), P>,
    points: PBTreeSet<Point, P>,
    seen: PHashSet<u64, P>,
    words: PHashSet<PString<P>, P>,
}

/// A line with every array in one order: that of a hash map is by chance.
fn sorted(line: &str) -> String {
    fn sort(value: &mut Value) {
        match value {
            Value::Array(all) => {
                all.iter_mut().for_each(sort);
                all.sort_by_cached_key(Value::to_string);
            }
            Value::Object(all) => all.values_mut().for_each(sort),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(line).unwrap();
    sort(&mut value);
    value.to_string()
}

#[test]
fn collections_are_the_same_after_a_round() {
    let store = store();
    let root = P2::create::<PRefCell<Collections<P2>, P2>>(&store, "all", |_| PRefCell::default()).unwrap();
    root.tx(|j, all| {
        let all = &mut *all.borrow_mut(j);
        all.text = PString::from_str("two\nlines, \"quotes\" and \u{1f600}", j);
        let word = |number: u64| PString::from_str(&format!("word {number}"), j);
        (0..3).for_each(|number| all.names.push(word(number), j));
        (0..4).for_each(|_| all.units.push((), j));
        (0..9).for_each(|number| all.queue.push_front(number, j));
        (0..5).for_each(|_| all.no_queue.push_back((), j));
        (0..20).for_each(|number| all.heap.push(number * 7 % 20 - 10, j));
        for number in 0..100 {
            all.by_name.insert(word(number), Pbox::new(number as u32, j), j);
            all.by_number.insert(number as i16 - 50, word(number), j);
            all.by_point.insert(Point(number as u8, 1), 2, j);
            all.ordered.insert(word(number), number, j);
            all.points.insert(Point(1, number as u8), j);
            all.seen.insert(number * 3, j);
            all.words.insert(word(number), j);
        }
        for name in ["$block", "$", "$$x", ""] {
            all.by_name.insert(PString::from_str(name, j), Pbox::new(1, j), j);
        }
        (0..5000).for_each(|number| assert!(all.numbers.insert(number * number, (), j).is_none()));
    })
    .unwrap();
    drop(root);
    let lines = copy_of(&store, "all", "copy", sorted);
    assert_eq!(lines.len(), 2);
    let root: Value = serde_json::from_str(&lines[1]).unwrap();
    let root = &root["root"];
    assert_eq!((&root["units"], &root["no_queue"]), (&json!(4), &json!(5)));
    assert_eq!(root["queue"], json!([8, 7, 6, 5, 4, 3, 2, 1, 0]));
    assert_eq!((&root["by_name"]["$$block"], &root["by_name"]["$$"]), (&json!(1), &json!(1)));
    assert_eq!(root["by_point"].as_array().unwrap().len(), 100);
    assert!(root["by_point"].as_array().unwrap().contains(&json!([[99, 1], 2])));
    assert_eq!(root["by_number"]["-50"], json!("word 0"));

    let found = P2::open::<PRefCell<Collections<P2>, P2>>(&store, "copy").unwrap();
    {
        let all = found.borrow();
        let word = |number: u64| format!("word {number}");
        assert_eq!((all.units.len(), all.no_queue.len(), &*all.none), (4, 5, ""));
        for number in 0..100 {
            assert_eq!(all.by_name.get(&*word(number)).map(|value| **value), Some(number as u32));
            assert_eq!(all.by_number.get(&(number as i16 - 50)).map(|text| text.to_string()), Some(word(number)));
            assert_eq!(all.by_point.get(&Point(number as u8, 1)), Some(&2));
            assert_eq!(all.ordered.get(&*word(number)), Some(&number));
            assert!(all.seen.contains(&(number * 3)) && !all.seen.contains(&(number * 3 + 1)));
            assert!(all.words.contains(&*word(number)) && all.points.contains(&Point(1, number as u8)));
        }
        assert!(all.by_name.get("$block").is_some() && all.by_name.get("").is_some());
        assert!(all.numbers.keys().copied().eq((0..5000).map(|number| number * number)));
    }
    // it goes on: every structure is one that its own methods can change
    found
        .tx(|j, all| {
            let all = &mut *all.borrow_mut(j);
            assert_eq!(all.heap.pop(j), Some(9));
            for number in 0..5000u64 {
                assert_eq!(all.numbers.remove(&(number * number), j), Some(()));
                all.seen.insert(number * 3, j);
            }
            for number in 0..100 {
                assert_eq!(all.by_point.insert(Point(number, 1), 3, j), Some(2));
                assert_eq!(all.by_point.insert(Point(number, 2), 3, j), None);
            }
            all.queue.push_front(9, j);
            all.no_queue.push_back((), j);
        })
        .unwrap();
    assert_eq!((found.borrow().seen.len(), found.borrow().by_point.len()), (5000, 200));
    assert!(found.check().unwrap().is_empty());
}

/// Containers of types that are called alike, and of which one is numbered.
#[test]
fn containers_of_types_of_one_name_are_the_same_after_a_round() {
    let store = store();
    drop(P5::create::<Twins<u32, P5>>(&store, "twins", |j| Twins::new(u32::from, j)).unwrap());
    copy(&store, "twins", "copy");
    let found = P5::open::<Twins<u32, P5>>(&store, "copy").unwrap();
    assert!(found.values().into_iter().copied().eq(1..=12));
    assert!(found.check().unwrap().is_empty());
}

/// A dump may be edited: fields in any order, without those that are empty, numbers as keys.
#[test]
fn an_edited_dump_is_loaded() {
    let store = store();
    drop(P3::create::<PRefCell<Collections<P3>, P3>>(&store, "all", |_| PRefCell::default()).unwrap());
    drop(P4::create::<Numbers<P4>>(&store, "numbers", |_| numbers()).unwrap());
    let head = dump(&store, "all").remove(0);
    let mut root: Value = serde_json::from_str(&dump(&store, "all")[1]).unwrap();
    root["root"]["by_number"] = json!([[3, "three"], [-3, "minus three"]]);
    root["root"]["ordered"] = json!({ "a": 1, "b": 2 });
    root["root"]["by_name"] = json!({ "a": 1 });
    make(&store, "new", &[head, root.to_string()]).unwrap();
    let found = P3::open::<PRefCell<Collections<P3>, P3>>(&store, "new").unwrap();
    assert_eq!(found.borrow().by_number.get(&-3).map(|text| text.to_string()), Some("minus three".into()));
    assert_eq!(found.borrow().ordered.len(), 2);
    assert!(found.check().unwrap().is_empty());

    let head = dump(&store, "numbers").remove(0);
    let mut root: Value = serde_json::from_str(&dump(&store, "numbers")[1]).unwrap();
    root["root"].as_object_mut().unwrap().remove("once"); // an Option
    root["root"]["marker"] = Value::Null;
    root["root"]["floats"] = json!([1, 2, -3, 4]);
    make(&store, "numbers 2", &[head, root.to_string()]).unwrap();
    assert_eq!(P4::open::<Numbers<P4>>(&store, "numbers 2").unwrap().floats, (1.0, 2.0, -3.0, 4.0));
}
