//! Tables whose entries have deadlines, beside a map with a clock that jumps both ways.

use everbyte_kv::{Clock, Error, ExpiringSnapshot, ExpiringTable, Kv, ManualClock, Swept};
use everbyte_media::{Media, Options, museum};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::{Keys, Random, programs};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// By key: the deadline in milliseconds, and the value.
type Model = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn seen(model: &Model, now: u64) -> Pairs {
    let visible = model.iter().filter(|(_, (deadline, _))| now < *deadline);
    visible.map(|(key, (_, value))| (key.clone(), value.clone())).collect()
}

fn is_same(table: &ExpiringTable, model: &Model, now: u64) -> bool {
    let expected = seen(model, now);
    let all: Pairs = table.range::<[u8]>(..).unwrap().collect::<Result<_, _>>().unwrap();
    let mut back: Pairs = table.range::<[u8]>(..).unwrap().rev().map(Result::unwrap).collect();
    back.reverse();
    let keys_are_right = model.keys().all(|key| {
        let value = expected.iter().find(|pair| pair.0 == *key).map(|pair| pair.1.clone());
        let deadline = value.as_ref().map(|_| Some(model[key].0).filter(|&at| at != u64::MAX).map(time));
        table.contains(key).unwrap() == value.is_some()
            && table.deadline(key).unwrap() == deadline
            && table.get(key).unwrap() == value
    });
    let counts = (table.len().unwrap(), table.is_empty().unwrap()) == (expected.len() as u64, expected.is_empty());
    all == expected && back == expected && keys_are_right && counts && table.check().unwrap().is_empty()
}

fn snapshot_is(snapshot: &ExpiringSnapshot, expected: &Pairs) -> bool {
    let all: Pairs = snapshot.range::<[u8]>(..).map(Result::unwrap).collect();
    let each = expected.iter().all(|(key, value)| snapshot.get(key).unwrap().as_ref() == Some(value));
    all == *expected
        && each
        && snapshot.len().unwrap() == all.len() as u64
        && snapshot.is_empty().unwrap() == all.is_empty()
}

