//! Golden persistence traces: the stores, flushes, fences and barriers of a path, as text kept in
//! `testdata/`.
//!
//! A fence gained or lost is then a reviewed line. Stores that continue one another are one line; a
//! barrier stands for its own fence. `EVERBYTE_REWRITE=1` writes the files anew, keeping their
//! leading comment.

use crate::Image;
use crate::tape::{Event, Recording, Settling};
use everbyte_media::{LINE, Media};
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;

/// Records one path with names for its places.
///
/// ```
/// use everbyte_sim::{Image, Tracer};
/// let text = Tracer::new(&Image::zeroed(4096)).label("log", 0x400..0x800).label("log.tail", 0x40..0x48).run(|media| {
///     media.write(0x440, &[1; 80]);
///     media.flush(0x440, 80);
///     media.fence();
///     media.store(0x40, 80);
///     media.flush(0x40, 8);
///     media.barrier().unwrap();
/// });
/// assert_eq!(text, "store log+0x40 80\nflush log+0x40 2 lines\nfence\n\
///                   store log.tail 8\nflush log.tail 1 line\nbarrier\n");
/// ```
#[derive(Clone, Debug)]
pub struct Tracer {
    image: Image,
    labels: Vec<(String, Range<u64>)>,
}

impl Tracer {
    /// A tracer of programs that start from `image`.
    pub fn new(image: &Image) -> Tracer {
        Tracer { image: image.clone(), labels: Vec::new() }
    }

    /// Names a range: places inside read `name+0x..`. The smallest of overlapping ranges counts.
    pub fn label(mut self, name: impl Into<String>, range: Range<u64>) -> Tracer {
        self.labels.push((name.into(), range));
        self
    }

    /// Runs `program` and writes down what it did to its media.
    pub fn run(&self, program: impl FnOnce(Media)) -> String {
        self.run_after(|_| (), |media, ()| program(media))
    }

    /// Like [`Tracer::run`], after a preparation that is not written down (opening, filling).
    pub fn run_after<T>(&self, prepare: impl FnOnce(Media) -> T, program: impl FnOnce(Media, T)) -> String {
        let (media, tape) = self.image.open(Settling::Barrier);
        let prepared = prepare(media.clone());
        tape.start(media.len());
        program(media, prepared);
        self.text(&tape.take())
    }

    fn place(&self, at: u64) -> String {
        let holding = self.labels.iter().filter(|(_, range)| range.contains(&at));
        match holding.min_by_key(|(_, range)| range.end - range.start) {
            Some((name, range)) if at == range.start => name.clone(),
            Some((name, range)) => format!("{name}+{:#x}", at - range.start),
            None => format!("{at:#x}"),
        }
    }

    fn flush_place(&self, at: u64, len: u64) -> String {
        // A flush covers whole lines; it reads better with the name of the first named place in its
        // first line.
        let inside = |at: &u64| self.labels.iter().any(|(_, range)| range.contains(at));
        let first = (at..(at + len.min(LINE))).find(inside).filter(|_| !inside(&at));
        self.place(first.unwrap_or(at))
    }

    fn text(&self, recording: &Recording) -> String {
        let mut text = String::new();
        let many = recording.events.iter().any(|event| thread(event).is_some_and(|thread| thread > 0));
        let mut events = recording.events.iter().peekable();
        while let Some(event) = events.next() {
            let before =
                if many { thread(event).map_or(String::new(), |t| format!("thread {t}: ")) } else { String::new() };
            let line = match event {
                Event::Store { at, len, .. } => {
                    let mut len = *len;
                    while let Some(Event::Store { at: more, len: more_len, thread: by, .. }) = events.peek() {
                        if *more != at + len || Some(*by) != thread(event) {
                            break;
                        }
                        len += more_len;
                        events.next();
                    }
                    format!("store {} {len}", self.place(*at))
                }
                Event::Flush { at, len, .. } => {
                    let lines = ((at + len).next_multiple_of(LINE) - (at & !(LINE - 1))) / LINE;
                    let plural = if lines == 1 { "" } else { "s" };
                    format!("flush {} {lines} line{plural}", self.flush_place(*at, *len))
                }
                Event::Fence { .. } if matches!(events.peek(), Some(Event::Barrier { .. })) => continue,
                Event::Fence { .. } => "fence".into(),
                Event::Barrier { .. } => "barrier".into(),
                Event::Allocate { at, len } => format!("allocate {} {len}", self.place(*at)),
                Event::Punch { at, len } => format!("punch {} {len}", self.place(*at)),
                Event::Begin(_) | Event::Acked(_) => continue,
            };
            writeln!(text, "{before}{line}").expect("a string takes it");
        }
        text
    }
}

