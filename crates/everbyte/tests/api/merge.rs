//! Merging stores, compared with the originals; what is refused before anything is copied; and
//! merges that are resumed.

#![allow(clippy::redundant_closure)] // the function itself is not general enough in its brand

use crate::common::{BACKENDS, Shop, add, create, expected, fill, found, holds, new_shop, options, put};
use everbyte::media::BackendChoice;
use everbyte::object::PoolOptions;
use everbyte::{Kv, Merge, MergeError, MergeOptions, PString, Pool, Root, pool};
use everbyte_store::{Engine, Error as StoreError, ObjectOptions, Store};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

pool!(One);
pool!(Two);

/// A pool type has one pool open at a time, so the tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|failed| failed.into_inner())
}

/// A store with `count` changes in a table and in a pool, whose process died.
fn killed(path: &Path, backend: BackendChoice, count: u64) {
    let store = create(path, backend, 1 << 40);
    let kv = Kv::create(&store, "table").unwrap();
    let shop = One::create::<Shop<One>>(&store, "shop", |j| new_shop(j)).unwrap();
    for number in 0..count {
        put(&kv, number);
        shop.tx(|j, shop| add(shop, number, j)).unwrap();
    }
    shop.tx(|j, shop| shop.served.set(9, j)).unwrap();
    drop((kv, shop));
    store.media().clone().abandon();
}

fn read(path: &Path, backend: BackendChoice) -> Store {
    Store::options(path).read_only().open(&options(backend)).unwrap()
}

fn prefix(prefix: &str) -> MergeOptions {
    MergeOptions { prefix: prefix.into(), ..MergeOptions::default() }
}

/// A merged pool is whole, and of use.
fn holds_shop(store: &Store, name: &str, count: u64) {
    let shop: Root<Shop<Two>, Two> = Two::open(store, name).unwrap();
    assert_eq!(shop.tx(|j, shop| found(shop, j)).unwrap(), expected(count), "{name}");
    assert_eq!(shop.check().unwrap(), vec![], "{name}");
    assert_eq!(shop.served.get(), None, "what an opening of another store set is void");
}

/// When a file was changed, and what it takes.
fn state(path: &Path) -> (i64, i64, u64) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.mtime(), metadata.mtime_nsec(), metadata.blocks())
}

#[test]
fn what_is_merged_equals_its_originals_and_lives_on() {
    let _turn = turn();
    for backend in BACKENDS {
        let place = tempfile::tempdir().unwrap();
        let [east, west, target] = ["east", "west", "all"].map(|name| place.path().join(name));
        killed(&east, backend, 110);
        killed(&west, backend, 7);
        let before = [&east, &west].map(|path| state(path));
        // Far smaller than the sources: spans such as theirs do not fit.
        let store = create(&target, backend, 256 << 20);
        put(&Kv::create(&store, "table").unwrap(), 0);
        for (path, name) in [(&east, "east/"), (&west, "west/")] {
            let source = read(path, backend);
            let merge = Merge::plan(&store, &[source], &prefix(name)).unwrap();
            let mut heard = 0;
            merge.steps().iter().for_each(|step| merge.copy(step, &mut |bytes| heard += bytes).unwrap());
            assert!(heard > 0);
        }
        assert_eq!(before, [&east, &west].map(|path| state(path)), "sources are only read");
        let verify = |store: &Store| {
            let names: Vec<String> = store.objects().unwrap().into_iter().map(|info| info.name).collect();
            assert_eq!(names, ["east/shop", "east/table", "table", "west/shop", "west/table"]);
            for (name, count) in [("east", 110), ("west", 7)] {
                holds_shop(store, &format!("{name}/shop"), count);
                let table = Kv::open(store, &format!("{name}/table")).unwrap();
                assert!(holds(&table, count) && table.check().is_empty());
            }
            assert!(holds(&Kv::open(store, "table").unwrap(), 1));
            assert_eq!(store.check(), []);
        };
        verify(&store);
        store.media().clone().abandon();
        drop(store);
        let store = Store::open(&target, &options(backend)).unwrap();
        verify(&store);
        let shop = Two::open::<Shop<Two>>(&store, "east/shop").unwrap();
        (110..160).for_each(|number| shop.tx(|j, shop| add(shop, number, j)).unwrap());
        drop(shop);
        holds_shop(&store, "east/shop", 160);
        holds_shop(&store, "west/shop", 7);
    }
}

