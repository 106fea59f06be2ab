//! [`Draft`]: the words that a repair would change, over the words on media, and the pages that
//! have an owner.

use crate::extents::Pages;
use crate::layout::{Inode, PAGE, Place, inode, number};
use crate::{FileKind, Ino};
use everbyte_media::Damage;
use everbyte_media::sealed::seal_low;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use zerocopy::{FromZeros, IntoBytes};

/// A line of the report: the inode that it is about (0: the volume), its place, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub ino: Ino,
    pub at: u64,
    pub detail: String,
}

/// A live inode after its own damage is repaired.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub at: u64,
    pub kind: FileKind,
    /// The root of the snapshot that it belongs to; 0: none.
    pub snapshot: u64,
    /// Pages of the chain of extents.
    pub chain: Vec<u64>,
    /// Of a directory: its pages, in order.
    pub pages: Vec<u64>,
}

/// A volume with the words that a repair would change.
pub(super) struct Draft<'m> {
    pub pages: Pages<'m>,
    /// Words by their offset in the store.
    words: BTreeMap<u64, u64>,
    /// Pages that nothing leads to before the repair, and whose words are all in the draft.
    fresh: BTreeSet<u64>,
    /// Pages with an owner, and whether other owners with the flag of shared pages may have them.
    owned: HashMap<u64, bool>,
    /// No page before this one is taken: the end of the volume until all owners are known.
    next: u64,
    pub notes: Vec<Note>,
    /// Offsets of the pages of the inode table and of the table of checksums: their words change
    /// alone.
    pub tables: Vec<u64>,
}

impl<'m> Draft<'m> {
    /// No changes. The pages before `fixed` have owners.
    pub(super) fn new(pages: Pages<'m>, fixed: u64) -> Draft<'m> {
        let owned = (0..fixed).map(|page| (page, false)).collect();
        let next = pages.end;
        Draft {
            pages,
            words: BTreeMap::new(),
            fresh: BTreeSet::new(),
            owned,
            next,
            notes: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// A line of the report.
    pub(super) fn note(&mut self, ino: Ino, at: u64, detail: impl Into<String>) {
        self.notes.push(Note { ino, at, detail: detail.into() });
    }

    /// The word at `at` as it will be.
    pub(super) fn load(&self, at: u64) -> u64 {
        self.words.get(&at).copied().unwrap_or_else(|| self.pages.media.load(at))
    }

    /// The word at `at` becomes `value`.
    pub(super) fn set(&mut self, at: u64, value: u64) {
        self.words.insert(at, value);
    }

    /// The number of the sealed word at `at`, whether or not its check agrees.
    pub(super) fn number(&self, at: u64) -> u64 {
        number(self.load(at))
    }

    /// The word at `at` becomes the sealed word of `number`.
    pub(super) fn set_number(&mut self, at: u64, number: u64) {
        self.set(at, seal_low(number));
    }

    /// The bytes of `len` words at `at`, as they will be.
    pub(super) fn bytes(&self, at: u64, words: u64) -> Vec<u8> {
        (0..words).flat_map(|index| self.load(at + 8 * index).to_le_bytes()).collect()
    }

    /// An inode as it will be.
    pub(super) fn inode(&self, at: u64) -> Inode {
        let mut found = Inode::new_zeroed();
        found.as_mut_bytes().copy_from_slice(&self.bytes(at, size_of::<Inode>() as u64 / 8));
        found
    }

    /// Stores the owner's line of an inode, with its checksum.
    pub(super) fn set_owner(&mut self, at: u64, mut owner: Inode) {
        owner.checksum = owner.owner_sum();
        let line = &owner.as_bytes()[inode::OWNER as usize..inode::INLINE as usize];
        for (index, word) in line.as_chunks::<8>().0.iter().enumerate() {
            self.set(at + inode::OWNER + 8 * index as u64, u64::from_le_bytes(*word));
        }
    }

    /// Offset of a page in the store.
    pub(super) fn at(&self, page: u64) -> u64 {
        self.pages.start + page * PAGE
    }

    /// Whether a page has an owner.
    pub(super) fn is_owned(&self, page: u64) -> bool {
        self.owned.contains_key(&page)
    }

    /// Gives pages an owner. Returns those of them, in order, that it cannot have: others have
    /// them, and not all of these owners share.
    pub(super) fn own(&mut self, first: u64, count: u64, is_shared: bool) -> Vec<u64> {
        let refused: Vec<u64> = (first..first + count)
            .filter(|page| self.owned.get(page).is_some_and(|&shared| !(shared && is_shared)))
            .collect();
        for page in (first..first + count).filter(|page| refused.binary_search(page).is_err()) {
            self.owned.insert(page, is_shared);
        }
        refused
    }

    /// All owners of pages are known: other pages may be taken.
    pub(super) fn set_owners_known(&mut self) {
        self.next = 0;
    }

    /// Takes `count` adjacent pages without an owner, as zeros; they may lie behind the end of the
    /// volume, which grows then.
    pub(super) fn take(&mut self, count: u64) -> u64 {
        let mut first = self.next;
        while let Some(owned) = (first..first + count).rev().find(|&page| self.is_owned(page)) {
            first = owned + 1;
        }
        for page in first..first + count {
            self.owned.insert(page, false);
            self.fresh.insert(page);
            (0..PAGE / 8).for_each(|index| _ = self.words.insert(self.pages.start + page * PAGE + 8 * index, 0));
        }
        if count == 1 {
            self.next = first + 1;
        }
        first
    }

    /// The place of a word, or of a word that differs from it in one bit, if only one such place is
    /// possible. Returns the word, too.
    pub(super) fn place(&self, at: u64, count: u64, flags: &[u8]) -> Result<(Place, u64), Damage> {
        let word = self.load(at);
        let place = |word: u64| {
            let place = self.pages.place(at, word, count).ok()?;
            flags.contains(&place.flags).then_some((place, word))
        };
        match place(word) {
            Some(found) => Ok(found),
            None => one_flip(word, place).ok_or_else(|| Damage::at(at, "the place fails its check, or lies outside")),
        }
    }

    /// The words that change, without those of fresh pages.
    pub(super) fn changed(&self) -> Vec<(u64, u64)> {
        let is_kept = |&(at, value): &(u64, u64)| {
            !self.fresh.contains(&((at - self.pages.start) / PAGE)) && self.pages.media.load(at) != value
        };
        self.words.iter().map(|(&at, &value)| (at, value)).filter(is_kept).collect()
    }

    /// The fresh pages with their bytes.
    pub(super) fn fresh(&self) -> Vec<(u64, Vec<u8>)> {
        self.fresh.iter().map(|&page| (page, self.bytes(self.at(page), PAGE / 8))).collect()
    }

    /// Pages that a repair needs, counted from the start of the volume.
    pub(super) fn needed(&self) -> u64 {
        self.fresh.last().map_or(0, |last| last + 1)
    }
}

/// The meaning of the only word that differs from `word` in one bit and has one.
pub(super) fn one_flip<T>(word: u64, meaning: impl Fn(u64) -> Option<T>) -> Option<T> {
    let mut found = (0..64).filter_map(|bit| meaning(word ^ 1 << bit));
    let first = found.next();
    found.next().is_none().then_some(first).flatten()
}
