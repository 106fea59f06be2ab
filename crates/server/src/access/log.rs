//! Refusals, the newest first (ACL LOG). Equal ones within a minute are one entry.

use std::collections::VecDeque;

/// Entries kept.
const ENTRIES_MAX: usize = 128;
/// Entries looked at for an equal one.
const COMPARED_MAX: usize = 10;
/// Milliseconds within which equal refusals are one entry.
const TOGETHER: u64 = 60_000;
/// Bytes that an entry keeps of a key or name, and of the client.
const OBJECT_SIZE_MAX: usize = 4096;

/// The right that was missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// To the command.
    Command,
    /// To a key.
    Key,
    /// To a channel.
    Channel,
    /// To be the user.
    Auth,
}

/// The place of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// By itself.
    TopLevel,
    /// Between MULTI and EXEC.
    Multi,
    /// In a script.
    Script,
}

/// See the head of this file.
pub(crate) struct LogEntry {
    /// How often it happened.
    pub count: u64,
    /// See there.
    pub reason: Reason,
    /// See there.
    pub context: Context,
    /// The name of the command, the key, or the channel.
    pub object: Vec<u8>,
    /// The user.
    pub user: Vec<u8>,
    /// Milliseconds since 1970, of the last time.
    pub time: u64,
    /// The client, as CLIENT LIST shows it, of the last time.
    pub client: String,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Log {
    entries: VecDeque<LogEntry>,
}

impl Log {
    /// Notes a refusal.
    pub(crate) fn add(&mut self, mut entry: LogEntry) {
        for name in [&mut entry.object, &mut entry.user] {
            name.truncate(OBJECT_SIZE_MAX);
            name.shrink_to_fit();
        }
        entry.client.truncate(entry.client.floor_char_boundary(OBJECT_SIZE_MAX));
        entry.client.shrink_to_fit();
        let equal = |known: &LogEntry| {
            known.reason == entry.reason
                && known.context == entry.context
                && known.time.abs_diff(entry.time) <= TOGETHER
                && known.object == entry.object
                && known.user == entry.user
        };
        if let Some(place) = self.entries.iter().take(COMPARED_MAX).position(equal)
            && let Some(known) = self.entries.remove(place)
        {
            entry.count += known.count;
        }
        self.entries.push_front(entry);
        self.entries.truncate(ENTRIES_MAX);
    }

    /// The newest entries first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &LogEntry> {
        self.entries.iter()
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}
