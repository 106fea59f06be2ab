//! Repair: whatever bit of a node is flipped, every entry of the other leaves is saved, with its
//! value, and a loss is never silent. The tests take a sample of the bits; with
//! `EVERBYTE_EVERY_BIT=1` they take all of them.

#![forbid(unsafe_code)]

use everbyte_heap::Heap;
use everbyte_kv::{Kv, Salvaged};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};
use std::collections::{BTreeMap, BTreeSet};

const LEN: u64 = 4 << 20;
/// First bytes of a node: its magic.
const MAGIC: [u8; 2] = 0x4e45_u16.to_le_bytes();

/// By table and key.
type Pairs = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn store() -> Store {
    let media = Media::anonymous(LEN, &Options::default()).unwrap();
    Store::format(media, &FormatOptions { log_len: 0, identity: Some([7; 16]) }).unwrap()
}

fn key(number: u32) -> Vec<u8> {
    format!("a key with number {number:08}").into_bytes()
}

/// A store with every kind of node: two tables, dead leaves that a named version keeps, a range
/// that was cut off, values in blocks of their own.
struct Good {
    bytes: Vec<u8>,
    /// The entries that are there.
    pairs: Pairs,
    /// Keys that were there before.
    deleted: BTreeSet<Vec<u8>>,
    /// Offset, size and level of every node.
    nodes: Vec<(usize, usize, u8)>,
}

fn good(named: bool) -> Good {
    let store = store();
    let (mut pairs, mut deleted) = (Pairs::new(), BTreeSet::new());
    let kv = Kv::create(&store, "kv").unwrap();
    let stock = kv.create_table("stock").unwrap();
    kv.create_table("empty").unwrap();
    for number in 0..150_u32 {
        let value = vec![number as u8; if number % 50 == 7 { 700 } else { 20 }];
        kv.put(&key(number * 7 % 150), &value).unwrap();
        pairs.insert((String::new(), key(number * 7 % 150)), value);
    }
    for number in 500..560_u32 {
        stock.put(&key(number), b"in stock").unwrap();
        pairs.insert(("stock".into(), key(number)), b"in stock".to_vec());
    }
    if named {
        kv.name_version("monday").unwrap();
    }
    for number in (0..150_u32).step_by(3) {
        kv.put(&key(number), &[0xee; 33]).unwrap();
        pairs.insert((String::new(), key(number)), vec![0xee; 33]);
    }
    for number in (1..150_u32).step_by(10) {
        kv.delete(&key(number)).unwrap();
        pairs.remove(&(String::new(), key(number)));
        deleted.insert(key(number));
    }
    assert_eq!(kv.check(), []);
    drop(kv);
    drop(stock);
    store.close().unwrap();
    let mut bytes = store.media().read_vec(0, LEN as usize);
    let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    bytes.truncate(used.next_multiple_of(4096));
    let mut nodes = Vec::new();
    let heap = Heap::open(store.object("kv").unwrap()).unwrap();
    heap.blocks(|block| {
        let at = block.at.get() as usize;
        let size = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        if bytes[at..at + 2] == MAGIC && size as u64 <= block.size.get() {
            nodes.push((at, size, bytes[at + 2]));
        }
    })
    .unwrap();
    Good { bytes, pairs, deleted, nodes }
}

fn pairs(kv: &Kv) -> Pairs {
    let mut pairs = Pairs::new();
    for entry in kv.prefix(b"") {
        let (key, value) = entry.unwrap();
        pairs.insert((String::new(), key), value);
    }
    for name in kv.tables().unwrap() {
        for entry in kv.open_table(&name).unwrap().prefix(b"").unwrap() {
            let (key, value) = entry.unwrap();
            pairs.insert((name.clone(), key), value);
        }
    }
    pairs
}

/// The result of a repair of these bytes.
fn saved(bytes: &[u8], to: &Store) -> (Salvaged, Pairs) {
    let media = Media::anonymous(LEN, &Options::default()).unwrap();
    {
        let _section = media.section();
        media.write(0, bytes);
    }
    let from = Store::attach(media).unwrap();
    let salvaged = Kv::salvage(&from, "kv", to, "saved", &mut |_| {}).unwrap();
    let kv = Kv::open(to, "saved").unwrap();
    assert_eq!(kv.check(), []);
    let pairs = pairs(&kv);
    assert_eq!(pairs.len() as u64, salvaged.entries);
    drop(kv);
    to.remove_object("saved").unwrap();
    (salvaged, pairs)
}

#[test]
fn a_whole_store_is_copied_and_nothing_is_lost() {
    for named in [false, true] {
        let good = good(named);
        let (salvaged, pairs) = saved(&good.bytes, &store());
        assert!(salvaged.is_whole(), "{salvaged:?}");
        assert!(pairs == good.pairs);
    }
}

