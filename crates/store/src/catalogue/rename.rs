//! Renaming an object: a second record takes the place of the first, by one store of its state.
//!
//!   1. the new record, `creating`: as the old one, with another name and the old one's offset;
//!      then its entry in the trie
//!   2. its state becomes `replaces`, and a barrier: from here on the object has the new name
//!   3. the old name leaves the trie, the old record becomes free
//!   4. the new record's state becomes `live`
//!
//! Recovery takes step 1 back, and finishes from step 2 on.

use super::name_space;
use super::part::LockedCatalogue;
use super::record::{self, Entry, Slot};
use crate::layout::{FEATURE_ACCESS, STATE_FREE, STATE_LIVE, STATE_REPLACING};
use crate::{Error, Result, Store};
use everbyte_members::SlotMode;

impl Store {
    /// Gives an object another name. Settled on return; a crash leaves exactly one of the two.
    /// The rights of an object are those to what it holds: they are not asked for here.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::BadName`] and [`Error::Exists`] for the new name;
    /// [`Error::Open`] while this process has the object open, [`Error::Attached`] while another
    /// has; otherwise as [`Store::create_object`].
    pub fn rename_object(&self, from: &str, to: &str) -> Result<()> {
        let _exclusive = self.renaming()?;
        let parts = self.parts();
        // the feature also allows records in the state `replaces`
        parts.head().require_feature(FEATURE_ACCESS)?;
        let mut names = parts.catalogue().lock();
        name_space::validate(to)?;
        let old = names.live(from)?;
        parts.opened().require_closed(&old)?;
        parts.sharing().attach(old.id, from, SlotMode::Exclusive)?;
        parts.sharing().detach(old.id); // the store's lock keeps other processes from attaching it
        if names.find(to)?.is_some() {
            return Err(Error::Exists { name: to.into() });
        }
        let (at, old_at) = (names.free_record()?, old.at);
        let new = Entry { at, name: to.into(), replaces: old.at, ..old };
        names.claim_record(&new).inspect_err(|_| drop(names.take_back(&new)))?; // 1
        record::set_state(self.media(), at, STATE_REPLACING); // 2
        self.media().barrier_unless("store-rename-unsettled")?;
        names.finish_rename(&new)?;
        parts.opened().remove(old_at);
        Ok(())
    }
}

impl LockedCatalogue<'_> {
    /// Steps 3 and 4. Idempotent; fenced on return.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the old name cannot be taken away; both records stay.
    fn finish_rename(&mut self, new: &Entry) -> Result<()> {
        let (media, superblock) = (self.media(), self.superblock());
        let old = record::entry_of(media, &superblock, new.replaces).filter(|old| old.id == new.id);
        // A crash after step 3: opening has found the old record free already, and listed it.
        let is_listed = old.as_ref().is_some_and(|old| media.load(old.at) == STATE_FREE);
        if let Some(old) = &old {
            if let Some((trie, _)) = self.trie() {
                trie.remove(old.at, old.name.as_bytes())?; // 3
            }
            record::set_state(media, old.at, STATE_FREE);
            media.fence();
        }
        record::set_state(media, new.at, STATE_LIVE); // 4
        media.fence();
        self.table().end_change(new.at);
        if let Some(old) = old.as_ref().filter(|_| !is_listed) {
            self.table().forget_name(&superblock, old);
        }
        Ok(())
    }

    /// Takes back a record that has not replaced another yet: the object keeps its name.
    /// Idempotent; fenced on return.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the new name cannot be taken away; the record stays.
    fn take_back(&mut self, new: &Entry) -> Result<()> {
        let (media, superblock) = (self.media(), self.superblock());
        if let Some((trie, _)) = self.trie() {
            trie.remove(new.at, new.name.as_bytes())?;
        }
        record::set_state(media, new.at, STATE_FREE);
        media.fence();
        self.table().end_change(new.at);
        self.table().forget_name(&superblock, new);
        Ok(())
    }

    /// Finishes an interrupted renaming, or takes it back; `false`: the record belongs to none.
    pub(super) fn recover_rename(&mut self, slot: &Slot) -> bool {
        let _ = match slot {
            Slot::Replacing(new) => self.finish_rename(new),
            Slot::Creating(new) if new.replaces != 0 => self.take_back(new),
            _ => return false,
        }; // `check` reports a damaged name space
        true
    }
}
