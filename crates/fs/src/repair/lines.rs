//! Repair of the lines of directories, and the making of entries.

use super::draft::{Draft, File, one_flip};
use super::inodes::add_page;
use crate::layout::{EntryHead, LINE, NAME_AT, NAME_FIRST, NAME_FURTHER, PAGE, PAGE_LINES, lines};
use crate::names::require_name;
use crate::{FileKind, Ino};
use everbyte_media::sealed::{seal_low, unseal_low};

/// An entry that is whole, or whose name can be read.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub at: u64,
    pub ino: Ino,
    pub kind: FileKind,
    pub name: Vec<u8>,
}

/// A line of a page.
enum Line {
    Entry(Found),
    /// Its head is not that of its name, or its number was corrected.
    Changed(Found),
    Damaged(u64),
}

/// The name of an entry as its lines have it.
fn name_at(draft: &Draft<'_>, at: u64, len: usize) -> Vec<u8> {
    let first = len.min(NAME_FIRST);
    let mut name = draft.bytes(at + NAME_AT, (LINE - NAME_AT) / 8)[..first].to_vec();
    let mut line = at + LINE;
    while name.len() < len {
        let part = (len - name.len()).min(NAME_FURTHER);
        name.extend(&draft.bytes(line + 8, (LINE - 8) / 8)[..part]);
        line += LINE;
    }
    name
}

/// Reads the lines of a page. `has` tells whether an inode is one of the volume.
fn read(draft: &Draft<'_>, page: u64, has: &dyn Fn(Ino) -> bool) -> Vec<Line> {
    let mut found = Vec::new();
    let mut index = 0;
    while index < PAGE_LINES {
        let at = draft.at(page) + u64::from(index) * LINE;
        let word = draft.load(at);
        if word == 0 {
            index += 1;
            continue;
        }
        let number = |word: u64| unseal_low(word).map(Ino);
        let ino = number(word).or_else(|| one_flip(word, |word| number(word).filter(|ino| has(*ino))));
        let head_word = draft.load(at + 8);
        let head = EntryHead::of(head_word);
        let (Some(ino), Some(kind)) = (ino, FileKind::of_byte(head.kind)) else {
            found.push(Line::Damaged(at));
            index += 1;
            continue;
        };
        if head.len == 0 || index + head.lines() > PAGE_LINES {
            found.push(Line::Damaged(at));
            index += 1;
            continue;
        }
        let name = name_at(draft, at, usize::from(head.len));
        if require_name(&name).is_err() {
            found.push(Line::Damaged(at));
            index += 1;
            continue;
        }
        let is_whole = word == seal_low(ino.0) && head_word == EntryHead::new(&name, head.kind).word();
        let entry = Found { at, ino, kind, name };
        found.push(if is_whole { Line::Entry(entry) } else { Line::Changed(entry) });
        index += head.lines();
    }
    found
}

/// The types of files as the whole entries of a page have them.
pub(super) fn kinds(draft: &Draft<'_>, page: u64) -> Vec<(Ino, FileKind)> {
    let kind = |line: Line| match line {
        Line::Entry(found) => Some((found.ino, found.kind)),
        _ => None,
    };
    read(draft, page, &|_| false).into_iter().filter_map(kind).collect()
}

/// A name as text.
pub(super) fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}

/// Repairs the lines of a directory; returns its entries. A damaged line is cleared; an entry whose
/// name fails its check keeps the name that can be read.
pub(super) fn mend(draft: &mut Draft<'_>, ino: Ino, file: &File, has: &dyn Fn(Ino) -> bool) -> Vec<Found> {
    let mut entries = Vec::new();
    for &page in &file.pages {
        for line in read(draft, page, has) {
            match line {
                Line::Entry(found) => entries.push(found),
                Line::Changed(found) => {
                    let name = text(&found.name);
                    draft.note(
                        ino,
                        found.at,
                        format!(
                            "an entry of directory {ino} fails its check: it keeps the name `{name}` and inode {}",
                            found.ino
                        ),
                    );
                    draft.set(found.at, seal_low(found.ino.0));
                    draft.set(found.at + 8, EntryHead::new(&found.name, found.kind.byte()).word());
                    entries.push(found);
                }
                Line::Damaged(at) => {
                    let bytes = name_at(draft, at, usize::from(EntryHead::of(draft.load(at + 8)).len).min(NAME_FIRST));
                    draft.note(
                        ino,
                        at,
                        format!("a line of directory {ino} is damaged and free now; its name read `{}`", text(&bytes)),
                    );
                    draft.set(at, 0);
                }
            }
        }
    }
    entries
}

/// Adds an entry to a directory; returns the offset of its first line.
pub(super) fn add(draft: &mut Draft<'_>, directory: &mut File, name: &[u8], ino: Ino, kind: FileKind) -> u64 {
    let count = lines(name.len());
    let free = directory.pages.iter().find_map(|&page| free_lines(draft, page, count));
    let at = free.unwrap_or_else(|| {
        let page = add_page(draft, directory);
        draft.at(page)
    });
    let mut rest = name;
    for line in 0..u64::from(count) {
        let (from, room) = if line == 0 { (NAME_AT, NAME_FIRST) } else { (8, NAME_FURTHER) };
        let (part, further) = rest.split_at(rest.len().min(room));
        let mut bytes = [0; LINE as usize];
        bytes[from as usize..from as usize + part.len()].copy_from_slice(part);
        for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            draft.set(at + line * LINE + 8 * index as u64, u64::from_le_bytes(*word));
        }
        rest = further;
    }
    draft.set(at + 8, EntryHead::new(name, kind.byte()).word());
    draft.set(at, seal_low(ino.0));
    at
}

/// Adjacent free lines of a page: the offset of the first.
fn free_lines(draft: &Draft<'_>, page: u64, count: u32) -> Option<u64> {
    let mut used = [false; PAGE_LINES as usize];
    for line in read(draft, page, &|_| false) {
        let (at, len) = match line {
            Line::Entry(found) | Line::Changed(found) => (found.at, lines(found.name.len())),
            Line::Damaged(at) => (at, 1),
        };
        let first = (at % PAGE / LINE) as usize;
        used[first..first + len as usize].fill(true);
    }
    let first = used.windows(count as usize).position(|window| !window.contains(&true))?;
    Some(draft.at(page) + first as u64 * LINE)
}
