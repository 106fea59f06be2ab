//! # everbyte-bench-rivals: who we are measured against
//!
//! LMDB, redb and fjall come as crates, RocksDB, libpmemobj, Berkeley DB and Boost.Serialization as
//! Debian packages (`cargo xtask rivals`) that are declared here and linked if they are installed;
//! libpmemobj-cpp takes part where its headers are.
//! Each is used as its own documentation recommends for durable single writes; nothing is tuned
//! against it.
//!
//! Threads: as each says. Nothing depends on this crate but `everbyte-bench`.

#[cfg_attr(not(has_db), path = "no_bdb.rs")]
mod bdb;
#[cfg_attr(not(has_boost_serialization), path = "no_boost.rs")]
mod boost;
mod fjall_kv;
mod kv;
mod lmdb;
mod mapped;
#[cfg_attr(not(has_pmemobj), path = "no_pmemobj.rs")]
mod pmemobj;
#[cfg(has_pmemobj)]
mod pmemobj_c;
#[cfg_attr(not(has_pmemobj_cpp), path = "no_pmemobj_cpp.rs")]
mod pmemobj_cpp;
mod redb_kv;
#[cfg(has_rocksdb)]
mod rocks;
mod work;

pub use bdb::Bdb;
pub use boost::BoostTree;
pub use kv::{Failure, KvRival, Opened, Values};
pub use mapped::MappedFile;
pub use pmemobj::Pmemobj;
#[cfg(not(has_pmemobj))]
pub use pmemobj::PmemobjTable;
#[cfg(has_pmemobj)]
pub use pmemobj_c::PmemobjTable;
pub use pmemobj_cpp::PmemobjCpp;
pub use work::{Access, CppRow, Payload, Row, Structure, WORD, WorkKind};

use std::path::Path;

/// The key-value rivals of this build, in the order they are reported.
pub const KV: &[&str] = &[
    "lmdb",
    "redb",
    "fjall",
    #[cfg(has_rocksdb)]
    "rocksdb",
    #[cfg(has_db)]
    "berkeley-db",
];

/// Opens or creates the store of rival `name` in the existing folder `folder`.
///
/// # Errors
/// The rival's own words; an unknown name.
pub fn open_kv(name: &str, folder: &Path) -> Opened {
    match name {
        "lmdb" => lmdb::open(folder),
        "redb" => redb_kv::open(folder),
        #[cfg(has_rocksdb)]
        "rocksdb" => rocks::open(folder),
        "fjall" => fjall_kv::open(folder),
        #[cfg(has_db)]
        "berkeley-db" => bdb::open(folder),
        other => Err(Failure(format!("no rival is called {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every rival keeps what it was given, finds it, scans it in order and still has it after
    /// reopening.
    #[test]
    fn every_rival_does_what_a_map_does() {
        for name in KV {
            let folder = tempfile::tempdir().unwrap();
            let kv = open_kv(name, folder.path()).unwrap();
            let key = |i: u32| format!("key{i:06}").into_bytes();
            let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..500).map(|i| (key(i), vec![i as u8; 100])).collect();
            kv.load(&mut pairs.iter().map(|(key, value)| (&key[..], &value[..]))).unwrap();
            kv.put(&key(3), b"three").unwrap();
            let mut value = Vec::new();
            assert!(kv.get(&key(3), &mut value).unwrap() && value == b"three", "{name}");
            kv.put(&key(4), &[4; 3000]).unwrap();
            assert!(kv.get(&key(4), &mut value).unwrap() && value == [4; 3000], "{name}");
            kv.put(&key(4), b"").unwrap();
            assert!(kv.get(&key(4), &mut value).unwrap() && value.is_empty(), "{name}");
            assert!(!kv.get(b"nothing", &mut value).unwrap(), "{name}");
            let mut values = b"kept".to_vec();
            assert_eq!(kv.scan(&key(2), 4, Some(&mut values)).unwrap(), (4, 205), "{name}");
            assert_eq!(values, [b"kept", &[2; 100][..], b"three", b"", &[5; 100]].concat(), "{name}");
            assert_eq!(kv.scan(&key(10), 100, None).unwrap(), (100, 100 * 100), "{name}");
            assert_eq!(kv.scan(&key(450), 100, None).unwrap().0, 50, "{name}");
            drop(kv);
            let kv = open_kv(name, folder.path()).unwrap();
            assert!(kv.get(&key(499), &mut value).unwrap() && value == [243; 100], "{name}");
        }
    }

    /// Every operation of libpmemobj-cpp runs, and a pool that cannot be made is refused.
    #[test]
    fn libpmemobj_cpp_runs_each_operation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let Some(pool) = PmemobjCpp::create(&path, 32 << 20).unwrap() else { return };
        let rows = [CppRow::Empty, CppRow::Deref, CppRow::MutFirst];
        assert!(rows.into_iter().all(|row| !pool.row(row, 1000).is_zero()));
        assert!(PmemobjCpp::create(&path, 32 << 20).is_err(), "it is there");
    }

    /// A tree that Boost wrote is the same tree when it is read again.
    #[test]
    fn boost_reads_the_tree_that_it_wrote() {
        let Some(mut tree) = BoostTree::new() else { return };
        let payload = |key: u64| std::array::from_fn(|word| key * 11 + word as u64);
        (0..1000).rev().for_each(|key| tree.insert(key, &payload(key)));
        let path = tempfile::tempdir().unwrap().path().join("tree");
        assert!(tree.save(&path).unwrap_err().0.contains("No such file"));
        let file = tempfile::NamedTempFile::new().unwrap();
        tree.save(file.path()).unwrap();
        let found = BoostTree::load(file.path()).unwrap().expect("there was one before");
        assert!(found.len() == 1000 && found.get(1000).is_none());
        assert!((0..1000).all(|key| found.get(key) == Some(payload(key))));
    }

    /// Berkeley DB keeps what it is told, of either kind, and has it after reopening.
    #[test]
    fn berkeley_db_does_what_a_map_does() {
        for access in [Access::Btree, Access::Hash] {
            let folder = tempfile::tempdir().unwrap();
            let mut value = Vec::new();
            match Bdb::open(folder.path(), access).unwrap() {
                None => return,
                Some(db) => {
                    assert!(db.insert(b"Oslo", b"Norway").unwrap() && !db.insert(b"Oslo", b"Denmark").unwrap());
                    assert!(db.insert(b"Bergen", b"Norway").unwrap() && db.delete(b"Bergen").unwrap());
                    assert!(!db.delete(b"Bergen").unwrap() && !db.get(b"Bergen", &mut value).unwrap());
                    db.put(b"Oslo", b"Noreg").unwrap();
                    assert!(db.log_bytes() > 0);
                }
            }
            let db = Bdb::open(folder.path(), access).unwrap().expect("it was there before");
            assert!(db.get(b"Oslo", &mut value).unwrap() && value == b"Noreg");
        }
    }
}
