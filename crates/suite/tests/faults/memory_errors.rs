//! Memory errors under a table: of each page in turn, sampled, the bytes are gone. Every answer is
//! right or an error that names the table and the offset; other tables go on; nothing that was
//! acknowledged later is lost.

use everbyte_kv::Kv;
use everbyte_media::{BackendChoice, ErrorInfo, Media, Options, file_offset, museum};
use everbyte_store::{CreateOptions, Store};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

const PAGE: u64 = 4096;

type Told = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    Options { backend: BackendChoice::Shm, background: false, log_bytes: 1 << 20, ..Options::default() }
}

/// A store with the tables `t` and `u`, closed in order; what `t` was told.
fn store(path: &Path) -> Told {
    let create = CreateOptions { media: options(), max: 64 << 20, ..CreateOptions::default() };
    let store = Store::create(path, &create).unwrap();
    let mut told = Told::new();
    let table = Kv::create(&store, "t").unwrap();
    for number in 0..600_u32 {
        let key = match number % 50 {
            // in a block of its own
            7 => [b"long".repeat(100), number.to_be_bytes().to_vec()].concat(),
            _ => format!("key{:05}", number * 7919 % 600).into_bytes(),
        };
        let value = vec![number as u8 | 1; if number % 40 == 0 { 9000 } else { 90 }];
        table.put(&key, &value).unwrap();
        told.insert(key, value);
    }
    Kv::create(&store, "u").unwrap().put(b"other", b"table").unwrap();
    drop(table);
    store.close().unwrap();
    told
}

/// Reads all of `t` in every way. How many keys could not be read.
fn read(table: &Kv, told: &Told) -> Result<usize, String> {
    let mut lost = 0;
    let named = |error: everbyte_kv::Error, at: &dyn std::fmt::Debug| {
        let damage = error.damage().unwrap_or_default();
        let good = damage.object.as_deref() == Some("t") && damage.offset.is_some();
        if good { Ok(()) } else { Err(format!("{at:?}: {error}")) }
    };
    for (key, value) in told {
        match table.get(key) {
            Ok(found) if found.as_ref() == Some(value) => {}
            Ok(found) => return Err(format!("{key:?} reads {:?}", found.map(|found| found.len()))),
            Err(error) => {
                lost += 1;
                named(error, key)?;
            }
        }
        match table.len_of(key) {
            Ok(len) if len == Some(value.len() as u64) => {}
            Ok(len) => return Err(format!("{key:?} has {len:?} bytes")),
            Err(error) => named(error, key)?,
        }
        if table.part_of(key, |len| len / 2..len).is_ok_and(|part| part.as_deref() != Some(&value[value.len() / 2..])) {
            return Err(format!("{key:?}: a part is wrong"));
        }
    }
    for forward in [true, false] {
        let mut range = table.range::<[u8]>(..);
        let mut found = Vec::new();
        let mut failed = false;
        while let Some(entry) = if forward { range.next() } else { range.next_back() } {
            match entry {
                Ok(entry) => found.push(entry),
                Err(error) => {
                    failed = true;
                    named(error, &"walk")?;
                }
            }
        }
        if found.iter().any(|(key, value)| told.get(key) != Some(value)) || (!failed && found.len() < told.len()) {
            return Err(format!("a walk finds {} of {} keys", found.len(), told.len()));
        }
    }
    Ok(lost)
}

