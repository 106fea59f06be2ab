//! Random batches over several tables, with savepoints, deleted ranges, dropped tables and
//! snapshots, beside a map of maps.

use everbyte_kv::{Error, Kv, KvTable, Savepoint, Snapshot};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::{Keys, Random, programs};
use std::collections::BTreeMap;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;
/// By name; the main table has none.
type Model = BTreeMap<&'static str, Pairs>;

const NAMES: [&str; 3] = ["a", "b", "c"];
/// Lengths around a word, an inline value, a page.
const VALUES: &[usize] = &[0, 1, 8, 63, 120, 120, 511, 512, 513, 4096];

struct Held {
    snapshot: Snapshot,
    tables: BTreeMap<&'static str, KvTable>,
    model: Model,
}

impl Held {
    fn take(kv: &Kv, model: &Model) -> Held {
        let open = |name: &&'static str| Some((*name, kv.open_table(name).ok()?));
        Held { snapshot: kv.snapshot(), tables: NAMES.iter().filter_map(open).collect(), model: model.clone() }
    }

    fn assert_same(&self) {
        let main: Pairs = self.snapshot.range::<[u8]>(..).collect::<Result<_, _>>().unwrap();
        assert_eq!((&main, self.snapshot.len()), (&self.model[""], main.len() as u64));
        assert_eq!(self.tables.len() + 1, self.model.len(), "the tables of the model are there");
        for (name, table) in &self.tables {
            let table = self.snapshot.table(table).unwrap();
            let pairs: Pairs = table.range::<[u8]>(..).collect::<Result<_, _>>().unwrap();
            assert_eq!(pairs, self.model[name]);
            assert_eq!(table.len().unwrap(), pairs.len() as u64);
            let backwards: Vec<_> = table.range::<[u8]>(..).rev().map(|pair| pair.unwrap().0).collect();
            assert!(backwards.iter().eq(pairs.keys().rev()));
        }
    }
}

/// One batch of random writes; the model that is true if it commits.
fn batch(random: &mut Random, kv: &Kv, keys: &Keys, model: &Model) -> Model {
    let (mut batch, mut next) = (kv.batch(), model.clone());
    let mut marks: Vec<(Savepoint, Model)> = Vec::new();
    for _ in 0..random.below(14) {
        let name = random.pick(&["", "a", "b", "c"]);
        let table = if name.is_empty() { None } else { batch.open_table(name).ok() };
        assert_eq!(table.is_some() || name.is_empty(), next.contains_key(name));
        match random.below(12) {
            0 => marks.push((batch.savepoint().unwrap(), next.clone())),
            1 if !marks.is_empty() => {
                let index = random.index(marks.len());
                let (savepoint, before) = marks[index].clone();
                batch.roll_back(savepoint).unwrap();
                assert!(
                    marks
                        .drain(index + 1..)
                        .all(|(later, _)| { matches!(batch.roll_back(later), Err(Error::NoSavepoint)) })
                );
                next = before;
            }
            2 if table.is_some() && random.chance(50) => {
                batch.drop_table(name).unwrap();
                assert!(matches!(batch.table(&table.unwrap()), Err(Error::TableGone { .. })));
                next.remove(name);
            }
            3 => {
                let mut ends = [keys.any(random), keys.any(random)];
                ends.sort();
                let [low, high] = ends;
                let Some(pairs) = next.get_mut(name) else { continue };
                let before = pairs.len();
                pairs.retain(|key, _| !(low.clone()..high.clone()).contains(key));
                let gone = (before - pairs.len()) as u64;
                let deleted = match &table {
                    Some(table) => batch.table(table).unwrap().delete_range(low..high),
                    None => batch.delete_range(low..high),
                };
                assert_eq!(deleted.unwrap(), gone);
            }
            _ if !next.contains_key(name) => {
                batch.create_table(name).unwrap();
                next.insert(name, Pairs::new());
            }
            choice => {
                let key = keys.any(random);
                let pairs = next.get_mut(name).expect("asked above");
                let value = (choice > 5).then(|| vec![random.next() as u8; random.pick(VALUES)]);
                let was_there = match &value {
                    Some(value) => pairs.insert(key.clone(), value.clone()).is_some(),
                    None => pairs.remove(&key).is_some(),
                };
                let found = match (&table, &value) {
                    (Some(table), Some(value)) => batch.table(table).unwrap().put(&key, value).unwrap(),
                    (Some(table), None) => batch.table(table).unwrap().delete(&key).unwrap(),
                    (None, Some(value)) => batch.put(&key, value).unwrap(),
                    (None, None) => batch.delete(&key).unwrap(),
                };
                assert_eq!(found, was_there);
            }
        }
    }
    if random.chance(15) {
        batch.abort();
        return model.clone();
    }
    kv.settle(batch.commit().unwrap()).unwrap();
    next
}

