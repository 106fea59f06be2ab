//! Values of other crates' types and short texts, to text and back.

use crate::common::store;
use crate::{copy, dump, make};
use everbyte_object::{PBound, PHashMap, PRangeInclusive, PRefCell, PResult, PSafe, Pool, ShortString, Stored, pool};
use serde_json::{Value, json};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ops::Bound;

pool!(P1, P2, P3);

#[derive(PSafe, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Plain {
    sockets: [Stored<SocketAddr>; 2],
    no_socket: Option<Stored<SocketAddr>>,
    six: Stored<SocketAddrV6>,
    code: ShortString<3>,
    name: Option<ShortString<20>>,
    results: [PResult<u32, ShortString<5>>; 2],
    bounds: [PBound<u16>; 3],
    range: PRangeInclusive<i64>,
}

fn value() -> Plain {
    Plain {
        sockets: ["1.2.3.4:5", "[1:2::3]:4"].map(|text| text.parse::<SocketAddr>().unwrap().into()),
        no_socket: None,
        six: SocketAddrV6::new(Ipv6Addr::LOCALHOST, 80, 5, 6).into(),
        code: "$b".try_into().unwrap(),
        name: Some(ShortString::EMPTY),
        results: [PResult::Ok(7), PResult::Err("\"\n\"".try_into().unwrap())],
        bounds: [Bound::Included(1), Bound::Excluded(2), Bound::Unbounded].map(PBound::from),
        range: (-5..=5).into(),
    }
}

#[test]
fn forms_are_the_same_after_a_round() {
    let store = store();
    drop(P1::create::<Plain>(&store, "plain", |_| value()).unwrap());
    let lines = copy(&store, "plain", "copy");
    let root: Value = serde_json::from_str(&lines[1]).unwrap();
    let wanted = json!({
        "sockets": ["1.2.3.4:5", "[1:2::3]:4"],
        "no_socket": null,
        "six": "[::1%6]:80 flow 5",
        "code": "$b",
        "name": "",
        "results": [{ "Ok": 7 }, { "Err": "\"\n\"" }],
        "bounds": [{ "Included": 1 }, { "Excluded": 2 }, "Unbounded"],
        "range": { "start": -5, "end": 5 },
    });
    assert_eq!(root["root"], wanted);
    assert_eq!(*P1::open::<Plain>(&store, "copy").unwrap(), value());
}

/// Texts that are no value of their type are refused, with the line and the type.
#[test]
fn texts_that_are_no_value_of_a_form_are_refused() {
    let store = store();
    drop(P3::create::<Plain>(&store, "plain", |_| value()).unwrap());
    let lines = dump(&store, "plain");
    let bad = [
        ("1.2.3.4:5", "1.2.3.4", "Stored<SocketAddr>"),
        ("[::1%6]:80 flow 5", "1.2.3.4:80", "Stored<SocketAddrV6>"),
        ("\"$b\"", "\"long\"", "ShortString<3>"),
        ("\"$b\"", "7", "ShortString<3>"),
    ];
    for (good, wrong, name) in bad {
        assert!(lines[1].contains(good), "{good} in {}", lines[1]);
        let error = make(&store, "copy", &[lines[0].clone(), lines[1].replace(good, wrong)]).unwrap_err().to_string();
        assert!(error.contains(&format!("is not a value of type `{name}`")), "{wrong}: {error}");
    }
}

/// A short text is a key of a map, which is an array of pairs.
#[test]
fn short_texts_are_keys_in_a_dump() {
    type Map = PRefCell<PHashMap<ShortString<7>, u32, P2>, P2>;
    let store = store();
    let root = P2::create::<Map>(&store, "map", |j| {
        PRefCell::new(PHashMap::from_iter([(ShortString::new("one").unwrap(), 1)], j))
    });
    drop(root.unwrap());
    let lines = copy(&store, "map", "copy");
    assert_eq!(lines[1], r#"{"root":[["one",1]]}"#);
    assert_eq!(P2::open::<Map>(&store, "copy").unwrap().borrow().get("one"), Some(&1));
}

#[cfg(all(feature = "jiff", feature = "rust_decimal", feature = "uuid"))]
mod foreign {
    use super::*;
    use jiff::civil::{Date, DateTime, Time};
    use jiff::{SignedDuration, Timestamp};
    use rust_decimal::Decimal;
    use uuid::Uuid;

    pool!(F1);

    #[derive(PSafe, Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Foreign {
        id: Uuid,
        no_id: Option<Uuid>,
        at: [Stored<Timestamp>; 3],
        day: Stored<Date>,
        time: Stored<Time>,
        both: Stored<DateTime>,
        duration: Stored<SignedDuration>,
        price: Stored<Decimal>,
    }

    /// Texts are those of the crates themselves, so their programs read them.
    #[test]
    fn texts_of_forms_are_those_of_their_crates() {
        let store = store();
        let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let at = [Timestamp::MIN, Timestamp::new(1_700_000_000, 120_000_000).unwrap(), Timestamp::MAX];
        let (day, time, both) = (Date::MIN, Time::MAX, DateTime::MIN);
        let (duration, price) = (SignedDuration::new(-3, -500_000_000), Decimal::new(-12_340, 3));
        let foreign = Foreign {
            id,
            no_id: None,
            at: at.map(Stored::new),
            day: day.into(),
            time: time.into(),
            both: both.into(),
            duration: duration.into(),
            price: price.into(),
        };
        drop(F1::create::<Foreign>(&store, "plain", |_| foreign).unwrap());
        let lines = copy(&store, "plain", "copy");
        let root: Value = serde_json::from_str(&lines[1]).unwrap();
        let wanted = json!({
            "id": id.to_string(),
            "no_id": null,
            "at": at.map(|at| at.to_string()),
            "day": day.to_string(),
            "time": time.to_string(),
            "both": both.to_string(),
            "duration": "-3.500000000",
            "price": price.to_string(),
        });
        assert_eq!(root["root"], wanted);
        assert_eq!(*F1::open::<Foreign>(&store, "copy").unwrap(), foreign);
    }
}
