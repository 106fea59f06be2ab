//! Maps as bytes: damage, tables of another compiler, keys of the hash, and the costs of changes.

use crate::common::store;
use everbyte_object::layout::{HEADER, Header};
use everbyte_object::{PBTreeMap, PHashMap, PRefCell, Pbox, Pool, pool};
use everbyte_store::Store;

/// Offset of the root of the pool `map`.
fn root(store: &Store) -> u64 {
    let prime = store.object("map").unwrap().prime();
    let header: Header = store.media().get(prime + HEADER);
    (prime + header.root).get()
}

type Numbers<P> = PRefCell<PHashMap<u64, Pbox<u64, P>, P>, P>;

/// A pool of boxed numbers, `count` of them, closed.
fn numbers<P: Pool>(count: u64) -> Store {
    let store = store();
    let map = P::create::<Numbers<P>>(&store, "map", |j| {
        PRefCell::new(PHashMap::from_iter((0..count).map(|key| (key, Pbox::new(key, j))), j))
    });
    drop(map.unwrap());
    store
}

/// Every byte of a map and of its tags, and every pointer in its places, changed: the check reports
/// what it can know, and never panics.
#[test]
fn a_damaged_hash_map_is_reported_and_never_a_panic() {
    pool!(P);
    let store = numbers::<P>(10);
    let media = store.media();
    let map = root(&store);
    let table = store.object("map").unwrap().prime().get() + media.load(map);
    let check = || P::open::<Numbers<P>>(&store, "map").unwrap().check().unwrap();
    assert_eq!(check(), []);
    let tag = |place: u64| media.read_vec(table + place, 1)[0];
    let boxes = (0..16).filter(|&place| tag(place) >= 0x80).flat_map(|place| {
        let slot = table + 16 + place * 16;
        slot + 8..slot + 16
    });
    // Block and groups; entries and free places; tags; boxes. Not the hash's own words: any will
    // do.
    let telling: Vec<u64> = (map..map + 12).chain(map + 16..map + 32).chain(table..table + 16).chain(boxes).collect();
    assert_eq!(telling.len(), 12 + 16 + 16 + 10 * 8);
    for at in telling {
        let was = media.read_vec(at, 1)[0];
        for change in [1, 2, 0x80, 0xff] {
            media.write(at, &[was ^ change]);
            let other_tag = (table..table + 16).contains(&at) && was >= 0x80 && was ^ change >= 0x80;
            assert_eq!(check().is_empty(), other_tag, "{was:#x} became {:#x} at {at:#x}", was ^ change);
            media.write(at, &[was]);
        }
    }
    assert_eq!(check(), []);
}

/// The same of an ordered map: its two words, the heads of its nodes, edges and boxes.
#[test]
fn a_damaged_ordered_map_is_reported_and_never_a_panic() {
    pool!(P);
    type Ordered = PRefCell<PBTreeMap<u64, Pbox<u64, P>, P>, P>;
    let store = store();
    let map = P::create::<Ordered>(&store, "map", |j| {
        PRefCell::new(PBTreeMap::from_iter((0..100).map(|key| (key, Pbox::new(key, j))), j))
    });
    drop(map.unwrap());
    let (media, prime) = (store.media(), store.object("map").unwrap().prime().get());
    let map = root(&store);
    let check = || P::open::<Ordered>(&store, "map").unwrap().check().unwrap();
    assert_eq!(check(), []);
    let (mut telling, mut nodes): (Vec<u64>, _) = ((map..map + 16).collect(), vec![prime + media.load(map)]);
    while let Some(node) = nodes.pop() {
        telling.extend(node..node + 8);
        let (len, level) = (media.load(node) & 0xffff_ffff, media.load(node) >> 32);
        telling.extend((0..len).flat_map(|entry| node + 16 + entry * 16..node + 24 + entry * 16));
        let edges = (0..if level == 0 { 0 } else { len + 1 }).map(|edge| node + 248 + edge * 8);
        telling.extend(edges.clone().flat_map(|edge| edge..edge + 8));
        nodes.extend(edges.map(|edge| prime + media.load(edge)));
    }
    assert!(telling.len() > 100 * 8 + 7 * 16, "{}", telling.len());
    for at in telling {
        let was = media.read_vec(at, 1)[0];
        for change in [1, 2, 0x80, 0xff] {
            media.write(at, &[was ^ change]);
            assert_ne!(check(), [], "{was:#x} became {:#x} at {at:#x}", was ^ change);
            media.write(at, &[was]);
        }
    }
    assert_eq!(check(), []);
}

