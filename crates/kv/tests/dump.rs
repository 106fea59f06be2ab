//! Dumps: every table there and back, one version while writing goes on, damage with its place.

#![forbid(unsafe_code)]

use everbyte_kv::{Dumped, Error, Kv, KvTable};
use everbyte_media::{ErrorInfo, ErrorKind, Media, Options};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn store(max: u64) -> Store {
    let media = Media::anonymous(max, &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

fn dump(kv: &Kv) -> Vec<u8> {
    let mut bytes = Vec::new();
    kv.snapshot().dump(&mut bytes, &mut |_| {}).unwrap();
    bytes
}

fn load(store: &Store, bytes: &[u8]) -> Result<(Kv, Dumped), Error> {
    Kv::load(store, "loaded", &mut &*bytes, &mut |_| {})
}

fn pairs(kv: &Kv) -> BTreeMap<String, Pairs> {
    let all = |range: everbyte_kv::Range<'_>| range.collect::<Result<Pairs, _>>().unwrap();
    let table = |name: &String| all(kv.open_table(name).unwrap().prefix(b"").unwrap());
    let mut tables: BTreeMap<_, _> = kv.tables().unwrap().iter().map(|name| (name.clone(), table(name))).collect();
    tables.insert(String::new(), all(kv.prefix(b"")));
    tables
}

/// Tables of every size: empty, of long keys and values, of more than a chunk and than a batch.
#[test]
fn a_dump_is_loaded_with_all_tables() {
    let (store, mut random) = (store(1 << 30), Random::new(7));
    let kv = Kv::create(&store, "kv").unwrap();
    kv.create_table("empty").unwrap();
    kv.create_table("dropped").unwrap();
    kv.drop_table("dropped").unwrap();
    let (long, many) = (kv.create_table("long \u{e9}").unwrap(), kv.create_table("many").unwrap());
    long.put(&vec![b'k'; 70_000], &vec![7; 3 << 20]).unwrap();
    long.put(b"", b"").unwrap();
    let mut batch = kv.batch();
    for number in 0..40_000_u64 {
        let value: Vec<u8> = (0..random.below(300)).map(|byte| byte as u8).collect();
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        batch.table(&many).unwrap().put(&key, &value).unwrap();
        if number % 9 == 0 {
            batch.put(&key, b"main").unwrap();
        }
    }
    kv.settle(batch.commit().unwrap()).unwrap();
    let (mut bytes, mut passed) = (Vec::new(), 0);
    let dumped = kv.snapshot().dump(&mut bytes, &mut |more| passed += more).unwrap();
    let want = pairs(&kv);
    let entries = want.values().map(|pairs| pairs.len() as u64).sum::<u64>();
    assert_eq!((dumped.tables, dumped.entries, dumped.bytes), (4, entries, passed));
    assert!(dumped.bytes > 2 * (4 << 20), "more than two batches of a load");
    let (copy, loaded) = load(&store, &bytes).unwrap();
    assert_eq!(loaded, dumped);
    assert!(pairs(&copy) == want);
    assert_eq!((copy.len(), copy.check()), (kv.len(), vec![]));
    // It is a store as any other.
    copy.open_table("many").unwrap().put(b"more", b"1").unwrap();
    assert_eq!(copy.check(), []);
    let Err(error) = load(&store, &bytes) else { panic!("an object of that name exists") };
    assert_eq!(error.kind(), ErrorKind::Exists);
}

#[test]
fn a_dump_is_of_one_version_while_writing_goes_on() {
    let store = store(1 << 28);
    let kv = Kv::create(&store, "kv").unwrap();
    let other = kv.create_table("other").unwrap();
    // Each batch writes its number to every key of both tables.
    let write = |kv: &Kv, other: &KvTable, number: u64| {
        let mut batch = kv.batch();
        for key in 0..500_u32 {
            batch.put(&key.to_be_bytes(), &number.to_be_bytes()).unwrap();
            batch.table(other).unwrap().put(&key.to_be_bytes(), &number.to_be_bytes()).unwrap();
        }
        kv.settle(batch.commit().unwrap()).unwrap();
    };
    write(&kv, &other, 0);
    let (stop, next) = (AtomicBool::new(false), AtomicU64::new(1));
    let dumps: Vec<Vec<u8>> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                write(&kv, &other, next.fetch_add(1, Relaxed));
            }
        });
        let dumps = (0..10).map(|_| dump(&kv)).collect();
        stop.store(true, Relaxed);
        dumps
    });
    for bytes in dumps {
        let (copy, _) = load(&self::store(1 << 26), &bytes).unwrap();
        let tables = pairs(&copy);
        let numbers: std::collections::BTreeSet<_> = tables.values().flat_map(BTreeMap::values).collect();
        assert_eq!((numbers.len(), tables[""].len(), tables["other"].len()), (1, 500, 500), "one version");
    }
}

