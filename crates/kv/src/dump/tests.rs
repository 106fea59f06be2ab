//! The bytes of dumps, and dumps that contradict themselves.

use super::*;
use crate::Error;
use crate::catalogue;
use crate::tree::TableNumber;
use everbyte_sim::{Image, assert_page};
use everbyte_store::{FormatOptions, Store};

#[test]
fn the_worked_example_is_written_byte_for_byte() {
    let image = Image::zeroed(256 << 10).with_max(4 << 20);
    let store = Store::format(image.media(), &FormatOptions { log_len: 0, identity: None }).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    kv.put(b"Oslo", b"Norway").unwrap();
    kv.put(b"Bergen", b"Norway").unwrap();
    kv.create_table("stock").unwrap().put(b"apples", b"97").unwrap();
    let stamp = Stamp { dump: 0x1122_3344_5566_7788, moment: 1_700_000_000 };
    let mut bytes = Vec::new();
    let dumped = dump(&[], &kv.snapshot().tree, &mut bytes, stamp, &mut |_| {}).unwrap();
    assert_eq!(dumped, Dumped { tables: 2, entries: 3, bytes: 30, versions: 0 });
    let shown = Image::zeroed(4096).media();
    shown.write(0, &bytes);
    let parts = [
        ("head", 0, 64),
        ("the main table, which has no name", 64, 80),
        ("its two entries", 144, 64 + 12 + 14),
        ("the table `stock`", 234, 64 + 16 + 5),
        ("its entry", 319, 64 + 10),
        ("end mark", 393, 64 + 32),
    ];
    assert_eq!(bytes.len(), 393 + 96);
    let one = everbyte_sim::dump(&shown, &parts);
    assert_page("../../docs/formats/kv-dump.md", &format!("{one}\n{}", the_example_of_a_named_version()));
}

/// A description is kept as it was stored. One that is none is refused, and nothing is loaded.
#[test]
fn descriptions_are_loaded_with_their_tables() {
    let types = crate::TableTypes::of::<u64, String>().to_bytes().unwrap();
    let image = Image::zeroed(256 << 10).with_max(16 << 20);
    let store = Store::format(image.media(), &FormatOptions { log_len: 0, identity: None }).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    let mut batch = kv.tree.batch();
    catalogue::add_described(&mut batch, "typed", &types, &[]).unwrap();
    catalogue::add_described(&mut batch, "untyped", b"", &[]).unwrap();
    kv.settle(batch.commit().unwrap()).unwrap();
    let mut bytes = Vec::new();
    kv.snapshot().dump(&mut bytes, &mut |_| {}).unwrap();
    let (copy, dumped) = Kv::load(&store, "copy", &mut &*bytes, &mut |_| {}).unwrap();
    assert_eq!((dumped.tables, copy.check()), (3, vec![]));
    let description = |name: &str| {
        let value = copy.tree.snapshot().get(TableNumber::CATALOGUE, name.as_bytes()).unwrap().unwrap();
        catalogue::parse_described(&value).unwrap().1.to_vec()
    };
    assert_eq!((description("typed"), description("untyped")), (types.clone(), Vec::new()));
    let mut batch = kv.tree.batch();
    catalogue::add_described(&mut batch, "wrong", &types[..types.len() - 1], &[]).unwrap();
    kv.settle(batch.commit().unwrap()).unwrap();
    let mut bytes = Vec::new();
    kv.snapshot().dump(&mut bytes, &mut |_| {}).unwrap();
    let error = Kv::load(&store, "wrong", &mut &*bytes, &mut |_| {}).map(drop).unwrap_err().to_string();
    assert!(error.contains("types that this program cannot read") && error.contains("nothing was loaded"), "{error}");
    assert!(Kv::open(&store, "wrong").is_err());
}

