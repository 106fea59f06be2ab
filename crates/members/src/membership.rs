//! Membership of a shared store: byte-range locks on its file. The kernel releases them when the
//! process exits, cleanly or not.
//!
//! | byte | lock |
//! |---|---|
//! | `JOIN` | exclusive, by the process that opens or closes the store |
//! | `MEMBERS` | shared, by every member; exclusive, by a process that is alone |
//! | `READERS` | shared, by processes that only read |
//! | `GROWTH` | exclusive, by the process that gives the file another chunk |
//! | `TOKENS` + token | exclusive, by the member with that token |
//! | `SLOT_BYTES` + slot | by the members that hold the slot |
//!
//! A process that gets `MEMBERS` exclusively recovers the store. No two members of one opening have
//! the same token. The caller gives slots their meaning.
//!
//! All locks belong to one open file description, which a forked child closes: the child is no
//! member, and its exit releases nothing. Memory without a file has its members in one process:
//! tests run several of them, and their deaths, that way.
//!
//! Invariants
//!   MEMBER-1  A token whose byte is not locked belongs to a process that has exited or has left.
//!
//! Threads: any.

use crate::byte_lock::{self, ByteLock, GROWTH, JOIN, MEMBERS, SLOT_BYTES, TOKENS};
use crate::fork::PrivateDescriptor;
use crate::{Error, Result};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Slots are numbered from 0 to this, exclusive.
pub const SLOTS: u64 = 1 << 61;

/// The way in which a member holds a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotMode {
    /// No other member holds it.
    Exclusive,
    /// Other members may hold it, too.
    Shared,
}

/// The members of one store, as this process sees them.
pub struct Members {
    path: PathBuf,
    locks: MemberLocks,
}

enum MemberLocks {
    File(PrivateDescriptor),
    Memory(Mutex<MembersInMemory>),
}

/// Members of memory without a file.
#[derive(Default)]
struct MembersInMemory {
    tokens: BTreeSet<u32>,
    slots: Vec<HeldSlot>,
}

struct HeldSlot {
    slot: u64,
    token: u32,
    mode: SlotMode,
}

/// Held while a store is opened or closed: no other process does either.
#[must_use = "other processes cannot open the store until it is dropped"]
pub struct JoinLock {
    members: Arc<Members>,
    alone: bool,
}

/// The membership of this process in a shared store; it ends when the value is dropped.
pub struct Membership {
    members: Arc<Members>,
    token: u32,
}

impl Members {
    /// Members of memory without a file: all of them in this process.
    pub fn in_memory() -> Members {
        Members { path: "memory".into(), locks: MemberLocks::Memory(Mutex::default()) }
    }

    /// The members of the store `file` at `path`. Their locks need an open file description of
    /// their own: `locks`, or `file` opened once more.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn of_file(file: &File, locks: Option<File>, path: &Path) -> Result<Members> {
        let own = locks.map_or_else(|| PrivateDescriptor::reopen(file), PrivateDescriptor::new);
        let own = own.map_err(|source| Error::Io { action: "open", path: path.into(), source })?;
        Ok(Members { path: path.into(), locks: MemberLocks::File(own) })
    }

    /// The descriptor that carries the locks; `None` in memory.
    pub fn locks(&self) -> Option<BorrowedFd<'_>> {
        match &self.locks {
            MemberLocks::File(locks) => Some(locks.as_fd()),
            MemberLocks::Memory(_) => None,
        }
    }

    /// Waits until no other process opens or closes the store, and learns whether the store has
    /// members.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Io`].
    pub fn lock_joining(self: &Arc<Members>) -> Result<JoinLock> {
        self.require_here()?;
        let alone = match &self.locks {
            MemberLocks::File(_) => {
                self.lock(JOIN, ByteLock::Exclusive, true)?;
                self.lock(MEMBERS, ByteLock::Exclusive, false)?
            }
            MemberLocks::Memory(members) => members.lock().tokens.is_empty(),
        };
        Ok(JoinLock { members: Arc::clone(self), alone })
    }

    /// Locks or unlocks a byte. `false`: another process holds a conflicting lock.
    fn lock(&self, at: u64, lock: ByteLock, wait: bool) -> Result<bool> {
        let MemberLocks::File(locks) = &self.locks else { return Ok(true) };
        let failed = |source| Error::Io { action: "lock", path: self.path.clone(), source };
        byte_lock::set(locks.as_fd(), at, lock, wait).map_err(failed)
    }

    /// Unlocks a byte. The call does not fail; if it did, the exit of the process would unlock the
    /// byte.
    fn unlock(&self, at: u64) {
        let _ = self.lock(at, ByteLock::Unlocked, false);
    }

    /// Waits until no other process gives the file a chunk, and keeps others from it.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Io`].
    pub fn lock_growth(&self) -> Result<GrowthLock<'_>> {
        self.require_here()?;
        self.lock(GROWTH, ByteLock::Exclusive, true)?;
        Ok(GrowthLock(self))
    }

    /// Refuses a forked child: it inherits no membership.
    ///
    /// # Errors
    /// [`Error::Forked`].
    #[inline]
    pub fn require_here(&self) -> Result<()> {
        match &self.locks {
            MemberLocks::File(locks) if locks.is_child() => Err(Error::Forked { owner: locks.owner() }),
            _ => Ok(()),
        }
    }
}

