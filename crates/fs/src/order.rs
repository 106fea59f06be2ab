//! Order as types: no word leads to new bytes that are not flushed, and none is published before a
//! fence.
//!
//! | state | its bytes | the next state |
//! |---|---|---|
//! | [`Blank`] | taken; undefined | a store and a flush |
//! | [`Fresh`] | stored and flushed | a fence, or [`Change::link`], whose commit fences first |
//! | `Ordered<Fresh<_>>` | ordered before later stores | [`publish`] |
//!
//! Pages of a file, inodes, entries and runs of attributes go through these states (FS-1). A proof
//! takes no memory and no instruction.
//!
//! A word that is logged leads to a page that is flushed:
//!
//! ```
//! use everbyte_fs::layout::Place;
//! use everbyte_fs::{Change, order::Fresh};
//! fn link(change: &mut Change<'_>, page: Fresh<Place>) {
//!     change.link(1024, &page);
//! }
//! ```
//!
//! and to no other one:
//!
//! ```compile_fail,E0308
//! use everbyte_fs::layout::Place;
//! use everbyte_fs::{Change, order::Blank};
//! fn link(change: &mut Change<'_>, page: Blank<Place>) {
//!     change.link(1024, &page);
//! }
//! ```
//!
//! nor does an inode become live whose bytes are not flushed:
//!
//! ```compile_fail,E0308
//! use everbyte_fs::{Change, order::{Blank, NewInode}};
//! fn make_live(change: &mut Change<'_>, inode: Blank<NewInode>) {
//!     change.make_live(&inode);
//! }
//! ```
//!
//! nor does an entry lead to an inode before its name is flushed:
//!
//! ```compile_fail,E0308
//! use everbyte_fs::{Change, order::{Blank, NewEntry}};
//! fn name(change: &mut Change<'_>, entry: Blank<NewEntry>) {
//!     change.name(&entry);
//! }
//! ```
//!
//! A word that is stored alone is published after the fence:
//!
//! ```
//! use everbyte_fs::{layout::Place, order::{Fresh, publish}};
//! use everbyte_media::Media;
//! fn link(media: &Media, page: Fresh<Place>) {
//!     publish(media, 1024, &media.fence_after(page));
//! }
//! ```
//!
//! and not before it:
//!
//! ```compile_fail,E0308
//! use everbyte_fs::{layout::Place, order::{Fresh, publish}};
//! use everbyte_media::Media;
//! fn link(media: &Media, page: Fresh<Place>) {
//!     publish(media, 1024, &page);
//! }
//! ```
//!
//! A fence alone does not make bytes fresh:
//!
//! ```compile_fail,E0308
//! use everbyte_fs::{layout::Place, order::{Blank, publish}};
//! use everbyte_media::Media;
//! fn link(media: &Media, page: Blank<Place>) {
//!     publish(media, 1024, &media.fence_after(page));
//! }
//! ```
//!
//! [`Change::link`]: crate::Change::link
//!
//! Threads: a proof holds for the thread that flushed; it is neither `Send` nor `Sync`.

use crate::layout::{INODE, Inode, LINE, PAGE, Place, RUN_LEN_MAX, State};
use crate::{FileKind, Ino};
use everbyte_media::sealed::seal_low;
use everbyte_media::{Flusher, Media, Ordered, PublishWord};
use std::marker::PhantomData;
use std::ops::Deref;

/// Pages, an inode or an entry that are taken; their bytes are undefined.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing leads to it"]
pub struct Blank<T>(T);

/// Bytes that the current thread has stored and flushed, and no fence has ordered yet.
#[derive(Clone, Debug)]
#[must_use = "nothing leads to it"]
pub struct Fresh<T> {
    value: T,
    of_this_thread: PhantomData<*const ()>,
}

/// A run of pages that a file is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewRun {
    /// The first page, counted from the start of the file.
    pub first: u64,
    /// Pages.
    pub len: u64,
    /// Their place in the volume.
    pub place: Place,
}

/// A value that one word leads to.
pub trait Linked {
    /// The word.
    fn word(&self) -> u64;
}

impl Linked for Place {
    fn word(&self) -> u64 {
        Place::word(*self)
    }
}

/// An inode that is not live yet.
#[derive(Clone, Copy, Debug)]
pub struct NewInode {
    pub(crate) ino: Ino,
    /// Offset in the store.
    pub(crate) at: u64,
    /// Its state when it is live.
    pub(crate) state: State,
}

impl Linked for NewInode {
    fn word(&self) -> u64 {
        seal_low(self.ino.0)
    }
}

/// An entry of a directory that no inode has yet.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry {
    /// Offset of its first line in the store.
    pub(crate) at: u64,
    /// The inode that it is going to lead to.
    pub(crate) ino: Ino,
}

impl<T> Deref for Blank<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Deref for Fresh<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Blank<T> {
    pub(crate) fn new(value: T) -> Blank<T> {
        Blank(value)
    }

    /// Its bytes, which are stored, are flushed; the seeded bug leaves that out.
    #[track_caller]
    pub(crate) fn flush_unless(self, media: &Media, bug: &'static str, at: u64, len: u64) -> Fresh<T> {
        media.flush_unless(bug, at, len);
        Fresh::of(self.0)
    }

    /// [`Blank::flush_unless`] without a seeded bug.
    #[track_caller]
    pub(crate) fn flush(self, media: &Media, at: u64, len: u64) -> Fresh<T> {
        media.flush(at, len);
        Fresh::of(self.0)
    }

