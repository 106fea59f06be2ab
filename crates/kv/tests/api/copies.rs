//! A copy of a key-value store has all entries of all tables.

use everbyte_kv::Kv;
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};

/// More than one batch of a copy holds: the tables begin and end in the middle of batches.
#[test]
fn a_copy_of_several_batches_has_every_entry() {
    let media = Media::anonymous(256 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let table = kv.create_table("table").unwrap();
    let value = |number: u8| vec![number; 100_000];
    let mut batch = kv.batch();
    for number in 0..60_u8 {
        batch.put(&[number], &value(number)).unwrap();
        batch.table(&table).unwrap().put(&[number], &value(number + 100)).unwrap();
    }
    kv.settle(batch.commit().unwrap()).unwrap();
    let mut copied = Vec::new();
    kv.copy_to(&store, "copy", &mut |bytes| copied.push(bytes)).unwrap();
    assert!(copied.len() > 2 && copied.iter().sum::<u64>() >= 120 * 100_001, "{copied:?}");
    let copy = Kv::open(&store, "copy").unwrap();
    let table = copy.open_table("table").unwrap();
    for number in 0..60_u8 {
        assert_eq!(copy.get(&[number]).unwrap(), Some(value(number)), "{number}");
        assert_eq!(table.get(&[number]).unwrap(), Some(value(number + 100)), "{number}");
    }
    assert_eq!((copy.len(), table.len().unwrap(), copy.check()), (60, 60, vec![]));
}