/// Whether a random program does what the map does.
fn is_like_a_map(random: &mut Random) -> bool {
    let keys = Keys::draw(random, &[0, 8, 256]);
    let any = |random: &mut Random| keys.key(random.below(12));
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let (mut kv, clock) = (Kv::create(&store, "kv").unwrap(), ManualClock::default());
    let mut table = ExpiringTable::open_or_create(&kv, "t", clock.clone()).unwrap();
    let (mut now, mut model) = (1000_u64, Model::new());
    let mut held: Vec<(ExpiringSnapshot, Pairs)> = Vec::new();
    let mut named: Option<(Model, u64)> = None;
    for _ in 0..150 {
        clock.set(time(now));
        match random.below(20) {
            0..4 => now += random.below(30),
            // A jump back, and one far ahead.
            4 => now = now.saturating_sub(random.below(200)),
            5 => now += random.below(300),
            6 | 7 => {
                let limit = random.index(4);
                let mut due: Vec<_> = model.iter().filter(|(_, (at, _))| *at <= now).collect();
                due.sort_by_key(|(key, (at, _))| (*at, (*key).clone()));
                let gone: Vec<_> = due.iter().take(limit).map(|(key, _)| (*key).clone()).collect();
                let more = due.len() > limit;
                let swept = table.expire(limit).unwrap();
                if (swept.keys, swept.more) != (gone.len() as u64, more) {
                    return false;
                }
                gone.iter().for_each(|key| drop(model.remove(key)));
            }
            8 => held.push((table.snapshot().unwrap(), seen(&model, now))),
            9 if !held.is_empty() => {
                let (snapshot, expected) = held.swap_remove(random.index(held.len()));
                if !snapshot_is(&snapshot, &expected) {
                    return false;
                }
            }
            10 => {
                held.clear();
                drop(table);
                drop(kv);
                kv = Kv::open(&store, "kv").unwrap();
                table = ExpiringTable::open(&kv, "t", clock.clone()).unwrap();
            }
            11 => match named.take() {
                None => {
                    kv.name_version("before").unwrap();
                    named = Some((model.clone(), now));
                }
                Some((then, at)) => {
                    let version = table.snapshot_of(&kv.open_version("before").unwrap(), time(at)).unwrap();
                    if !snapshot_is(&version, &seen(&then, at)) {
                        return false;
                    }
                    table.restore("before").unwrap();
                    model = then;
                    kv.remove_version("before").unwrap();
                }
            },
            12 if random.chance(20) && named.is_none() => {
                ExpiringTable::drop_table(&kv, "t").unwrap();
                assert!(matches!(table.get(b""), Err(Error::TableGone { .. })));
                table = ExpiringTable::open_or_create(&kv, "t", clock.clone()).unwrap();
                model.clear();
            }
            _ => {
                let mut batch = kv.batch();
                let mut next = model.clone();
                for _ in 0..1 + random.below(4) {
                    let mut face = table.in_batch(&mut batch).unwrap();
                    let (key, value) = (any(random), vec![random.next() as u8; random.pick(&[0, 9, 600])]);
                    let was_there = next.get(&key).is_some_and(|(at, _)| now < *at);
                    let found = match random.below(6) {
                        0 => {
                            next.insert(key.clone(), (u64::MAX, value.clone()));
                            face.put(&key, &value).unwrap()
                        }
                        1 => {
                            let at = now.saturating_sub(20) + random.below(60);
                            next.insert(key.clone(), (at, value.clone()));
                            face.put_until(&key, &value, time(at)).unwrap()
                        }
                        2 | 3 => {
                            let lasts = random.below(60);
                            next.insert(key.clone(), (now + lasts, value.clone()));
                            face.put_for(&key, &value, Duration::from_millis(lasts)).unwrap()
                        }
                        4 => {
                            next.remove(&key);
                            face.delete(&key).unwrap()
                        }
                        _ => {
                            let mut ends = [key, any(random)];
                            ends.sort();
                            let [low, high] = ends;
                            let gone = seen(&next, now).iter().filter(|(key, _)| low <= *key && *key < high).count();
                            next.retain(|key, _| !(low <= *key && *key < high));
                            if face.delete_range(low..high).unwrap() != gone as u64 {
                                return false;
                            }
                            continue;
                        }
                    };
                    let own = next.get(&key).filter(|(at, _)| now < *at).map(|(_, value)| value.clone());
                    if found != was_there || face.get(&key).unwrap() != own {
                        return false;
                    }
                }
                if random.chance(80) {
                    kv.settle(batch.commit().unwrap()).unwrap();
                    model = next;
                }
            }
        }
        clock.set(time(now));
        if !is_same(&table, &model, now) {
            return false;
        }
    }
    // The end of time: nothing is left but what has no deadline.
    clock.set(time(now + 100_000));
    while table.expire(3).unwrap().more {}
    model.retain(|_, (at, _)| *at == u64::MAX);
    let stored = kv.open_table("t").unwrap().len().unwrap();
    stored == model.len() as u64 && is_same(&table, &model, now) && kv.check().is_empty()
}

#[test]
fn expiring_tables_do_what_a_map_with_a_clock_does() {
    programs(40, |random, _| assert!(is_like_a_map(random)));
}

#[test]
fn an_index_that_keeps_old_deadlines_is_found() {
    let found = (1..20).any(|seed| !museum::with("kv-ttl-keeps-deadline", || is_like_a_map(&mut Random::new(seed))));
    assert!(found);
}