/// The page of store offset `at` is lost. How many keys went with it.
fn lose(path: &Path, told: &Told, at: u64) -> Result<usize, String> {
    let lost = {
        let store = Store::open(path, &options()).unwrap();
        let (table, other) = (Kv::open(&store, "t").unwrap(), Kv::open(&store, "u").unwrap());
        store.media().raise_memory_error(at);
        let lost = read(&table, told)?;
        if table.put(b"new", b"1").is_ok() {
            return Err("a write to a table with a lost page was acknowledged".into());
        }
        other.put(b"other", at.to_string().as_bytes()).map_err(|error| format!("another table: {error}"))?;
        let told_of = store.check().iter().any(|finding| finding.at == at && finding.object.as_deref() == Some("t"));
        if !told_of {
            return Err("check does not tell of the page".into());
        }
        lost
    };
    let store = Store::open(path, &options()).unwrap();
    assert_eq!(Kv::open(&store, "u").unwrap().get(b"other").unwrap(), Some(at.to_string().into_bytes()));
    let table = Kv::open(&store, "t").unwrap(); // the file in memory still has what the page held
    assert_eq!((read(&table, told), table.get(b"new").unwrap()), (Ok(0), None), "{at:#x}");
    assert!(table.check().is_empty() && store.check().is_empty(), "{at:#x}");
    Ok(lost)
}

fn pages(path: &Path) -> Vec<u64> {
    let store = Store::open(path, &options()).unwrap();
    let object = store.object("t").unwrap();
    (object.prime().get()..object.backed().get()).step_by(PAGE as usize).collect()
}

#[test]
fn a_lost_page_is_an_error_for_its_keys_and_nothing_else() {
    let whole = everbyte_workload::is_long();
    let test = "-p everbyte-suite --test faults memory_errors";
    let seed = everbyte_workload::seed(u64::from(std::process::id()), test);
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("store");
    let told = store(&path);
    let pages = pages(&path);
    let step = if whole { 1 } else { pages.len() / 24 + 1 };
    let (mut partly, mut count) = (0, 0);
    for &at in pages.iter().skip(seed as usize % step).step_by(step) {
        let lost = lose(&path, &told, at).unwrap_or_else(|detail| panic!("seed {seed:#x}, page {at:#x}: {detail}"));
        partly += usize::from((1..told.len()).contains(&lost));
        count += 1;
    }
    println!("{count} of {} pages, {partly} of them with some of the keys", pages.len());
    for bug in ["media-zeros-answered", "tree-commits-over-lost-page"] {
        let blind = || pages.iter().map(|&at| lose(&path, &told, at)).find(Result::is_err);
        println!("{bug}: {:?}", museum::with(bug, blind).expect("the seeded bug was not found"));
    }
}

/// The store's own pages: superblock, object table, bitmaps.
#[test]
fn a_lost_page_of_the_store_itself_refuses_changes_and_no_reads() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("store");
    let told = store(&path);
    let change = |at: u64| {
        let store = Store::open(&path, &options()).unwrap();
        let table = Kv::open(&store, "t").unwrap();
        store.media().raise_memory_error(at);
        let made = Kv::create(&store, "new").map(drop).map_err(|error| error.to_string());
        assert_eq!(read(&table, &told).unwrap(), 0);
        made
    };
    for at in [0, PAGE] {
        let error = change(at).unwrap_err();
        assert!(error.contains(&format!("the store is damaged at offset {at:#x}")), "{error}");
    }
    assert!(museum::with("media-zeros-answered", || change(0)).is_ok(), "the seeded bug was not found");
}

/// The pages go while the table is open, and are found by touching them.
#[test]
fn a_table_whose_file_was_cut_off_answers_right_or_with_an_error() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("store");
    let told = store(&path);
    let (pages, kept) = (pages(&path), std::fs::read(&path).unwrap());
    for &at in pages.iter().skip(1).step_by(pages.len() / 6) {
        std::fs::write(&path, &kept).unwrap();
        let store = Store::open(&path, &options()).unwrap();
        let table = Kv::open(&store, "t").unwrap();
        let place = file_offset(&path, at).unwrap().unwrap();
        File::options().write(true).open(&path).unwrap().set_len(place).unwrap();
        let lost = read(&table, &told).unwrap_or_else(|detail| panic!("page {at:#x}: {detail}"));
        assert!(lost == 0 || table.put(b"new", b"1").is_err(), "{at:#x}");
        assert!(Media::unreadable_count() > 0);
    }
}
