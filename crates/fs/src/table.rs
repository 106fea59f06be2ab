//! [`InodeTable`]: the inodes of a volume, found by number.
//!
//! A page of words leads to pages of words, and those to groups of 256 inodes; a new group is
//! published by one word. The numbers of free inodes are known in memory alone: each thread has
//! some of them, adjacent ones if it can, and the others are shared.

use crate::layout::{
    GROUP_INODES, GROUP_PAGES, INODE, Inode, PAGE, Place, STATE_INLINE, State, TABLE_AT, TABLE_WORDS, inode,
};
use crate::order::{self, Blank, Fresh};
use crate::parts::{Apart, PARTS, thread_number};
use crate::space::Space;
use crate::{Error, FileKind, Ino, Result};
use everbyte_media::sealed::seal_low;
use everbyte_media::{Damage, Media};
use everbyte_store::Object;
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::FromZeros;

/// Groups that a volume can have: 67 million inodes.
const GROUPS_MAX: u64 = TABLE_WORDS * TABLE_WORDS;

/// Free inodes that a thread takes at once.
pub(crate) const BATCH: usize = 64;

/// The table of an open volume.
pub(crate) struct InodeTable {
    groups: Groups,
    /// Free inodes of each thread; the last one is taken first.
    own: [Apart<Mutex<Vec<Ino>>>; PARTS],
    /// The others. Locked alone, or by a thread that has locked its own.
    others: Mutex<Vec<Ino>>,
    /// Held by a thread that adds a group.
    adding: Mutex<()>,
}

/// Offset of each group in the store. Groups are added and never removed, so that a look-up takes
/// no lock.
struct Groups {
    /// Words of groups, which are stored before `len` covers them.
    pages: Box<[OnceLock<Box<[AtomicU64]>>]>,
    len: AtomicU64,
}

impl Groups {
    fn new(all: &[u64]) -> Groups {
        let pages = (0..TABLE_WORDS).map(|_| OnceLock::new()).collect();
        let groups = Groups { pages, len: AtomicU64::new(0) };
        all.iter().for_each(|&at| groups.push(at));
        groups
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire) // pairs with `push`
    }

    #[inline]
    fn get(&self, index: u64) -> Option<u64> {
        if index >= self.len() {
            return None;
        }
        let page = self.pages[(index / TABLE_WORDS) as usize].get()?;
        Some(page[(index % TABLE_WORDS) as usize].load(Ordering::Relaxed))
    }

    /// One thread at a time.
    fn push(&self, at: u64) {
        let index = self.len();
        let words = || (0..TABLE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let page = self.pages[(index / TABLE_WORDS) as usize].get_or_init(words);
        page[(index % TABLE_WORDS) as usize].store(at, Ordering::Relaxed);
        self.len.store(index + 1, Ordering::Release);
    }
}

/// The fields of a new inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub kind: FileKind,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub device: u64,
    pub now: i64,
}

impl Body {
    /// A body that belongs to user and group 0.
    pub(crate) fn new(kind: FileKind, permissions: u16, now: i64) -> Body {
        Body { kind, permissions: permissions & 0o7777, uid: 0, gid: 0, device: 0, now }
    }

    /// The state word of the new inode, in this generation.
    pub(crate) fn state(&self, generation: u32) -> State {
        let flags = if matches!(self.kind, FileKind::Regular | FileKind::Link) { STATE_INLINE } else { 0 };
        State { mode: self.kind.bits() | self.permissions, flags, generation }
    }

    /// The inode, still free: `old` is its state word.
    pub(crate) fn inode(&self, old: State) -> Inode {
        let links = if self.kind == FileKind::Directory { 2 } else { 1 };
        let mut inode = Inode {
            state: old.word(),
            links: seal_low(links),
            size: seal_low(0),
            modified: self.now,
            changed: self.now,
            accessed: self.now,
            born: self.now,
            uid: self.uid,
            gid: self.gid,
            device: self.device,
            ..Inode::new_zeroed()
        };
        inode.checksum = inode.owner_sum();
        inode
    }
}

impl InodeTable {
    /// Reads the table of a volume. `mark` is called for the runs of pages that it takes.
    pub(crate) fn open(object: &Object, mut mark: impl FnMut(u64, u64) -> Result<()>) -> Result<InodeTable> {
        let (media, start) = (object.media(), object.prime().get());
        let place = |at: u64, pages: u64| match media.load(at) {
            0 => Ok(None),
            word => match Place::of(word).filter(|place| place.tier == 0 && place.class == 0) {
                Some(place) if media.holds(start + place.page * PAGE, pages * PAGE) => Ok(Some(place.page)),
                _ => {
                    Err(Error::from(Damage::at(at, "a word of the inode table leads nowhere").of_object(object.name())))
                }
            },
        };
        let mut groups = Vec::new();
        let Some(root) = place(start + TABLE_AT, 1)? else {
            let damage = Damage::at(start + TABLE_AT, "the volume has no inode table");
            return Err(damage.of_object(object.name()).into());
        };
        mark(root, 1)?;
        'all: for index in 0..TABLE_WORDS {
            let Some(page) = place(start + root * PAGE + index * 8, 1)? else { break };
            mark(page, 1)?;
            for index in 0..TABLE_WORDS {
                let Some(group) = place(start + page * PAGE + index * 8, GROUP_PAGES)? else { break 'all };
                mark(group, GROUP_PAGES)?;
                groups.push(start + group * PAGE);
            }
        }
        Ok(InodeTable {
            groups: Groups::new(&groups),
            own: Default::default(),
            others: Mutex::default(),
            adding: Mutex::default(),
        })
    }