/// The main table of a named version is that of its model, and so is its difference to now.
fn assert_named(kv: &Kv, name: &str, model: &Model) {
    let snapshot = kv.open_version(name).unwrap();
    let main: Pairs = snapshot.range::<[u8]>(..).collect::<Result<_, _>>().unwrap();
    assert_eq!((&main, snapshot.len()), (&model[""], main.len() as u64));
    for table in NAMES.iter().filter_map(|table| kv.open_table(table).ok()) {
        let Ok(then) = snapshot.table(&table) else { continue };
        let pairs: Pairs = then.range::<[u8]>(..).collect::<Result<_, _>>().unwrap();
        assert_eq!((&pairs, then.len().unwrap()), (&model[table.name()], pairs.len() as u64));
        assert_eq!(table.len().unwrap(), table.range::<[u8]>(..).unwrap().count() as u64);
    }
    let now = kv.snapshot();
    let newest = Model::from([("", now.range::<[u8]>(..).collect::<Result<_, _>>().unwrap())]);
    assert_changes(&snapshot, model, &now, &newest);
    assert_changes(&now, &newest, &snapshot, model);
}

/// The changes between two versions lead from one model to the other, and name each key once, in
/// order. A key that was written and has its old value may be among them.
fn assert_changes(before: &Snapshot, old: &Model, after: &Snapshot, new: &Model) {
    let changes: Vec<_> = before.changes(after).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(changes.is_sorted_by(|one, next| one.key < next.key));
    let mut pairs = old[""].clone();
    for change in changes {
        assert_eq!(pairs.remove(&change.key), change.before);
        pairs.extend(change.after.map(|value| (change.key, value)));
    }
    assert_eq!(pairs, new[""]);
}

fn program(random: &mut Random) {
    let keys = Keys::draw(random, &[0, 8, 24, 32, 256]);
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let mut kv = Kv::create(&store, "kv").unwrap();
    let (mut model, mut held) = (Model::from([("", Pairs::new())]), Vec::<Held>::new());
    let mut names = BTreeMap::<&str, Model>::new();
    for _ in 0..50 {
        let before = (kv.snapshot(), model.clone());
        model = batch(random, &kv, &keys, &model);
        assert_changes(&before.0, &before.1, &kv.snapshot(), &model);
        drop(before);
        Held::take(&kv, &model).assert_same();
        match random.below(12) {
            8 | 9 => {
                let name = random.pick(&["x", "y", "z"]);
                let named = kv.name_version(name);
                if names.contains_key(name) {
                    assert!(matches!(named, Err(Error::VersionExists { .. })));
                    assert_named(&kv, name, &names[name]);
                    kv.remove_version(name).unwrap();
                    names.remove(name);
                } else {
                    named.unwrap();
                    names.insert(name, model.clone());
                }
            }
            10 if !names.is_empty() => {
                let all: Vec<&'static str> = names.keys().copied().collect();
                let name = random.pick(&all);
                let table = random.pick(&NAMES);
                match kv.open_table(table) {
                    // One table alone, where the version sees the same one.
                    Ok(open) if random.chance(50) => match kv.restore_table(&open, name) {
                        Ok(()) => drop(model.insert(table, names[name][table].clone())),
                        Err(error) => assert!(matches!(error, Error::TableGone { .. }), "{error}"),
                    },
                    _ => {
                        kv.restore_version(name).unwrap();
                        model = names[name].clone();
                    }
                }
                Held::take(&kv, &model).assert_same();
            }
            0 => held.push(Held::take(&kv, &model)),
            1 if !held.is_empty() => held.swap_remove(random.index(held.len())).assert_same(),
            2 => {
                held.drain(..).for_each(|held| held.assert_same());
                drop(kv);
                kv = Kv::open(&store, "kv").unwrap();
            }
            _ => {}
        }
    }
    held.iter().for_each(Held::assert_same);
    let listed: Vec<String> = kv.versions().unwrap().into_iter().map(|named| named.name).collect();
    assert!(listed.iter().eq(names.keys()));
    names.iter().for_each(|(name, model)| assert_named(&kv, name, model));
    assert_eq!(kv.check(), []);
}

