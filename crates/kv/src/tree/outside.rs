//! A tree that another process writes, opened beside it for reading; and the page by which the
//! writer lets it ([`crate::tree::readers`]).
//!
//! Such a tree has a page's reader in place of pins of its own, and never writes: `Tree::begin`
//! refuses, and `opened` stays unset, so that closing stores nothing. The list of voids changes in
//! an opening of the tree alone, so a reader loads it once for each.

use crate::error::{Error, Result};
use crate::tree::handle::{OpenTree, Tally, Tree};
use crate::tree::layout::READERS_AT;
use crate::tree::number::Version;
use crate::tree::open::{new_writer, next_number, read_header};
use crate::tree::pins::{KeyCounts, Pins, Published, Ticket};
use crate::tree::readers::{IsAlive, Page, Place, Reader, Unready};
use crate::tree::sync::Words;
use crate::tree::version::Voids;
use crate::tree::voids::load_voids;
use arc_swap::ArcSwap;
use everbyte_heap::Heap;
use everbyte_media::lock_order::RankedMutex;
use everbyte_store::{Object, Store};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The page of readers of `object` for its writer; `None` in a store that is this process's alone.
pub(crate) fn page(object: &Object) -> Option<Page> {
    let (words, place, is_alive) = parts(object)?;
    Some(Page::begin(words, place, is_alive))
}

fn parts(object: &Object) -> Option<(Words, Place, IsAlive)> {
    let store = object.store();
    let token = u64::from(store.member()?);
    let place = Place { object: object.id().get(), generation: store.generation(), token };
    Some((Words::new(object.media().clone(), object.prime() + READERS_AT), place, is_alive(store)))
}

/// Looks for the process with a number; where the system does not tell, it lives.
fn is_alive(store: &Store) -> IsAlive {
    let store = store.clone();
    Box::new(move |token| u32::try_from(token).is_ok_and(|token| store.is_member(token).unwrap_or(true)))
}

impl Tree {
    /// Opens the tree of `object`, a handle of [`Store::object_beside`], for reading beside the
    /// process that writes it.
    ///
    /// # Errors
    /// [`Error::Unpublished`]; damage.
    pub(crate) fn open_beside(object: Object) -> Result<Tree> {
        let unready = |unready| Error::unpublished(&object, unready);
        let (words, place, is_alive) = parts(&object).ok_or(Unready::NoWriter).map_err(unready)?;
        let reader = Reader::join(words, place, is_alive).map_err(unready)?;
        let header = read_header(&object)?;
        let none = Published { version: Version::NONE, root: 0, keys: KeyCounts::default() };
        let shared = OpenTree {
            media: object.media().clone(),
            header: 0,
            area: header.area.get(),
            pins: Pins::outside(reader),
            voids: ArcSwap::from_pointee(Voids::default()),
            writer: RankedMutex::new(new_writer(none, 0)),
            pending: Mutex::new(VecDeque::new()),
            counts: Tally::default(),
            held: Default::default(),
            number: next_number(),
            holder: AtomicU64::new(crate::tree::thread::NONE),
            opened: AtomicBool::new(false),
            volatile: false,
            _claim: object.claim()?,
            heap: Heap::join(object)?,
        };
        Ok(Tree { shared: Arc::new(shared) })
    }
}

impl OpenTree {
    /// Pins the newest version that the writer has published, all of which this process has mapped
    /// on return.
    pub(crate) fn pin_outside(&self) -> Result<(Ticket, Published)> {
        let object = self.heap.object();
        let ready = |pin: &crate::tree::readers::ReaderPin| {
            self.catch_up(pin.len)?;
            self.set_voids(load_voids(&self.media, self.area, pin.version)?);
            Ok(())
        };
        let pinned = self.pins.pin_outside::<Failed>(ready);
        let (ticket, seen, len) = pinned.map_err(|failed| match failed {
            Failed::Unready(unready) => Error::unpublished(object, unready),
            Failed::Other(error) => error,
        })?;
        if let Err(error) = self.catch_up(len) {
            self.pins.unpin(&ticket);
            return Err(error);
        }
        Ok((ticket, seen))
    }

    /// Maps the first `len` bytes of the store, of which the writer may have added some.
    fn catch_up(&self, len: u64) -> Result<()> {
        if len > self.media.len() { Ok(self.heap.object().store().catch_up()?) } else { Ok(()) }
    }
}

enum Failed {
    Unready(Unready),
    Other(Error),
}

impl From<Unready> for Failed {
    fn from(unready: Unready) -> Failed {
        Failed::Unready(unready)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Other(error)
    }
}

impl Error {
    fn unpublished(object: &Object, unready: Unready) -> Error {
        let detail = match unready {
            Unready::NoWriter => {
                "no process of those that share the store has had it open for writing; open it there first"
            }
            Unready::Unfinished => {
                "its writer died, or failed, before it published a version; open it for writing again"
            }
            Unready::Opening => "its writer is opening it; try again",
            Unready::Full => "it has as many readers in other processes as it can have; close one",
        };
        Error::Unpublished { object: object.name().into(), detail }
    }
}