/// A table that another compiler has built: found entry by entry, and built anew by the next entry
/// that comes.
#[test]
fn a_table_fed_otherwise_is_searched_and_built_anew() {
    pool!(P);
    let store = numbers::<P>(100);
    let at = root(&store) + 8;
    let ours = store.media().load(at);
    store.media().store(at, ours ^ 1 << 32);
    let map = P::open::<Numbers<P>>(&store, "map").unwrap();
    let found = |key: u64| map.borrow().get(&key).map(|value| **value);
    assert!((0..100).all(|key| found(key) == Some(key)));
    assert_eq!(found(100), None);
    map.tx(|j, map| drop(map.borrow_mut(j).remove(&7, j))).unwrap();
    assert_eq!(store.media().load(at), ours ^ 1 << 32, "not built anew by that");
    map.tx(|j, map| drop(map.borrow_mut(j).insert(1000, Pbox::new(0, j), j))).unwrap();
    assert_eq!(store.media().load(at) >> 32, ours >> 32);
    assert!((0..100).all(|key| found(key) == (key != 7).then_some(key)));
    assert_eq!(map.check().unwrap(), []);
}

/// Maps of one pool, and the same map of two stores, hash by different keys.
#[test]
fn maps_hash_by_keys_of_their_own() {
    pool!(P);
    type Two = [PHashMap<u64, u64, P>; 2];
    let keys = |identity: u8| {
        let media = everbyte_media::Media::anonymous(16 << 20, &Default::default()).unwrap();
        let options = everbyte_store::FormatOptions { log_len: 0, identity: Some([identity; 16]) };
        let store = Store::format(media, &options).unwrap();
        let two = P::create::<Two>(&store, "map", |j| [1, 2].map(|key| PHashMap::from_iter([(key, key)], j)));
        drop(two.unwrap());
        let at = root(&store);
        [32, 40, 80, 88].map(|word| store.media().load(at + word))
    };
    let mut all = [keys(1), keys(2)].concat();
    assert_eq!(all[..4], keys(1));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 8);
}

#[test]
fn what_maps_cost_in_fences() {
    pool!(P);
    type Maps = (PRefCell<PHashMap<u64, u64, P>, P>, PRefCell<PBTreeMap<u64, u64, P>, P>);
    let store = store();
    let maps = P::create::<Maps>(&store, "maps", |j| {
        (PRefCell::new(PHashMap::with_capacity(1000, j)), PRefCell::new(PBTreeMap::from_iter([(0, 0)], j)))
    });
    let maps = maps.unwrap();
    // The map's own words are logged first, then the places that change; commit and retirement.
    macro_rules! costs {
        ($expected:literal, |$map:ident, $j:ident| $change:expr) => {{
            costs!(0, $expected, |$map, $j| $change);
            costs!(1, $expected, |$map, $j| $change);
        }};
        ($which:tt, $expected:literal, |$map:ident, $j:ident| $change:expr) => {{
            let before = store.media().counts().fences;
            maps.tx(|$j, maps| {
                #[allow(unused_mut)]
                let mut $map = maps.$which.borrow_mut($j);
                let _ = $change;
            })
            .unwrap();
            assert_eq!(store.media().counts().fences - before, $expected, stringify!($change));
        }};
    }
    costs!(4, |map, j| map.insert(1, 1, j));
    costs!(4, |map, j| map.insert(1, 2, j));
    costs!(4, |map, j| map.get_mut(&1, j).map(|value| *value = 3));
    costs!(4, |map, j| map.remove(&1, j));
    costs!(0, |map, _j| map.get(&1).is_some());
    costs!(0, |map, _j| map.iter().count());
    maps.tx(|j, maps| maps.0.borrow_mut(j).extend((0..500).map(|key| (key, key)), j)).unwrap();
    costs!(0, 4, |map, j| map.retain(|key, _| key % 2 == 0, j));
}
