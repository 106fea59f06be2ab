//! Worked examples of format pages: the bytes that a page shows are the bytes that are written.

use everbyte_media::Media;
use std::fmt::Write;

/// Parts of media as format pages show them: each under its name, sixteen bytes a line, lines of
/// zeros left out. A part is a name, an offset and a length.
///
/// # Panics
/// If a part is not backed.
pub fn dump(media: &Media, parts: &[(&str, u64, u64)]) -> String {
    let mut text = String::new();
    for &(name, at, len) in parts {
        writeln!(text, "{name}").expect("a string takes any text");
        for line in (at..at + len).step_by(16) {
            let bytes = media.read_vec(line, 16);
            if bytes.iter().any(|&byte| byte != 0) {
                let hex = |half: &[u8]| half.iter().map(|byte| format!("{byte:02x} ")).collect::<String>();
                let shown = |&byte: &u8| if byte.is_ascii_graphic() { byte as char } else { '.' };
                let ascii: String = bytes.iter().map(shown).collect();
                let (one, two) = (hex(&bytes[..8]), hex(&bytes[8..]));
                writeln!(text, "{line:06x}  {one} {two}{ascii}").expect("a string takes any text");
            }
        }
    }
    text
}

/// Compares `text` with the example of the page at `path`, from the crate's root: what stands
/// between "```text" and the next "```". `EVERBYTE_REWRITE=1` writes it anew.
///
/// # Panics
/// If they differ, or there is no such page or example.
#[track_caller]
pub fn assert_page(path: &str, text: &str) {
    let page = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let parts = page.split_once("```text\n").and_then(|(before, rest)| {
        let (example, after) = rest.split_once("```")?;
        Some((before, example, after))
    });
    let Some((before, example, after)) = parts else { panic!("{path} has no example between ```text and ```") };
    if std::env::var_os("EVERBYTE_REWRITE").is_some() {
        std::fs::write(path, format!("{before}```text\n{text}```{after}")).expect("the page can be written");
    } else {
        assert!(example == text, "{path} should show\n{text}\nEVERBYTE_REWRITE=1 writes it anew");
    }
}
