//! docs/formats/media.md shows the bytes of a small store, which this program writes.

use everbyte_media::{BackendChoice, Geometry, OpenOptions, Options};
use std::fmt::Write;

/// Sixteen bytes a line, offsets as on the page; lines of zeros are left out.
fn dump(bytes: &[u8], from: usize, to: usize) -> String {
    let mut text = String::new();
    for (at, line) in (from..to).step_by(16).zip(bytes[from..to].chunks(16)) {
        if line.iter().any(|&byte| byte != 0) {
            let words: Vec<String> =
                line.chunks(4).map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
            writeln!(text, "{at:05x}  {}", words.join(" ")).unwrap();
        }
    }
    text
}

#[test]
fn the_worked_example_of_the_media_format_shows_the_written_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = Options { backend: BackendChoice::File, background: false, ..Options::default() };
    let geometry = Geometry { max: 1 << 20, len: 64 << 10, log_at: 16 << 10, log_len: 16 << 10 };
    let media = OpenOptions::new(&path).create(geometry, &options).unwrap();
    media.store(0x8000, 42);
    media.store(0x8048, 43);
    media.flush(0x8000, 0x50);
    media.extend(0x10000, 0x1000).unwrap();
    media.barrier().unwrap();
    media.abandon();
    let bytes = std::fs::read(&path).unwrap();
    let shown = [(0x2000, 0x2200), (0x3000, 0x3200), (0x4000, 0x4400), (0x10000, 0x12000)]
        .map(|(from, to)| dump(&bytes, from, to));
    let shown = shown.join("\n");
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/media.md")).unwrap();
    for part in shown.split("\n\n") {
        assert!(page.contains(part.trim_end()), "docs/formats/media.md should show\n{shown}");
    }
}
