//! Reads of less than an entry: lengths, keys and parts of values equal what whole reads return,
//! and damage to what they return is found without reading the rest.

#![forbid(unsafe_code)]

use everbyte_kv::{Kv, fetched};
use everbyte_media::Media;
use everbyte_sim::Image;
use everbyte_store::{FormatOptions, Store};

const CHUNK: usize = 64 << 10;

fn table(media: Media) -> Kv {
    let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([7; 16]) }).unwrap();
    Kv::create(&store, "t").unwrap()
}

fn media() -> Media {
    Image::zeroed(2 << 20).with_max(64 << 20).media()
}

/// Bytes without a period, so that a part from another place differs.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut random = everbyte_workload::Random::new(seed);
    (0..len).map(|_| random.next() as u8).collect()
}

/// Values of every length around the thresholds of the format, under keys in the leaf and in
/// blocks: their lengths and parts, by the table, a snapshot and a batch.
#[test]
fn parts_are_what_whole_reads_return() {
    let kv = table(media());
    let lengths =
        [0, 1, 7, 8, 511, 512, 513, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 3, 5 * CHUNK - 1];
    for (index, &len) in lengths.iter().enumerate() {
        for key_len in [3, 256, 257, 1000] {
            let mut key = bytes(key_len, 1);
            key[0] = index as u8;
            let value = bytes(len, index as u64 + 10);
            kv.put(&key, &value).unwrap();
            let (snapshot, batch) = (kv.snapshot(), kv.batch());
            for found in [kv.len_of(&key), snapshot.len_of(&key), batch.len_of(&key)] {
                assert_eq!(found.unwrap(), Some(len as u64));
            }
            let mut into = b"of before".to_vec();
            for number in 0..3 {
                let key = if number == 1 { &b"absent"[..] } else { &key };
                for found in [kv.get_into(key, &mut into), snapshot.get_into(key, &mut into)] {
                    assert_eq!(
                        (found.unwrap(), &into),
                        (number != 1, &if number == 1 { vec![] } else { value.clone() })
                    );
                }
                assert_eq!(
                    (batch.get_into(key, &mut into).unwrap(), into.is_empty()),
                    (number != 1, number == 1 || len == 0)
                );
            }
            let places = [0, 1, len / 3, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, len.saturating_sub(1), len];
            for (from, to) in places.iter().flat_map(|&from| places.map(|to| (from, to))) {
                let expect = value.get(from.min(len)..to.min(len)).unwrap_or_default();
                let part = |told: u64| {
                    assert_eq!(told, len as u64);
                    from as u64..to as u64
                };
                for found in [kv.part_of(&key, part), snapshot.part_of(&key, part), batch.part_of(&key, part)] {
                    assert!(found.unwrap().as_deref() == Some(expect), "{from}..{to} of {len}");
                }
            }
            drop(batch);
            key[1] ^= 1;
            assert_eq!(kv.len_of(&key).unwrap(), None);
            assert!(!kv.contains(&key).unwrap());
            assert_eq!(kv.part_of(&key, |_| 0..1).unwrap(), None);
        }
    }
    assert!(kv.check().is_empty());
    let whole: Vec<Vec<u8>> = kv.range::<[u8]>(..).map(|entry| entry.unwrap().0).collect();
    let (mut keys, mut range) = (Vec::new(), kv.range::<[u8]>(..));
    while let Some(entry) = range.next_entry().unwrap() {
        keys.push(entry.key().unwrap().to_vec());
    }
    assert!(keys == whole && keys.len() == 4 * lengths.len());
}

/// The cost of a part: its chunks and the table of the value; a length or a key costs nothing of
/// the value.
#[test]
fn a_part_costs_its_chunks_and_the_table() {
    let kv = table(media());
    kv.put(b"k", &bytes(20 * CHUNK + 5, 3)).unwrap();
    let cost = |read: &mut dyn FnMut()| {
        let before = fetched();
        read();
        fetched() - before
    };
    assert_eq!(cost(&mut || assert!(kv.contains(b"k").unwrap())), 0);
    assert_eq!(cost(&mut || drop(kv.range::<[u8]>(..).next_entry().unwrap().unwrap().key().unwrap().to_vec())), 0);
    for (part, chunks) in [(0..0, 0), (0..1, 1), (CHUNK - 1..CHUNK + 1, 2), (3 * CHUNK..4 * CHUNK, 1)] {
        let part = part.start as u64..part.end as u64;
        let expect = if chunks == 0 { 0 } else { chunks * CHUNK as u64 + 21 * 4 };
        assert_eq!(cost(&mut || drop(kv.part_of(b"k", |_| part.clone()).unwrap())), expect, "{part:?}");
    }
    assert_eq!(cost(&mut || drop(kv.get(b"k").unwrap())), 20 * CHUNK as u64 + 5);
}