    /// Offset of an inode in the store; `None`: the volume has no inode of that number.
    pub(crate) fn at(&self, ino: Ino) -> Option<u64> {
        let group = self.groups.get(ino.0 / GROUP_INODES)?;
        (ino.0 > 0).then(|| group + ino.0 % GROUP_INODES * INODE)
    }

    /// Every number that the table has, in order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = Ino> + use<> {
        let count = self.groups.len();
        (1..count * GROUP_INODES).map(Ino)
    }

    /// Groups that exist.
    pub(crate) fn len(&self) -> u64 {
        self.groups.len()
    }

    /// Calls `each` for the free inodes of every thread, and for the others.
    fn each_free(&self, mut each: impl FnMut(&[Ino])) {
        self.own.iter().for_each(|own| each(&own.lock()));
        each(&self.others.lock());
    }

    /// A bit for each inode of the groups that exist; a set bit: it is free.
    pub(crate) fn free_bits(&self) -> Vec<u64> {
        let mut bits = vec![0; (self.len() * GROUP_INODES / 64) as usize];
        self.each_free(|free| free.iter().for_each(|ino| bits[(ino.0 / 64) as usize] |= 1 << (ino.0 % 64)));
        bits
    }

    /// Free inodes of the groups that exist.
    pub(crate) fn free_count(&self) -> u64 {
        let mut count = 0;
        self.each_free(|free| count += free.len() as u64);
        count
    }

    /// An inode becomes free, or a reserved one was not used.
    pub(crate) fn give(&self, ino: Ino) {
        self.own[thread_number() % PARTS].lock().push(ino);
    }

    /// Many inodes become free: any thread may take them.
    pub(crate) fn give_many(&self, free: impl Iterator<Item = Ino>) {
        self.others.lock().extend(free);
    }

    /// Free inodes, as a scan found them: the lowest is taken first.
    pub(crate) fn give_all(&self, mut free: Vec<Ino>) {
        free.reverse();
        *self.others.lock() = free;
    }

    /// Reserves a free inode; nothing on media changes unless a group is added.
    pub(crate) fn take(&self, space: &Space) -> Result<Ino> {
        loop {
            let ino = match self.pop() {
                Some(ino) => ino,
                None => {
                    let added = self.add_group(space);
                    // Another thread may have given one, or taken those of the new group.
                    let Some(ino) = self.pop() else {
                        added?;
                        continue;
                    };
                    ino
                }
            };
            let at = self.at(ino).expect("the number is the table's");
            if State::checked(space.media().load(at + inode::STATE)).is_some_and(|state| state.mode == 0) {
                return Ok(ino);
            }
            // Saved as free, and damaged since: the inode stays as it is.
        }
    }

    /// A free inode of this thread, or else some of the shared ones, or else of another thread.
    fn pop(&self) -> Option<Ino> {
        let home = thread_number() % PARTS;
        let mut own = self.own[home].lock();
        if let Some(ino) = own.pop() {
            return Some(ino);
        }
        let mut others = self.others.lock();
        let kept = others.len().saturating_sub(BATCH);
        own.extend(others.drain(kept..));
        drop(others);
        if let Some(ino) = own.pop() {
            return Some(ino);
        }
        drop(own); // two threads that take from each other wait for no lock while they hold one
        // Those that the other thread has freed last stay its own.
        let most = self.own.iter().max_by_key(|own| own.lock().len())?;
        let taken: Vec<Ino> = {
            let mut most = most.lock();
            let half = most.len().div_ceil(2);
            most.drain(..half).collect()
        };
        let mut own = self.own[home].lock();
        own.extend(taken);
        own.pop()
    }

    /// Adds a group: zeroed pages first, then the word that leads to them. After a crash in between
    /// the pages are free.
    fn add_group(&self, space: &Space) -> Result<()> {
        let _one = self.adding.lock();
        if !self.others.lock().is_empty() {
            return Ok(()); // another thread has added one
        }
        let index = self.groups.len();
        if index == GROUPS_MAX {
            return Err(Error::NoInodes { volume: space.name().into() });
        }
        let media = space.media();
        let root = Place::of(media.load(space.at(0) + TABLE_AT)).expect("the table was read").page;
        let root_word = space.at(root) + index / TABLE_WORDS * 8;
        let group = space.take_run(GROUP_PAGES)?;
        let inodes = space.zero_pages(group, GROUP_PAGES);
        if index.is_multiple_of(TABLE_WORDS) {
            let page = space.take_run(1).inspect_err(|_| space.give_pages(group, GROUP_PAGES))?;
            let _section = media.section();
            let words = space.zero_pages(page, 1);
            media.store(space.at(page), inodes.word());
            let word = Blank::new(()).flush(media, space.at(page), 8);
            publish(media, root_word, words.and(inodes).and(word).with(Place::page(page)));
        } else {
            let page = Place::of(media.load(root_word)).expect("the table was read").page;
            publish(media, space.at(page) + index % TABLE_WORDS * 8, inodes);
        }
        self.groups.push(space.at(group));
        let numbers = index * GROUP_INODES..(index + 1) * GROUP_INODES;
        self.others.lock().extend(numbers.rev().map(Ino));
        Ok(())
    }
}

fn publish(media: &Media, at: u64, new: Fresh<Place>) {
    order::publish(media, at, &media.fence_after_unless("fs-group-unfenced", new));
    media.fence_unless("fs-group-left"); // before another thread takes an inode
}
