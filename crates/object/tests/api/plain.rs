//! Plain types of the standard library in a pool: kept, checked by their types and by the
//! description alone, and reported where their bytes are no value.

use crate::common::{description, store};
use everbyte_object::{PBTreeMap, PRefCell, PSafe, Pool, UntypedPool, pool, raw::Raw};
use std::cmp::{Ordering, Reverse};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::num::*;
use std::ops::{Range, RangeFrom, RangeFull, RangeTo, RangeToInclusive};
use std::time::{Duration, SystemTime};

pool!(P1, P2, P3);

#[derive(PSafe, Clone, Debug, PartialEq)]
#[repr(C)]
struct Plain {
    duration: Duration,
    no_duration: Option<Duration>,
    time: SystemTime,
    no_time: Option<SystemTime>,
    some_time: Option<SystemTime>,
    four: Ipv4Addr,
    six: Ipv6Addr,
    addresses: [IpAddr; 2],
    no_address: Option<IpAddr>,
    socket: SocketAddrV4,
    order: Ordering,
    no_order: Option<Ordering>,
    wrapping: Wrapping<u32>,
    saturating: Saturating<i8>,
    reverse: Reverse<Option<NonZeroU16>>,
    bytes: (NonZeroU8, NonZeroI8, Option<NonZeroI16>, NonZeroUsize, NonZeroIsize),
    wide: (NonZeroU128, Option<NonZeroI128>, NonZeroI32, NonZeroI64),
    range: Range<u16>,
    ranges: (RangeFrom<u8>, RangeTo<char>, RangeToInclusive<NonZeroU32>, RangeFull),
    nine: (u8, u16, u32, u64, u8, u16, u32, u64, bool),
    twelve: (u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, char),
}

fn value() -> Plain {
    let now = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 999_999_999);
    let six = Ipv6Addr::new(1, 2, 3, 4, 5, 6, 7, 8);
    Plain {
        duration: Duration::new(u64::MAX, 1),
        no_duration: None,
        time: now,
        no_time: None,
        some_time: Some(SystemTime::UNIX_EPOCH - Duration::from_nanos(1)),
        four: Ipv4Addr::LOCALHOST,
        six,
        addresses: [IpAddr::V4(Ipv4Addr::new(9, 8, 7, 6)), IpAddr::V6(six)],
        no_address: None,
        socket: SocketAddrV4::new(Ipv4Addr::new(1, 2, 3, 4), 80),
        order: Ordering::Less,
        no_order: None,
        wrapping: Wrapping(7),
        saturating: Saturating(-7),
        reverse: Reverse(None),
        bytes: (NonZeroU8::MAX, NonZeroI8::MIN, None, NonZeroUsize::MIN, NonZeroIsize::MAX),
        wide: (NonZeroU128::new(1 << 100).unwrap(), None, NonZeroI32::MIN, NonZeroI64::MAX),
        range: 3..9,
        ranges: (1.., ..'x', ..=NonZeroU32::MIN, ..),
        nine: (1, 2, 3, 4, 5, 6, 7, 8, true),
        twelve: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 'z'),
    }
}

#[test]
fn plain_types_of_std_live_in_a_pool() {
    let store = store();
    let root = P1::create::<PRefCell<Option<Plain>, P1>>(&store, "plain", |_| PRefCell::new(None)).unwrap();
    root.tx(|j, plain| *plain.borrow_mut(j) = Some(value())).unwrap();
    drop(root);
    let root = P1::open::<PRefCell<Option<Plain>, P1>>(&store, "plain").unwrap();
    assert_eq!(*root.borrow(), Some(value()));
    let by_types = root.examine(&|_| ()).unwrap();
    drop(root);
    let by_text = UntypedPool::open(&store, "plain").unwrap().examine(&|_| ());
    assert!(by_types.is_clean() && by_text.unread.is_empty(), "{by_text:?}");
    assert_eq!(by_text, by_types);
}

/// Each field whose type has bytes that are no value, with such bytes.
#[test]
fn bytes_that_are_no_value_are_reported_by_both_walks() {
    use std::mem::offset_of;
    let bad: [(&str, usize, &[u8]); 9] = [
        ("duration", offset_of!(Plain, duration) + 8, &1_000_000_000_u32.to_le_bytes()),
        ("time", offset_of!(Plain, time) + 8, &u32::MAX.to_le_bytes()),
        ("some_time", offset_of!(Plain, some_time) + 8, &1_000_000_001_u32.to_le_bytes()),
        ("address", offset_of!(Plain, addresses), &[2]),
        ("order", offset_of!(Plain, order), &[2]),
        ("no_order", offset_of!(Plain, no_order), &[3]),
        ("bytes", offset_of!(Plain, bytes.0), &[0]),
        ("wide", offset_of!(Plain, wide.0), &[0; 16]),
        (
            "range",
            offset_of!(Plain, ranges)
                + offset_of!((RangeFrom<u8>, RangeTo<char>, RangeToInclusive<NonZeroU32>, RangeFull), 1),
            &[0xff; 4],
        ),
    ];
    for (name, at, bytes) in bad {
        let store = store();
        let root = P2::create::<Plain>(&store, "plain", |_| value()).unwrap();
        let prime = root.store().object("plain").unwrap().prime();
        let header: everbyte_object::layout::Header = store.media().get(prime + everbyte_object::layout::HEADER);
        store.media().write(prime + header.root + at as u64, bytes);
        let by_types = root.examine(&|_| ()).unwrap();
        drop(root);
        let by_text = UntypedPool::open(&store, "plain").unwrap().examine(&|_| ());
        assert!(!by_types.is_clean(), "{name}: {by_types:?}");
        assert_eq!(by_text, by_types, "{name}");
    }
}

#[test]
fn maps_sort_their_keys_downwards() {
    let store = store();
    let root = P3::create::<PRefCell<PBTreeMap<Reverse<u64>, u64, P3>, P3>>(&store, "down", |_| PRefCell::default());
    let root = root.unwrap();
    root.tx(|j, map| map.borrow_mut(j).extend((0..9).map(|key| (Reverse(key), key)), j)).unwrap();
    assert!(root.borrow().values().copied().eq((0..9).rev()));
    assert!(description(&store, "down").starts_with("root PRefCell<PBTreeMap<Reverse<u64>, u64>>"));
}
