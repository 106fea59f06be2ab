//! Values of other crates' types, short texts, and types like those of the standard library.

use crate::common::{description, store};
use everbyte_object::{
    PBTreeMap, PBound, PHashMap, PRangeInclusive, PRefCell, PResult, PSafe, Pool, ShortString, Stored, TooLong,
    UntypedPool, pool, raw::Raw,
};
use std::net::{SocketAddr, SocketAddrV6};
use std::ops::{Bound, RangeInclusive};

pool!(P1, P2, P3, P4);

#[derive(PSafe, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Plain {
    sockets: [Stored<SocketAddr>; 2],
    no_socket: Option<Stored<SocketAddr>>,
    six: Stored<SocketAddrV6>,
    code: ShortString<3>,
    name: Option<ShortString<20>>,
    result: PResult<u32, ShortString<5>>,
    failed: PResult<u32, ShortString<5>>,
    bounds: (PBound<u16>, PBound<u16>, PBound<u16>),
    range: PRangeInclusive<i64>,
}

fn value() -> Plain {
    let six: SocketAddrV6 = SocketAddrV6::new(std::net::Ipv6Addr::LOCALHOST, 80, 5, 6);
    Plain {
        sockets: ["1.2.3.4:5", "[1:2::3]:4"].map(|text| text.parse::<SocketAddr>().unwrap().into()),
        no_socket: None,
        six: six.into(),
        code: "\u{20ac}".try_into().unwrap(),
        name: Some("twenty bytes of text".parse().unwrap()),
        result: Ok(7).into(),
        failed: PResult::Err("wrong".try_into().unwrap()),
        bounds: (Bound::Included(1).into(), Bound::Excluded(2).into(), Bound::Unbounded.into()),
        range: (-5..=5).into(),
    }
}

#[test]
fn values_of_forms_live_in_a_pool() {
    let store = store();
    let root = P1::create::<PRefCell<Option<Plain>, P1>>(&store, "plain", |_| PRefCell::new(None)).unwrap();
    root.tx(|j, plain| *plain.borrow_mut(j) = Some(value())).unwrap();
    drop(root);
    let root = P1::open::<PRefCell<Option<Plain>, P1>>(&store, "plain").unwrap();
    assert_eq!(*root.borrow(), Some(value()));
    let found = root.borrow().unwrap();
    assert_eq!((SocketAddr::from(found.sockets[0]).to_string(), found.six.get().scope_id()), ("1.2.3.4:5".into(), 6));
    assert_eq!(
        (found.sockets[1].to_string(), format!("{:?}", found.code)),
        ("[1:2::3]:4".into(), "\"\u{20ac}\"".into())
    );
    assert_eq!((found.result.as_result(), Result::from(found.failed).unwrap_err() == "wrong"), (Ok(&7), true));
    assert_eq!((found.bounds.1.as_bound(), Bound::from(found.bounds.2)), (Bound::Excluded(&2), Bound::Unbounded));
    assert_eq!(RangeInclusive::from(found.range), -5..=5);
    let by_types = root.examine(&|_| ()).unwrap();
    drop(root);
    let by_text = UntypedPool::open(&store, "plain").unwrap().examine(&|_| ());
    assert!(by_types.is_clean() && by_text.unread.is_empty(), "{by_text:?}");
    assert_eq!(by_text, by_types);
    let text = description(&store, "plain");
    assert!(text.contains("\nShortString<3> 4 1 { len: u8 @0; bytes: [u8; 3] @1 }\n"), "{text}");
    assert!(text.contains("\nStored<SocketAddr> 28 4 { ip: [u8; 16] @0; flowinfo: u32 @16; "), "{text}");
}

/// Damaged bytes are reported by both walks, and are met as `None` or as the text before them.
#[test]
fn bytes_that_are_no_value_of_a_form_are_reported() {
    use std::mem::offset_of;
    let bad: [(&str, usize, &[u8]); 7] = [
        ("version", offset_of!(Plain, sockets) + 26, &[5]),
        ("rest of an address", offset_of!(Plain, sockets) + 4, &[1]),
        ("six", offset_of!(Plain, six) + 26, &[4]),
        ("length", offset_of!(Plain, code), &[4]),
        ("text", offset_of!(Plain, code) + 3, b"x"),
        ("rest of a text", offset_of!(Plain, code), &[1]),
        ("result", offset_of!(Plain, result), &[2]),
    ];
    for (name, at, bytes) in bad {
        let store = store();
        let root = P2::create::<Plain>(&store, "plain", |_| value()).unwrap();
        let prime = root.store().object("plain").unwrap().prime();
        let header: everbyte_object::layout::Header = store.media().get(prime + everbyte_object::layout::HEADER);
        store.media().write(prime + header.root + at as u64, bytes);
        match name {
            "version" => {
                assert_eq!((root.sockets[0].try_get(), format!("{:?}", root.sockets[0])), (None, "(damaged)".into()));
                let outcome = root.tx(|_, plain| plain.sockets[0].get().port());
                assert!(outcome.unwrap_err().to_string().contains("the bytes of a `Stored<SocketAddr>` are no value"));
            }
            "text" | "rest of a text" => {
                assert!(root.code.try_as_str().is_err());
                assert_eq!(&*root.code, "");
            }
            "length" => assert_eq!(&*root.code, "\u{20ac}"),
            _ => {}
        }
        let by_types = root.examine(&|_| ()).unwrap();
        drop(root);
        let by_text = UntypedPool::open(&store, "plain").unwrap().examine(&|_| ());
        assert!(!by_types.is_clean(), "{name}: {by_types:?}");
        assert_eq!(by_text, by_types, "{name}");
    }
}