#[test]
fn tables_do_what_a_map_of_maps_does() {
    programs(40, |random, _| program(random));
}

/// A table that is gone, and one of another store, are refused; a snapshot keeps what it sees.
#[test]
fn a_dropped_table_is_refused_and_its_snapshots_stay() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let before = kv.snapshot();
    let table = kv.create_table("t").unwrap();
    table.put(b"key", b"value").unwrap();
    assert!(matches!(before.table(&table), Err(Error::TableGone { .. })), "it is newer");
    let snapshot = table.snapshot().unwrap();
    let mut range = table.range::<[u8]>(..).unwrap();
    kv.drop_table("t").unwrap();
    assert!(matches!(kv.drop_table("t"), Err(Error::NoTable { .. })));
    for result in [table.put(b"key", b""), table.get(b"key").map(drop), table.snapshot().map(drop)] {
        assert!(matches!(result, Err(Error::TableGone { .. })));
    }
    let mut into = b"of before".to_vec();
    assert!(table.get_into(b"key", &mut into).is_err() && into.is_empty(), "{into:?}");
    let again = kv.create_table("t").unwrap();
    assert!(matches!(kv.create_table("t"), Err(Error::TableExists { .. })));
    again.put(b"key", b"another").unwrap();
    assert!(matches!(table.get(b"key"), Err(Error::TableGone { .. })), "the name alone does not bring it back");
    assert_eq!(snapshot.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(range.next().unwrap().unwrap().1, b"value");
    let other = Kv::create(&store, "other").unwrap();
    let mut batch = other.batch();
    assert!(matches!(batch.table(&again), Err(Error::OtherStore { .. })));
    assert!(matches!(batch.create_table(""), Err(Error::TableName { .. })));
    assert!(matches!(batch.create_table(&"n".repeat(256)), Err(Error::TableName { .. })));
    assert_eq!(kv.check(), []);
}

/// A table that a batch made is refused to others before the commit, and for ever if it is given
/// up.
#[test]
fn a_table_of_a_batch_belongs_to_it_until_the_commit() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let mut batch = kv.batch();
    let given_up = batch.create_table("t").unwrap();
    batch.table(&given_up).unwrap().put(b"key", b"value").unwrap();
    assert!(matches!(given_up.get(b"key"), Err(Error::TableGone { .. })));
    batch.abort();
    assert!(matches!(given_up.put(b"key", b""), Err(Error::TableGone { .. })));
    assert!(kv.tables().unwrap().is_empty());
    let mut batch = kv.batch();
    let kept = batch.create_table("t").unwrap();
    batch.table(&kept).unwrap().put(b"key", b"value").unwrap();
    kv.settle(batch.commit().unwrap()).unwrap();
    assert_eq!((kept.len().unwrap(), kv.tables().unwrap()), (1, vec!["t".to_string()]));
    assert!(matches!(given_up.get(b"key"), Err(Error::TableGone { .. })));
}

/// A batch that merged nodes and was cut short leaves nothing that the next one stumbles over.
#[test]
fn merging_again_after_a_batch_that_was_cut_short() {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let mut kv = Kv::create(&store, "kv").unwrap();
    let key = |number: u16| number.to_be_bytes();
    let thin_out = |batch: &mut everbyte_kv::Batch<'_>, step: u16| {
        for number in (0..2400).filter(|number| number % step != 0) {
            batch.delete(&key(number)).unwrap();
        }
    };
    let mut batch = kv.batch();
    (0..2400).for_each(|number| assert!(!batch.put(&key(number), &[7; 480]).unwrap()));
    batch.delete_range(key(1100)..key(1400)).unwrap();
    (1100..1400).step_by(8).for_each(|number| assert!(!batch.put(&key(number), &[7; 480]).unwrap()));
    kv.settle(batch.commit().unwrap()).unwrap();
    for _ in 0..1 {
        let mut batch = kv.batch();
        thin_out(&mut batch, 12);
        std::mem::forget(batch);
        drop(kv);
        kv = Kv::open(&store, "kv").unwrap();
        assert_eq!(kv.check(), []);
    }
    for step in [12, 48, 96] {
        let mut batch = kv.batch();
        thin_out(&mut batch, step);
        kv.settle(batch.commit().unwrap()).unwrap();
        assert_eq!(kv.check(), [], "{step}");
    }
}

