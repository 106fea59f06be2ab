//! Which reads are in conflict with which writes, and what the error says.

use everbyte_kv::{Commit, Error, Kv, KvTable, Result, Transaction};
use everbyte_media::{BackendChoice, ErrorInfo, ErrorKind, Media, Options};
use everbyte_store::{CreateOptions, FormatOptions, Store};
use std::num::NonZeroU32;

fn store() -> (Store, Kv, KvTable) {
    let media = Media::anonymous(32 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    for key in [b"b", b"d", b"f"] {
        kv.put(key, b"old").unwrap();
    }
    let table = kv.create_table("t").unwrap();
    table.put(b"b", b"old").unwrap();
    (store, kv, table)
}

/// The table and key in conflict, if a transaction reads by `read`, another thread writes by
/// `write`, and the transaction commits.
fn conflict(
    read: impl FnOnce(&mut Transaction, &KvTable),
    write: impl FnOnce(&Kv, &KvTable),
) -> Option<(String, Vec<u8>)> {
    let (_store, kv, table) = store();
    let mut transaction = kv.transaction();
    read(&mut transaction, &table);
    transaction.put(b"written", b"by the transaction").unwrap();
    write(&kv, &table);
    let version = kv.stats().version;
    match transaction.commit() {
        Ok(commit) => {
            kv.settle(commit).unwrap();
            assert!(kv.contains(b"written").unwrap());
            None
        }
        Err(Error::Conflict { table, key }) => {
            assert_eq!((kv.contains(b"written").unwrap(), kv.stats().version), (false, version));
            Some((table, key))
        }
        Err(error) => panic!("{error}"),
    }
}

fn main_key(key: &[u8]) -> Option<(String, Vec<u8>)> {
    Some((String::new(), key.to_vec()))
}

#[test]
fn a_conflict_names_what_was_read_and_changed() {
    let put = |key: &'static [u8]| move |kv: &Kv, _: &KvTable| kv.put(key, b"new").unwrap();
    let get = |tx: &mut Transaction, _: &KvTable| drop(tx.get(b"b").unwrap());
    assert_eq!(conflict(get, put(b"b")), main_key(b"b"));
    assert_eq!(conflict(get, put(b"c")), None);
    assert_eq!(conflict(get, |kv, _| assert!(kv.delete(b"b").unwrap())), main_key(b"b"));
    // Absence is read too; a key of another table is another key.
    let absent = |tx: &mut Transaction, _: &KvTable| assert!(!tx.contains(b"c").unwrap());
    assert_eq!(conflict(absent, put(b"c")), main_key(b"c"));
    assert_eq!(conflict(absent, |_, table| table.put(b"c", b"new").unwrap()), None);
    let named = |tx: &mut Transaction, table: &KvTable| drop(tx.table(table).unwrap().get(b"b").unwrap());
    assert_eq!(conflict(named, |_, table| table.put(b"b", b"new").unwrap()), Some(("t".into(), b"b".to_vec())));
    assert_eq!(conflict(named, put(b"b")), None);
    // A key that came and went is as it was.
    let came_and_went = |kv: &Kv, _: &KvTable| {
        kv.put(b"c", b"new").unwrap();
        assert!(kv.delete(b"c").unwrap());
    };
    assert_eq!(conflict(absent, came_and_went), None);
}

/// A range counts as far as it was walked, and gaps in it.
#[test]
fn phantoms_are_conflicts_as_far_as_a_range_was_walked() {
    let put = |key: &'static [u8]| move |kv: &Kv, _: &KvTable| kv.put(key, b"new").unwrap();
    let walk =
        |take: usize| move |tx: &mut Transaction, _: &KvTable| assert!(tx.range::<[u8]>(..).take(take).count() > 0);
    assert_eq!(conflict(walk(2), put(b"c")), main_key(b"c"));
    assert_eq!(conflict(walk(2), put(b"a")), main_key(b"a"));
    assert_eq!(conflict(walk(2), put(b"d")), main_key(b"d"));
    assert_eq!(conflict(walk(2), put(b"e")), None);
    assert_eq!(conflict(walk(4), put(b"z")), main_key(b"z"));
    let back =
        |tx: &mut Transaction, _: &KvTable| assert_eq!(tx.range::<[u8]>(..).next_back().unwrap().unwrap().0, b"f");
    assert_eq!(conflict(back, put(b"e")), None);
    assert_eq!(conflict(back, put(b"g")), main_key(b"g"));
    let back_to_start = |tx: &mut Transaction, _: &KvTable| assert_eq!(tx.range::<[u8]>(..).rev().count(), 3);
    assert_eq!(conflict(back_to_start, put(b"a")), main_key(b"a"));
    let unwalked = |tx: &mut Transaction, _: &KvTable| drop(tx.range::<[u8]>(..));
    assert_eq!(conflict(unwalked, put(b"b")), None);
    let prefix = |tx: &mut Transaction, _: &KvTable| assert_eq!(tx.prefix(b"d").count(), 1);
    assert_eq!(conflict(prefix, put(b"d1")), main_key(b"d1"));
    assert_eq!(conflict(prefix, put(b"e")), None);
    let cut = |tx: &mut Transaction, _: &KvTable| assert_eq!(tx.delete_range::<[u8; 1]>(*b"c"..*b"e").unwrap(), 1);
    assert_eq!(conflict(cut, put(b"dd")), main_key(b"dd"));
    assert_eq!(conflict(cut, put(b"e")), None);
}

/// Of a count only the number matters.
#[test]
fn a_count_is_in_conflict_with_another_number_of_keys() {
    let count = |tx: &mut Transaction, _: &KvTable| assert_eq!(tx.len().unwrap(), 3);
    assert_eq!(conflict(count, |kv, _| kv.put(b"b", b"new").unwrap()), None);
    assert_eq!(conflict(count, |kv, _| kv.put(b"x", b"new").unwrap()), main_key(b"x"));
    assert_eq!(conflict(count, |_, table| table.put(b"x", b"new").unwrap()), None);
    let named = |tx: &mut Transaction, table: &KvTable| assert_eq!(tx.table(table).unwrap().len().unwrap(), 1);
    assert_eq!(conflict(named, |_, table| table.put(b"x", b"new").unwrap()), Some(("t".into(), b"x".to_vec())));
}

#[test]
fn writes_alone_are_no_conflict_and_reads_alone_write_nothing() {
    let (_store, kv, _) = store();
    let mut blind = kv.transaction();
    blind.put(b"b", b"blind").unwrap();
    assert_eq!(blind.get(b"b").unwrap().as_deref(), Some(&b"blind"[..]), "its own write is not read from the store");
    kv.put(b"b", b"new").unwrap();
    kv.settle(blind.commit().unwrap()).unwrap();
    assert_eq!(kv.get(b"b").unwrap().as_deref(), Some(&b"blind"[..]));
    let reader = kv.transaction();
    assert_eq!(reader.get(b"b").unwrap().as_deref(), Some(&b"blind"[..]));
    kv.put(b"b", b"newer").unwrap();
    assert_eq!(reader.get(b"b").unwrap().as_deref(), Some(&b"blind"[..]), "it reads one version");
    let version = kv.stats().version;
    kv.settle(reader.commit().unwrap()).unwrap();
    assert_eq!(kv.stats().version, version);
}

/// Two transactions that each read what the other writes: one of them is refused (write skew).
#[test]
fn of_two_that_read_each_others_writes_one_is_refused() {
    let (_store, kv, _) = store();
    let (mut one, mut other) = (kv.transaction(), kv.transaction());
    assert!(one.contains(b"b").unwrap() && one.contains(b"d").unwrap());
    assert!(other.contains(b"b").unwrap() && other.contains(b"d").unwrap());
    one.delete(b"b").unwrap();
    other.delete(b"d").unwrap();
    kv.settle(one.commit().unwrap()).unwrap();
    assert!(matches!(other.commit(), Err(Error::Conflict { key, .. }) if key == b"b"));
}

/// A transaction may be older than any number of commits: nothing is kept for it but its version.
#[test]
fn an_old_transaction_is_validated_like_a_new_one() {
    let (_store, kv, _) = store();
    let (mut still, mut moved) = (kv.transaction(), kv.transaction());
    for transaction in [&mut still, &mut moved] {
        assert_eq!(transaction.range::<[u8; 1]>(*b"b"..*b"e").count(), 2);
        assert!(transaction.contains(b"f").unwrap());
        transaction.put(b"done", b"").unwrap();
    }
    // Splits move all that was read.
    for number in 0..3000_u32 {
        kv.put(&[b"x", &number.to_be_bytes()[..]].concat(), &[7; 100]).unwrap();
        kv.put(&[b"a", &number.to_be_bytes()[..]].concat(), &[7; 100]).unwrap();
    }
    kv.settle(still.commit().unwrap()).unwrap();
    kv.put(b"f", b"new").unwrap();
    assert!(matches!(moved.commit(), Err(Error::Conflict { key, .. }) if key == b"f"));
}

#[test]
fn tables_that_are_not_there_are_refused() {
    let (store, kv, table) = store();
    let mut transaction = kv.transaction();
    let newer = kv.create_table("newer").unwrap();
    assert!(matches!(transaction.table(&newer), Err(Error::TableGone { .. })));
    transaction.table(&table).unwrap().put(b"b", b"new").unwrap();
    kv.drop_table("t").unwrap();
    kv.create_table("t").unwrap();
    assert!(matches!(transaction.commit(), Err(Error::TableGone { name }) if name == "t"));
    let other = Kv::create(&store, "other").unwrap();
    assert!(matches!(other.transaction().table(&newer), Err(Error::OtherStore { .. })));
}

#[test]
fn limits_and_foreign_savepoints_are_errors_at_once() {
    let (_store, kv, _) = store();
    let (mut one, mut other) = (kv.transaction(), kv.transaction());
    assert!(matches!(one.put(&vec![0; (16 << 20) + 1], b""), Err(Error::KeyTooLong { .. })));
    let foreign = other.savepoint();
    assert!(matches!(one.roll_back(foreign), Err(Error::NoSavepoint)));
    let batch = kv.batch();
    one.put(b"b", b"").unwrap();
    assert!(matches!(one.commit(), Err(Error::OwnBatch)));
    drop(batch);
    assert_eq!(kv.get(b"b").unwrap().as_deref(), Some(&b"old"[..]));
}

/// A transaction behind a reader limit is told so: what it read would not be known to be right.
#[test]
fn a_transaction_behind_the_reader_limit_is_told() {
    let (_store, kv, _) = store();
    kv.set_reader_limit(std::num::NonZeroU64::new(50));
    let mut transaction = kv.transaction();
    assert!(transaction.contains(b"b").unwrap());
    assert_eq!(transaction.range::<[u8; 1]>(*b"c"..*b"e").count(), 1);
    transaction.put(b"written", b"").unwrap();
    (0..200_u64).for_each(|round| kv.put(b"f", &round.to_be_bytes()).unwrap());
    let error = transaction.get(b"d").unwrap_err();
    assert!(matches!(error, Error::Expired { .. }) && error.kind() == ErrorKind::Conflict);
    assert!(transaction.commit().is_err_and(|error| error.kind() == ErrorKind::Conflict));
    assert!(!kv.contains(b"written").unwrap());
}

#[test]
fn transact_runs_again_until_it_commits_and_not_for_ever() {
    let (_store, kv, _) = store();
    let mut runs = 0;
    let value = kv.transact(|tx| -> Result<Vec<u8>> {
        runs += 1;
        let value = tx.get(b"b")?.unwrap();
        if runs < 3 {
            kv.put(b"b", &[runs])?;
        }
        tx.put(b"copy", &value)?;
        Ok(value)
    });
    assert_eq!((value.unwrap(), runs, kv.get(b"copy").unwrap()), (vec![2], 3, Some(vec![2])));
    let mut runs = 0;
    let refused = kv.transact_at_most(NonZeroU32::new(5).unwrap(), |tx| -> Result<()> {
        runs += 1;
        tx.get(b"b")?;
        kv.put(b"b", &[runs])?;
        tx.put(b"copy", b"never")
    });
    assert!(matches!(refused, Err(Error::Conflict { .. })) && runs == 5);
    // An error of the body is the caller's, and nothing is written.
    let failed = kv.transact(|tx| {
        tx.put(b"copy", b"never")?;
        Err::<(), Box<dyn std::error::Error>>("the caller's own".into())
    });
    assert_eq!(failed.unwrap_err().to_string(), "the caller's own");
    assert_eq!(kv.get(b"copy").unwrap(), Some(vec![2]));
}

/// The commit in conflict may not be settled yet: an attempt that began before it again would meet
/// it again.
#[test]
fn the_attempt_behind_a_conflict_sees_the_commit_that_was_in_its_way() {
    let folder = tempfile::tempdir().unwrap();
    let media = Options { backend: BackendChoice::File, ..Options::default() };
    let options = CreateOptions { media, max: 64 << 20, ..CreateOptions::default() };
    let store = Store::create(&folder.path().join("s"), &options).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    kv.put(b"b", b"old").unwrap();
    let mut seen = Vec::new();
    let done = kv.transact_at_most(NonZeroU32::new(2).unwrap(), |tx| -> Result<()> {
        let value = tx.get(b"b")?.unwrap();
        tx.put(b"copy", &value)?;
        seen.push(value);
        if seen.len() == 1 {
            let mut batch = kv.batch();
            batch.put(b"b", b"new")?;
            let _unsettled = batch.commit()?;
        }
        Ok(())
    });
    assert_eq!(seen, [b"old", b"new"]);
    done.unwrap();
    assert_eq!(kv.get(b"copy").unwrap().as_deref(), Some(&b"new"[..]));
}

/// Threads that count in one key lose no count.
#[test]
fn counting_threads_lose_nothing() {
    let (_store, kv, table) = store();
    const EACH: u64 = 300;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let more = |tx: &mut Transaction| -> Result<()> {
                        let count = |value: Option<Vec<u8>>| {
                            value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
                        };
                        let next = count(tx.get(b"count")?) + 1;
                        tx.put(b"count", &next.to_le_bytes())?;
                        tx.table(&table)?.put(b"count", &next.to_le_bytes())
                    };
                    kv.transact_at_most(NonZeroU32::MAX, more).unwrap();
                }
            });
        }
    });
    let total = Some((4 * EACH).to_le_bytes().to_vec());
    assert_eq!((kv.get(b"count").unwrap(), table.get(b"count").unwrap()), (total.clone(), total));
}