/// Blocks of megabytes and many zones, some of them freed again: holes stay holes.
#[test]
fn a_large_pool_with_holes_is_merged() {
    let _turn = turn();
    let place = tempfile::tempdir().unwrap();
    let [source, target] = ["a.store", "b.store"].map(|name| place.path().join(name));
    let store = create(&source, BackendChoice::Shm, 4 << 30);
    let shop = One::create::<Shop<One>>(&store, "shop", |j| new_shop(j)).unwrap();
    for number in 0..40 {
        shop.tx(|j, shop| shop.names.borrow_mut(j).push(PString::from_str(&"y".repeat(1 << 20), j), j)).unwrap();
        shop.tx(|j, shop| add(shop, number, j)).unwrap();
    }
    shop.tx(|j, shop| shop.names.borrow_mut(j).retain(|name| !name.starts_with('y'), j)).unwrap();
    drop(shop);
    store.close().unwrap();
    let holes = |store: &Store, name: &str| {
        store.object(name).unwrap().holes().iter().map(|hole| hole.end - hole.start).sum::<u64>()
    };
    assert!(holes(&store, "shop") > 8 << 20, "the heap gives back what is free");
    let copy = create(&target, BackendChoice::Shm, 1 << 30);
    Merge::plan(&copy, std::slice::from_ref(&store), &prefix("a/")).unwrap().run().unwrap();
    holds_shop(&copy, "a/shop", 40);
    assert_eq!(holes(&copy, "a/shop"), holes(&store, "shop"));
    copy.close().unwrap();
    assert!(fs::metadata(&target).unwrap().blocks() <= fs::metadata(&source).unwrap().blocks() + 2000);
    // Merged into its own store, too: one object is as good a source as another.
    Merge::plan(&store, std::slice::from_ref(&store), &prefix("again/")).unwrap().run().unwrap();
    holds_shop(&store, "again/shop", 40);
}

#[test]
fn what_cannot_be_merged_is_refused_before_anything_is_copied() {
    let _turn = turn();
    let place = tempfile::tempdir().unwrap();
    let [source, target] = ["a.store", "b.store"].map(|name| place.path().join(name));
    killed(&source, BackendChoice::Shm, 5);
    let store = create(&target, BackendChoice::Shm, 256 << 20);
    put(&Kv::create(&store, "table").unwrap(), 0);
    let source = read(&source, BackendChoice::Shm);
    let refused = |sources: &[Store], options: &MergeOptions, why: &[&str]| {
        let error = Merge::plan(&store, sources, options).map(|_| ()).unwrap_err();
        assert!(why.iter().all(|why| error.to_string().contains(why)), "{error}");
        assert_eq!(store.objects().unwrap().len(), 1);
        error
    };
    let one = std::slice::from_ref(&source);
    let plain = MergeOptions::default();
    // Names: taken in the target, taken twice, empty, and of no object.
    let error = refused(one, &plain, &["a.store", "`table`", "target has already", "prefix"]);
    assert!(matches!(error, MergeError::Taken { .. }));
    // it is no copy
    refused(one, &MergeOptions { resume: true, ..plain.clone() }, &["target has already"]);
    refused(&[source.clone(), source.clone()], &prefix("x/"), &["another object of this merge"]);
    let rename = |name: &str, new: &str| MergeOptions { renames: vec![(name.into(), new.into())], ..plain.clone() };
    refused(one, &rename("table", "shop"), &["another object of this merge"]);
    refused(one, &prefix("/"), &["cannot name an object"]);
    refused(one, &rename("absent", "x"), &["`absent`"]);
    refused(one, &MergeOptions { skip: vec!["absent".into()], ..prefix("x/") }, &["`absent`"]);

    // Objects whose bytes only their program understands, unless they are left out.
    let other = create(&place.path().join("c.store"), BackendChoice::Shm, 256 << 20);
    let wish = |engine| ObjectOptions { engine, fingerprint: 0, span: Some(1 << 20) };
    other.create_object("raw", wish(Engine::None), |_| Ok::<(), StoreError>(())).unwrap();
    Kv::create(&other, "fine").unwrap();
    let error = refused(std::slice::from_ref(&other), &plain, &["c.store", "`raw`", "engine `none`", "skip it"]);
    assert!(matches!(error, MergeError::Unknown { engine: Engine::None, .. }));
    other.create_object("blocks", wish(Engine::Undo), everbyte_tx::Undo::format).unwrap();
    refused(
        std::slice::from_ref(&other),
        &MergeOptions { skip: vec!["raw".into()], ..plain.clone() },
        &["`blocks`", "engine `undo`"],
    );
    let skip = MergeOptions { skip: vec!["raw".into(), "blocks".into()], ..plain.clone() };
    assert_eq!(Merge::plan(&store, std::slice::from_ref(&other), &skip).unwrap().steps().len(), 1);

    // A pool that is open here would change under the merge.
    let shop = One::create::<Shop<One>>(&other, "shop", |j| new_shop(j)).unwrap();
    refused(std::slice::from_ref(&other), &skip, &["`shop`", "already open"]);
    drop(shop);

    // A store whose metadata is damaged.
    let path = other.media().path().to_path_buf();
    other.close().unwrap();
    drop(other);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0x55], (16 << 10) + 16).unwrap();
    let other = read(&path, BackendChoice::Shm);
    refused(&[other], &skip, &["c.store", "damaged", "everbyte check"]);
}

