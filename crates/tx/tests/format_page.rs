//! The worked examples of docs/formats/heap.md and docs/formats/lane.md are what this program writes, byte for byte.

use everbyte_media::Media;
use everbyte_sim::Image;
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::{Error, Undo};
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
fn the_worked_examples_are_what_is_written() {
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some(*b"worked example 1") };
        let store = Store::format(media, &format).unwrap();
        let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(1 << 20) };
        let undo = Undo::open(store.create_object("x", options, |object| Undo::format_with(object, 2, 4096)).unwrap());
        let undo = undo.unwrap();
        let root = undo.heap().object().root_at();
        undo.run(|tx| {
            let (first, second) = (tx.allocate(100)?, tx.allocate(100)?);
            tx.store(first.at, second.at)?;
            tx.store(first.at + 8, tx.allocate(70_000)?.at)?;
            tx.store(root, first.at)?;
            Ok::<_, Error>(())
        })
        .unwrap();
        store.close().unwrap();
    });
    let media = image.media();
    let prime = 0x10_0000;
    for (page, parts) in [
        (
            "heap",
            vec![
                ("header and the words after it", prime + 512, 1536),
                ("log, slot 0", prime + 4096, 64),
                ("records of clusters 0 to 3", prime + 8192, 2048),
            ],
        ),
        ("lane", vec![("lane table", prime + 2048, 128)]),
    ] {
        let mut text = String::new();
        parts.into_iter().for_each(|(name, at, len)| dump(&mut text, &media, name, at, len));
        let path = format!("{}/../../docs/formats/{page}.md", env!("CARGO_MANIFEST_DIR"));
        let document = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = document.split_once("```text\n").expect("the page has an example");
        let (example, after) = rest.split_once("```").expect("the example ends");
        if std::env::var_os("EVERBYTE_REWRITE").is_some() {
            std::fs::write(&path, format!("{before}```text\n{text}```{after}")).unwrap();
        } else {
            assert_eq!(example, text, "{path}; EVERBYTE_REWRITE=1 writes it anew");
        }
    }
}
