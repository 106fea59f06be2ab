//! Maps and sets whose keys or values have changed.
#![allow(clippy::type_complexity)] // a root with a map of each form

use crate::common::store;
use crate::whole;
use everbyte_object::{
    Error, Journal, MemPool, Migrate, PBTreeMap, PBTreeSet, PHashMap, PHashSet, PRefCell, PSafe, PString, PVec,
    PVecDeque, Pbox, Pool, pool,
};

mod v1 {
    use super::*;
    #[derive(PSafe)]
    #[repr(C)]
    pub(super) struct Price<P: MemPool> {
        pub cents: u32,
        pub text: PString<P>,
    }
    #[derive(PSafe, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(C)]
    pub(super) struct Code<P: MemPool>(pub PString<P>);
    pub(super) type Root<P> = super::Root<Price<P>, Code<P>, P>;
}

mod v2 {
    use super::*;
    #[derive(PSafe)]
    #[persist(version = 2, from = Old<P>)]
    #[repr(C)]
    pub(super) struct Price<P: MemPool> {
        pub text: PString<P>,
        pub cents: u64,
        pub more: [u64; 9],
    }
    #[derive(PSafe)]
    #[persist(version = 1, name = "Price")]
    #[repr(C)]
    pub(super) struct Old<P: MemPool> {
        cents: u32,
        text: PString<P>,
    }
    impl<P: MemPool> Migrate<Old<P>, P> for Price<P> {
        fn migrate(old: Old<P>, _: &Journal<P>) -> Self {
            assert!(old.cents < 1_000_000, "too dear");
            Price { text: old.text, cents: old.cents.into(), more: [7; 9] }
        }
    }
    /// Keys get another type, with the order of the old one.
    #[derive(PSafe, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[persist(version = 2, from = OldCode<P>)]
    #[repr(C)]
    pub(super) struct Code<P: MemPool> {
        pub text: PString<P>,
        pub shop: u16,
    }
    #[derive(PSafe)]
    #[persist(version = 1, name = "Code")]
    #[repr(C)]
    pub(super) struct OldCode<P: MemPool>(PString<P>);
    impl<P: MemPool> Migrate<OldCode<P>, P> for Code<P> {
        fn migrate(old: OldCode<P>, _: &Journal<P>) -> Self {
            Code { text: old.0, shop: 3 }
        }
    }
    pub(super) type Root<P> = super::Root<Price<P>, Code<P>, P>;
}

#[derive(PSafe)]
#[repr(C)]
struct Root<T: PSafe<P>, K: PSafe<P>, P: MemPool> {
    hashed: PRefCell<PHashMap<u32, T, P>, P>,
    ordered: PRefCell<PBTreeMap<u32, T, P>, P>,
    boxed: PHashMap<PString<P>, Pbox<T, P>, P>,
    nested: PBTreeMap<u8, PHashMap<u8, PVec<T, P>, P>, P>,
    empty: (PHashMap<u8, T, P>, PBTreeMap<u8, T, P>),
    keys: PRefCell<PHashMap<K, u32, P>, P>,
    sorted: PRefCell<PBTreeMap<K, Option<Pbox<T, P>>, P>, P>,
    sets: (PHashSet<K, P>, PBTreeSet<K, P>),
    same: (PHashMap<u32, PString<P>, P>, PBTreeSet<u32, P>, PVecDeque<u32, P>),
}

const COUNT: u32 = 300;

fn old<P: MemPool>(dear: u32, j: &Journal<P>) -> v1::Root<P> {
    let text = |number: u32| PString::from(number.to_string(), j);
    let price = |number: u32| v1::Price { cents: if number == dear { 1_000_000 } else { number }, text: text(number) };
    let code = |number: u32| v1::Code(PString::from(format!("{number:05}"), j));
    let all = || 0..COUNT;
    let inner = || PHashMap::from_iter((0..3).map(|key| (key, PVec::from((0..5).map(price), j))), j);
    Root {
        hashed: PRefCell::new(PHashMap::from_iter(all().map(|key| (key, price(key))), j)),
        ordered: PRefCell::new(PBTreeMap::from_iter(all().map(|key| (key, price(key))), j)),
        boxed: PHashMap::from_iter(all().map(|key| (text(key), Pbox::new(price(key), j))), j),
        nested: PBTreeMap::from_iter((0..20).map(|key| (key, inner())), j),
        empty: (PHashMap::new(), PBTreeMap::new()),
        keys: PRefCell::new(PHashMap::from_iter(all().map(|key| (code(key), key)), j)),
        sorted: PRefCell::new(PBTreeMap::from_iter(all().map(|key| (code(key), Some(Pbox::new(price(key), j)))), j)),
        sets: (PHashSet::from(all().map(code), j), PBTreeSet::from(all().map(code), j)),
        same: (
            PHashMap::from_iter(all().map(|key| (key, text(key))), j),
            PBTreeSet::from(all(), j),
            PVecDeque::from(all(), j),
        ),
    }
}

