//! # everbyte-members: processes that share one store
//!
//! Membership is a set of byte-range locks on the store's file, which the kernel releases when a
//! process exits, cleanly or not. On top of it lie locks in shared memory whose holder may die.
//!
//! * [`Members`], [`JoinLock`], [`Membership`]: the processes that have a store open, and the
//!   numbered slots that they lock;
//! * [`lock_file`], [`lock_file_apart`]: the lock on the whole file, for one process, several
//!   readers or several members;
//! * [`Birth`], [`PrivateDescriptor`]: detection of a forked child, and descriptors that it does
//!   not keep;
//! * [`RobustLock`], [`SharedLock`]: locks in words of shared memory, whose next holder learns of
//!   the death of the last one;
//! * [`peer_groups`]: the groups of the process at the other end of a socket.
//!
//! The crate knows neither stores nor objects: it sees a file, slot numbers, and the words that
//! [`SharedWords`] gives it. `media` opens stores with it, and `store` gives the slots their
//! meaning.

mod byte_lock;
mod error;
mod file_lock;
mod fork;
mod membership;
mod peer_groups;
mod robust_lock;
mod shared_lock;
mod shared_words;

pub use byte_lock::is_read;
pub use error::{Error, Result};
pub use file_lock::{FileLockMode, holders, lock_file, lock_file_apart};
pub use fork::{Birth, PrivateDescriptor};
pub use membership::{GrowthLock, JoinLock, Members, Membership, SLOTS, SlotMode};
pub use peer_groups::peer_groups;
pub use robust_lock::{Predecessor, RobustLock, TOKEN_MAX};
pub use shared_lock::{Exclusive, SharedLock, Since};
pub use shared_words::SharedWords;
