//! The structures of a volume on media, decoded for people and tools. Reads a damaged volume as far
//! as it leads anywhere; changes nothing.

use crate::extents::{Pages, slot_at};
use crate::layout::{
    EXTENT, EntryHead, GROUP_INODES, HEAD_AT, HEAD_COPY_AT, Head, INLINE_EXTENTS, INODE, Inode, LINE, LIST_EXTENTS,
    NAME_AT, NAME_FIRST, OPENED_AT, PAGE, PAGE_LINES, Place, QUOTAS_AT, Run, SAVED_AT, SIZE_AT, SNAPSHOTS_AT,
    STATE_INLINE, SUMS_AT, State, TABLE_AT, TABLE_WORDS, inode, number,
};
use crate::quota::list;
use crate::{FileKind, Ino, QuotaLimit};
use everbyte_media::Checked;
use everbyte_media::sealed::unseal_low;
use everbyte_store::Object;

/// The part of a volume that is dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// Both copies of the head, the words of the prime page, the inode table.
    Volume,
    /// An inode with its slots, and the lines of a directory.
    Inode(Ino),
    /// A page, word by word.
    Page(u64),
}

/// One field on media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpLine {
    /// Its offset in the store.
    pub at: u64,
    /// The structure and the field.
    pub field: String,
    /// Its value as text.
    pub value: String,
    /// Whether its check or its range is right, as far as it has one.
    pub is_whole: bool,
}

/// Decodes a part of the volume in an object.
pub fn dump(object: &Object, of: Dump) -> Vec<DumpLine> {
    let mut lines = Lines { pages: Pages::of(object), all: Vec::new() };
    match of {
        Dump::Volume => lines.volume(),
        Dump::Inode(ino) => lines.inode(ino),
        Dump::Page(page) => lines.page(page),
    }
    lines.all
}

struct Lines<'m> {
    pages: Pages<'m>,
    all: Vec<DumpLine>,
}