#[test]
fn short_texts_are_keys_and_refuse_long_ones() {
    let store = store();
    type Maps = PRefCell<(PHashMap<ShortString<7>, u32, P3>, PBTreeMap<ShortString<7>, u32, P3>), P3>;
    let root = P3::create::<Maps>(&store, "maps", |_| PRefCell::default()).unwrap();
    root.tx(|j, maps| {
        let (hashed, ordered) = &mut *maps.borrow_mut(j);
        for number in (0..100).rev() {
            let key = ShortString::new(&format!("key {number:02}")).unwrap();
            hashed.insert(key, number, j);
            ordered.insert(key, number, j);
        }
        assert_eq!((hashed.get("key 07"), ordered.get("key 99"), hashed.get("key 7")), (Some(&7), Some(&99), None));
        assert!(ordered.values().copied().eq(0..100));
    })
    .unwrap();
    let refused = ShortString::<7>::new("eight by").unwrap_err();
    assert_eq!(refused, TooLong { len: 8, most: 7 });
    const CODE: ShortString<3> = match ShortString::new("EUR") {
        Ok(code) => code,
        Err(_) => panic!("too long"),
    };
    assert!(CODE == "EUR" && CODE < "EUS".try_into().unwrap() && CODE.len() == 3 && format!("{CODE:>5}") == "  EUR");
    assert_eq!((ShortString::<255>::EMPTY.len(), size_of::<Option<ShortString<15>>>()), (0, 17));
}

/// A type of the program that is called as one of this crate has another name in the description.
#[test]
fn names_of_forms_are_taken() {
    #[derive(PSafe)]
    #[repr(C)]
    struct Stored {
        number: u8,
    }
    let store = store();
    let root = P4::create::<Stored>(&store, "plain", |_| Stored { number: 200 }).unwrap();
    assert_eq!((root.number, description(&store, "plain").starts_with("root Stored#2\n")), (200, true));
}

#[cfg(all(feature = "jiff", feature = "rust_decimal", feature = "uuid"))]
mod foreign {
    use super::*;
    use everbyte_object::Storable;
    use jiff::civil::{Date, DateTime, Time, date, time};
    use jiff::{SignedDuration, Timestamp};
    use rust_decimal::Decimal;
    use std::collections::BTreeMap;
    use std::hash::{DefaultHasher, Hash, Hasher};
    use uuid::Uuid;

    pool!(F1, F2);