    /// As [`Blank::flush_unless`], for bytes that a flusher knows.
    #[track_caller]
    pub(crate) fn finish_unless(self, flusher: Flusher<'_>, bug: &'static str) -> Fresh<T> {
        flusher.finish_unless(bug);
        Fresh::of(self.0)
    }
}

impl Blank<Place> {
    /// Stores the bytes of one page or of adjacent ones, past the cache.
    #[track_caller]
    pub(crate) fn copy_nt_unless(self, media: &Media, bug: &'static str, at: u64, bytes: &[u8]) -> Fresh<Place> {
        let _section = media.section();
        media.copy_nt_unless(bug, at, bytes);
        Fresh::of(self.0)
    }

    /// Stores zeros to `count` pages, past the cache.
    #[track_caller]
    pub(crate) fn zero(self, media: &Media, at: u64, count: u64) -> Fresh<Place> {
        const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];
        let _section = media.section();
        (0..count).for_each(|page| media.copy_nt(at + page * PAGE, &ZEROS));
        Fresh::of(self.0)
    }
}

impl Blank<NewInode> {
    /// Stores the inode, which is still free.
    #[track_caller]
    pub(crate) fn put(self, media: &Media, content: &Inode) -> Fresh<NewInode> {
        let _section = media.section();
        media.put(self.at, content);
        let at = self.at;
        self.flush_unless(media, "fs-inode-unflushed", at, INODE)
    }
}

impl Blank<NewEntry> {
    /// Stores the lines of an entry but for its first word.
    #[track_caller]
    pub(crate) fn put(self, media: &Media, lines: &[u8]) -> Fresh<NewEntry> {
        debug_assert!((lines.len() as u64).is_multiple_of(LINE));
        let at = self.at;
        let _section = media.section();
        media.write(at + 8, &lines[8..]);
        self.flush_unless(media, "fs-entry-unflushed", at, lines.len() as u64)
    }
}

/// Stores the bytes of new pages past the cache, and counts them.
pub(crate) struct Copier<'m> {
    media: &'m Media,
    bytes: u64,
}

impl<'m> Copier<'m> {
    pub(crate) fn new(media: &'m Media) -> Copier<'m> {
        Copier { media, bytes: 0 }
    }

    #[track_caller]
    pub(crate) fn copy_nt_unless(&mut self, bug: &'static str, at: u64, bytes: &[u8]) {
        self.media.copy_nt_unless(bug, at, bytes);
        self.bytes += bytes.len() as u64;
    }

    /// All pages of the runs were stored.
    pub(crate) fn finish(self, runs: Blank<Vec<NewRun>>) -> Fresh<Vec<NewRun>> {
        debug_assert_eq!(self.bytes, runs.iter().map(|run| run.len * PAGE).sum::<u64>(), "FS-1");
        Fresh::of(runs.0)
    }
}

impl<T> Fresh<T> {
    fn of(value: T) -> Fresh<T> {
        Fresh { value, of_this_thread: PhantomData }
    }

    /// A value of which nothing is new: words that are ordered lead to it, or led to it until this
    /// change.
    pub(crate) fn linked(value: T) -> Fresh<T> {
        Fresh::of(value)
    }

    /// Another value whose bytes are these, or lie among them.
    pub(crate) fn with<U>(&self, value: U) -> Fresh<U> {
        Fresh::of(value)
    }

    /// Two values, of which each is flushed.
    pub(crate) fn and<U>(self, other: Fresh<U>) -> Fresh<(T, U)> {
        Fresh::of((self.value, other.value))
    }
}

impl Fresh<Vec<NewRun>> {
    /// Runs of which no byte is read: their extents say that they are not written.
    pub(crate) fn unwritten(runs: Vec<NewRun>) -> Fresh<Vec<NewRun>> {
        debug_assert!(runs.iter().all(|run| run.place.is_unwritten()), "FS-1");
        Fresh::of(runs)
    }

    /// All runs of both, in the order of the file.
    pub(crate) fn join(mut self, other: Fresh<Vec<NewRun>>) -> Fresh<Vec<NewRun>> {
        self.value.extend(other.value);
        self.value.sort_unstable_by_key(|run| run.first);
        self
    }

    /// The same pages in fewer runs: those that follow each other in the file and in the volume are
    /// one.
    pub(crate) fn coalesced(self) -> Fresh<Vec<NewRun>> {
        Fresh::of(coalesced(&self.value))
    }
}

/// Joins runs that follow each other in the file and in the volume.
pub(crate) fn coalesced(runs: &[NewRun]) -> Vec<NewRun> {
    let mut joined: Vec<NewRun> = Vec::new();
    for &run in runs {
        let follows = |last: &&mut NewRun| {
            let next = Place { page: last.place.page + last.len, ..last.place };
            last.first + last.len == run.first && next == run.place && last.len + run.len <= RUN_LEN_MAX
        };
        match joined.last_mut().filter(follows) {
            Some(last) => last.len += run.len,
            None => joined.push(run),
        }
    }
    joined
}

/// Publishes the word that leads to new bytes; flushed, and the caller fences next.
#[track_caller]
pub fn publish<T: Linked>(media: &Media, at: u64, new: &Ordered<Fresh<T>>) {
    let _section = media.section();
    PublishWord::new(at.into()).publish(media, new.word(), new);
}

impl NewInode {
    /// An inode of this number and state, whose bytes are undefined.
    pub(crate) fn blank(ino: Ino, at: u64, state: State) -> Blank<NewInode> {
        debug_assert!(FileKind::of_mode(state.mode).is_some());
        Blank::new(NewInode { ino, at, state })
    }
}
