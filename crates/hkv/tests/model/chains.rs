//! Buckets of a hash store form chains of a length that depends on the data: equal hashes, or a
//! store without space to grow. Each walk of a chain runs on a stack of 256 KiB here, in a time
//! that grows with the chain and not faster.
//!
//! With `EVERBYTE_SOAK` set, the chain has a million links.

use everbyte_hkv::layout::{BUCKET, HashRoot, LINK};
use everbyte_hkv::raw::Raw as _;
use everbyte_hkv::{Hash, Kv};
use everbyte_media::{Media, Options};
use everbyte_sim::swarm::on_a_small_stack;
use everbyte_store::{FormatOptions, Store};
use everbyte_tx::{Error, Undo};
use everbyte_workload::long_or;

#[test]
fn a_chain_of_buckets_is_opened_checked_and_split_on_a_small_stack() {
    let links = long_or(20_000, 1_000_000);
    let media = Media::anonymous(8 << 30, &Options::default()).unwrap();
    // Hashes depend on the identity: with this one the last record is no split, which opening would
    // do again, and would free the links that are made here.
    let format = FormatOptions { identity: Some([5; 16]), ..FormatOptions::default() };
    let store = Store::format(media, &format).unwrap();
    let hash = Hash::create(&store, "t", Some(2 << 30)).unwrap();
    for key in 0..40_u32 {
        assert!(hash.insert(&key.to_le_bytes(), b"value").unwrap());
    }
    let object = hash.object().clone();
    drop(hash);
    // Empty buckets behind the first one.
    let undo = Undo::open(object.clone()).unwrap();
    let root: HashRoot = store.media().get(object.root());
    let mut last = root.segments[0];
    let mut made = 0;
    while made < links {
        let blocks = undo.run(|tx| {
            let blocks = (0..1000).map(|_| tx.allocate(BUCKET)).collect::<Result<Vec<_>, Error>>()?;
            blocks.iter().for_each(|block| tx.media().zero(block.at, BUCKET));
            Ok::<_, Error>(blocks)
        });
        for block in blocks.unwrap() {
            let old = store.media().load(last + LINK);
            store.media().store(block.at + LINK, old);
            store.media().store(last + LINK, block.at.get());
            last = block.at;
            made += 1;
        }
    }
    drop(undo);
    on_a_small_stack(|| {
        let hash = Hash::open(object.clone()).unwrap();
        assert!(hash.longest_chain().unwrap() as u64 > links);
        assert_eq!(hash.check(), []);
        let mut pairs = 0;
        hash.scan(|_, _| {
            pairs += 1;
            true
        })
        .unwrap();
        assert_eq!(pairs, 40);
        for key in 0..40_u32 {
            assert_eq!(hash.get(&key.to_le_bytes()).unwrap().as_deref(), Some(&b"value"[..]));
            assert!(hash.update(&key.to_le_bytes(), b"other").unwrap());
        }
        // Pairs are added until the first bucket is split, and its needless links are freed.
        let mut key = 40_u32;
        while hash.longest_chain().unwrap() as u64 > links {
            assert!(key < 400, "the chain is as long as before");
            assert!(hash.insert(&key.to_le_bytes(), b"value").unwrap());
            key += 1;
        }
        assert_eq!(hash.check(), []);
    });
    let kv = Kv::open(object).unwrap();
    assert!((0..40_u32).all(|key| kv.delete(&key.to_le_bytes()).unwrap()));
    assert_eq!(kv.check(), []);
}

/// The keys go to bucket 5 of 16 buckets. Of 32, the last two go to bucket 21, the others to 5.
#[test]
fn a_split_that_gathers_a_chain_keeps_its_pairs_over_a_clean_close() {
    let format = FormatOptions { identity: Some([7; 16]), ..FormatOptions::default() }; // and so the seed of hashes
    let store = Store::format(Media::anonymous(32 << 20, &Options::default()).unwrap(), &format).unwrap();
    let hash = Hash::create(&store, "pairs", Some(2 << 20)).unwrap();
    let object = hash.object().clone();
    let insert = |hash: &Hash, key: u8| assert!(hash.insert(&[key], &[key; 9]).unwrap(), "{key}");
    [5, 44, 72, 88, 102, 167, 176, 227, 228].into_iter().for_each(|key| insert(&hash, key));
    drop(hash);
    let hash = Hash::open(object.clone()).unwrap();
    [5, 44].into_iter().for_each(|key| assert!(hash.delete(&[key]).unwrap()));
    [0, 78, 24, 134, 48, 10, 11, 55, 33, 4, 2].into_iter().for_each(|key| insert(&hash, key));
    assert_eq!(hash.longest_chain().unwrap(), 2);
    insert(&hash, 96); // the twelfth since the opening
    assert_eq!(hash.longest_chain().unwrap(), 1, "it was gathered");
    drop(hash);
    let hash = Hash::open(object).unwrap();
    for key in [72, 88, 102, 167, 176, 227, 228, 2, 96] {
        assert_eq!(hash.get(&[key]).unwrap().as_deref(), Some(&[key; 9][..]), "{key}");
    }
    assert_eq!(hash.check(), []);
}
