//! Opening an object: alone or shared, to read or to change.

use super::header;
use crate::catalogue::record::Entry;
use crate::{Engine, Error, Object, Result, Store, Want};
use everbyte_members::SlotMode;

/// Options of [`Store::open_object`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectOpen {
    /// The access that the object's rights have to allow. A read-only store gives read access
    /// alone. With [`Want::Read`] the caller keeps stores away from the object
    /// ([`everbyte_media::Media::protect`]).
    pub want: Want,
    /// The processes that may have the object open meanwhile.
    pub sharing: ObjectSharing,
}

/// The processes that may have an object open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectSharing {
    /// This process alone.
    Alone,
    /// Also others that open it shared. The object has to have this engine and this fingerprint,
    /// and the engine has to use [`Object::exclusive`].
    Shared {
        /// The engine.
        engine: Engine,
        /// The fingerprint.
        fingerprint: u64,
    },
}

impl Default for ObjectOpen {
    /// To change it, alone.
    fn default() -> ObjectOpen {
        ObjectOpen { want: Want::Write, sharing: ObjectSharing::Alone }
    }
}

impl ObjectOpen {
    /// To change it, beside other processes.
    pub fn shared(engine: Engine, fingerprint: u64) -> ObjectOpen {
        ObjectOpen { sharing: ObjectSharing::Shared { engine, fingerprint }, ..ObjectOpen::default() }
    }

    fn mode(&self) -> SlotMode {
        match self.sharing {
            ObjectSharing::Alone => SlotMode::Exclusive,
            ObjectSharing::Shared { .. } => SlotMode::Shared,
        }
    }
}

impl Store {
    /// Opens an object to change it, for this process alone; opening it twice gives the same one.
    ///
    /// # Errors
    /// As [`Store::open_object`].
    pub fn object(&self, name: &str) -> Result<Object> {
        self.open_object(name, &ObjectOpen::default())
    }

    /// Opens an object; opening it twice gives the same one.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Damaged`], [`Error::Truncated`];
    /// [`Error::Attached`] and [`Error::Open`] while another process, or this one, has it open in
    /// another way; [`Error::Unshared`]; for a shared object [`Error::WrongEngine`] and
    /// [`Error::WrongFingerprint`].
    pub fn open_object(&self, name: &str, options: &ObjectOpen) -> Result<Object> {
        let object = self.find_or_open(name, options)?;
        if let ObjectSharing::Shared { engine, fingerprint } = options.sharing {
            object.require_engine(engine)?;
            object.require_fingerprint(fingerprint)?;
            object.share()?;
        }
        Ok(object)
    }

    /// A handle of an object that another process may have open, alone, and change: for an engine
    /// whose readers are told by its writer what they may read. Such a handle opens nothing and
    /// keeps no process from opening or removing the object; the engine changes nothing by it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Damaged`], [`Error::Truncated`];
    /// [`Error::Unshared`] for an object with a limit of clusters in memory.
    pub fn object_beside(&self, name: &str) -> Result<Object> {
        let _exclusive = self.exclusive()?;
        let entry = self.parts().catalogue().lock().live(name)?;
        self.require_access(&entry, Want::Read)?;
        let extent = header::extent(self.media(), &entry)?;
        if extent.resident > 0 {
            return Err(Error::Unshared { object: entry.name });
        }
        let end = entry.span.end(); // the process that has it open moves the true end
        Ok(Object::new(self.clone(), entry, end, None, None))
    }

    fn find_or_open(&self, name: &str, options: &ObjectOpen) -> Result<Object> {
        let (parts, mode) = (self.parts(), options.mode());
        let _exclusive = self.exclusive()?;
        let mut names = parts.catalogue().lock();
        let entry = names.live(name).map_err(|error| self.require_readable().err().unwrap_or(error))?;
        self.require_access(&entry, if self.is_read_only() { Want::Read } else { options.want })?;
        let is_unshareable =
            |is_paged: bool| is_paged && (mode == SlotMode::Shared && self.is_shared() || options.want == Want::Read);
        if let Some(open) = parts.opened().get(&entry)? {
            if is_unshareable(open.paging().is_some()) {
                return Err(Error::Unshared { object: name.into() });
            }
            if self.is_shared() && open.is_alone() != (mode == SlotMode::Exclusive) {
                // as the lock refuses another process
                return Err(Error::Open { object: name.into() });
            }
            return Ok(open);
        }
        let at = entry.at;
        let object = self.new_handle(entry, mode, is_unshareable)?;
        parts.opened().insert(at, &object);
        Ok(object)
    }

    /// The first handle of an object that is closed, and stays out of the open objects. The caller
    /// keeps other threads from opening it.
    pub(super) fn new_handle(
        &self,
        entry: Entry,
        mode: SlotMode,
        is_unshareable: impl FnOnce(bool) -> bool,
    ) -> Result<Object> {
        let parts = self.parts();
        let extent = header::extent(self.media(), &entry)?;
        if is_unshareable(extent.resident > 0) {
            return Err(Error::Unshared { object: entry.name });
        }
        parts.sharing().attach(entry.id, &entry.name, mode)?;
        if self.may_follow_a_death() {
            // The engine's decisions rest on the bits of backed clusters (STORE-8).
            self.space().reflush(&(entry.span.at()..extent.backed));
            self.media().fence();
        }
        let detach = |_: &Error| parts.sharing().detach(entry.id);
        let paging = parts.backing().paging(&entry, &extent).inspect_err(detach)?;
        Ok(Object::new(self.clone(), entry, extent.backed, Some(mode), paging))
    }
}