#[test]
fn a_batch_has_so_many_savepoints() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let mut batch = kv.batch();
    let first = batch.savepoint().unwrap();
    (1..65_535).for_each(|_| assert!(batch.savepoint().is_ok()));
    assert!(matches!(batch.savepoint(), Err(Error::SavepointsExhausted { max: 65_535 })));
    batch.put(b"key", b"value").unwrap();
    batch.roll_back(first).unwrap();
    batch.put(b"key", b"other").unwrap();
    kv.settle(batch.commit().unwrap()).unwrap();
    assert_eq!(kv.get(b"key").unwrap().as_deref(), Some(&b"other"[..]));
    assert_eq!(kv.check(), []);
}

/// A reader that never ends does not keep the space of all that is written; a version with a name
/// stays readable.
#[test]
fn a_reader_that_falls_behind_the_limit_is_told() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    (0..50_u8).for_each(|key| kv.put(&[key], &[1; 900]).unwrap());
    kv.name_version("kept").unwrap();
    let (slow, named) = (kv.snapshot(), kv.open_version("kept").unwrap());
    let mut range = slow.range::<[u8]>(..);
    assert!(range.next().unwrap().is_ok());
    kv.set_reader_limit(std::num::NonZeroU64::new(100));
    for round in 0..300_u64 {
        assert!(slow.get(&[7]).is_ok() || round > 100, "{round}");
        kv.put(&[(round % 50) as u8], &[2; 900]).unwrap();
    }
    assert!(matches!(slow.get(&[7]), Err(Error::Expired { .. })));
    assert!(matches!(slow.len_of(&[7]), Err(Error::Expired { .. })));
    assert!(matches!(range.next().unwrap(), Err(Error::Expired { .. })));
    assert!(slow.range::<[u8]>(..).next().unwrap().is_err());
    assert_eq!(named.get(&[7]).unwrap().unwrap(), [1; 900]);
    kv.remove_version("kept").unwrap();
    assert!(matches!(named.get(&[7]), Err(Error::Expired { .. })));
    while kv.reclaim().unwrap() {}
    assert_eq!(kv.stats().oldest, kv.stats().version.get(), "nothing holds an old version");
    assert_eq!(kv.snapshot().get(&[7]).unwrap().unwrap(), [2; 900]);
    assert_eq!(kv.check(), []);
}

/// A name moves in one batch: the new version is held, what the old one held comes back.
#[test]
fn a_version_is_named_in_the_place_of_others() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    kv.put(b"k", b"1").unwrap();
    let first = kv.rename_versions(&[], "first").unwrap();
    assert_eq!(kv.newest_version().unwrap().get(), first.version().get() + 1);
    kv.put(b"k", b"2").unwrap();
    assert!(matches!(kv.rename_versions(&["first", "none"], "second"), Err(Error::NoVersion { .. })));
    assert!(matches!(kv.rename_versions(&[], "first"), Err(Error::VersionExists { .. })));
    // The refusals have taken no name, and none of them holds a version less.
    drop(first);
    kv.put(b"other", b"3").unwrap();
    while kv.reclaim().unwrap() {}
    let first = kv.open_version("first").unwrap();
    assert!(kv.stats().oldest <= first.version().get(), "the name holds its version");
    let second = kv.rename_versions(&["first"], "second").unwrap();
    assert_eq!((first.get(b"k").unwrap(), second.get(b"k").unwrap()), (Some(b"1".into()), Some(b"2".into())));
    let names: Vec<String> = kv.versions().unwrap().into_iter().map(|version| version.name).collect();
    assert_eq!(names, ["second"]);
    drop((first, second));
    kv.remove_version("second").unwrap();
    while kv.reclaim().unwrap() {}
    assert_eq!(kv.stats().oldest, kv.stats().version.get(), "nothing holds an old version");
    assert_eq!(kv.check(), []);
}

