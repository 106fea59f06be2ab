//! Bad days: damaged headers, dangling pointers, forgotten boxes; and the costs of transactions.

use crate::common::{Node, append, store, values};
use everbyte_object::layout::{GENERATION, HEADER, Header};
use everbyte_object::{Error, MemPool, PCell, PRefCell, PSafe, PString, PVec, Parc, Pbox, Pool, Prc, VCell, pool};
use everbyte_store::{FindingKind, Store};

/// Every byte of the header and the description, changed: an error, or the pool as it was; nothing
/// else, and no panic.
#[test]
fn damage_is_an_error_and_never_a_panic() {
    pool!(P);
    let store = store();
    let head = P::create::<Node<i32, P>>(&store, "list", |_| Node::new(0)).unwrap();
    head.tx(|j, head| append(head, 5, j)).unwrap();
    drop(head);
    let prime = store.object("list").unwrap().prime().get();
    let header: Header = store.media().get(prime + HEADER);
    let header_bytes = prime + HEADER..prime + HEADER + size_of::<Header>() as u64;
    let text_bytes = prime + header.schema.get()..prime + header.schema.get() + header.schema_len.get();
    let mut refused = 0;
    for at in header_bytes.chain(text_bytes) {
        let media = store.media();
        let [was] = media.read_vec(at, 1)[..] else { unreachable!() };
        for change in [1, 0x80, 0xff] {
            media.write(at, &[was ^ change]);
            let opened = match P::open::<Node<i32, P>>(&store, "list") {
                Ok(head) => {
                    assert_eq!(values(&head), [5], "{at:#x}");
                    true
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains("`list`"), "{error}");
                    false
                }
            };
            if !opened || !(prime + HEADER + 64..prime + HEADER + 72).contains(&at) {
                media.write(at, &[was]);
            }
        }
    }
    assert!(refused > 300, "{refused}");
    assert_eq!(values(&P::open::<Node<i32, P>>(&store, "list").unwrap()), [5]);
}

/// No checksum covers the number of openings. A pointer of another opening is not believed,
/// whatever it says.
#[test]
fn volatile_values_end_with_their_opening_whatever_the_header_says() {
    pool!(P);
    type Name = PRefCell<VCell<&'static str, P>, P>;
    let store = store();
    let name = P::create::<Name>(&store, "name", |_| PRefCell::new(VCell::new())).unwrap();
    name.tx(|j, name| name.borrow_mut(j).set("static", j)).unwrap();
    assert_eq!(name.borrow().get(), Some("static"));
    drop(name);
    let at = store.object("name").unwrap().prime() + GENERATION;
    for (word, is_possible) in
        [(0, false), (1, true), (2, true), (1 << 62, true), (1 << 63, false), (u64::MAX - 1, false), (u64::MAX, false)]
    {
        store.media().store(at, word);
        match P::open::<Name>(&store, "name") {
            Ok(name) => assert!(is_possible && name.borrow().get().is_none(), "{word:#x}"),
            Err(error) => assert!(!is_possible && matches!(error, Error::Damaged { .. }), "{word:#x}: {error}"),
        }
    }
    // a value set anew is there
    store.media().store(at, 1);
    let name = P::open::<Name>(&store, "name").unwrap();
    name.tx(|j, name| name.borrow_mut(j).set("again", j)).unwrap();
    assert_eq!(name.borrow().get(), Some("again"));
}