/// The tables at a named version, by a dump of it alone.
fn pairs_at(kv: &Kv, name: &str) -> BTreeMap<String, Pairs> {
    let (store, mut bytes) = (store(1 << 26), Vec::new());
    kv.open_version(name).unwrap().dump(&mut bytes, &mut |_| {}).unwrap();
    pairs(&load(&store, &bytes).unwrap().0)
}

/// Random writes to tables that come and go, and names in between: each version is there again,
/// with what differs from the next one.
#[test]
fn a_dump_carries_named_versions() {
    let (store, mut random) = (store(1 << 28), Random::new(11));
    let kv = Kv::create(&store, "kv").unwrap();
    // Not in the order of their versions.
    let names = ["zero", "later", "early", "again", "last"];
    for name in names {
        for _ in 0..40 {
            let (table, key) = (random.below(4), random.below(60) as u8);
            let value: Vec<u8> = (0..random.below(900)).map(|byte| byte as u8).collect();
            let name = ["", "a", "b", "c"][table as usize];
            match random.below(20) {
                0 if table > 0 => drop(kv.drop_table(name)),
                1..5 if table > 0 => drop(kv.open_or_create_table(name).unwrap().delete(&[key]).unwrap()),
                1..5 => drop(kv.delete(&[key]).unwrap()),
                _ if table > 0 => kv.open_or_create_table(name).unwrap().put(&[key], &value).unwrap(),
                _ => kv.put(&[key], &value).unwrap(),
            }
        }
        kv.name_version(name).unwrap();
    }
    kv.remove_version("early").unwrap();
    kv.put(b"newest", b"1").unwrap();
    // A change to an empty value is no removal, of the empty key either.
    kv.put(b"", b"1").unwrap();
    kv.name_version("filled").unwrap();
    kv.put(b"", b"").unwrap();
    let mut bytes = Vec::new();
    let dumped = kv.dump(&mut bytes, &mut |_| {}).unwrap();
    let (copy, loaded) = load(&store, &bytes).unwrap();
    assert_eq!((loaded, loaded.versions, loaded.tables), (dumped, 5, kv.tables().unwrap().len() as u64 + 1));
    let all = |kv: &Kv| {
        let versions = kv.versions().unwrap();
        versions.into_iter().map(|it| (it.named_at, pairs_at(kv, &it.name), it.name)).collect::<Vec<_>>()
    };
    assert!(all(&copy) == all(&kv) && pairs(&copy) == pairs(&kv));
    let changed = |kv: &Kv| -> Vec<_> {
        kv.open_version("again").unwrap().changes(&kv.snapshot()).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(changed(&copy), changed(&kv));
    assert_eq!(copy.check(), []);
    // The versions stay as they are while the copy is written to, and after it is opened again.
    let before = all(&copy);
    (0..60_u8).for_each(|key| copy.put(&[key], &[key; 700]).unwrap());
    drop(copy);
    let copy = Kv::open(&store, "loaded").unwrap();
    (0..60_u8).for_each(|key| copy.put(&[key], &[9; 700]).unwrap());
    assert!(all(&copy) == before);
    copy.restore_version("later").unwrap();
    assert!(pairs(&copy) == pairs_at(&kv, "later"));
    assert_eq!(copy.check(), []);
}

/// A dump that a program of before named versions in dumps has written.
#[test]
fn a_dump_of_format_1_is_loaded() {
    let (kv, dumped) = load(&store(1 << 24), include_bytes!("../testdata/format-1.dump")).unwrap();
    assert_eq!(dumped, Dumped { tables: 2, entries: 3, bytes: 30, versions: 0 });
    let want = |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let main = want(&[("Bergen", "Norway"), ("Oslo", "Norway")]);
    assert_eq!(pairs(&kv), BTreeMap::from([(String::new(), main), ("stock".into(), want(&[("apples", "97")]))]));
}

fn small() -> (Store, Vec<u8>) {
    small_with(None)
}

fn small_with(named: Option<&str>) -> (Store, Vec<u8>) {
    let store = store(1 << 24);
    let kv = Kv::create(&store, "kv").unwrap();
    if let Some(name) = named {
        kv.put(b"old", b"1").unwrap();
        kv.create_table("old").unwrap();
        kv.name_version(name).unwrap();
        kv.delete(b"old").unwrap();
        kv.drop_table("old").unwrap();
    }
    for number in 0..20_u8 {
        kv.put(&[number], &[number; 9]).unwrap();
    }
    kv.create_table("stock").unwrap().put(b"apples", b"97").unwrap();
    let mut bytes = Vec::new();
    kv.dump(&mut bytes, &mut |_| {}).unwrap();
    (store, bytes)
}

#[test]
fn every_flipped_bit_and_every_cut_is_an_error_with_its_place() {
    faults(small(), 1);
}

/// The same, of a dump with a named version, at each fifth bit and place.
#[test]
fn faults_of_a_dump_with_a_version_are_errors_with_their_place() {
    faults(small_with(Some("one")), 5);
}

fn faults((store, bytes): (Store, Vec<u8>), step: usize) {
    let refused = |bytes: &[u8]| {
        let error = load(&store, bytes).map(|_| ()).unwrap_err();
        assert!(store.find("loaded").unwrap().is_none(), "nothing is left");
        error
    };
    for bit in (0..bytes.len() * 8).step_by(step) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match refused(&flipped) {
            Error::NotADump { .. } => assert!(bit < 64),
            Error::NewerDump { .. } => assert!((96..128).contains(&bit)),
            Error::DumpDamaged(damage) => {
                let at = damage.offset.unwrap();
                assert!(at <= bit as u64 / 8 && bit as u64 / 8 < at + 600, "bit {bit}: {damage:?}");
            }
            error => panic!("bit {bit}: {error}"),
        }
    }
    for len in (0..bytes.len()).step_by(step) {
        match refused(&bytes[..len]) {
            Error::NotADump { .. } => assert!(len < 8),
            Error::DumpDamaged(damage) if len < 64 => assert_eq!(damage.offset, Some(0)),
            Error::DumpDamaged(damage) => {
                assert_eq!(damage.offset, Some(len as u64), "{damage:?}");
                assert!(damage.detail.contains("cut off"));
            }
            error => panic!("cut at {len}: {error}"),
        }
    }
    let error = refused(&[&bytes[..], b"!"].concat());
    assert!(error.to_string().contains(&format!("at offset {:#x}: bytes behind the end mark", bytes.len())), "{error}");
    assert!(matches!(refused(b"{\"key\":\"a\",\"value\":\"b\"}\n"), Error::NotADump { .. }));
    // Chunks of another dump of the same store have other numbers.
    let mut again = Vec::new();
    Kv::open(&store, "kv").unwrap().dump(&mut again, &mut |_| {}).unwrap();
    let mixed = [&bytes[..144], &again[144..]].concat();
    assert!(matches!(refused(&mixed), Error::DumpDamaged(damage) if damage.offset == Some(144)));
    assert!(load(&store, &bytes).unwrap().1.entries >= 21);
}

