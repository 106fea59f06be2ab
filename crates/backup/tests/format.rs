//! The worked example of docs/formats/backup.md is what this program writes, byte for byte.

use everbyte_backup::{Options, backup};
use everbyte_sim::{Image, assert_page, dump};
use everbyte_store::{FormatOptions, Plan, Store};

#[test]
fn the_worked_example_is_written_byte_for_byte() {
    let plan = Plan::new(1 << 20, 64 << 10).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backup");
    let media = Image::zeroed(plan.spans_at).with_max(1 << 20).media();
    let identity = Some(*b"worked example 1");
    let store = Store::format(media, &FormatOptions { log_len: 64 << 10, identity }).unwrap();
    let fixed = Some((*b"worked example 2", 1_700_000_000_000_000_000));
    let summary = backup(&store, &path, &Options { fixed, ..Options::default() }, &mut |_| {}).unwrap();
    assert_eq!((summary.pages, summary.stored), (2, 2), "both superblocks");
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 512 + (64 + 2 * (8 + 4096)) + (64 + 2 * 40) + (64 + 64));
    let shown = Image::zeroed((bytes.len() as u64).next_multiple_of(4096)).media();
    shown.write(0, &bytes);
    let table = 512 + 64 + 2 * (8 + 4096);
    let parts = [
        ("head", 0, 128),
        ("chunk of pages: its head, the numbers of the pages, the start of page 0", 512, 64 + 16 + 48),
        ("table: its head, two entries", table, 64 + 80),
        ("end mark", table + 64 + 80, 128),
    ];
    assert_page("../../docs/formats/backup.md", &dump(&shown, &parts));
}