/// One program shares a cell between pointers that another takes for pointers to cells of two
/// types: neither reads the other's bytes.
#[test]
fn a_volatile_value_is_read_as_the_type_that_it_was_set_as() {
    pool!(P);
    type Place<T> = Prc<VCell<T, P>, P>;
    let store = store();
    let both = P::create::<(Place<[usize; 2]>, Place<[usize; 2]>)>(&store, "both", |j| {
        let one = Prc::new(VCell::new(), j);
        (one.pclone(j), one)
    });
    drop(both.unwrap());
    let both = P::open::<(Place<[usize; 2]>, Place<&'static str>)>(&store, "both").unwrap();
    both.tx(|j, both| both.0.set([1, 2], j)).unwrap();
    assert!(both.1.get().is_none() && both.0.get() == Some([1, 2]));
    both.tx(|j, both| both.1.set("text", j)).unwrap();
    assert!(both.0.get().is_none() && both.1.get() == Some("text"));
}

#[test]
fn pointers_that_lead_nowhere_are_found_and_not_followed() {
    pool!(P);
    let store = store();
    let make = |store: &Store| P::open_or_create::<Node<u64, P>>(store, "list", |_| Node::new(0)).unwrap();
    let head = make(&store);
    (1..4).for_each(|val| head.tx(|j, head| append(head, val, j)).unwrap());
    let prime = store.object("list").unwrap().prime().get();
    let header: Header = store.media().get(prime + HEADER);
    drop(head);
    let first = prime + store.media().load(prime + header.root.get() + 8);
    let second = store.media().load(first + 8);
    for bad in [
        1,
        8,
        second + 8,
        1 << 20,
        1 << 40,
        u64::MAX,
        header.schema.get(),
        store.media().load(prime + header.root.get() + 8),
    ] {
        store.media().store(first + 8, bad);
        let head = make(&store);
        let findings = head.check().unwrap();
        let is_wrong = |kind| kind == FindingKind::Damage || kind == FindingKind::DoubleUse;
        assert!(findings.iter().any(|finding| is_wrong(finding.kind)), "{bad:#x}: {findings:?}");
        assert!(findings.iter().all(|finding| finding.kind != FindingKind::Leak), "who knows what led there");
        let lost =
            findings.iter().filter(|finding| finding.detail.contains("unless something that cannot be followed"));
        assert!(lost.count() > 0, "{bad:#x}: the rest of the list");
    }
    store.media().store(first + 8, second);
    assert_eq!(make(&store).check().unwrap(), []);
}

#[test]
fn a_forgotten_box_is_a_leak_that_the_check_finds() {
    pool!(P);
    let store = store();
    let head = P::create::<Node<i32, P>>(&store, "list", |_| Node::new(0)).unwrap();
    head.tx(|j, _| std::mem::forget(Pbox::new(1, j))).unwrap();
    let findings = head.check().unwrap();
    assert_eq!(findings.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [FindingKind::Leak]);
}

#[derive(PSafe)]
#[repr(C)]
struct Costs<P: MemPool> {
    cell: PCell<u64, P>,
    value: PRefCell<[u64; 6], P>,
    list: PRefCell<PVec<u64, P>, P>,
    text: PRefCell<PString<P>, P>,
    shared: Parc<u64, P>,
}

#[test]
fn what_transactions_cost_in_fences() {
    pool!(P);
    let store = store();
    let costs = P::create::<Costs<P>>(&store, "costs", |j| Costs {
        cell: PCell::new(0),
        value: PRefCell::new([0; 6]),
        list: PRefCell::new(PVec::with_capacity(100, j)),
        text: PRefCell::new(PString::from_str(&"x".repeat(1000), j)),
        shared: Parc::new(1, j),
    });
    let costs = costs.unwrap();
    let fences = |body: &dyn Fn()| {
        let before = store.media().counts().fences;
        body();
        store.media().counts().fences - before
    };
    assert_eq!(fences(&|| costs.tx(|j, costs| costs.cell.set(1, j)).unwrap()), 3);
    assert_eq!(fences(&|| costs.tx(|j, costs| costs.value.borrow_mut(j)[5] = 1).unwrap()), 3);
    assert_eq!(fences(&|| costs.tx(|j, costs| costs.list.borrow_mut(j).push(1, j)).unwrap()), 3, "behind the end");
    assert_eq!(fences(&|| costs.tx(|j, costs| drop(costs.value.borrow_mut(j))).unwrap()), 0, "not changed");
    assert_eq!(fences(&|| costs.tx(|j, costs| drop(costs.shared.pclone(j))).unwrap()), 0, "and dropped again");
    assert_eq!(fences(&|| costs.tx(|j, costs| std::mem::forget(costs.shared.pclone(j))).unwrap()), 3);
    let repeated = fences(&|| {
        costs
            .tx(|j, costs| {
                let mut value = costs.value.borrow_mut(j);
                (0..100).for_each(|turn| value[0] += turn);
            })
            .unwrap();
    });
    assert_eq!(repeated, 3, "noted once");
    // The words of the cell, the bytes or elements; commit and retirement.
    let again = |len: usize| {
        fences(&|| {
            let change = costs.tx(|j, costs| {
                let mut text = costs.text.borrow_mut(j);
                text.clear(j);
                text.push_str(&"y".repeat(len), j);
            });
            change.unwrap();
        })
    };
    assert_eq!((again(1000), again(10)), (4, 4));
    costs.tx(|j, costs| costs.list.borrow_mut(j).resize(100, &1, j)).unwrap();
    for way in 0..3 {
        let changed = fences(&|| {
            let change = costs.tx(|j, costs| {
                let mut list = costs.list.borrow_mut(j);
                list.clear(j);
                match way {
                    0 => list.extend(0..100, j),
                    1 => list.extend_from_slice(&[7; 100], j),
                    _ => list.resize(100, &7, j),
                }
            });
            change.unwrap();
        });
        assert_eq!((changed, costs.list.borrow().len()), (4, 100), "way {way}");
    }
    assert_eq!(fences(&|| costs.tx(|j, costs| costs.text.borrow_mut(j).push_str("", j)).unwrap()), 3);
}

#[test]
fn an_empty_transaction_touches_no_media() {
    pool!(P);
    let store = store();
    let cell = P::create::<PCell<u64, P>>(&store, "cell", |_| PCell::new(0)).unwrap();
    let before = store.media().counts();
    for _ in 0..10 {
        cell.tx(|_, cell| assert_eq!(cell.get(), 0)).unwrap();
        P::transaction(|_| ()).unwrap();
    }
    assert_eq!(store.media().counts(), before);
}

#[test]
fn closing_says_whether_everything_is_settled() {
    pool!(P);
    let store = store();
    let cell = P::create::<PCell<u64, P>>(&store, "cell", |_| PCell::new(0)).unwrap();
    cell.tx_buffered(|j, cell| cell.set(1, j)).unwrap();
    cell.close().unwrap();
    assert!(matches!(P::transaction(|_| ()), Err(Error::Closed { .. })));
}