    #[derive(PSafe, Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Foreign {
        id: Uuid,
        no_id: Option<Uuid>,
        at: [Stored<Timestamp>; 4],
        day: [Stored<Date>; 3],
        time: Stored<Time>,
        both: Stored<DateTime>,
        duration: [Stored<SignedDuration>; 3],
        price: [Stored<Decimal>; 4],
    }

    fn foreign() -> Foreign {
        let before = Timestamp::new(-1, -1).unwrap();
        Foreign {
            id: Uuid::from_u128(0x0123_4567_89ab_cdef),
            no_id: None,
            at: [Timestamp::MIN, before, Timestamp::UNIX_EPOCH, Timestamp::MAX].map(Stored::new),
            day: [Date::MIN, date(2024, 2, 29), Date::MAX].map(Stored::new),
            time: Time::MAX.into(),
            both: DateTime::MAX.into(),
            duration: [SignedDuration::MIN, SignedDuration::new(0, -5), SignedDuration::MAX].map(Stored::new),
            price: [Decimal::MIN, Decimal::new(-100, 2), Decimal::new(1, 28), Decimal::MAX].map(Stored::new),
        }
    }

    #[test]
    fn foreign_types_live_in_a_pool() {
        let store = store();
        drop(F1::create::<Foreign>(&store, "plain", |_| foreign()).unwrap());
        let root = F1::open::<Foreign>(&store, "plain").unwrap();
        assert_eq!(*root, foreign());
        assert!(root.at.is_sorted() && root.day.is_sorted() && root.duration.is_sorted() && root.price.is_sorted());
        assert_eq!(root.at.map(Timestamp::from)[1].as_nanosecond(), -1_000_000_001);
        assert_eq!((root.time.get(), root.both.get().time()), (time(23, 59, 59, 999_999_999), Time::MAX));
        assert_eq!((root.price[1].to_string(), Decimal::from(root.price[0])), ("-1.00".into(), Decimal::MIN));
        let by_types = root.examine(&|_| ()).unwrap();
        drop(root);
        let by_text = UntypedPool::open(&store, "plain").unwrap().examine(&|_| ());
        assert!(by_types.is_clean() && by_text.unread.is_empty(), "{by_text:?}");
        assert_eq!(by_text, by_types);
        assert!(description(&store, "plain").contains("\nUuid 16 1 { bytes: [u8; 16] @0 }\n"));
    }

    fn hash(value: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        hasher.finish()
    }

    /// Equal decimals are one key, however many digits they have.
    #[test]
    fn equal_values_have_equal_hashes() {
        let price = |number: i64, scale: u32| Stored::new(Decimal::new(number, scale));
        let alike = [(price(1, 0), price(100, 2)), (price(0, 0), price(0, 9)), (price(-50, 1), price(-5, 0))];
        for (one, other) in alike {
            assert_eq!((one, hash(one)), (other, hash(other)));
        }
        assert_eq!((price(0, 0), hash(price(0, 0))), (Stored::new(-Decimal::ZERO), hash(Stored::new(-Decimal::ZERO))));
        assert!(price(1, 1) != price(1, 0) && hash(price(1, 1)) != hash(price(1, 0)));
    }

    /// Any bits are met as a value of the foreign type, or as none.
    #[test]
    fn any_bits_of_a_form_are_a_value_or_none() {
        fn tried<T: Storable + std::fmt::Debug>(random: &mut everbyte_workload::Random, valid: T) -> [u32; 2] {
            let mut counts = [0; 2];
            for _ in 0..2000 {
                let mut raw = valid.to_raw();
                let bytes = zerocopy::IntoBytes::as_mut_bytes(&mut raw);
                for _ in 0..=random.below(2) {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }
                let is_valid = T::FORM.is_valid(bytes);
                let made = T::of_raw(&raw).filter(|_| is_valid);
                assert_eq!(made.is_some(), is_valid, "{:?} of {valid:?}", zerocopy::IntoBytes::as_bytes(&raw));
                if let Some(value) = made {
                    let again = value.to_raw();
                    assert_eq!(zerocopy::IntoBytes::as_bytes(&again), zerocopy::IntoBytes::as_bytes(&raw), "{value:?}");
                }
                counts[usize::from(is_valid)] += 1;
            }
            counts
        }
        let mut random = everbyte_workload::Random::new(7);
        let counts = [
            tried(&mut random, Timestamp::MAX),
            tried(&mut random, Timestamp::MIN),
            tried(&mut random, date(2024, 2, 29)),
            tried(&mut random, time(23, 59, 59, 999_999_999)),
            tried(&mut random, DateTime::MIN),
            tried(&mut random, SignedDuration::new(-1, -5)),
            tried(&mut random, Decimal::new(-7, 28)),
            tried(&mut random, "1.2.3.4:5".parse::<SocketAddr>().unwrap()),
            tried(&mut random, "[::1]:5".parse::<SocketAddrV6>().unwrap()),
        ];
        assert!(counts.iter().flatten().all(|count| *count > 50), "{counts:?}");
    }

    #[test]
    fn foreign_types_are_keys_of_maps() {
        let store = store();
        type Maps = PRefCell<(PHashMap<Uuid, u32, F2>, PBTreeMap<Stored<Timestamp>, u32, F2>), F2>;
        let root = F2::create::<Maps>(&store, "maps", |_| PRefCell::default()).unwrap();
        let id = |number: u32| Uuid::from_u128(u128::from(number) << 90);
        let at = |number: u32| Timestamp::from_second(i64::from(number) * 1000 - 50_000).unwrap();
        let wanted: BTreeMap<Timestamp, u32> = (0..100).map(|number| (at(number), number)).collect();
        root.tx(|j, maps| {
            let (hashed, ordered) = &mut *maps.borrow_mut(j);
            for number in 0..100 {
                hashed.insert(id(number), number, j);
                ordered.insert(at(number).into(), number, j);
            }
        })
        .unwrap();
        drop(root);
        let root = F2::open::<Maps>(&store, "maps").unwrap();
        let (hashed, ordered) = &*root.borrow();
        assert_eq!((hashed.get(&id(99)), hashed.get(&id(100))), (Some(&99), None));
        assert!(ordered.iter().map(|(at, number)| (at.get(), *number)).eq(wanted));
    }
}
