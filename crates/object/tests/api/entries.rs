//! The entries of maps, and the methods of maps that take them apart.

use crate::common::store;
use everbyte_object::{PBTreeMap, PHashMap, PRefCell, PString, Pbox, Pool, btree_map, hash_map, pool};

pool!(P1, P2, P3);

/// One program for both kinds of maps.
macro_rules! entries {
    ($name:ident, $P:ident, $Map:ident, $module:ident) => {
        #[test]
        fn $name() {
            let store = store();
            let map = $P::create::<PRefCell<$Map<PString<$P>, Pbox<u64, $P>, $P>, $P>>(&store, "map", |_| {
                PRefCell::default()
            });
            let map = map.unwrap();
            map.tx(|j, map| {
                let mut map = map.borrow_mut(j);
                for word in ["to", "be", "or", "not", "to", "be"] {
                    let count = map.entry(PString::from(word, j), j).or_insert_with(|| Pbox::new(0, j));
                    *count.as_mut(j) += 1;
                }
                assert_eq!((*map["to"], *map["be"], *map["or"], map.len()), (2, 2, 1, 4));
                match map.entry(PString::from("or", j), j) {
                    $module::Entry::Occupied(mut entry) => {
                        assert_eq!((entry.key().as_str(), **entry.get()), ("or", 1));
                        assert_eq!(*entry.insert(Pbox::new(9, j)), 1);
                        assert_eq!(*entry.remove(), 9);
                    }
                    $module::Entry::Vacant(_) => panic!("it is there"),
                }
                match map.entry(PString::from("or", j), j) {
                    $module::Entry::Vacant(entry) => assert_eq!(entry.into_key().as_str(), "or"),
                    $module::Entry::Occupied(_) => panic!("it was removed"),
                }
                let entry = map.entry(PString::from("not", j), j).and_modify(|count| *count.as_mut(j) = 7);
                assert_eq!(**entry.or_insert_with(|| panic!("it is there")), 7);
                assert_eq!(**map.entry(PString::from("new", j), j).set(Pbox::new(3, j)), 3);
            })
            .unwrap();
            assert_eq!(map.check().unwrap(), []);
            // a closure that panics leaves the map as it was
            let panics = map.tx(|j, map| {
                map.borrow_mut(j).entry(PString::from("x", j), j).or_insert_with(|| panic!("on purpose"));
            });
            assert!(panics.is_err());
            map.tx(|j, map| {
                let mut map = map.borrow_mut(j);
                let mut other = $Map::from_iter([(PString::from("to", j), Pbox::new(50, j))], j);
                other.extend([(PString::from("x", j), Pbox::new(51, j))], j);
                map.append(&mut other, j);
                assert!(other.is_empty());
                assert_eq!((*map["to"], *map["x"], map.len()), (50, 51, 5));
                let mut all: Vec<(String, u64)> =
                    map.drain(j).map(|(key, value)| (key.as_str().to_owned(), value.into_inner(j))).collect();
                all.sort();
                let all: Vec<(&str, u64)> = all.iter().map(|(key, value)| (key.as_str(), *value)).collect();
                assert_eq!(all, [("be", 2), ("new", 3), ("not", 7), ("to", 50), ("x", 51)]);
                assert!(map.is_empty());
                map.insert(PString::from("last", j), Pbox::new(1, j), j);
                let taken = std::mem::take(&mut *map);
                assert_eq!(taken.into_keys().map(|key| key.as_str().to_owned()).collect::<Vec<_>>(), ["last"]);
            })
            .unwrap();
            assert!(map.borrow().is_empty());
            assert_eq!(map.check().unwrap(), []);
        }
    };
}

entries!(entries_of_hash_maps, P1, PHashMap, hash_map);
entries!(entries_of_ordered_maps, P2, PBTreeMap, btree_map);

#[test]
fn ordered_maps_are_divided_compared_and_sent() {
    let store = store();
    let map = P3::create::<PRefCell<PBTreeMap<u64, u64, P3>, P3>>(&store, "map", |_| PRefCell::default()).unwrap();
    map.tx(|j, map| {
        let mut map = map.borrow_mut(j);
        map.extend((0..100).map(|key| (key, key * key)), j);
        let rest = map.split_off(&60, j);
        assert_eq!((map.len(), rest.len(), rest.first_key_value()), (60, 40, Some((&60, &3600))));
        assert!(*map < rest && map.cmp(&rest).is_lt());
        let mut first = map.first_entry(j).unwrap();
        *first.get_mut() += 5;
        assert_eq!(first.remove_entry(), (0, 5));
        assert_eq!(map.last_entry(j).unwrap().key(), &59);
    })
    .unwrap();
    let map = map.borrow();
    let (all, part) = (map.iter(), map.range(10..20));
    let sums = std::thread::scope(|scope| {
        let all = scope.spawn(move || all.map(|(key, _)| key).sum::<u64>());
        let part = scope.spawn(move || part.map(|(key, _)| key).sum::<u64>());
        (all.join().unwrap(), part.join().unwrap())
    });
    assert_eq!(sums, ((1..60).sum(), (10..20).sum()));
}
