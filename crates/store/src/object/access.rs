//! The rights of an object: owner, group, and the access of owner, group and others.
//!
//! [`Access::allows`] alone decides when an object is opened. Within one file it prevents
//! accidents: a process with a writable descriptor of the store can reach all bytes of it
//! (docs/semantics/store.md).
//!
//! A record has two copies of its access words and a word that says which of them counts. A change
//! writes the other copy, fences, and then stores that word.
//!
//! Invariants
//!   STORE-12  The copy of an object's access words that counts is never written.

use crate::Result;
use crate::layout::{AccessWords, Record};
use everbyte_media::sealed::{seal, unseal};
use everbyte_media::{Media, Offset, PublishWord};

use std::mem::offset_of;

/// Owner, group and mode of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The user who may change the rights.
    pub owner: u32,
    /// The group that the middle digit of the mode is for.
    pub group: u32,
    /// Read 4 and write 2, for owner, group and others: 0o660 lets owner and group read and write.
    pub mode: u16,
}

/// The access that a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Reading it.
    Read,
    /// Reading and changing it.
    Write,
}

/// A user who asks for access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user; user 0 has every access.
    pub user: u32,
    /// The groups the user is in.
    pub groups: Vec<u32>,
}

impl Access {
    /// All bits that a mode can have.
    pub const MODES: u16 = 0o666;
    /// Every access for every user: of objects that were made before there were rights.
    pub const EVERYBODY: Access = Access { owner: 0, group: 0, mode: Access::MODES };

    /// The rights of a new object: its creator and the creator's group may read and write it.
    pub fn of_new(caller: &Caller) -> Access {
        Access { owner: caller.user, group: caller.groups.first().copied().unwrap_or(0), mode: 0o660 }
    }

    /// Whether `caller` has the access that it wants. The first class that fits decides: owner,
    /// group, others.
    pub fn allows(&self, caller: &Caller, want: Want) -> bool {
        let digit = match caller {
            Caller { user: 0, .. } => return true,
            Caller { user, .. } if *user == self.owner => self.mode >> 6,
            Caller { groups, .. } if groups.contains(&self.group) => self.mode >> 3,
            _ => self.mode,
        };
        let needed = if want == Want::Write { 6 } else { 4 };
        digit & needed == needed
    }

    /// The reason why `caller` may not change `self` to `new`, if it may not: the owner changes
    /// modes, root changes owners, and an owner changes the group to one of its own.
    pub fn refuses(&self, caller: &Caller, new: &Access) -> Option<&'static str> {
        match caller.user {
            0 => None,
            user if user != self.owner => Some("it belongs to another user"),
            _ if new.owner != self.owner => Some("only root gives objects away"),
            _ if new.group != self.group && !caller.groups.contains(&new.group) => Some("you are not in that group"),
            _ => None,
        }
    }
}

impl Caller {
    /// This process, by its effective user and groups.
    pub fn current() -> Caller {
        let mut groups = vec![rustix::process::getegid().as_raw()];
        groups.extend(rustix::process::getgroups().unwrap_or_default().into_iter().map(|group| group.as_raw()));
        Caller { user: rustix::process::geteuid().as_raw(), groups }
    }

    /// This process, without its groups if its user decides `access`: the groups cost three system
    /// calls.
    pub(super) fn before(access: &Access) -> Caller {
        let user = rustix::process::geteuid().as_raw();
        if user == 0 || user == access.owner { Caller { user, groups: vec![] } } else { Caller::current() }
    }
}

impl std::fmt::Display for Access {
    /// Two letters each for owner, group and others: `rwr--- 1000:100`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for digit in [self.mode >> 6, self.mode >> 3, self.mode] {
            write!(f, "{}{}", if digit & 4 != 0 { 'r' } else { '-' }, if digit & 2 != 0 { 'w' } else { '-' })?;
        }
        write!(f, " {}:{}", self.owner, self.group)
    }
}