/// The version of a commit orders it among others.
#[test]
fn a_commit_tells_its_version() {
    let (_store, kv, _) = store();
    let version = |commit: Result<Commit>| commit.unwrap().version();
    let before = kv.stats().version;
    assert_eq!(version(kv.batch().commit()), before);
    assert_eq!(version(kv.transaction().commit()), before);
    let mut transaction = kv.transaction();
    transaction.put(b"b", b"new").unwrap();
    assert!(version(transaction.commit()) > before);
}

/// Going back takes a deleted range back also if no write of the transaction lay in it.
#[test]
fn a_deleted_range_is_taken_back_whatever_lay_in_it() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    [b"a", b"b"].iter().for_each(|key| kv.put(*key, b"value").unwrap());
    let mut transaction = kv.transaction();
    let savepoint = transaction.savepoint();
    assert_eq!(transaction.delete_range(&b"a"[..]..&b"c"[..]).unwrap(), 2);
    assert_eq!((transaction.get(b"a").unwrap(), transaction.len().unwrap()), (None, 0));
    transaction.roll_back(savepoint).unwrap();
    assert_eq!((transaction.get(b"a").unwrap(), transaction.len().unwrap()), (Some(b"value".into()), 2));
    transaction.put(b"c", b"value").unwrap();
    kv.settle(transaction.commit().unwrap()).unwrap();
    assert_eq!((kv.len(), kv.check()), (3, vec![]));
}