impl Lines<'_> {
    fn add(&mut self, at: u64, field: impl Into<String>, value: impl ToString, is_whole: bool) {
        self.all.push(DumpLine { at, field: field.into(), value: value.to_string(), is_whole });
    }

    fn at(&self, page: u64) -> u64 {
        self.pages.start + page * PAGE
    }

    /// A word that is a place or 0; returns the page.
    fn place(&mut self, at: u64, field: impl Into<String>) -> Option<u64> {
        let word = self.pages.media.load(at);
        let (value, found) = place_text(word);
        let found = found.filter(|page| *page < self.pages.end);
        self.add(at, field, value, word == 0 || found.is_some());
        found
    }

    fn volume(&mut self) {
        for (name, at) in [("head", HEAD_AT), ("copy of the head", HEAD_COPY_AT)] {
            let at = self.pages.start + at;
            let head: Head = self.pages.media.get(at);
            let is_whole = head.checksum_agrees();
            let label = String::from_utf8_lossy(&head.label).trim_end_matches('\0').to_string();
            self.add(at, format!("{name}: magic"), String::from_utf8_lossy(&head.magic).escape_debug(), is_whole);
            self.add(at + 12, format!("{name}: format"), head.format, is_whole);
            self.add(at + 16, format!("{name}: uuid"), format!("{:032x}", u128::from_be_bytes(head.uuid)), is_whole);
            self.add(at + 32, format!("{name}: label"), label, is_whole);
            self.add(at + 96, format!("{name}: created"), head.created, is_whole);
            self.add(at + 104, format!("{name}: lanes"), head.lanes, is_whole);
            self.add(at + 108, format!("{name}: page size"), head.page_size, is_whole);
        }
        let start = self.pages.start;
        let root = self.place(start + TABLE_AT, "inode table");
        self.place(start + SAVED_AT, "saved state");
        let opened = self.pages.media.load(start + OPENED_AT);
        self.add(start + OPENED_AT, "openings", opened, true);
        self.number(start + SNAPSHOTS_AT, "directory of snapshots");
        let quotas = self.place(start + QUOTAS_AT, "list of quotas");
        self.place(start + SUMS_AT, "table of checksums");
        self.number(start + SIZE_AT, "size in pages");
        quotas.into_iter().for_each(|page| self.quotas(page));
        for index in 0..root.map_or(0, |_| TABLE_WORDS) {
            let at = self.at(root.unwrap_or(0)) + 8 * index;
            if self.pages.media.load(at) == 0 {
                continue;
            }
            let Some(page) = self.place(at, format!("inode table: page {index}")) else { continue };
            for group in 0..TABLE_WORDS {
                let at = self.at(page) + 8 * group;
                if self.pages.media.load(at) != 0 {
                    let first = (index * TABLE_WORDS + group) * GROUP_INODES;
                    self.place(at, format!("inodes {first} to {}", first + GROUP_INODES - 1));
                }
            }
        }
    }

    /// The list of quotas, if its head is whole.
    fn quotas(&mut self, page: u64) {
        let Ok((page, _)) = list::run_at(self.pages, Place::page(page)) else {
            return self.add(self.at(page), "head of the list of quotas", "fails its check", false);
        };
        let (all, damaged) = list::records(self.pages, page);
        for ((kind, id), limits) in all {
            let text = |limit: QuotaLimit| format!("soft {} hard {}", limit.soft, limit.hard);
            let value = format!("bytes {}, inodes {}", text(limits.bytes), text(limits.inodes));
            self.add(self.at(page), format!("limits of {kind} {id}"), value, true);
        }
        damaged.into_iter().for_each(|at| self.add(at, "limits", "the record fails its check", false));
    }

    /// A sealed number, or 0.
    fn number(&mut self, at: u64, field: impl Into<String>) {
        let word = self.pages.media.load(at);
        let ino = unseal_low(word);
        self.add(at, field, ino.map_or(format!("{word:#x}"), |ino| ino.to_string()), word == 0 || ino.is_some());
    }

    /// The offset of an inode, by the words of the table as they are.
    fn inode_at(&self, ino: Ino) -> Option<u64> {
        let to = |at: u64| {
            let page = Place::raw_page(self.pages.media.load(at));
            (page > 0 && page < self.pages.end).then(|| self.at(page))
        };
        let group = ino.0 / GROUP_INODES;
        let page = to(to(self.pages.start + TABLE_AT)? + 8 * (group / TABLE_WORDS % TABLE_WORDS))?;
        let at = to(page + 8 * (group % TABLE_WORDS))? + ino.0 % GROUP_INODES * INODE;
        self.pages.media.holds(at, INODE).then_some(at)
    }

    fn inode(&mut self, ino: Ino) {
        let Some(at) = self.inode_at(ino) else {
            return self.add(
                self.pages.start + TABLE_AT,
                format!("inode {ino}"),
                "the table does not lead there",
                false,
            );
        };
        let found: Inode = self.pages.media.get(at);
        let state = State::of(found.state);
        let kind = FileKind::of_mode(state.mode);
        let text = format!("mode {:06o}, flags {:#x}, generation {}", state.mode, state.flags, state.generation);
        let is_whole = State::checked(found.state).is_some();
        self.add(at, "state", text, is_whole && (state.mode == 0 || kind.is_some()));
        let words = [("links", found.links), ("size", found.size)];
        words.into_iter().zip([inode::LINKS, inode::SIZE]).for_each(|((name, word), offset)| {
            let is_whole = state.mode == 0 || unseal_low(word).is_some(); // of a free inode undefined
            self.add(at + offset, name, number(word), is_whole);
        });
        let times = [("modified", found.modified), ("changed", found.changed), ("accessed", found.accessed)];
        times.into_iter().zip([inode::MODIFIED, inode::CHANGED, inode::ACCESSED]).for_each(
            |((name, value), offset)| {
                self.add(at + offset, name, value, true);
            },
        );
        self.place(at + inode::LIST, "chain");
        self.place(at + inode::ATTRIBUTES, "extended attributes");
        let owner = format!(
            "user {}, group {}, project {}, born {}, device {:#x}, parent {}, snapshot {}, taken {}",
            found.uid, found.gid, found.project, found.born, found.device, found.parent, found.snapshot, found.taken
        );
        self.add(at + inode::OWNER, "owner", owner, found.checksum == found.owner_sum());
        if state.flags & STATE_INLINE != 0 {
            let size = found.file_size();
            let bytes = &found.inline[..size.min(found.inline.len() as u64) as usize];
            return self.add(at + inode::INLINE, "bytes", bytes.escape_ascii(), size <= bytes.len() as u64);
        }
        let runs = self.slots(at);
        if kind == Some(FileKind::Directory) {
            runs.into_iter().for_each(|page| self.lines(page));
        }
    }

    /// The slots of an inode; returns the pages that they lead to.
    fn slots(&mut self, at: u64) -> Vec<u64> {
        let (mut chain, mut link) = (Vec::new(), at + inode::LIST);
        while let Some(page) = Place::of(self.pages.media.load(link)).map(|place| place.page)
            && page < self.pages.end
            && !chain.contains(&page)
        {
            chain.push(page);
            link = self.at(page);
        }
        let mut pages = Vec::new();
        for slot in 0..INLINE_EXTENTS + chain.len() as u32 * LIST_EXTENTS {
            let slot_at = slot_at(self.pages.start, at, |index| chain[index as usize], slot);
            let [run, place] = [self.pages.media.load(slot_at), self.pages.media.load(slot_at + EXTENT / 2)];
            if [run, place] == [0, 0] {
                continue;
            }
            let found = Run::of(run);
            let run = found
                .map_or(format!("run {run:#x}"), |run| format!("pages {} to {}", run.first, run.first + run.len - 1));
            let (text, page) = place_text(place);
            let len = found.map_or(0, |run| run.len);
            let fits = page.filter(|page| page + len <= self.pages.end);
            self.add(slot_at, format!("slot {slot}"), format!("{run} at {text}"), found.is_some() && fits.is_some());
            pages.extend(fits.into_iter().flat_map(|page| page..page + len));
        }
        pages
    }

    /// The lines of a page of a directory that begin an entry.
    fn lines(&mut self, page: u64) {
        for line in 0..u64::from(PAGE_LINES) {
            let at = self.at(page) + line * LINE;
            let word = self.pages.media.load(at);
            if word == 0 {
                continue;
            }
            let head = EntryHead::of(self.pages.media.load(at + 8));
            let len = usize::from(head.len);
            let name = self.pages.media.read_vec(at + NAME_AT, len.min(NAME_FIRST));
            let ino = unseal_low(word);
            let is_whole = ino.is_some() && (len > NAME_FIRST || head == EntryHead::new(&name, head.kind));
            let ino = ino.map_or(format!("{word:#x}"), |ino| ino.to_string());
            let more = if len > NAME_FIRST { format!(".. ({len} bytes)") } else { String::new() };
            self.add(at, format!("line {line}"), format!("inode {ino}, `{}`{more}", name.escape_ascii()), is_whole);
        }
    }

    fn page(&mut self, page: u64) {
        if page >= self.pages.end {
            return self.add(self.pages.start, format!("page {page}"), "the volume has no such page", false);
        }
        for index in 0..PAGE / 8 {
            let at = self.at(page) + 8 * index;
            let word = self.pages.media.load(at);
            if word != 0 {
                let place = Place::of(word).map(|_| place_text(word).0);
                let value = place.map_or(String::new(), |place| format!(" ({place})"));
                self.add(at, format!("word {index}"), format!("{word:#018x}{value}"), true);
            }
        }
    }
}

/// A place as text, and the page that it leads to.
fn place_text(word: u64) -> (String, Option<u64>) {
    match (word, Place::of(word)) {
        (0, _) => ("none".into(), None),
        (_, Some(Place { page, flags: 0, .. })) => (format!("page {page}"), Some(page)),
        (_, Some(Place { page, flags, .. })) => (format!("page {page}, flags {flags}"), Some(page)),
        (word, None) => (format!("{word:#x}"), None),
    }
}
