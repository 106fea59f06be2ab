//! Objects that several processes have open: the object's lock.

use crate::layout::header;
use crate::sharing::Exclusive;
use crate::{Error, Object, Result, Since};
use everbyte_media::lock_order::rank;
use everbyte_members::SlotMode;

impl Object {
    /// Lets other processes open this object too, shared. Nothing in a store that is not shared.
    ///
    /// # Errors
    /// [`Error::Media`].
    pub fn share(&self) -> Result<()> {
        let store = self.store();
        let Some(shared) = store.parts().sharing().store() else { return Ok(()) };
        let _exclusive = store.exclusive()?;
        shared.lock_slot(self.id(), self.name(), SlotMode::Shared)?;
        self.set_shared(|| shared.object_lock((self.prime() + header::SHARED).get(), store.generation()));
        Ok(())
    }

    /// Records that this thread, which holds the object's lock, is about to change it; nothing for
    /// an object that is not shared.
    ///
    /// # Errors
    /// [`Error::NotExclusive`].
    #[inline]
    pub fn changing_exclusively(&self) -> Result<()> {
        match self.shared_lock() {
            Some(lock) if !lock.changed_by_this_thread() => Err(Error::NotExclusive { object: self.name().into() }),
            _ => Ok(()),
        }
    }

    /// The lock of a shared object: no other thread or process holds it until the guard is dropped.
    /// `None`: the object is this process's alone. The engine brings its volatile state of the
    /// object up to date by [`everbyte_members::Exclusive::since`].
    ///
    /// # Errors
    /// [`Error::Media`]; [`Error::Damaged`] if the change of a dead process cannot be repaired.
    #[inline]
    pub fn exclusive(&self) -> Result<Option<Exclusive>> {
        let Some(lock) = self.shared_lock() else {
            self.store().require_here()?;
            return Ok(None);
        };
        let exclusive = Exclusive::acquire(lock, rank::OBJECT)?;
        if exclusive.since() != Since::Unchanged {
            // the dead process may have died in a change of the store
            drop(self.store().exclusive()?);
            self.refresh()?;
            if exclusive.since() == Since::OwnerDied {
                // as when it is opened (STORE-8)
                self.store().space().reflush(&(self.prime().get()..self.backed().get()));
                self.media().fence();
            }
        }
        Ok(Some(exclusive))
    }
}
