//! The worked examples of docs/formats/object.md equal the bytes that this program writes.

use crate::common::{Node, append};
use everbyte_media::Media;
use everbyte_object::layout::{HEADER, Header};
use everbyte_object::{Journal, MemPool, PBTreeMap, PHashMap, PSafe, Pool, PoolOptions, pool};
use everbyte_sim::Image;
use everbyte_store::{FormatOptions, Store};
use std::fmt::Write;

pool!(P);

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

/// The pool `all` of a store, and the offset of its header.
fn pool<R: PSafe<P>>(
    init: impl for<'tx> FnOnce(&'tx Journal<<P as MemPool>::At<'tx>>) -> R::At<'tx>,
) -> (Media, u64, Header) {
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some(*b"worked example 1") };
        let store = Store::format(media, &format).unwrap();
        let options = PoolOptions { span: Some((1 << 20).into()), lanes: Some(2) };
        drop(P::create_with::<R>(&store, "all", &options, init).unwrap());
        store.close().unwrap();
    });
    let (media, prime) = (image.media(), 0x10_0000);
    let header = media.get(prime + HEADER);
    (media, prime, header)
}

/// Compares `text` with the page's example of this number.
fn compare(number: usize, text: &str) {
    let path = format!("{}/../../docs/formats/object.md", env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(&path).unwrap();
    let (start, _) = document.match_indices("```text\n").nth(number).expect("the page has an example");
    let (before, rest) = document.split_at(start + "```text\n".len());
    let (example, after) = rest.split_once("```").expect("the example ends");
    if std::env::var_os("EVERBYTE_REWRITE").is_some() {
        std::fs::write(&path, format!("{before}{text}```{after}")).unwrap();
    } else {
        assert_eq!(example, text, "{path}; EVERBYTE_REWRITE=1 writes it anew");
    }
}

/// One after the other: a pool type has one pool open at a time.
#[test]
fn the_worked_examples_are_what_is_written() {
    list();
    maps();
}

fn list() {
    let (media, prime, header) = pool::<Node<i32, P>>(|j| {
        let head = Node::new(7);
        append(&head, 8, j);
        head
    });
    let mut text = String::new();
    dump(&mut text, &media, "header", prime + HEADER, 128);
    dump(&mut text, &media, "root", prime + header.root.get(), 16);
    dump(&mut text, &media, "the node behind it", prime + media.load(prime + header.root.get() + 8), 16);
    dump(&mut text, &media, "description", prime + header.schema.get(), header.schema_len.get());
    compare(0, &text);
}

fn maps() {
    type Maps<P> = (PHashMap<u64, u64, P>, PBTreeMap<u16, u16, P>);
    let (media, prime, header) = pool::<Maps<P>>(|j| {
        (PHashMap::from_iter([(7, 1)], j), PBTreeMap::from_iter((0..32).map(|number| (number, number)), j))
    });
    let [hash, ordered] = [0, 48].map(|map| prime + header.root.get() + map);
    let (table, root) = (prime + media.load(hash), prime + media.load(ordered));
    let mut text = String::new();
    dump(&mut text, &media, "hash map", hash, 48);
    dump(&mut text, &media, "ordered map", ordered, 16);
    dump(&mut text, &media, "the hash map's block", table, 16 + 8 * 16);
    dump(&mut text, &media, "the ordered map's root: head and entries", root, 16);
    dump(&mut text, &media, "the ordered map's root: edges", root + 8 + 31 * 4 + 4, 16);
    dump(&mut text, &media, "the second leaf", prime + media.load(root + 8 + 31 * 4 + 4 + 8), 16);
    compare(1, &text);
}
