//! Odd keys and values, a full store, readers beside a writer, and flipped bits everywhere: clear
//! errors, no panic, nothing lost that was acknowledged.

use everbyte_kv::{Error, Kv};
use everbyte_media::{Length, Media, Offset, Options};
use everbyte_store::{FormatOptions, Store};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn store(max: u64) -> Store {
    let media = Media::anonymous(max, &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

#[test]
fn keys_of_no_byte_and_of_a_megabyte() {
    let kv = Kv::create(&store(1 << 30), "t").unwrap();
    let long = vec![b'k'; 1 << 20];
    let longer = [&long[..], b"!"].concat();
    for key in [&b""[..], &[0], &long, &longer, &long[..256], &long[..257]] {
        kv.put(key, &key[..key.len().min(77)]).unwrap();
    }
    kv.put(b"", b"empty").unwrap();
    assert_eq!(kv.get(b"").unwrap().as_deref(), Some(&b"empty"[..]));
    assert_eq!(kv.get(&longer).unwrap().unwrap().len(), 77);
    let keys: Vec<usize> = kv.range::<[u8]>(..).map(|entry| entry.unwrap().0.len()).collect();
    assert_eq!(keys, [0, 1, 256, 257, 1 << 20, (1 << 20) + 1]);
    assert_eq!(kv.prefix(&long).count(), 2);
    assert!(kv.delete(&long).unwrap() && !kv.delete(&long).unwrap());
    let error = kv.put(&vec![0; (16 << 20) + 1], b"").unwrap_err();
    assert!(matches!(error, Error::KeyTooLong { .. }) && error.to_string().contains("longer than"), "{error}");
    assert_eq!(kv.check(), []);
}

#[test]
fn a_value_of_512_megabytes() {
    let kv = Kv::create(&store(8 << 30), "t").unwrap();
    let mut value = vec![7; 512 << 20];
    value[300 << 20] = 1;
    kv.put(b"big", &value).unwrap();
    assert!(kv.get(b"big").unwrap().unwrap() == value);
    kv.put(b"big", b"small").unwrap();
    for round in 0..4_u8 {
        kv.put(b"other", &[round]).unwrap();
    }
    assert_eq!(kv.get(b"big").unwrap().as_deref(), Some(&b"small"[..]));
    assert_eq!(kv.check(), []);
    // The space is there again.
    kv.put(b"big", &value).unwrap();
}

/// When nothing more fits, that is an error; what was there stays, and room made is room used.
#[test]
fn a_full_store() {
    let store = store(16 << 20);
    let kv = Kv::create(&store, "t").unwrap();
    let mut model = BTreeMap::new();
    let full = (0_u32..1 << 20).find(|number| {
        let key = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
        match kv.put(&key, &[*number as u8; 200]) {
            Ok(()) => model.insert(key.to_vec(), vec![*number as u8; 200]).is_some(),
            Err(_) => true,
        }
    });
    let error = kv.put(b"more", &[0; 100_000]).unwrap_err().to_string();
    assert!(full.is_some() && error.len() > 20, "{error}");
    let all: BTreeMap<_, _> = kv.range::<[u8]>(..).map(Result::unwrap).collect();
    assert!(all == model, "{} of {} keys after the store was full", all.len(), model.len());
    assert_eq!(kv.check(), []);
    let gone: Vec<_> = model.keys().take(model.len() / 2).cloned().collect();
    for key in gone {
        // Deleting may need a little room too; it comes back as soon as anything is freed.
        if kv.delete(&key).is_ok() {
            model.remove(&key);
        }
    }
    for round in 0..200_u32 {
        kv.put(&round.to_be_bytes(), &[1; 200]).unwrap();
        model.insert(round.to_be_bytes().to_vec(), vec![1; 200]);
    }
    let all: BTreeMap<_, _> = kv.range::<[u8]>(..).map(Result::unwrap).collect();
    assert!(all == model);
    assert_eq!(kv.check(), []);
}

/// Readers see whole batches only, whatever the writer does meanwhile: every version has all its
/// keys the same.
#[test]
fn readers_beside_a_writer() {
    let kv = Kv::create(&store(1 << 30), "t").unwrap();
    let key = |index: u32| format!("key{index:03}").into_bytes();
    let write = |round: u32| {
        let mut batch = kv.batch();
        (0..100).for_each(|index| assert_eq!(batch.put(&key(index), &round.to_be_bytes()).unwrap(), round > 0));
        let commit = batch.commit().unwrap();
        kv.settle(commit).unwrap();
    };
    write(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (kv, stop) = (kv.clone(), &stop);
            scope.spawn(move || {
                let mut last = 0;
                while !stop.load(Relaxed) {
                    let snapshot = kv.snapshot();
                    let round = snapshot.get(&key(50)).unwrap().unwrap();
                    let all: Vec<_> = match reader {
                        0 => snapshot.range::<[u8]>(..).map(|entry| entry.unwrap().1).collect(),
                        _ => (0..100).map(|index| snapshot.get(&key(index)).unwrap().unwrap()).collect(),
                    };
                    assert!(all.len() == 100 && all.iter().all(|value| *value == round), "a torn version");
                    let round = u32::from_be_bytes(round.try_into().unwrap());
                    assert!(round >= last, "a reader went back in time");
                    last = round;
                }
            });
        }
        (1..3000).for_each(write);
        stop.store(true, Relaxed);
    });
    assert_eq!(kv.check(), []);
}