/// Names of versions mean the versions of one store: a copy has none, and all else.
#[test]
fn a_copy_has_the_tables_and_no_names_of_versions() {
    let media = Media::anonymous(32 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    kv.create_table("t").unwrap().put(b"key", b"value").unwrap();
    (0..50_u8).for_each(|key| kv.put(&[key], &[key; 700]).unwrap());
    kv.name_version("before").unwrap();
    kv.delete(&[7]).unwrap();
    kv.copy_to(&store, "copy", &mut |_| {}).unwrap();
    let copy = Kv::open(&store, "copy").unwrap();
    assert_eq!((copy.len(), copy.tables().unwrap(), copy.versions().unwrap()), (49, vec!["t".to_string()], vec![]));
    assert_eq!(copy.open_table("t").unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    copy.put(&[8], b"other").unwrap();
    assert_eq!((copy.stats().oldest, copy.check()), (copy.stats().version.get(), vec![]));
}

/// Keys can be deleted from a store without room for a node, and their space comes back.
#[test]
fn a_full_store_lets_keys_be_deleted() {
    let media = Media::anonymous(24 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let key = |number: u32| number.to_be_bytes();
    let mut keys = 0;
    for len in [120, 8] {
        while kv.put(&key(keys), &vec![7; len]).is_ok() {
            keys += 1;
        }
    }
    assert!(keys > 10_000, "{keys} keys fill the store");
    // Nothing comes back meanwhile: merging soon fails, and the deletes do not.
    let held = kv.snapshot();
    for number in (0..keys).filter(|number| number % 16 != 0) {
        assert!(kv.delete(&key(number)).unwrap());
    }
    assert_eq!((held.len(), kv.len()), (keys.into(), keys.div_ceil(16).into()));
    drop(held);
    while kv.reclaim().unwrap() {}
    assert_eq!(kv.check(), []);
    (0..keys / 2).for_each(|number| kv.put(&key(number), &[8; 120]).unwrap());
}

/// A commit that fails takes back what its batch wrote before a savepoint, too: the next batch has
/// the same number.
#[test]
fn a_commit_that_fails_takes_back_what_lies_before_a_savepoint() {
    let fails = |len: usize| {
        let media = Media::anonymous(24 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let kv = Kv::create(&store, "kv").unwrap();
        kv.put(b"kept", b"old").unwrap();
        kv.put(b"deleted", b"old").unwrap();
        let mut batch = kv.batch();
        batch.put(b"kept", b"never").unwrap();
        batch.put(b"never", b"there").unwrap();
        batch.delete(b"deleted").unwrap();
        batch.savepoint().unwrap();
        let mut numbers = 0_u32..;
        for len in [len, 60_000, 30_000, 15_000, 9_000, 4_097] {
            while batch.put(&numbers.next().unwrap().to_be_bytes(), &vec![2; len]).is_ok() {}
        }
        // A put failed in the middle of a change, or the ledger still found room.
        if batch.is_doomed() || batch.commit().is_ok() {
            return false;
        }
        for round in 0..3_u8 {
            kv.put(b"other", &[round]).unwrap();
            assert_eq!(kv.get(b"kept").unwrap().as_deref(), Some(&b"old"[..]));
            assert_eq!(kv.get(b"deleted").unwrap().as_deref(), Some(&b"old"[..]));
            assert!(!kv.contains(b"never").unwrap());
        }
        assert_eq!((kv.len(), kv.check()), (3, vec![]));
        true
    };
    assert!((0..40).any(|step| fails(6000 - step * 50)), "no size at which the commit fails");
}

/// A batch that moves a key to another table leaves the sum of all keys as it was; each count is
/// stored all the same.
#[test]
fn a_key_that_changes_its_table_is_counted_after_an_opening() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let table = kv.create_table("t").unwrap();
    [b"a", b"b", b"c"].iter().for_each(|key| kv.put(*key, b"value").unwrap());
    let mut batch = kv.batch();
    assert!(batch.delete(b"a").unwrap());
    batch.table(&table).unwrap().put(b"a", b"value").unwrap();
    kv.settle(batch.commit().unwrap()).unwrap();
    drop((kv, table));
    let kv = Kv::open(&store, "kv").unwrap();
    assert_eq!((kv.len(), kv.open_table("t").unwrap().len().unwrap(), kv.check()), (2, 1, vec![]));
}

/// Going back to a version drops the tables that were made since: their handles are refused, also
/// where a table of that name is there again.
#[test]
fn a_table_that_a_restored_version_does_not_have_is_refused() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    kv.create_table("old").unwrap().put(b"key", b"old").unwrap();
    kv.name_version("before").unwrap();
    kv.drop_table("old").unwrap();
    let (other, new) = (kv.create_table("old").unwrap(), kv.create_table("new").unwrap());
    other.put(b"key", b"other").unwrap();
    kv.restore_version("before").unwrap();
    for result in [other.get(b"key").map(drop), other.put(b"key", b"x"), new.put(b"key", b"x")] {
        assert!(matches!(result, Err(Error::TableGone { .. })), "{result:?}");
    }
    assert_eq!(kv.open_table("old").unwrap().get(b"key").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!((kv.tables().unwrap(), kv.check()), (vec!["old".to_string()], vec![]));
}

/// A table that was made behind a savepoint to which its batch has gone back never was there.
#[test]
fn a_table_of_a_batch_that_went_back_is_refused() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let mut batch = kv.batch();
    let savepoint = batch.savepoint().unwrap();
    let gone = batch.create_table("t").unwrap();
    batch.table(&gone).unwrap().put(b"key", b"value").unwrap();
    batch.roll_back(savepoint).unwrap();
    assert!(matches!(batch.table(&gone), Err(Error::TableGone { .. })));
    // A later savepoint is gone, also where a newer one has its place.
    let later = batch.savepoint().unwrap();
    batch.roll_back(savepoint).unwrap();
    let newer = batch.savepoint().unwrap();
    assert!(matches!(batch.roll_back(later), Err(Error::NoSavepoint)));
    batch.put(b"key", b"value").unwrap();
    batch.roll_back(newer).unwrap();
    assert!(batch.is_empty());
    batch.put(b"key", b"value").unwrap();
    kv.settle(batch.commit().unwrap()).unwrap();
    for result in [gone.put(b"key", b"x"), gone.get(b"key").map(drop)] {
        assert!(matches!(result, Err(Error::TableGone { .. })), "{result:?}");
    }
    assert_eq!((kv.tables().unwrap(), kv.check()), (vec![], vec![]));
}

/// A range, or a table, that was dropped from a store without room for a long ledger: its space
/// comes back, a little with each commit, and no write fails meanwhile.
#[test]
fn what_is_dropped_from_a_full_store_comes_back() {
    const KEYS: u32 = 2000;
    for is_table in [false, true] {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let mut kv = Kv::create(&store, "kv").unwrap();
        let put_all = |kv: &Kv, table: Option<&KvTable>, keys: std::ops::Range<u32>| {
            for key in keys.map(u32::to_be_bytes) {
                table.map_or_else(|| kv.put(&key, &[7; 600]), |table| table.put(&key, &[7; 600])).unwrap();
            }
        };
        put_all(&kv, None, 0..KEYS);
        if is_table {
            put_all(&kv, Some(&kv.create_table("t").unwrap()), 0..KEYS / 2);
        }
        let mut fill = (0_u32..).map(|number| [&b"fill"[..], &number.to_be_bytes()].concat());
        for len in [60_000, 15_000, 9_000, 8_000, 7_000, 6_000, 5_000, 4_200] {
            while kv.put(&fill.next().unwrap(), &vec![8; len]).is_ok() {}
        }
        let mut batch = kv.batch();
        if is_table {
            batch.drop_table("t").unwrap();
        } else {
            assert_eq!(batch.delete_range(..(KEYS / 2).to_be_bytes()).unwrap(), u64::from(KEYS / 2));
        }
        kv.settle(batch.commit().unwrap()).unwrap();
        for key in KEYS - 20..KEYS {
            assert!(kv.delete(&key.to_be_bytes()).unwrap(), "{key}");
        }
        kv.name_version("now").unwrap();
        kv.remove_version("now").unwrap();
        drop(kv);
        kv = Kv::open(&store, "kv").unwrap();
        while kv.reclaim().unwrap() {}
        assert_eq!(kv.check(), []);
        let again = is_table.then(|| kv.create_table("t").unwrap());
        put_all(&kv, again.as_ref(), 0..KEYS / 4);
        assert_eq!(kv.check(), []);
    }
}

/// The figures of a store count the keys of the main table, as its length does.
#[test]
fn figures_leave_the_keys_of_named_tables_out() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let table = kv.create_table("t").unwrap();
    (0..5_u8).for_each(|key| table.put(&[key], b"value").unwrap());
    (0..2_u8).for_each(|key| kv.put(&[key], b"value").unwrap());
    assert_eq!((kv.stats().keys, kv.len(), table.len().unwrap()), (2, 2, 5));
}

/// A snapshot of a named version keeps what it sees when the name goes.
#[test]
fn a_version_that_is_held_outlives_its_name() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    kv.put(b"key", &[1; 700]).unwrap();
    let version = kv.name_version("name").unwrap();
    let held = kv.open_version("name").unwrap();
    kv.put(b"key", &[2; 700]).unwrap();
    kv.remove_version("name").unwrap();
    (3..30_u8).for_each(|value| kv.put(b"key", &[value; 700]).unwrap());
    assert_eq!((kv.stats().oldest, held.version()), (version.get(), version));
    assert_eq!(held.get(b"key").unwrap().as_deref(), Some(&[1; 700][..]));
    drop(held);
    assert_eq!(kv.stats().oldest, kv.stats().version.get());
}