/// The access words of a new record: the first copy counts.
pub(crate) fn put_new(record: &mut Record, access: Access) {
    record.access[0] = AccessWords::new(access.owner, access.group, access.mode.into());
    record.choice = seal(1 << 16);
}

/// The rights in a record; `None` if they are damaged.
pub(crate) fn of_record(record: &Record) -> Option<Access> {
    if record.choice == 0 && record.access == [AccessWords::default(); 2] {
        return Some(Access::EVERYBODY);
    }
    let copy = record.access.get((unseal(record.choice)? >> 16).checked_sub(1)? as usize)?;
    let whole = *copy == AccessWords::new(copy.owner, copy.group, copy.mode);
    let mode = u16::try_from(copy.mode).ok().filter(|mode| mode & !Access::MODES == 0)?;
    whole.then_some(Access { owner: copy.owner, group: copy.group, mode })
}

/// Changes the access words of the record at `at`; settled on return. The caller has the lock of
/// the catalogue.
pub(super) fn change(media: &Media, at: u64, access: Access) -> Result<()> {
    let choice_at = at + offset_of!(Record, choice) as u64;
    // A process that died in a change may have left the word unflushed: without this the copy that
    // counts after a crash would be the one that is written below (STORE-12).
    media.reflush(choice_at, 8);
    media.fence();
    let record: Record = media.get(at);
    let other = if unseal(record.choice) == Some(1 << 16) { 2 } else { 1 }; // STORE-12
    let copy = at + offset_of!(Record, access) as u64 + (other - 1) * size_of::<AccessWords>() as u64;
    {
        let _section = media.section();
        media.put(copy, &AccessWords::new(access.owner, access.group, access.mode.into()));
        media.flush(copy, size_of::<AccessWords>() as u64);
    }
    let ordered = media.fence_after_unless("store-access-unordered", copy);
    {
        let _section = media.section();
        let choice = PublishWord::new(Offset::new(choice_at));
        choice.publish(media, seal(other << 16), &ordered);
    }
    Ok(media.barrier()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_fits_decides() {
        let access = Access { owner: 10, group: 20, mode: 0o640 };
        let may = |user: u32, groups: &[u32], want| access.allows(&Caller { user, groups: groups.into() }, want);
        assert!(may(10, &[], Want::Write) && may(0, &[], Want::Write));
        assert!(may(11, &[5, 20], Want::Read) && !may(11, &[20], Want::Write));
        assert!(!may(11, &[5], Want::Read));
        // An owner whom the mode shuts out is not let in as one of the group.
        let shut = Access { mode: 0o060, ..access };
        assert!(!shut.allows(&Caller { user: 10, groups: vec![20] }, Want::Read));
        assert_eq!(access.to_string(), "rwr--- 10:20");
    }

    #[test]
    fn groups_that_are_not_asked_for_decide_nothing() {
        let me = Caller::current();
        for (owner, mode) in [(me.user, 0o606), (me.user, 0o066), (me.user + 1, 0o060), (me.user + 1, 0o600)] {
            let access = Access { owner, group: me.groups[0], mode };
            for want in [Want::Read, Want::Write] {
                assert_eq!(access.allows(&Caller::before(&access), want), access.allows(&me, want), "{access}");
            }
        }
    }

    #[test]
    fn rights_are_changed_by_those_who_may() {
        let access = Access { owner: 10, group: 20, mode: 0o660 };
        let caller = |user, groups: &[u32]| Caller { user, groups: groups.into() };
        let refused = |user, groups: &[u32], new: Access| access.refuses(&caller(user, groups), &new).is_some();
        assert!(!refused(10, &[20], Access { mode: 0o600, ..access }));
        assert!(refused(11, &[20], Access { mode: 0o600, ..access }));
        assert!(refused(10, &[20], Access { owner: 11, ..access }) && !refused(0, &[], Access { owner: 11, ..access }));
        assert!(refused(10, &[20], Access { group: 21, ..access }));
        assert!(!refused(10, &[20, 21], Access { group: 21, ..access }));
    }
}