/// The lock under which one process gives the file a chunk.
#[must_use = "released when it is dropped"]
pub struct GrowthLock<'m>(&'m Members);

impl Drop for GrowthLock<'_> {
    fn drop(&mut self) {
        self.0.unlock(GROWTH);
    }
}

impl JoinLock {
    /// Whether the store has no members: the caller then recovers it.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// Makes this process a member, and lets other processes open and close the store.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Panics
    /// MEMBER-1: if another member has the token.
    pub fn join(self, token: u32) -> Result<Membership> {
        let members = Arc::clone(&self.members);
        match &members.locks {
            MemberLocks::File(_) => {
                let free = members.lock(TOKENS + u64::from(token), ByteLock::Exclusive, false)?;
                assert!(free, "MEMBER-1: token {token} belongs to another member");
                members.lock(MEMBERS, ByteLock::Shared, false)?;
            }
            MemberLocks::Memory(members) => {
                let free = members.lock().tokens.insert(token);
                assert!(free, "MEMBER-1: token {token} belongs to another member");
            }
        }
        Ok(Membership { members, token })
    }
}

impl Drop for JoinLock {
    fn drop(&mut self) {
        self.members.unlock(JOIN);
    }
}

impl Membership {
    /// The token of this member.
    pub fn token(&self) -> u32 {
        self.token
    }

    /// Refuses a forked child: it inherits no membership.
    ///
    /// # Errors
    /// [`Error::Forked`].
    #[inline]
    pub fn require_here(&self) -> Result<()> {
        self.members.require_here()
    }

    /// Whether the member with that token is still there (MEMBER-1).
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn is_alive(&self, token: u32) -> Result<bool> {
        match &self.members.locks {
            MemberLocks::File(locks) => {
                let taken = byte_lock::is_taken(locks.as_fd(), TOKENS + u64::from(token), ByteLock::Exclusive);
                taken.map_err(|source| Error::Io {
                    action: "look for locks of",
                    path: self.members.path.clone(),
                    source,
                })
            }
            MemberLocks::Memory(members) => Ok(members.lock().tokens.contains(&token)),
        }
    }

    /// Locks a slot for this member; a slot that it holds changes its mode. `false`: other members
    /// hold it in a way that excludes this one.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Panics
    /// If `slot` is not below [`SLOTS`].
    pub fn lock_slot(&self, slot: u64, mode: SlotMode) -> Result<bool> {
        assert!(slot < SLOTS, "slot {slot} is not below {SLOTS}");
        match &self.members.locks {
            MemberLocks::File(_) => {
                let lock = match mode {
                    SlotMode::Exclusive => ByteLock::Exclusive,
                    SlotMode::Shared => ByteLock::Shared,
                };
                self.members.lock(SLOT_BYTES + slot, lock, false)
            }
            MemberLocks::Memory(members) => {
                let slots = &mut members.lock().slots;
                let excludes = |held: &HeldSlot| {
                    held.slot == slot
                        && held.token != self.token
                        && (mode == SlotMode::Exclusive || held.mode == SlotMode::Exclusive)
                };
                let free = !slots.iter().any(excludes);
                if free {
                    slots.retain(|held| (held.slot, held.token) != (slot, self.token));
                    slots.push(HeldSlot { slot, token: self.token, mode });
                }
                Ok(free)
            }
        }
    }