#[test]
fn maps_are_migrated_with_what_they_hold() {
    pool!(P);
    let store = store();
    drop(P::create::<v1::Root<P>>(&store, "shop", |j| old(COUNT, j)).unwrap());
    let rehearsed = P::rehearse_migration::<v2::Root<P>>(&store, "shop").unwrap();
    drop(P::open::<v1::Root<P>>(&store, "shop").unwrap());
    let root = P::open_migrating::<v2::Root<P>>(&store, "shop").unwrap();
    assert_eq!(root.migrated().unwrap().steps, rehearsed.steps);
    let steps: Vec<(&str, u64)> = rehearsed.steps.iter().map(|step| (&*step.name, step.values)).collect();
    let n = u64::from(COUNT);
    assert_eq!(steps.iter().map(|step| step.1).sum::<u64>(), 4 * n + 20 * 3 * 5 + 4 * n, "{steps:?}");
    whole(&root);
    let is = |price: &v2::Price<P>, number: u32| {
        assert_eq!((price.cents, price.text.as_str(), price.more[8]), (number.into(), &*number.to_string(), 7));
    };
    for number in 0..COUNT {
        let text = number.to_string();
        is(&root.hashed.borrow()[&number], number);
        is(&root.ordered.borrow()[&number], number);
        is(&root.boxed[text.as_str()], number);
        assert_eq!((root.same.0[&number].as_str(), root.same.1.contains(&number)), (&*text, true));
    }
    root.nested.values().for_each(|inner| inner.values().for_each(|prices| is(&prices[4], 4)));
    let mut keys: Vec<(String, u32)> = Vec::new();
    root.keys.borrow().iter().for_each(|(code, number)| keys.push((code.text.to_string(), *number)));
    keys.sort();
    assert!(keys.iter().map(|key| key.1).eq(0..COUNT));
    assert!(root.sorted.borrow().keys().map(|code| code.text.as_str()).is_sorted());
    assert_eq!((root.sets.0.len(), root.sets.1.len(), root.same.2.len()), (300, 300, 300));
    // keys of another type are found before the table is built anew, and after it
    root.tx(|j, root| {
        let code = |number: u32, shop| v2::Code { text: PString::from(format!("{number:05}"), j), shop };
        let (mut keys, mut sorted) = (root.keys.borrow_mut(j), root.sorted.borrow_mut(j));
        assert_eq!((keys.get(&code(17, 3)), keys.get(&code(17, 4))), (Some(&17), None));
        assert_eq!(keys.insert(code(17, 4), 99, j), None);
        assert_eq!((keys.get(&code(17, 3)), keys.get(&code(17, 4)), keys.len()), (Some(&17), Some(&99), 301));
        assert_eq!(keys.remove(&code(200, 3), j), Some(200));
        let (found, _) = sorted.remove_entry(&code(250, 3), j).unwrap();
        assert_eq!(
            (found.shop, root.sets.1.contains(&code(17, 3)), root.sets.0.contains(&code(17, 3))),
            (3, true, true)
        );
        root.hashed.borrow_mut(j).retain(|key, _| key % 2 == 0, j);
        drop(root.ordered.borrow_mut(j).split_off(&100, j));
    })
    .unwrap();
    whole(&root);
    drop(root);
    let root = P::open::<v2::Root<P>>(&store, "shop").unwrap();
    assert_eq!((root.hashed.borrow().len(), root.ordered.borrow().len()), (150, 100));
}

#[test]
fn a_panic_in_the_middle_of_a_map_rolls_everything_back() {
    pool!(P);
    let store = store();
    drop(P::create::<v1::Root<P>>(&store, "shop", |j| old(200, j)).unwrap());
    let error = P::open_migrating::<v2::Root<P>>(&store, "shop").unwrap_err();
    assert!(matches!(error, Error::Panicked { .. }), "{error}");
    let root = P::open::<v1::Root<P>>(&store, "shop").unwrap();
    assert_eq!((root.hashed.borrow()[&200].cents, root.ordered.borrow()[&199].cents), (1_000_000, 199));
    whole(&root);
}

/// A map whose words lead nowhere, or contradict its blocks, is damage, and nothing changes.
#[test]
fn damaged_maps_are_not_migrated() {
    use everbyte_object::layout::{HEADER, Header};
    use std::mem::offset_of;
    pool!(P);
    let (hashed, ordered) = (offset_of!(v1::Root<P>, hashed), offset_of!(v1::Root<P>, ordered));
    let boxed = offset_of!(v1::Root<P>, boxed);
    for (at, change) in [
        (hashed, "no block"),
        (hashed + 8, "groups"),
        (hashed + 16, "count"),
        (hashed + 24, "count"),
        (ordered, "no block"),
        (ordered + 8, "count"),
        (ordered, "another's block"),
        (boxed, "no block"),
    ] {
        let store = store();
        drop(P::create::<v1::Root<P>>(&store, "shop", |j| old(COUNT, j)).unwrap());
        let prime = store.object("shop").unwrap().prime();
        let header: Header = store.media().get(prime + HEADER);
        let word = prime + header.root + at as u64;
        let before = store.media().load(word);
        let other = store.media().load(prime + header.root + boxed as u64);
        let bad = match change {
            "no block" => before + 8,
            "groups" => before ^ 3,
            "count" => before + 1,
            _ => other,
        };
        store.media().store(word, bad);
        let error = P::open_migrating::<v2::Root<P>>(&store, "shop").unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{change} at {at}: {error}");
        store.media().store(word, before);
        whole(&P::open::<v1::Root<P>>(&store, "shop").unwrap());
        whole(&P::open_migrating::<v2::Root<P>>(&store, "shop").unwrap());
    }
}
