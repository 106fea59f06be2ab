//! Changing the rights and the quotas of objects.

use super::access::{self, Access, Caller, Want};
use super::header;
use crate::catalogue::record::Entry;
use crate::layout::{FEATURE_ACCESS, STATE_LIVE, Superblock, header as words};
use crate::{CLUSTER, Error, Result, Store};
use everbyte_media::Length;

impl Store {
    /// Changes the access of owner, group and others to an object, from the next opening on.
    /// Settled on return; a crash leaves the old rights or the new ones.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::BadOption`] for an impossible mode,
    /// [`Error::Damaged`], [`Error::ReadOnly`], [`Error::Media`].
    pub fn chmod(&self, name: &str, mode: u16) -> Result<()> {
        self.change_access(&Caller::current(), name, |access| Access { mode, ..access })
    }

    /// Gives an object another owner, another group, or both. Settled on return; a crash leaves the
    /// old ones or the new ones.
    ///
    /// # Errors
    /// As [`Store::chmod`].
    pub fn chown(&self, name: &str, owner: Option<u32>, group: Option<u32>) -> Result<()> {
        self.change_access(&Caller::current(), name, |access| Access {
            owner: owner.unwrap_or(access.owner),
            group: group.unwrap_or(access.group),
            ..access
        })
    }

    /// Changes the rights of an object on behalf of `caller`: for services that know their callers.
    /// `new` gets the present rights, and must not call the store.
    ///
    /// # Errors
    /// As [`Store::chmod`].
    pub fn change_access(&self, caller: &Caller, name: &str, new: impl FnOnce(Access) -> Access) -> Result<()> {
        let _exclusive = self.renaming()?;
        self.parts().head().require_feature(FEATURE_ACCESS)?;
        // Kept to the end: other changes of the record, and its readers, wait (STORE-12).
        let mut names = self.parts().catalogue().lock();
        let entry = names.live(name)?;
        let new = new(entry.access);
        if new.mode & !Access::MODES != 0 {
            let detail =
                format!("mode {:o} is not 4 for reading and 2 for writing in three digits, such as 640", new.mode);
            return Err(Error::BadOption { detail });
        }
        if let Some(why) = entry.access.refuses(caller, &new) {
            return Err(Error::Denied { object: name.into(), access: entry.access, why });
        }
        debug_assert_eq!(self.media().load(entry.at), STATE_LIVE);
        access::change(self.media(), entry.at, new)
    }

    /// Refuses an object whose rights deny this process the access that it wants.
    pub(crate) fn require_access(&self, entry: &Entry, want: Want) -> Result<()> {
        if entry.access == Access::EVERYBODY || entry.access.allows(&Caller::before(&entry.access), want) {
            return Ok(());
        }
        let why = if want == Want::Write { "this process may not change it" } else { "this process may not read it" };
        Err(Error::Denied { object: entry.name.clone(), access: entry.access, why })
    }

    /// Sets the number of clusters that an object may have; `None`: as many as its span holds. An
    /// object that has more keeps them, and gets no others. Settled on return.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Damaged`], [`Error::ReadOnly`],
    /// [`Error::Media`].
    pub fn set_quota(&self, name: &str, clusters: Option<u64>) -> Result<()> {
        self.require_writable()?;
        let _exclusive = self.changing()?;
        let mut names = self.parts().catalogue().lock(); // its name and its span stay until the end
        let entry = names.live(name)?;
        self.require_access(&entry, Want::Write)?;
        header::extent(self.media(), &entry)?;
        self.parts().backing().set_limit(&entry, words::QUOTA, clusters.map(|clusters| clusters.max(1)))
    }

    /// Sets the number of clusters that the objects of one user, other than root, may have together
    /// in this store; `None`: as many as there are. Each growth then costs a look at every object.
    /// Settled on return; a crash leaves the old quota or the new one.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Media`].
    pub fn set_user_quota(&self, clusters: Option<u64>) -> Result<()> {
        let _exclusive = self.renaming()?; // which makes other processes read the superblock again
        let user_quota = clusters.map_or(0, |clusters| clusters.clamp(1, 1 << 31) * CLUSTER);
        self.parts()
            .head()
            .change(|current| Ok(Some(Superblock { user_quota: Length::new(user_quota), ..*current })))
            .map(drop)
    }

    /// The number of clusters that the objects of one user may have together, if that is limited.
    pub fn user_quota(&self) -> Option<u64> {
        Some(self.parts().head().superblock().user_quota.get() / CLUSTER).filter(|&clusters| clusters > 0)
    }
}
