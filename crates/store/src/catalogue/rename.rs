//! Renaming an object: a second record takes the place of the first, by one store of its state.
//!
//!   1. the new record, `creating`: everything as in the old one but the name, and where the old
//!      one lies; then its entry in the trie
//!   2. its state becomes `replaces`, and a barrier: from here on the object has the new name
//!   3. the old name leaves the trie, the old record becomes free
//!   4. the new record's state becomes `live`
//!
//! Recovery takes 1 back, and finishes from 2 on.

use crate::catalogue::name_space;
use crate::catalogue::record::{self, Entry, Slot};
use crate::catalogue::table::Table;
use crate::layout::{STATE_FREE, STATE_LIVE, STATE_REPLACING};
use crate::store::Inner;
use crate::{Error, Result, Store};

impl Store {
    /// Gives an object another name. Settled on return; a crash leaves exactly one of the two.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::BadName`] and [`Error::Exists`] for the new name;
    /// [`Error::Open`] while this process has the object open, [`Error::Attached`] while another
    /// has; [`Error::Denied`]; otherwise as [`Store::create_object`].
    pub fn rename_object(&self, from: &str, to: &str) -> Result<()> {
        let inner = &*self.inner;
        let _exclusive = self.renaming()?;
        // which also says that there may be `replaces`
        inner.require_feature(crate::layout::FEATURE_ACCESS)?;
        let mut table = inner.table.lock();
        name_space::validate(to)?;
        let old = inner.removable(&mut table, from)?;
        self.attach_object(old.id, from, true)?;
        self.detach_object(old.id); // nobody attaches it in this turn
        if inner.find(&mut table, to)?.is_some() {
            return Err(Error::Exists { name: to.into() });
        }
        let at = inner.free_record(&mut table)?;
        let new = Entry { at, name: to.into(), replaces: old.at, ..old };
        let claimed = inner.claim_record(&mut table, &new); // 1
        claimed.inspect_err(|_| drop(inner.take_back(&mut table, &new)))?;
        record::set_state(&inner.media, at, STATE_REPLACING); // 2
        inner.media.barrier_unless("store-rename-unsettled")?;
        inner.finish_rename(&mut table, &new)
    }
}

impl Inner {
    /// The object of this name, if it may be removed now, or renamed.
    pub(crate) fn removable(&self, table: &mut Table, name: &str) -> Result<Entry> {
        let entry = self.live(table, name)?;
        if table.open.get(&entry.at).is_some_and(|object| object.strong_count() > 0) {
            return Err(Error::Open { object: name.into() });
        }
        Ok(entry)
    }

    /// Steps 3 and 4. Idempotent; fenced on return.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the old name cannot be taken away; both records stay.
    pub(crate) fn finish_rename(&self, table: &mut Table, new: &Entry) -> Result<()> {
        let old = record::entry_of(&self.media, &self.superblock(), new.replaces).filter(|old| old.id == new.id);
        if let Some(old) = &old {
            if let Some(trie) = &mut table.trie {
                trie.remove(old.at, old.name.as_bytes())?; // 3
            }
            record::set_state(&self.media, old.at, STATE_FREE);
            self.media.fence();
        }
        record::set_state(&self.media, new.at, STATE_LIVE); // 4
        self.media.fence();
        table.arrive(new.at);
        if let Some(old) = &old {
            table.forget_name(&self.superblock(), old);
        }
        Ok(())
    }

    /// Takes back a record that was to replace another: the object keeps its name. Idempotent;
    /// fenced on return.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the new name cannot be taken away; the record stays.
    pub(crate) fn take_back(&self, table: &mut Table, new: &Entry) -> Result<()> {
        if let Some(trie) = &mut table.trie {
            trie.remove(new.at, new.name.as_bytes())?;
        }
        record::set_state(&self.media, new.at, STATE_FREE);
        self.media.fence();
        table.arrive(new.at);
        table.forget_name(&self.superblock(), new);
        Ok(())
    }

    /// Does what is to be done about a record that replaces another, or was to; `false`: it is
    /// none.
    pub(crate) fn settle_rename(&self, table: &mut Table, slot: &Slot) -> bool {
        let _ = match slot {
            Slot::Replacing(new) => self.finish_rename(table, new),
            Slot::Creating(new) if new.replaces != 0 => self.take_back(table, new),
            _ => return false,
        }; // a damaged name space is for `check` to report
        true
    }
}