/// A version with a name adds its name behind all that it sees, and then the changes.
fn the_example_of_a_named_version() -> String {
    let image = Image::zeroed(256 << 10).with_max(4 << 20);
    let store = Store::format(image.media(), &FormatOptions { log_len: 0, identity: None }).unwrap();
    let kv = Kv::create(&store, "kv").unwrap();
    kv.put(b"Oslo", b"Norway").unwrap();
    kv.create_table("stock").unwrap();
    let (_, seen) = (kv.name_version("one").unwrap(), kv.versions().unwrap());
    kv.put(b"Oslo", b"").unwrap();
    kv.drop_table("stock").unwrap();
    let (mut named, newest) = kv.named_and_newest().unwrap();
    named[0].record.named_at = 1_600_000_000;
    let stamp = Stamp { dump: 0x1122_3344_5566_7788, moment: 1_700_000_000 };
    let mut bytes = Vec::new();
    let dumped = dump(&named, &newest, &mut bytes, stamp, &mut |_| {}).unwrap();
    assert_eq!((dumped, seen.len()), (Dumped { tables: 1, entries: 2, bytes: 14, versions: 1 }, 1));
    let shown = Image::zeroed(4096).media();
    shown.write(0, &bytes);
    let from = 64 + 80 + (64 + 12) + 85;
    let parts = [
        ("all before is the version `one`", from, 64 + 16 + 3),
        ("the table `stock` goes", from + 83, 64 + 5),
        ("the main table changes", from + 152, 80),
        ("its key `Oslo` has an empty value", from + 232, 64 + 6),
        ("end mark", from + 302, 64 + 32),
    ];
    assert_eq!(bytes.len() as u64, from + 302 + 96);
    everbyte_sim::dump(&shown, &parts)
}

/// Chunks with right sums in an order that no store gives.
#[test]
fn versions_that_contradict_what_comes_before_are_refused() {
    let image = Image::zeroed(256 << 10).with_max(16 << 20);
    let store = Store::format(image.media(), &FormatOptions { log_len: 0, identity: None }).unwrap();
    let load = |format: u32, write: &dyn Fn(&mut DumpWriter<'_>) -> Result<()>| {
        let mut bytes = Vec::new();
        let mut writer = DumpWriter::new(&mut bytes, format, 5, Stamp { dump: 1, moment: 2 }).unwrap();
        writer.table("", b"").unwrap();
        writer.entry(b"key", b"value").unwrap();
        writer.table("a", b"").unwrap();
        write(&mut writer).unwrap();
        writer.finish().unwrap();
        let loaded = Kv::load(&store, "loaded", &mut &*bytes, &mut |_| {});
        match loaded {
            Ok(_) => String::new(),
            Err(error @ Error::DumpDamaged(_)) => error.to_string(),
            Err(error) => panic!("{error}"),
        }
    };
    let refused = |why: &str, write: &dyn Fn(&mut DumpWriter<'_>) -> Result<()>| {
        let error = load(FORMAT, write);
        assert!(error.contains(why), "{error:?}, not {why:?}");
        assert!(store.find("loaded").unwrap().is_none(), "nothing is left");
    };
    let after = |writer: &mut DumpWriter<'_>| writer.version("one", 3, 1);
    refused("the name of a version is none", &|writer| writer.version("", 3, 1));
    refused("the name of a version is none", &|writer| writer.version("server/import", 3, 1));
    refused("the name of a version is none", &|writer| writer.version(&"n".repeat(256), 3, 1));
    refused("two versions have one name", &|writer| after(writer).and_then(|()| after(writer)));
    refused("kind that cannot be here", &|writer| writer.changed("a"));
    refused("kind that cannot be here", &|writer| writer.dropped("a"));
    refused("one that is not there is changed", &|writer| after(writer).and_then(|()| writer.changed("b")));
    refused("a table begins twice", &|writer| after(writer).and_then(|()| writer.table("a", b"")));
    refused("tables are not in the order", &|writer| {
        after(writer)?;
        writer.changed("a")?;
        writer.changed("")
    });
    refused("goes that is not there", &|writer| after(writer).and_then(|()| writer.dropped("b")));
    refused("the name of a table is none", &|writer| after(writer).and_then(|()| writer.dropped("")));
    refused("kind that cannot be here", &|writer| {
        after(writer)?;
        writer.changed("")?;
        writer.dropped("a")
    });
    refused("keys are not in their order", &|writer| {
        after(writer)?;
        writer.changed("")?;
        writer.change(b"key", None)?;
        writer.change(b"key", Some(b"1"))
    });
    assert!(load(FORMAT_ONE, &after).contains("kind that cannot be here"), "format 1 has no versions");
    // A table that goes may come again in the same step, another one.
    let whole = load(FORMAT, &|writer| {
        after(writer)?;
        writer.dropped("a")?;
        writer.changed("")?;
        writer.change(b"key", None)?;
        writer.table("a", b"")?;
        writer.entry(b"1", b"2")?;
        writer.version("two", 4, 1)
    });
    assert_eq!(whole, "");
    let kv = Kv::open(&store, "loaded").unwrap();
    assert_eq!((kv.len(), kv.open_version("one").unwrap().len(), kv.check()), (0, 1, vec![]));
}