/// Damage inside a pool or a table is found when it is copied: nothing of it is there then.
#[test]
fn a_damaged_object_is_not_passed_on() {
    let _turn = turn();
    let place = tempfile::tempdir().unwrap();
    let [source, target] = ["a.store", "b.store"].map(|name| place.path().join(name));
    killed(&source, BackendChoice::Shm, 30);
    let (pool, table) = {
        let store = read(&source, BackendChoice::Shm);
        let value = format!("29 {}", "x".repeat(29 * 37 % 600));
        let table = store.object("table").unwrap();
        let bytes = store.media().read_vec(table.prime(), (table.backed().get() - table.prime().get()) as usize);
        let at = bytes.windows(value.len()).position(|found| found == value.as_bytes()).unwrap();
        // A word that says what a cluster is for, and a byte of a value.
        (store.object("shop").unwrap().prime() + everbyte_heap::layout::FIRST_TABLE, table.prime() + at as u64)
    };
    let file = File::options().write(true).open(&source).unwrap();
    let place = |at| everbyte_media::file_offset(&source, at).unwrap().unwrap();
    file.write_all_at(&[0x55], place((pool + 5).get())).unwrap();
    file.write_all_at(b"y", place((table + 3).get())).unwrap();
    let store = create(&target, BackendChoice::Shm, 256 << 20);
    for skip in ["shop", "table"] {
        let options = MergeOptions { skip: vec![skip.into()], ..MergeOptions::default() };
        let source = read(&source, BackendChoice::Shm);
        let error = Merge::plan(&store, &[source], &options).unwrap().run().unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
        assert!(store.objects().unwrap().is_empty() && store.check().is_empty());
    }
}

/// The store is too small for the second object; grown, it takes the rest of the same merge.
#[test]
fn a_merge_that_was_cut_short_is_resumed() {
    let _turn = turn();
    for backend in BACKENDS {
        let place = tempfile::tempdir().unwrap();
        let [source, target] = ["a.store", "b.store"].map(|name| place.path().join(name));
        let store = create(&source, backend, 256 << 20);
        let shop = One::create_with::<Shop<One>>(&store, "shop", &PoolOptions::default(), |j| new_shop(j)).unwrap();
        let kv = Kv::create(&store, "table").unwrap();
        fill(&kv, 24_000);
        (0..20).for_each(|number| shop.tx(|j, shop| add(shop, number, j)).unwrap());
        drop((shop, kv));
        store.close().unwrap();
        drop(store);

        let small = create(&target, backend, 17 << 20);
        let sources = [read(&source, backend)];
        let error = Merge::plan(&small, &sources, &MergeOptions::default()).unwrap().run().unwrap_err();
        assert!(matches!(error, MergeError::Engine(_)) && error.to_string().contains("grow"), "{error}");
        holds_shop(&small, "shop", 20);
        assert_eq!((small.objects().unwrap().len(), small.check()), (1, vec![]));
        let again = Merge::plan(&small, &sources, &MergeOptions::default()).map(|_| ()).unwrap_err();
        assert!(matches!(again, MergeError::Present { .. }) && again.to_string().contains("resume"), "{again}");
        small.close().unwrap();
        drop(small);

        let store = Store::options(&target).grown(256 << 20).open(&options(backend)).unwrap();
        let shop = Two::open::<Shop<Two>>(&store, "shop").unwrap();
        shop.tx(|j, shop| add(shop, 20, j)).unwrap(); // what is there goes its own way meanwhile
        drop(shop);
        let resume = MergeOptions { resume: true, ..MergeOptions::default() };
        let merge = Merge::plan(&store, &sources, &resume).unwrap();
        assert_eq!(merge.steps().iter().map(|step| step.present).collect::<Vec<_>>(), [true, false]);
        merge.run().unwrap();
        holds_shop(&store, "shop", 21);
        assert!(holds(&Kv::open(&store, "table").unwrap(), 24_000));
        // Nothing is left to do; and a removed copy is copied again.
        let nothing = Merge::plan(&store, &sources, &resume).unwrap();
        assert!(nothing.steps().iter().all(|step| step.present));
        store.remove_object("shop").unwrap();
        Merge::plan(&store, &sources, &resume).unwrap().run().unwrap();
        holds_shop(&store, "shop", 20);
        assert_eq!(store.check(), []);
    }
}