    /// Unlocks a slot that [`Membership::lock_slot`] has locked.
    pub fn unlock_slot(&self, slot: u64) {
        match &self.members.locks {
            MemberLocks::File(_) => self.members.unlock(SLOT_BYTES + slot),
            MemberLocks::Memory(members) => {
                members.lock().slots.retain(|held| (held.slot, held.token) != (slot, self.token));
            }
        }
    }

    /// Ends the membership. `last` runs while no other process opens or closes the store; its
    /// argument says whether no other member is left.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Io`]; the error of `last`.
    pub fn leave<T, E: From<Error>>(&self, last: impl FnOnce(bool) -> Result<T, E>) -> Result<T, E> {
        let mut joining = self.members.lock_joining()?;
        if let MemberLocks::Memory(members) = &self.members.locks {
            joining.alone = members.lock().tokens.iter().all(|&token| token == self.token);
        }
        let answer = last(joining.alone);
        self.end();
        answer
    }

    fn end(&self) {
        match &self.members.locks {
            MemberLocks::File(_) => {
                self.members.unlock(TOKENS + u64::from(self.token));
                self.members.unlock(MEMBERS);
            }
            MemberLocks::Memory(members) => {
                let mut members = members.lock();
                members.tokens.remove(&self.token);
                members.slots.retain(|held| held.token != self.token);
            }
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.require_here().is_ok() {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two members of one file, or of memory.
    fn two_members(file: bool) -> (Membership, Membership, Option<tempfile::NamedTempFile>) {
        let kept = file.then(|| tempfile::NamedTempFile::new().unwrap());
        let memory = Arc::new(Members::in_memory());
        let members = || match &kept {
            Some(kept) => Arc::new(Members::of_file(kept.as_file(), None, kept.path()).unwrap()),
            None => Arc::clone(&memory),
        };
        let first = members().lock_joining().unwrap();
        assert!(first.is_alone());
        let first = first.join(1).unwrap();
        let second = members().lock_joining().unwrap();
        assert!(!second.is_alone());
        (first, second.join(2).unwrap(), kept)
    }

    #[test]
    fn a_slot_is_held_by_one_member_or_shared() {
        for file in [false, true] {
            let (one, two, _file) = two_members(file);
            assert!(one.lock_slot(7, SlotMode::Shared).unwrap() && two.lock_slot(7, SlotMode::Shared).unwrap());
            assert!(!one.lock_slot(7, SlotMode::Exclusive).unwrap(), "another member shares it");
            assert!(one.lock_slot(8, SlotMode::Exclusive).unwrap() && !two.lock_slot(8, SlotMode::Shared).unwrap());
            two.unlock_slot(7);
            assert!(one.lock_slot(7, SlotMode::Exclusive).unwrap());
            drop(one);
            assert!(two.lock_slot(8, SlotMode::Exclusive).unwrap(), "slots end with the membership");
        }
    }

    #[test]
    fn a_member_that_has_left_is_not_alive() {
        for file in [false, true] {
            let (one, two, _file) = two_members(file);
            assert!(one.is_alive(2).unwrap() && two.is_alive(1).unwrap());
            assert!(!two.leave(Ok::<_, Error>).unwrap(), "MEMBER-1");
            assert!(!one.is_alive(2).unwrap());
            assert!(one.leave(Ok::<_, Error>).unwrap());
        }
    }

    /// The lock of growth is the store's, and free when its guard is gone.
    #[test]
    fn one_member_at_a_time_gives_the_file_a_chunk() {
        let (one, two, _file) = two_members(true);
        let taken = || byte_lock::is_taken(two.members.locks().unwrap(), GROWTH, ByteLock::Exclusive).unwrap();
        let growing = one.members.lock_growth().unwrap();
        assert!(taken());
        drop(growing);
        assert!(!taken());
        drop(two.members.lock_growth().unwrap());
    }
}
