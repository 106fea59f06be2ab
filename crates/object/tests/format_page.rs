//! The worked example of docs/formats/object.md is what this program writes, byte for byte.

mod common;

use common::{Node, append};
use everbyte_media::Media;
use everbyte_object::layout::{HEADER, Header};
use everbyte_object::{Pool, PoolOptions, pool};
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
    pool!(P);
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some(*b"worked example 1") };
        let store = Store::format(media, &format).unwrap();
        let options = PoolOptions { span: Some(1 << 20), lanes: Some(2) };
        let list = P::create_with::<Node<i32, P>>(&store, "list", &options, |j| {
            let head = Node::new(7);
            append(&head, 8, j);
            head
        });
        drop(list.unwrap());
        store.close().unwrap();
    });
    let media = image.media();
    let prime = 0x10_0000;
    let header: Header = media.get(prime + HEADER);
    let mut text = String::new();
    dump(&mut text, &media, "header", prime + HEADER, 128);
    dump(&mut text, &media, "root", prime + header.root, 16);
    dump(&mut text, &media, "the node behind it", prime + media.load(prime + header.root + 8), 16);
    dump(&mut text, &media, "description", prime + header.schema, header.schema_len);
    let path = format!("{}/../../docs/formats/object.md", env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once("```text\n").expect("the page has an example");
    let (example, after) = rest.split_once("```").expect("the example ends");
    if std::env::var_os("EVERBYTE_REWRITE").is_some() {
        std::fs::write(&path, format!("{before}```text\n{text}```{after}")).unwrap();
    } else {
        assert_eq!(example, text, "{path}; EVERBYTE_REWRITE=1 writes it anew");
    }
}