/// Every bit of a value, its table and its record flipped in turn (in samples): each read returns
/// what is true, or an error.
#[test]
fn damage_to_what_a_part_covers_is_found() {
    let media = media();
    let kv = table(media.clone());
    let (value, len) = (bytes(3 * CHUNK + 5, 4), 3 * CHUNK as u64 + 5);
    kv.put(b"the key", &value).unwrap();
    let find = |pattern: &[u8]| {
        let places = (0..media.len()).step_by(8).filter(|&at| at + pattern.len() as u64 <= media.len());
        places.filter(|&at| media.read_vec(at, pattern.len()) == pattern).collect::<Vec<_>>()
    };
    let block = find(&value[..64])[0];
    let record = find(b"the key\0")[0] - 8;
    let length = find(&len.to_le_bytes())[0];
    let table = block + len.next_multiple_of(8);
    // Which reads must fail: of the first chunk, of the last, of the key and the length.
    for (at, fails) in [
        (block, [true, false, false]),
        (block + CHUNK as u64 - 8, [true, false, false]),
        (block + 3 * CHUNK as u64, [false, true, false]),
        (table, [true, true, false]),
        (table + 8, [true, true, false]),
        (record, [true, true, false]),
    ] {
        for bit in (0..32).step_by(5) {
            let word = media.load(at);
            media.store(at, word ^ 1 << bit);
            let first = kv.part_of(b"the key", |_| 5..10);
            let last = kv.part_of(b"the key", |len| len - 1..len);
            let size = kv.len_of(b"the key");
            assert_eq!([first.is_err(), last.is_err(), size.is_err()], fails, "{at:#x}, bit {bit}");
            assert!(first.is_err() || first.unwrap().unwrap() == value[5..10]);
            assert!(last.is_err() || last.unwrap().unwrap() == value[value.len() - 1..]);
            assert!(size.is_err() || size.unwrap() == Some(len));
            assert!(!kv.check().is_empty(), "check misses {at:#x}, bit {bit}");
            media.store(at, word);
        }
    }
    // The length, the head sum, and the key itself.
    for (at, bits) in [(length, 0..40), (record, 32..64), (record + 8, 0..56)] {
        for bit in bits {
            let word = media.load(at);
            media.store(at, word ^ 1 << bit);
            assert!(!matches!(kv.len_of(b"the key"), Ok(Some(_))), "{at:#x}, bit {bit}");
            assert!(!matches!(kv.part_of(b"the key", |_| 0..1), Ok(Some(_))), "{at:#x}, bit {bit}");
            let mut range = kv.range::<[u8]>(..);
            let key =
                range.next_entry().and_then(|entry| entry.map(|entry| entry.key().map(<[u8]>::to_vec)).transpose());
            assert!(key.is_err(), "{at:#x}, bit {bit}: {key:?}");
            media.store(at, word);
        }
    }
    assert!(kv.check().is_empty());
}

/// The catalogue keeps a number of its own under the name that no table can have.
#[test]
fn the_empty_name_is_no_table() {
    let store = everbyte_store::Store::format(
        everbyte_media::Media::anonymous(1 << 24, &Default::default()).unwrap(),
        &Default::default(),
    )
    .unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    kv.create_table("first").unwrap();
    assert!(matches!(kv.open_table(""), Err(everbyte_kv::Error::NoTable { .. })));
    assert!(matches!(kv.drop_table(""), Err(everbyte_kv::Error::NoTable { .. })));
    assert!(matches!(kv.open_or_create_table(""), Err(everbyte_kv::Error::TableName { .. })));
    kv.create_table("second").unwrap();
    assert_eq!((kv.tables().unwrap().len(), kv.check()), (2, vec![]));
}

/// A closure of the caller may panic: the version that it read is not kept for ever.
#[test]
fn a_panic_while_a_part_is_chosen_pins_no_version() {
    let kv = table(media());
    kv.put(b"key", b"value").unwrap();
    let read = || kv.part_of(b"key", |_| std::panic::resume_unwind(Box::new("by the caller")));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).is_err());
    kv.put(b"key", b"other").unwrap();
    let stats = kv.stats();
    assert_eq!(stats.oldest, stats.version.get());
}
