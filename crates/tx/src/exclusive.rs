//! Sharing of an engine's object with other processes, under the object's lock.
//!
//! A process reads or changes a shared object only while it holds the object's lock, from
//! [`Undo::enter`] until the guard is dropped: the engine then has read the changes of other
//! processes, and the unfinished work of a dead process is finished or undone.
//!
//! Invariants
//!   TX-8  While no process holds the lock, all lanes are at rest.
//!
//! Threads: one at a time; the others, and other processes, wait in `enter`.

use crate::undo::engine::UndoState;
use crate::{Error, Result, Undo, undo::recover};
use everbyte_store::{Exclusive, Since};
use std::sync::atomic::Ordering;

impl Undo {
    /// The lock of a shared object, with the engine brought up to date; `None` if the object is
    /// this process's alone. A thread that holds the lock may enter again.
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Heap`], [`Error::Log`] and [`Error::Damaged`] if recovery
    /// after a dead process fails: the next caller tries again.
    #[inline]
    pub fn enter(&self) -> Result<Option<Exclusive>> {
        let exclusive = self.inner.heap.object().exclusive()?;
        if let Some(exclusive) = &exclusive {
            self.inner.catch_up(exclusive)?;
        }
        Ok(exclusive)
    }
}

impl UndoState {
    /// Brings the volatile state of the object up to date.
    #[inline]
    pub(crate) fn catch_up(&self, exclusive: &Exclusive) -> Result<()> {
        match exclusive.since() {
            Since::Unchanged => return Ok(()),
            _ if self.poisoned.load(Ordering::Acquire) => return Err(Error::Poisoned { object: self.name() }),
            Since::Changed => {
                self.heap.refresh()?;
                self.lanes.iter().try_for_each(|lane| lane.lock().journal.refresh())?;
            }
            Since::OwnerDied => {
                self.heap.refresh_after_death()?;
                let (journals, _) = recover::recover(&self.heap)?;
                self.lanes.iter().zip(journals).for_each(|(lane, journal)| lane.lock().journal = journal);
            }
        }
        exclusive.caught_up();
        Ok(())
    }
}