/// Going back behind a deleted range gives the writes back that lay in it.
#[test]
fn writes_in_a_deleted_range_are_there_again_behind_a_savepoint() {
    let (_store, kv, _) = store();
    let mut transaction = kv.transaction();
    transaction.put(b"b", b"mine").unwrap();
    transaction.put(b"c", b"mine").unwrap();
    transaction.delete(b"d").unwrap();
    let savepoint = transaction.savepoint();
    assert_eq!(transaction.delete_range(&b"a"[..]..&b"e"[..]).unwrap(), 2);
    transaction.roll_back(savepoint).unwrap();
    assert_eq!(transaction.len().unwrap(), 3);
    kv.settle(transaction.commit().unwrap()).unwrap();
    let value = |key: &[u8]| kv.get(key).unwrap();
    assert_eq!([value(b"b"), value(b"c")], [Some(b"mine".to_vec()), Some(b"mine".to_vec())]);
    assert_eq!((value(b"d"), value(b"f")), (None, Some(b"old".to_vec())));
}

/// A count to which a write of the transaction's own adds depends on the key of that write.
#[test]
fn a_count_beside_own_writes_reads_their_keys() {
    // As many keys as before, but the one that the transaction deletes is there now.
    let count = |tx: &mut Transaction, _: &KvTable| {
        tx.delete(b"c").unwrap();
        assert_eq!(tx.len().unwrap(), 3);
    };
    let others = |kv: &Kv, _: &KvTable| {
        kv.put(b"c", b"new").unwrap();
        assert!(kv.delete(b"d").unwrap());
    };
    assert_eq!(conflict(count, others), main_key(b"c"));
}
