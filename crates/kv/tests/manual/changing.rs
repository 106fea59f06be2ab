//! The examples of docs/manual/from-lmdb-redb-rocksdb.md.

use std::path::Path;

pub(crate) fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    // begin
    let store = everbyte_store::Store::create(path, &Default::default())?;
    let kv = everbyte_kv::Kv::open_or_create(&store, "shop")?;
    let stock = kv.open_or_create_typed::<String, u64>("stock")?;
    let mut batch = kv.batch();
    batch.typed(&stock)?.put(&"apples".to_string(), &97)?;
    kv.settle(batch.commit()?)?;
    for entry in stock.range("a".to_string().."b".to_string())? {
        let (name, left) = entry?;
        assert_eq!((name.as_str(), left), ("apples", 97));
    }

    let mut batch = kv.batch();
    for n in 0..3 {
        batch.put(format!("order {n}").as_bytes(), b"3 apples")?;
    }
    kv.settle(batch.commit()?)?;
    assert_eq!(kv.prefix(b"order ").count(), 3);

    // end
    Ok(())
}
