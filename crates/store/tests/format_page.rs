//! The worked example of docs/formats/store.md is what this program writes, byte for byte.

use everbyte_sim::Image;
use everbyte_store::{CLUSTER, Engine, Error, FormatOptions, ObjectOptions, Plan, Store};
use std::fmt::Write;

/// Sixteen bytes a line, lines of zeros left out.
fn dump(text: &mut String, media: &everbyte_media::Media, name: &str, at: u64, len: u64) {
    writeln!(text, "{name}").unwrap();
    for line in (at..at + len).step_by(16) {
        let bytes = media.read_vec(line, 16);
        if bytes.iter().any(|&byte| byte != 0) {
            let hex: Vec<String> =
                bytes.chunks(8).map(|half| half.iter().map(|b| format!("{b:02x} ")).collect()).collect();
            let ascii: String = bytes.iter().map(|&b| if b.is_ascii_graphic() { b as char } else { '.' }).collect();
            writeln!(text, "{line:05x}  {}{}", hex.join(" "), ascii).unwrap();
        }
    }
}

#[test]
fn the_worked_example_is_what_is_written() {
    let plan = Plan::new(1 << 20, 64 << 10).unwrap();
    let image = Image::zeroed(plan.spans_at).with_max(1 << 20).then(|media| {
        let identity = Some(*b"worked example 1");
        let store = Store::format(media, &FormatOptions { log_len: 64 << 10, identity }).unwrap();
        let options = ObjectOptions { engine: Engine::Cdds, fingerprint: 0xf00d, span: Some(4 * CLUSTER) };
        let object = store.create_object("shop/orders", options, |_| Ok::<(), Error>(())).unwrap();
        let room = object.grow(2 * CLUSTER).unwrap();
        object.set_root(room.start + 64);
        object.release(room.end - CLUSTER..room.end).unwrap();
        drop(object);
        store.close().unwrap();
    });
    let media = image.media();
    let mut text = String::new();
    dump(&mut text, &media, "superblock A", 0, 512);
    dump(&mut text, &media, "words beside superblock A", 1024, 64);
    dump(&mut text, &media, "record 0 of the object table", plan.table_at, 256);
    dump(&mut text, &media, "bitmap of backed clusters", plan.space.bitmap_at, 4096);
    dump(&mut text, &media, "bitmap of used clusters", plan.space.used_at, 4096);
    dump(&mut text, &media, "header of `shop/orders`", 0x40000, 512);

    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/store.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&text), "docs/formats/store.md should show:\n{text}");
    let b = media.read_vec(4096, 512);
    assert_eq!(media.read_vec(0, 512), b, "both copies are the same");
}