/// Of the entries that no byte of the damaged node holds, each is there with its newest value.
fn require_others(good: &Good, (at, size): (usize, usize), salvaged: &Salvaged, pairs: &Pairs, bit: usize) {
    let node = &good.bytes[at..at + size];
    let holds = |key: &[u8]| node.windows(key.len()).any(|part| part == key);
    for ((table, key), value) in &good.pairs {
        let found = pairs.get(&(table.clone(), key.clone())).or_else(|| {
            // The name of a table is an entry too.
            let (renamed, old) = (salvaged.renamed.first()?, holds(table.as_bytes()));
            assert!(old, "bit {bit}: the name of {table} is lost");
            pairs.get(&(renamed.clone(), key.clone()))
        });
        if found != Some(value) && !holds(key) {
            let key = String::from_utf8_lossy(key);
            panic!("bit {bit} of the node at {at:#x}: {table}/{key} is {found:x?}\n{salvaged:#?}");
        }
    }
    for (_, key) in pairs.keys() {
        let known = good.pairs.keys().any(|known| known.1 == *key) || good.deleted.contains(key);
        assert!(known, "bit {bit}: a key that never was");
    }
}

fn flip_everywhere(named: bool, choose: fn(level: u8, bit: usize) -> bool) {
    let (good, to) = (good(named), store());
    let (mut flips, mut noticed) = (0, 0);
    let every = std::env::var_os("EVERBYTE_EVERY_BIT").is_some();
    for (at, size, level) in good.nodes.iter().copied() {
        let mut bytes = good.bytes.clone();
        for bit in (0..size * 8).filter(|&bit| every || choose(level, bit)) {
            bytes[at + bit / 8] ^= 1 << (bit % 8);
            let (salvaged, pairs) = saved(&bytes, &to);
            require_others(&good, (at, size), &salvaged, &pairs, bit);
            let is_same = pairs == good.pairs;
            if !is_same && salvaged.is_whole() {
                let lost: Vec<_> = good.pairs.iter().filter(|pair| pairs.get(pair.0) != Some(pair.1)).collect();
                panic!("bit {bit} of {at:#x}: not reported: {lost:x?}");
            }
            flips += 1;
            noticed += u32::from(!salvaged.is_whole());
            bytes[at + bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert!(flips > 1000 && noticed > flips / 20, "{flips} flips, {noticed} noticed");
}

#[test]
fn bits_of_inner_nodes_may_flip() {
    flip_everywhere(false, |level, bit| level > 0 && bit % 5 == 0);
}

#[test]
fn bits_of_leaves_may_flip() {
    flip_everywhere(false, |level, bit| level == 0 && bit % 121 == 0);
}

#[test]
fn bits_of_every_node_may_flip_while_a_name_keeps_dead_ones() {
    flip_everywhere(true, |level, bit| if level > 0 { bit % 22 == 0 } else { bit % 164 == 0 });
}

/// The header, the states, the commit word, the ledgers: the leaves are found without them.
#[test]
fn a_tree_without_header_and_states_is_saved_from_its_leaves() {
    let (good, to) = (good(false), store());
    let at = good.bytes.windows(8).position(|bytes| bytes == b"EVRBCDDS").unwrap();
    for damage in [at..at + 64, at + 64..at + 72, at + 128..at + 256, at..at + 256] {
        let mut bytes = good.bytes.clone();
        bytes[damage.clone()].fill(0xa5);
        let (salvaged, pairs) = saved(&bytes, &to);
        assert!(!salvaged.losses.is_empty() && !salvaged.is_whole(), "{damage:x?}");
        let lost: Vec<_> = good.pairs.iter().filter(|pair| pairs.get(pair.0) != Some(pair.1)).collect();
        assert!(lost.is_empty(), "{damage:x?}: {lost:x?}\n{salvaged:#?}");
    }
}

/// A value in a block of its own is lost alone, by its key.
#[test]
fn a_lost_value_is_named_by_its_key() {
    let (mut good, to) = (good(false), store());
    let at = good.bytes.windows(700).position(|bytes| bytes == [7; 700]).unwrap();
    good.bytes[at + 99] ^= 1;
    let (salvaged, pairs) = saved(&good.bytes, &to);
    let [loss] = &salvaged.losses[..] else { panic!("{salvaged:?}") };
    let lost = key(49);
    assert_eq!((&loss.table, loss.low.as_ref(), salvaged.missing), (&None, Some(&lost), Some(1)));
    assert_eq!(loss.high, Some([&lost[..], &[0]].concat()));
    good.pairs.remove(&(String::new(), lost));
    assert!(pairs == good.pairs);
}

/// A table whose name is lost gets one that no other table has.
#[test]
fn a_lost_table_takes_the_name_of_no_other() {
    let from = store();
    let kv = Kv::create(&from, "kv").unwrap();
    let (lost, whole) = (kv.create_table("its name is lost").unwrap(), kv.create_table("recovered-1").unwrap());
    lost.put(b"key", b"of the first").unwrap();
    whole.put(b"key", b"of the second").unwrap();
    drop((lost, whole, kv));
    from.close().unwrap();
    let mut bytes = from.media().read_vec(0, LEN as usize);
    let name = b"its name is lost";
    let places: Vec<usize> = (0..bytes.len() - name.len()).filter(|&at| bytes[at..].starts_with(name)).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|&at| bytes[at] ^= 1);
    let (salvaged, pairs) = saved(&bytes, &store());
    assert_eq!(salvaged.renamed, ["recovered-1-1"]);
    let pair = |table: &str, value: &[u8]| ((table.to_string(), b"key".to_vec()), value.to_vec());
    assert_eq!(pairs, Pairs::from([pair("recovered-1", b"of the second"), pair("recovered-1-1", b"of the first")]));
}