fn seal(bytes: &mut [u8]) {
    bytes[8..12].fill(0);
    let sum = crc32c::crc32c(bytes);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_dump_of_a_newer_format_is_refused() {
    let (store, mut bytes) = small();
    bytes[12] = 3;
    seal(&mut bytes[..64]);
    let error = load(&store, &bytes).map(|_| ()).unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("newer than 2")), (ErrorKind::Newer, true), "{error}");
}

/// Sums that are right do not make a dump right: the order of keys and of tables, and counts.
#[test]
fn contents_that_contradict_each_other_are_refused() {
    let (store, bytes) = small();
    let entries = 64 + 80;
    let change = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        let body = entries + 64..entries + 64 + 20 * 12;
        let sum = crc32c::crc32c(&bytes[body]);
        bytes[entries + 48..entries + 52].copy_from_slice(&sum.to_le_bytes());
        seal(&mut bytes[entries..entries + 64]);
        load(&store, &bytes).map(|_| ()).unwrap_err().to_string()
    };
    let key = |number: usize| entries + 64 + number * 12 + 2;
    assert!(change(key(3), 2).contains("keys are not in their order"), "key 3 twice");
    assert!(change(key(3), 200).contains("keys are not in their order"), "key 4 comes behind a larger one");
    assert!(change(key(19) - 1, 200).contains("an entry leads out of its chunk"));
    assert!(change(key(19) - 1, 8).contains("bytes behind the last entry of a chunk"));
    assert!(change(entries + 32, 19).contains("bytes behind the last entry of a chunk"));
    assert!(change(entries + 32, 0).contains("a kind that cannot be here"));
    assert!(change(entries + 12, 9).contains("a kind that cannot be here"));
}

