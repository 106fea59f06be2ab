//! Users and their rights: the access control lists of Redis 7.0.
//!
//! A user has passwords, kept as SHA-256, and *selectors*: each names commands, key patterns and
//! channel patterns. A request is permitted if one selector permits all of it (`check.rs`). The
//! first selector is the root: rules outside of parentheses change it (`user.rs`, `selector.rs`).
//!
//! A client holds the id of its user. Ids are never given twice, so the id of a deleted user finds
//! no user and permits nothing.
//!
//! Invariants
//!   ACL-1  A command runs only if the client's user permits it at that moment: as it arrives, once
//!          more as its EXEC runs it, and once more before a client that waits is served.
//!   ACL-2  A changed user changes as a whole or, if one rule is refused, not at all.
//!
//! Threads: the event loop alone; other loops have copies (LOOP-3).
//!
//! Design: docs/design/server-access.md

mod check;
mod describe;
mod file;
mod log;
mod selector;
mod user;

pub(crate) use check::Denied;
pub(crate) use file::{load, save};
pub(crate) use log::{Context, Log, LogEntry, Reason};
pub(crate) use selector::Selector;
pub(crate) use user::{User, merged};

use crate::password::Password;
use std::collections::BTreeMap;

/// A user's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UserId(u64);

/// The name of the user that clients are before they say another.
pub(crate) const DEFAULT: &[u8] = b"default";

/// See the head of this file.
pub(crate) struct Users {
    default: User,
    /// `default` as the server started: what a file that does not name it makes of it.
    initial: User,
    others: BTreeMap<UserId, User>,
    ids: BTreeMap<Vec<u8>, UserId>,
    next: u64,
    /// Refusals.
    pub log: Log,
}

impl Users {
    /// The id of the user `default`, which always exists.
    pub(crate) const DEFAULT: UserId = UserId(0);

    /// The user `default` alone, with this password or none.
    pub(crate) fn new(password: Option<&Password>) -> Users {
        let mut default = User::permitted(DEFAULT);
        if let Some(password) = password {
            default.set_password(password.shown());
        }
        let ids = BTreeMap::from([(DEFAULT.to_vec(), Users::DEFAULT)]);
        Users { initial: default.clone(), default, others: BTreeMap::new(), ids, next: 1, log: Log::default() }
    }

    /// The users without the refusals, for another loop.
    pub(crate) fn rules(&self) -> Users {
        Users {
            default: self.default.clone(),
            initial: self.initial.clone(),
            others: self.others.clone(),
            ids: self.ids.clone(),
            next: self.next,
            log: Log::default(),
        }
    }

    /// A user by id; `None` once it is deleted.
    pub(crate) fn get(&self, id: UserId) -> Option<&User> {
        if id == Users::DEFAULT { Some(&self.default) } else { self.others.get(&id) }
    }

    /// Whether a client need not say any password to be the user `default`.
    pub(crate) fn is_open(&self) -> bool {
        self.default.enabled && self.default.no_password
    }

    /// The id of the user `name`.
    pub(crate) fn id(&self, name: &[u8]) -> Option<UserId> {
        self.ids.get(name).copied()
    }

    /// The user `name`.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&User> {
        self.get(self.id(name)?)
    }

    /// The name of a user; nothing once it is deleted.
    pub(crate) fn name(&self, id: UserId) -> &[u8] {
        self.get(id).map_or(b"", |user| &user.name)
    }

    /// All users, by name.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &User> {
        self.ids.values().map(|id| self.get(*id).expect("a name has a user"))
    }

    /// Puts a user in place of the one of the same name, if there is one.
    pub(crate) fn put(&mut self, user: User) -> UserId {
        let id = match self.ids.get(&user.name) {
            Some(id) => *id,
            None => {
                let id = UserId(self.next);
                self.next += 1;
                self.ids.insert(user.name.clone(), id);
                id
            }
        };
        if id == Users::DEFAULT {
            self.default = user;
        } else {
            self.others.insert(id, user);
        }
        id
    }

    /// Deletes a user; `default` stays.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<UserId> {
        if name == DEFAULT {
            return None;
        }
        let id = self.ids.remove(name)?;
        self.others.remove(&id);
        Some(id)
    }

    /// Puts `users` in place of all; returns the ids of those that are gone. A list without
    /// `default` makes it as it was when the server started.
    pub(crate) fn replace(&mut self, users: Vec<User>) -> Vec<UserId> {
        let names: Vec<Vec<u8>> = self.ids.keys().cloned().collect();
        // Every other user gets another id: its clients have to come again, as in Redis.
        let gone = names.iter().filter_map(|name| self.remove(name)).collect();
        self.default = self.initial.clone();
        for user in users {
            self.put(user);
        }
        gone
    }

    /// The user that this name and password stand for.
    pub(crate) fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<UserId> {
        // An unknown name costs what a known one does.
        let (id, unknown) = (self.id(name), User::new(name));
        let admitted = id.and_then(|id| self.get(id)).unwrap_or(&unknown).admits(password);
        id.filter(|_| admitted)
    }

    /// Whether `default` is as it was before any password or rule: every password would be right.
    pub(crate) fn takes_any_password(&self, name: &[u8]) -> bool {
        name == DEFAULT && self.is_open()
    }
}

#[cfg(test)]
mod tests;