fn thread(event: &Event) -> Option<u32> {
    match event {
        Event::Store { thread, .. } | Event::Flush { thread, .. } | Event::Fence { thread } => Some(*thread),
        _ => None,
    }
}

/// The trace of `program` on media of `len` zero bytes; see [`Tracer`] for names and other
/// beginnings.
pub fn trace(len: u64, program: impl FnOnce(Media)) -> String {
    Tracer::new(&Image::zeroed(len)).run(program)
}

/// Compares `text` with the file at `path` (relative to the package), comments (`#` to the end of
/// the line) aside.
///
/// With `EVERBYTE_REWRITE=1` in the environment the file is written instead; its leading comment
/// lines stay.
///
/// # Panics
/// If they differ, with both and the way to rewrite.
#[track_caller]
pub fn assert_golden(path: impl AsRef<Path>, text: &str) {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let path = Path::new(&root).join(path);
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    if plain(&old) == plain(text) {
        return;
    }
    if std::env::var_os("EVERBYTE_REWRITE").is_some_and(|value| value == "1") {
        let heading: String =
            old.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        std::fs::create_dir_all(path.parent().expect("a file lies in a directory"))
            .expect("make the testdata directory");
        std::fs::write(&path, heading + text).expect("write the golden file");
        return;
    }
    panic!(
        "{} differs; if the change is meant, run the test with EVERBYTE_REWRITE=1 and review the diff\n{}",
        path.display(),
        difference(&plain(&old), &plain(text)),
    );
}

fn plain(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim_end().to_string());
    lines.filter(|line| !line.is_empty()).collect()
}

/// Lines of both from the first difference on, until they meet again at the end.
fn difference(old: &[String], new: &[String]) -> String {
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let tail = old[start..].iter().rev().zip(new[start..].iter().rev()).take_while(|(old, new)| old == new).count();
    let mut text = format!("  ({start} equal lines)\n");
    old[start..old.len() - tail].iter().for_each(|line| text += &format!("- {line}\n"));
    new[start..new.len() - tail].iter().for_each(|line| text += &format!("+ {line}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_that_continue_are_one_line_and_comments_do_not_count() {
        let text = trace(8192, |media| {
            media.zero(0, 8192);
            media.store(64, 1);
            media.flush(64, 8);
            media.fence();
        });
        assert_eq!(plain(&text), plain("# a page\nstore 0x0 8192\nstore 0x40 8 # word\nflush 0x40 1 line\nfence"));
        assert_eq!(difference(&plain("a\nb\nc"), &plain("a\nx\nc")), "  (1 equal lines)\n- b\n+ x\n");
    }

    #[test]
    fn golden_files_are_compared_without_their_comments() {
        assert_golden(
            "testdata/two-fences.trace",
            &trace(4096, |media| {
                media.store(0, 1);
                media.flush(0, 8);
                media.fence();
                media.store(64, 1);
                media.flush(64, 8);
                media.barrier().unwrap();
            }),
        );
        let differs = std::panic::catch_unwind(|| assert_golden("testdata/two-fences.trace", "store 0x0 8\n"));
        let text = *differs.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("- flush 0x0 1 line") && text.contains("EVERBYTE_REWRITE=1"), "{text}");
    }
}
