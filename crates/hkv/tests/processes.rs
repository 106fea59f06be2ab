//! Members of one store in several threads, as processes would be; `capi` tests the death of real
//! ones.

use everbyte_hkv::{Error, KvKind, SharedKv};
use everbyte_media::{Media, Options};
use everbyte_store::{Error as StoreError, FormatOptions, Store};
use std::collections::BTreeSet;

const KINDS: [KvKind; 2] = [KvKind::Hash, KvKind::Tree];

fn two() -> [Store; 2] {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    Store::format(media.clone(), &FormatOptions::default()).unwrap().close().unwrap();
    [media.clone(), media].map(|media| Store::attach_shared(media).unwrap())
}

/// Opening finishes the change of a dead member; it must not treat the change of a live one in the
/// same way.
#[test]
fn an_opening_leaves_the_changes_of_other_members_alone() {
    for kind in KINDS {
        let [one, other] = two();
        let kv = SharedKv::create(&one, "pairs", kind, Some(8 << 20)).unwrap();
        let last = std::thread::scope(|scope| {
            let coming = scope.spawn(|| (0..3000).for_each(|_| drop(SharedKv::open(&other, "pairs").unwrap())));
            // Each pair exists until the twentieth one after it.
            let mut numbers = (0_u64..).take_while(|&number| number < 1000 || !coming.is_finished());
            numbers.try_fold(0, |_, number| {
                assert!(kv.change(|kv| kv.insert(&number.to_be_bytes(), &vec![1; number as usize % 300]))?);
                assert!(number < 20 || kv.change(|kv| kv.delete(&(number - 20).to_be_bytes()))?);
                Ok::<_, Error>(number)
            })
        });
        let mut left = BTreeSet::new();
        let mut see = |key: &[u8], _: &[u8]| left.insert(u64::from_be_bytes(key.try_into().unwrap()));
        kv.look(|kv| kv.scan(&mut see)).unwrap();
        let last = last.unwrap();
        assert_eq!(left, (last - 19..=last).collect());
        assert_eq!(kv.look(|kv| Ok::<_, Error>(kv.check())).unwrap(), []);
    }
}

/// At no moment a new store has a name and admits its creator alone.
#[test]
fn a_store_is_shared_as_soon_as_it_is_there() {
    let [one, other] = two();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..20 {
                drop(SharedKv::create(&one, &number.to_string(), KvKind::Hash, Some(1 << 20)).unwrap());
            }
        });
        for number in 0..20 {
            loop {
                match SharedKv::open(&other, &number.to_string()) {
                    Ok(_) => break,
                    Err(Error::Store(StoreError::NotFound { .. })) => {}
                    Err(error) => panic!("{number}: {error}"),
                }
            }
        }
    });
}