/// A clock that jumps ahead and back: only a sweep removes, and what it removed stays removed.
#[test]
fn a_clock_that_jumps_loses_nothing_that_it_does_not_call_expired() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let (kv, clock) = (Kv::create(&store, "kv").unwrap(), ManualClock::default());
    let table = ExpiringTable::open_or_create(&kv, "t", clock.clone()).unwrap();
    let keys = || table.range::<[u8]>(..).unwrap().map(|pair| pair.unwrap().0[0]).collect::<Vec<_>>();
    for (key, deadline) in [(1, 100), (2, 200), (3, 300)] {
        table.put_until(&[key], b"value", time(deadline)).unwrap();
    }
    for (now, visible) in [(99, vec![1, 2, 3]), (100, vec![2, 3]), (1 << 40, vec![]), (0, vec![1, 2, 3])] {
        clock.set(time(now));
        assert_eq!(keys(), visible, "at {now}");
    }
    clock.set(time(250));
    assert_eq!(table.expire(1).unwrap(), everbyte_kv::Swept { keys: 1, more: true });
    clock.set(time(0));
    assert_eq!(keys(), [2, 3], "the sweep removed the first");
    assert_eq!(table.expire(9).unwrap(), everbyte_kv::Swept { keys: 0, more: false });
    // The name alone does not make a table an expiring one.
    kv.create_table("plain").unwrap();
    assert!(matches!(ExpiringTable::open_or_create(&kv, "plain", clock.clone()), Err(Error::TableExists { .. })));
    assert!(matches!(ExpiringTable::open(&kv, "plain", clock.clone()), Err(Error::NoTable { .. })));
    let far = Duration::from_secs(u64::MAX);
    table.put_for(b"far", b"", far).unwrap();
    table.put_until(b"rounded", b"", UNIX_EPOCH + Duration::from_nanos(5_000_001)).unwrap();
    assert_eq!(table.deadline(b"rounded").unwrap(), Some(Some(time(6))));
    assert!(table.contains(b"far").unwrap() && clock.now() == time(0));
    let long = vec![0; everbyte_kv::KEY_MAX - 7];
    assert!(matches!(table.put_for(&long, b"", far), Err(Error::KeyTooLong { .. })));
    assert_eq!((table.check().unwrap(), kv.check()), (vec![], vec![]));
}

/// TTL-3: an entry of the index that no value has a deadline for removes nothing but itself.
#[test]
fn an_entry_of_the_index_alone_removes_no_key() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let (kv, clock) = (Kv::create(&store, "kv").unwrap(), ManualClock::default());
    let table = ExpiringTable::open_or_create(&kv, "t", clock.clone()).unwrap();
    table.put_until(b"later", b"1", time(2000)).unwrap();
    table.put(b"never", b"2").unwrap();
    let index = kv.open_table("t.expiry").unwrap();
    for key in [&b"later"[..], b"never", b"none"] {
        index.put(&[&500_u64.to_be_bytes()[..], key].concat(), b"").unwrap();
    }
    assert_eq!(table.check().unwrap().len(), 3);
    clock.set(time(1000));
    assert_eq!(table.expire(100).unwrap(), Swept { keys: 0, more: false });
    assert_eq!((table.get(b"later").unwrap(), table.get(b"never").unwrap()), (Some(b"1".into()), Some(b"2".into())));
    assert_eq!((table.len().unwrap(), table.check().unwrap()), (2, vec![]));
}

/// A duration counts in full: its part of a millisecond is rounded up.
#[test]
fn an_entry_lasts_no_shorter_than_it_was_told() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let (kv, clock) = (Kv::create(&store, "kv").unwrap(), ManualClock::default());
    let table = ExpiringTable::open_or_create(&kv, "t", clock.clone()).unwrap();
    clock.set(time(1000));
    for (micros, lasts) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2)] {
        table.put_for(b"key", b"", Duration::from_micros(micros)).unwrap();
        let deadline = (lasts > 0).then(|| Some(time(1000 + lasts)));
        assert_eq!(table.deadline(b"key").unwrap(), deadline, "{micros} us");
        table.put_until(b"key", b"", time(1000) + Duration::from_micros(micros)).unwrap();
        assert_eq!(table.deadline(b"key").unwrap(), deadline, "until {micros} us later");
    }
}

/// The longest duration ends, if late: its entry is in the index, unlike one without a deadline.
#[test]
fn the_longest_duration_is_a_deadline() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let (kv, clock) = (Kv::create(&store, "kv").unwrap(), ManualClock::default());
    let table = ExpiringTable::open_or_create(&kv, "t", clock.clone()).unwrap();
    clock.set(time(1000));
    table.put_for(b"late", b"", Duration::MAX).unwrap();
    assert_eq!(table.deadline(b"late").unwrap(), Some(Some(time(u64::MAX - 1))));
    assert_eq!(kv.open_table("t.expiry").unwrap().len().unwrap(), 1);
}
