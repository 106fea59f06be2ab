//! The examples of docs/manual/kv.md.

use std::path::Path;

pub(crate) fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    // begin
    let store = everbyte_store::Store::create(path, &Default::default())?; // one file, on any disk
    let kv = everbyte_kv::Kv::open_or_create(&store, "shop")?;
    kv.put(b"motto", b"fresh every day")?; // durable when it returns
    assert_eq!(kv.get(b"motto")?.as_deref(), Some(&b"fresh every day"[..]));

    use everbyte_kv::Typed;

    #[derive(Typed, Debug, PartialEq)]
    struct Item {
        price: u32,
        left: i64,
    }

    let stock = kv.open_or_create_typed::<(String, u16), Item>("stock")?;
    stock.put(&("apples".into(), 1), &Item { price: 30, left: 100 })?;
    stock.put(&("apples".into(), 2), &Item { price: 25, left: 7 })?;
    stock.put(&("pears".into(), 1), &Item { price: 40, left: 50 })?;
    let apples: Vec<_> = stock.prefix(&("apples".to_string(),))?.collect::<Result<_, _>>()?; // in key order
    assert_eq!(apples.len(), 2);

    // The store keeps a description of both types.
    let error = kv.open_typed::<(String, u16), u64>("stock").map(drop).unwrap_err();
    assert!(error.to_string().contains("stock"));

    let orders = kv.open_or_create_table("orders")?;
    let mut batch = kv.batch();
    batch.table(&orders)?.put(b"1", b"3 apples")?;
    let before = batch.savepoint()?;
    batch.put(b"motto", b"sold out")?;
    batch.roll_back(before)?; // takes back what came after, and nothing else
    let commit = batch.commit()?; // ordered: a crash keeps it whole or not at all
    kv.settle(commit)?; // durable
    assert_eq!(orders.get(b"1")?.as_deref(), Some(&b"3 apples"[..]));
    assert_eq!(kv.get(b"motto")?.as_deref(), Some(&b"fresh every day"[..]));

    let sold = kv.transact(|tx| {
        let visits = tx.get(b"visits")?.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        tx.put(b"visits", &(visits + 1).to_le_bytes())?;
        Ok::<_, everbyte_kv::Error>(visits + 1)
    })?;
    assert_eq!(sold, 1);
    // Single keys need no transaction.
    assert_eq!(kv.increment::<u64>(b"visits", 1)?, 2);
    assert!(kv.compare_and_set(b"motto", Some(b"fresh every day"), Some(b"ripe"))?.is_set());

    kv.name_version("monday")?;
    kv.put(b"motto", b"on holiday")?;
    kv.delete(b"visits")?;
    let monday = kv.open_version("monday")?;
    assert_eq!(monday.get(b"motto")?.as_deref(), Some(&b"ripe"[..]));
    let changed: Vec<_> = monday.changes(&kv.snapshot())?.collect::<Result<_, _>>()?;
    assert_eq!(changed.len(), 2); // each key once, in key order, with the old and the new value
    kv.restore_version("monday")?; // all tables, or none
    kv.remove_version("monday")?; // its space comes back with later commits, or by `reclaim`
    assert!(kv.contains(b"visits")?);

    let done = kv.compact(&mut |entries| println!("{entries} more"))?;
    println!("{} bytes became {}", done.before, done.after);

    let words = kv.open_or_create_table("words")?;
    let mut batch = kv.batch();
    batch.table(&words)?.load((0..10_000_u32).map(|n| (n.to_be_bytes(), b"a value")))?;
    kv.settle(batch.commit()?)?;
    assert_eq!(words.len()?, 10_000);

    use everbyte_kv::{ExpiringTable, ManualClock};
    use std::time::{Duration, UNIX_EPOCH};

    let clock = ManualClock::default(); // programs use `SystemClock`
    let sessions = ExpiringTable::open_or_create(&kv, "sessions", clock.clone())?;
    sessions.put_for(b"ada", b"token", Duration::from_secs(60))?;
    clock.set(UNIX_EPOCH + Duration::from_secs(60));
    assert_eq!(sessions.get(b"ada")?, None);
    assert_eq!(sessions.expire(100)?.keys, 1);

    let table = everbyte_kv::HashTable::open_or_create(&store, "by id")?;
    table.put(b"4711", b"Ada")?;
    let mut batch = table.begin()?;
    batch.put(b"4712", b"Grace")?;
    batch.delete(b"4711")?;
    batch.commit()?; // durable
    assert_eq!(table.len(), 1);

    let mut value = Vec::new();
    for number in 1..=2_u8 {
        if kv.get_into(&[number], &mut value)? {
            assert!(!value.is_empty());
        }
    }

    let mut bytes = Vec::new(); // or a file, a pipe, a socket
    kv.dump(&mut bytes, &mut |_| {})?;
    let (copy, loaded) = everbyte_kv::Kv::load(&store, "copy", &mut &*bytes, &mut |_| {})?;
    assert_eq!((copy.len(), loaded.tables), (kv.len(), 6)); // the main table is one

    // end
    Ok(())
}