/// The end mark counts tables, entries, bytes and versions, and each count is compared.
#[test]
fn an_end_mark_that_counts_others_is_refused() {
    for named in [None, Some("before")] {
        let (store, bytes) = small_with(named);
        let end = bytes.len() - 64 - 32;
        assert!(load(&store, &bytes).is_ok());
        for field in 0..4 {
            let mut bytes = bytes.clone();
            bytes[end + 64 + field * 8] ^= 1;
            let sum = crc32c::crc32c(&bytes[end + 64..]);
            bytes[end + 48..end + 52].copy_from_slice(&sum.to_le_bytes());
            seal(&mut bytes[end..end + 64]);
            let error = load(&small().0, &bytes).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("the end mark counts other"), "count {field} of a dump with {named:?}: {error}");
        }
    }
}

/// A stream that fails in its middle, in both directions.
#[test]
fn a_stream_that_fails_leaves_nothing() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(std::io::Error::from_raw_os_error(28));
            }
            let len = bytes.len().min(self.0);
            self.0 -= len;
            Ok(len)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    struct Broken<'b>(&'b [u8]);
    impl std::io::Read for Broken<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            match std::io::Read::read(&mut self.0, into) {
                Ok(0) => Err(std::io::Error::from_raw_os_error(5)),
                read => read,
            }
        }
    }
    let (store, bytes) = small();
    let kv = Kv::open(&store, "kv").unwrap();
    for len in [0, 63, 100, bytes.len() - 1] {
        let error = kv.snapshot().dump(&mut Full(len), &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        let error = Kv::load(&store, "loaded", &mut Broken(&bytes[..len]), &mut |_| {}).map(|_| ()).unwrap_err();
        assert_eq!((error.kind(), error.os_error()), (ErrorKind::Io, Some(5)), "{error}");
        assert!(store.find("loaded").unwrap().is_none());
    }
}

/// A store that is full in the middle of a load has no object of it, and its space again.
#[test]
fn a_load_into_a_full_store_leaves_nothing() {
    let (from, to) = (store(256 << 20), store(8 << 20));
    let kv = Kv::create(&from, "kv").unwrap();
    let mut batch = kv.batch();
    for number in 0..20_000_u32 {
        batch.put(&number.to_be_bytes(), &[1; 400]).unwrap();
    }
    kv.settle(batch.commit().unwrap()).unwrap();
    let bytes = dump(&kv);
    let error = load(&to, &bytes).map(|_| ()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoSpace), "{error}");
    assert!(to.objects().unwrap().is_empty());
    let small = Kv::create(&to, "small").unwrap();
    (0..1000_u32).for_each(|number| small.put(&number.to_be_bytes(), &[1; 400]).unwrap());
}

/// The stream is flushed before a dump says that it is whole, and an error of that is the dump's.
#[test]
fn a_stream_that_cannot_be_flushed_fails_the_dump() {
    struct Unflushed;
    impl std::io::Write for Unflushed {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Err(std::io::Error::from_raw_os_error(28))
        }
    }
    let kv = Kv::create(&store(1 << 24), "kv").unwrap();
    let error = kv.snapshot().dump(&mut Unflushed, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
}

/// Chunks of a later format in a dump of an earlier one, and heads of tables that are too long:
/// refused though their sums are right.
#[test]
fn chunks_that_a_dump_cannot_have_are_refused() {
    let (store, mut bytes) = small_with(Some("before"));
    assert_eq!(bytes[12], 2);
    bytes[12] = 1;
    seal(&mut bytes[..64]);
    let error = load(&store, &bytes).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("a kind that cannot be here"), "{error}");
    // The first table, with a body of one byte too many.
    let (store, mut bytes) = small();
    let body = vec![0; (16 << 20) + 1];
    bytes[64 + 40..64 + 48].copy_from_slice(&(body.len() as u64).to_le_bytes());
    bytes[64 + 48..64 + 52].copy_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    seal(&mut bytes[64..128]);
    let error = load(&store, &[&bytes[..128], &body].concat()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("a kind that cannot be here"), "{error}");
}
