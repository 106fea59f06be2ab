//! The worked example of docs/formats/tree.md is what this program writes, byte for byte.

#![forbid(unsafe_code)]

use everbyte_kv::Kv;
use everbyte_media::Media;
use everbyte_sim::Image;
use everbyte_store::{FormatOptions, Store};
use std::fmt::Write;

/// Sixteen bytes a line, lines of zeros left out.
fn dump(text: &mut String, media: &Media, name: &str, at: u64, len: u64) {
    writeln!(text, "{name}").unwrap();
    for line in (at..at + len).step_by(16) {
        let bytes = media.read_vec(line, 16);
        if bytes.iter().any(|&byte| byte != 0) {
            let hex: Vec<String> =
                bytes.chunks(8).map(|half| half.iter().map(|b| format!("{b:02x} ")).collect()).collect();
            let ascii: String = bytes.iter().map(|&b| if b.is_ascii_graphic() { b as char } else { '.' }).collect();
            writeln!(text, "{line:06x}  {}{}", hex.join(" "), ascii).unwrap();
        }
    }
}

#[test]
fn the_worked_example_is_what_is_written() {
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some(*b"worked example 1") };
        let store = Store::format(media, &format).unwrap();
        let kv = Kv::create(&store, "kv").unwrap();
        kv.put(b"Oslo", b"Norway").unwrap();
        kv.put(b"Bergen", b"Norway").unwrap();
        kv.put(b"Oslo", b"the capital").unwrap();
        drop(kv);
        store.close().unwrap();
    });
    let media = image.media();
    let tree = (0..media.len()).step_by(4096).map(|page| page + 2048).find(|&at| media.read_vec(at, 8) == b"EVRBCDDS");
    let tree = tree.expect("a tree's header");
    let commit = media.load(tree + 64);
    let state = tree + 128 + (commit & 1) * 64;
    let root = media.load(state + 8);
    // An inner node of one entry: header, 16 heads, 16 slots of which the first leads to the leaf.
    let leaf = media.load(root + 192 + 24);
    let size = |node| media.load(node + 8) & 0xffff_ffff;
    let mut text = String::new();
    dump(&mut text, &media, "header, commit word, closed word, the two states", tree, 256);
    dump(&mut text, &media, "the root, an inner node", root, size(root));
    dump(&mut text, &media, "its only leaf", leaf, size(leaf));
    let path = format!("{}/../../docs/formats/tree.md", env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once("```text\n").expect("the page has an example");
    let (example, after) = rest.split_once("```").expect("the example ends");
    if std::env::var_os("EVERBYTE_REWRITE").is_some() {
        std::fs::write(&path, format!("{before}```text\n{text}```{after}")).unwrap();
    } else {
        assert_eq!(example, text, "{path}; EVERBYTE_REWRITE=1 writes it anew");
    }
}
