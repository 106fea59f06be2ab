//! Keys of the greatest length: the border between two of them, which inner nodes hold, is longer
//! than either by the number of their table.

use everbyte_kv::{KEY_MAX, Kv};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};

/// Short keys before and behind two keys that differ in their last byte: so many that a leaf is cut
/// between the long ones.
fn entries(before: u8, behind: u8) -> Vec<Vec<u8>> {
    let longest = |last: u8| [&vec![b'k'; KEY_MAX - 1][..], &[last]].concat();
    let short = |first: u8, count: u8| (0..count).map(move |number| vec![first, number]);
    short(b'a', before).chain([longest(b'1'), longest(b'2')]).chain(short(b'z', behind)).collect()
}

fn table() -> Kv {
    let store = Store::format(Media::anonymous(512 << 20, &Options::default()).unwrap(), &FormatOptions::default());
    Kv::create(&store.unwrap(), "t").unwrap()
}

/// Reads, ranges, checks and deletes across the border.
fn use_border(kv: &Kv, keys: &[Vec<u8>]) {
    assert_eq!((kv.stats().levels, kv.check()), (2, vec![]));
    let [low, high] = [0, 1].map(|last| keys.iter().filter(|key| key.len() == KEY_MAX).nth(last).unwrap());
    assert_eq!((kv.get(low).unwrap(), kv.get(high).unwrap()), (Some(b"v".into()), Some(b"v".into())));
    assert_eq!(kv.get(&low[..KEY_MAX - 1]).unwrap(), None);
    let mut range = kv.range(&low[..]..&b"z"[..]);
    for key in [low, high] {
        assert!(range.next_ref().unwrap().is_some_and(|(found, _)| found == key));
    }
    assert!(range.next_ref().unwrap().is_none());
    kv.put(high, b"other").unwrap();
    let mut batch = kv.batch();
    assert_eq!(batch.delete_range(&low[..]..&b"z"[..]).unwrap(), 2);
    kv.settle(batch.commit().unwrap()).unwrap();
    assert_eq!((kv.get(high).unwrap(), kv.len(), kv.check()), (None, keys.len() as u64 - 2, vec![]));
}

#[test]
fn a_split_between_the_longest_keys_leaves_a_border_that_can_be_read() {
    let (kv, keys) = (table(), entries(31, 31));
    let mut batch = kv.batch();
    // The last one is in the middle: the leaf is cut in halves.
    for key in keys[..10].iter().chain(&keys[11..]).chain([&keys[10]]) {
        batch.put(key, b"v").unwrap();
    }
    kv.settle(batch.commit().unwrap()).unwrap();
    use_border(&kv, &keys);
}

#[test]
fn a_load_of_the_longest_keys_leaves_a_border_that_can_be_read() {
    let (kv, keys) = (table(), entries(47, 47));
    let mut batch = kv.batch();
    batch.load(keys.iter().map(|key| (key, b"v"))).unwrap();
    kv.settle(batch.commit().unwrap()).unwrap();
    use_border(&kv, &keys);
}
