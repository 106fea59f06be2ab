//! The persistent addresses of this process, and the engine of its transactions.
//!
//! Two ranges: the addresses of the bound store, and the section of persistent variables. A key is
//! an offset in the store. A program without persistent variables has transactions too; its engine
//! lies in memory and has no words, so that a store to the bound store's addresses is refused.

use super::die;
use crate::mnemosyne::{self, Transactional};
use crate::process::{self, Process};
use everbyte_media::{Media, Options};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::Redo;
use everbyte_tx::redo::Truncation;
use std::ops::Range;
use std::sync::OnceLock;

pub(super) struct Ground {
    pub redo: Redo,
    /// The bound store.
    store: Stretch,
    /// The persistent variables.
    section: Stretch,
    /// The section is copied: a store to a variable's place in the store is repeated at its
    /// address.
    copied: bool,
}

/// Adjacent persistent addresses, and the key of the first.
struct Stretch {
    start: usize,
    len: usize,
    key: u64,
}

impl Stretch {
    fn new(addresses: Range<usize>, key: u64) -> Stretch {
        Stretch { start: addresses.start, len: addresses.len(), key }
    }

    #[inline(always)]
    fn key(&self, address: usize) -> Option<u64> {
        let at = address.wrapping_sub(self.start);
        (at < self.len).then(|| self.key + at as u64)
    }
}

/// Added to keys of a store that these transactions must not change: no engine has such places.
const NOBODYS: u64 = 1 << 62;

static GROUND: OnceLock<Ground> = OnceLock::new();

impl Ground {
    /// Set at the first transaction, after all sections have been opened.
    pub(super) fn get() -> &'static Ground {
        GROUND.get_or_init(Ground::find)
    }

    /// Whether this process may run transactions: a child of fork does not inherit the store of its
    /// parent.
    pub(super) fn require_here(&self) -> crate::fault::Result<()> {
        Ok(self.redo.media().require_here()?)
    }

    /// Flushes the stores of committed transactions, so that the next recovery stores nothing
    /// again.
    pub(crate) fn truncate() {
        if let Some(ground) = Ground::known() {
            ground.redo.truncate();
        }
    }

    /// If there has been a transaction.
    pub(crate) fn known() -> Option<&'static Ground> {
        GROUND.get()
    }

    fn find() -> Ground {
        let process = Process::opened();
        let store = process.as_ref().map_or(0..0, |process| process.window());
        let ground = match mnemosyne::transactional() {
            Some(Transactional { redo, addresses, at, copied }) => {
                Ground { redo, store: Stretch::new(store, 0), section: Stretch::new(addresses, at), copied }
            }
            None => {
                let redo = volatile().unwrap_or_else(|error| die(format_args!("no room for transactions: {error}")));
                let (store, section) = (Stretch::new(store, NOBODYS), Stretch::new(0..0, 0));
                Ground { redo, store, section, copied: false }
            }
        };
        ground.redo.set_truncation(match std::env::var("EVERBYTE_TRUNCATION").as_deref() {
            // the explorer refuses a second thread
            Ok("async") if everbyte_recorded::is_recording() => Truncation::Synchronous,
            Err(_) | Ok("sync") => Truncation::Synchronous,
            Ok("async") => Truncation::Asynchronous,
            Ok(other) => die(format_args!("EVERBYTE_TRUNCATION is `{other}`: it can be `sync` or `async`")),
        });
        // The program may store to its variables after its last transaction, and the next recovery
        // must not store over that.
        process::at_close(Ground::truncate);
        ground
    }

    /// The key of a persistent address.
    #[inline(always)]
    pub(super) fn key(&self, address: usize) -> Option<u64> {
        self.store.key(address).or_else(|| self.section.key(address))
    }

    /// The key of the first of `len` addresses, if all of them are persistent and lie in the store
    /// as they do here.
    #[inline]
    pub(super) fn key_of(&self, address: usize, len: usize) -> Option<u64> {
        let (key, last) = (self.key(address)?, len.checked_sub(1)?);
        (self.key(address.wrapping_add(last))? == key + last as u64).then_some(key)
    }

    /// The address of the copy of the word with this key, if it has one.
    #[inline]
    pub(super) fn copy_of(&self, key: u64) -> Option<usize> {
        let at = key.wrapping_sub(self.section.key);
        (self.copied && at < self.section.len as u64).then(|| self.section.start + at as usize)
    }

    /// The address of a block.
    pub(super) fn address(&self, at: u64) -> usize {
        self.store.start + at as usize
    }

    /// The candidate block of an address.
    pub(super) fn offset(&self, address: usize) -> u64 {
        (address as u64).wrapping_sub(self.store.start as u64)
    }
}

/// An engine in memory.
fn volatile() -> Result<Redo, Box<dyn std::error::Error>> {
    let store = Store::format(Media::anonymous(4 << 20, &Options::default())?, &FormatOptions::default())?;
    let options = ObjectOptions { engine: Engine::Redo, fingerprint: 0, span: Some(1 << 20) };
    Ok(Redo::open(store.create_object("volatile", options, Redo::format)?)?)
}