/// Several writers at once: every acknowledged write is there.
#[test]
fn writers_beside_each_other() {
    let kv = Kv::create(&store(1 << 30), "t").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4_u32 {
            let kv = kv.clone();
            scope.spawn(move || {
                for round in 0..1000_u32 {
                    kv.put(&[writer.to_be_bytes(), round.to_be_bytes()].concat(), b"x").unwrap();
                    assert!(kv.get(&[writer.to_be_bytes(), round.to_be_bytes()].concat()).unwrap().is_some());
                }
            });
        }
    });
    assert_eq!(kv.len(), 4000);
    assert_eq!(kv.check(), []);
}

/// One flipped bit after another in everything the table has on media: opening, reading, walking,
/// writing and checking give an answer or an error. A read that answers is right, or the check
/// reports damage.
#[test]
fn flipped_bits() {
    let clean = store(8 << 20);
    let kv = Kv::create(&clean, "t").unwrap();
    let mut model = BTreeMap::new();
    for number in 0_u32..300 {
        let key = format!("key{number:05}").into_bytes();
        let value = vec![number as u8; if number % 50 == 0 { 700 } else { 40 }];
        kv.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    let span = clean.object("t").unwrap();
    let (from, until) = (span.prime() + 512, span.backed());
    drop(kv);
    let len = clean.media().len().min(until.get()) as usize;
    let image = clean.media().read_vec(0, len);
    drop(clean);
    let mut random = everbyte_workload::Random::new(0x1234_5678_9abc_def1);
    let mut noticed = 0;
    for _ in 0..1500 {
        // Half of them where words are dense: prime page and the first clusters.
        let range = if random.chance(50) { until - from } else { Length::new(16 << 10) };
        let at = from + random.below(range.get());
        let bit = random.below(8);
        let media = Media::anonymous(8 << 20, &Options::default()).unwrap();
        media.write(0, &image);
        let mut byte = [0];
        media.read(at, &mut byte);
        media.write(at, &[byte[0] ^ 1 << (bit)]);
        let story = format!("bit {bit} of {at:#x}");
        let Ok(kv) = Store::attach(media).map_err(drop).and_then(|store| Kv::open(&store, "t").map_err(drop)) else {
            noticed += 1;
            continue;
        };
        let findings = kv.check();
        noticed += u32::from(!findings.is_empty());
        for (key, value) in &model {
            match kv.get(key) {
                Ok(Some(found)) => assert!(found == *value, "{story}: a wrong value was read"),
                Ok(None) => assert!(!findings.is_empty(), "{story}: {key:?} vanished and check saw nothing"),
                Err(_) => {
                    assert!(!findings.is_empty(), "{story}: an error that check does not see");
                    let mut into = b"of before".to_vec();
                    assert!(kv.get_into(key, &mut into).is_err() && into.is_empty(), "{story}: {into:?}");
                }
            }
        }
        let right = |entry: &(Vec<u8>, Vec<u8>)| model.get(&entry.0) == Some(&entry.1);
        let walked = kv.range::<[u8]>(..).filter_map(Result::ok).inspect(|entry| {
            assert!(right(entry) || !findings.is_empty(), "{story}: a scan read a wrong pair");
        });
        let walked = walked.count();
        assert!(walked == model.len() || !findings.is_empty(), "{story}: {walked} entries and check saw nothing");
        for key in model.keys().step_by(37) {
            let _ = kv.put(key, b"after");
            let _ = kv.delete(key);
        }
    }
    assert!(noticed > 30, "{noticed} of 1500 flips noticed");
}

/// A cleared tree with one damaged leaf: its dead entry stays, so that each process meets it again.
/// If the blocks before the damage were freed each time, the second time they would be another
/// value's.
#[test]
fn a_dead_entry_that_stays_because_of_damage_frees_nothing() {
    let store = store(16 << 20);
    let kv = Kv::create(&store, "t").unwrap();
    (0..6_u8).for_each(|number| kv.put(&[b'k', number], &[0xa0 + number; 1000]).unwrap());
    let mut batch = kv.batch();
    batch.clear().unwrap();
    kv.settle(batch.commit().unwrap()).unwrap();
    // Offset of the fourth value, and of the record that names it.
    let (media, object) = (store.media(), store.object("t").unwrap());
    let words: Vec<u64> = (object.prime().get()..object.backed().get().min(Offset::new(media.len()).get()))
        .step_by(8)
        .map(|at| media.load(at))
        .collect();
    let place =
        |word: u64| words.iter().position(|&other| other == word).map(|index| object.prime() + index as u64 * 8);
    let record = place(place(0x0101_0101_0101_0101 * 0xa3).unwrap().get()).unwrap();
    media.store(record, !7);
    for round in 0..3_u8 {
        kv.put(b"other", &[round]).unwrap();
    }
    assert_eq!(kv.stats().freed, 0, "three blocks before the damage, and none of them may go");
    (0..6_u8).for_each(|number| kv.put(&[b'n', number], &[0xb0 + number; 1000]).unwrap());
    drop(kv);
    let kv = Kv::open(&store, "t").unwrap();
    for round in 0..3_u8 {
        kv.put(b"other", &[round]).unwrap();
    }
    (6..12_u8).for_each(|number| kv.put(&[b'n', number], &[0xb0 + number; 1000]).unwrap());
    for number in 0..12_u8 {
        assert!(kv.get(&[b'n', number]).unwrap() == Some(vec![0xb0 + number; 1000]), "value {number} was overwritten");
    }
    let findings = kv.check();
    assert!(findings.iter().any(|finding| finding.to_string().contains("outside")), "{findings:#?}");
}

/// A table is opened once at a time: a second writer would know nothing of the first one's versions
/// and pins.
#[test]
fn a_table_is_opened_once_at_a_time() {
    let store = store(1 << 30);
    let kv = Kv::create(&store, "t").unwrap();
    let refused = |store: &Store| Kv::open(store, "t").map(drop).unwrap_err().to_string();
    assert!(refused(&store).contains("already open in this process"), "{}", refused(&store));
    kv.put(b"key", b"value").unwrap();
    let range = kv.clone().range::<[u8]>(..);
    drop(kv);
    assert!(refused(&store).contains("already open"), "a range still reads");
    drop(range);
    assert!(Kv::open(&store, "t").unwrap().get(b"key").unwrap().is_some());
}

/// An overwrite of the largest key in a leaf that one batch fills in ascending order: its dead
/// entry and its successor stay in one node, and the node within its bounds.
#[test]
fn ascending_keys_behind_an_overwritten_long_one() {
    let kv = Kv::create(&store(1 << 30), "t").unwrap();
    let key = |number: u32| format!("key{number:06}").into_bytes();
    for before in 0..60_u32 {
        (0..before).for_each(|number| kv.put(&key(number), &[1; 600]).unwrap());
        let mut batch = kv.batch();
        (before..before + 30).for_each(|number| assert!(!batch.put(&key(number), &[2; 20]).unwrap()));
        if before > 0 {
            batch.put(&key(before - 1), &[3; 700]).unwrap();
        }
        (before + 30..before + 90).for_each(|number| assert!(!batch.put(&key(number), &[4; 20]).unwrap()));
        let commit = batch.commit().unwrap();
        kv.settle(commit).unwrap();
        assert_eq!(kv.range::<[u8]>(..).filter(Result::is_ok).count() as u32, before + 90);
        assert_eq!(kv.check(), [], "{before} long values before");
        let mut batch = kv.batch();
        batch.clear().unwrap();
        let commit = batch.commit().unwrap();
        kv.settle(commit).unwrap();
    }
}

/// A batch leaves nothing of an entry that it could not write, and the store goes on.
#[test]
fn a_batch_that_ran_out_of_room_is_void() {
    let kv = Kv::create(&store(16 << 20), "t").unwrap();
    kv.put(b"key", b"value").unwrap();
    let long_key = vec![b'k'; 1000];
    let mut batch = kv.batch();
    assert!(batch.put(&long_key, &vec![0; 64 << 20]).is_err());
    batch.put(b"other", b"fits").unwrap();
    let commit = batch.commit().unwrap();
    kv.settle(commit).unwrap();
    assert_eq!(kv.check(), [], "the long key's block has no owner");
    let mut batch = kv.batch();
    let full = (0_u32..1_000_000).any(|number| batch.put(&number.to_le_bytes(), &[7; 500]).is_err());
    assert!(full && batch.commit().is_err());
    assert_eq!(kv.len(), 2);
    assert_eq!(kv.check(), []);
    kv.put(b"key", b"again").unwrap();
}

/// A damaged record is an error in its place; what lies behind it is still read, so that it can be
/// saved.
#[test]
fn a_scan_goes_on_behind_a_damaged_record() {
    let store = store(8 << 20);
    let kv = Kv::create(&store, "t").unwrap();
    (0..20_u8).for_each(|number| kv.put(&[number], &[number ^ 0x5a; 64]).unwrap());
    let media = store.media();
    // Each of its copies: a leaf that was rebuilt has left one behind.
    let copies = (0..media.len() - 64).step_by(8).filter(|&at| media.read_vec(at, 64) == [7 ^ 0x5a; 64]);
    copies.collect::<Vec<_>>().iter().for_each(|&at| media.write(at, b"!"));
    for reverse in [false, true] {
        let range = kv.range::<[u8]>(..);
        let entries: Vec<_> = if reverse { range.rev().collect() } else { range.collect() };
        let place = if reverse { 19 - 7 } else { 7 };
        assert_eq!(entries.len(), 20);
        assert!(entries.iter().enumerate().all(|(index, entry)| entry.is_err() == (index == place)));
        assert!(entries[place].as_ref().unwrap_err().to_string().contains("checksum"));
    }
    assert!(!kv.check().is_empty());
}

/// Passing over entries fetches neither keys nor values; asked for, they are what was put.
#[test]
fn a_range_passes_over_what_nobody_reads() {
    let kv = Kv::create(&store(64 << 20), "t").unwrap();
    let key = |number: usize| [&b"k"[..], &vec![b'0'; number % 300], &number.to_be_bytes()].concat();
    (0..500).for_each(|number| kv.put(&key(number), &vec![1; number * 3]).unwrap());
    let mut sizes: Vec<_> = (0..500).map(|number| (key(number), number as u64 * 3)).collect();
    sizes.sort();
    let mut range = kv.range::<[u8]>(..);
    for (number, (key, len)) in sizes.iter().enumerate() {
        let entry = range.next_entry().unwrap().unwrap();
        assert_eq!((entry.key_len(), entry.value_len()), (key.len(), *len));
        match number % 3 {
            0 => assert_eq!(entry.key().unwrap(), key),
            1 => assert_eq!(entry.read().unwrap(), (&key[..], &vec![1; *len as usize][..])),
            _ => {}
        }
    }
    assert!(range.next_entry().unwrap().is_none());
    // From both ends they meet, with and without readers.
    let mut range = kv.range::<[u8]>(..);
    let mut count = 0;
    while range.next_entry().unwrap().is_some() {
        count += 1 + usize::from(range.next_back_entry().unwrap().is_some());
    }
    assert_eq!(count, 500);
}

/// Overwriting ten times over does not double the space.
#[test]
fn space_stays_bounded_under_overwrites() {
    let store = store(1 << 30);
    let kv = Kv::create(&store, "t").unwrap();
    let key = |number: u64| (number % 20_000).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    (0..20_000).for_each(|number| kv.put(&key(number), &[1; 100]).unwrap());
    let loaded = store.info().backed;
    let mut random = 1_u64;
    for _ in 0..200_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        kv.put(&key(random >> 33), &[2; 100]).unwrap();
    }
    let after = store.info().backed;
    assert!(after <= 2 * loaded, "{loaded} bytes after loading, {after} after ten times as many overwrites");
    assert_eq!(kv.check(), []);
}
