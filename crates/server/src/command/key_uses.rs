//! The uses of keys that policies of eviction follow (`data_bound/access.rs`).

use super::{Command, KeyPlace, key_places};
use crate::keyspace::Keyspace;
use crate::resp::parse::Args;
use crate::server_state::ServerState;

/// Commands that tell of a key and do not use it, as in Redis.
const LOOK_ONLY: [&str; 11] = [
    "exists",
    "type",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "object|encoding",
    "object|refcount",
    "object|idletime",
    "object|freq",
    "memory|usage",
];

/// A command has used its keys: notes when, if a policy asks for it.
#[inline]
pub(crate) fn note_uses(
    shared: &mut ServerState,
    keys: &mut Keyspace<'_>,
    database: u8,
    command: &Command,
    args: &Args<'_>,
) {
    if shared.data_bound.notes_uses() {
        note(shared, keys, database, command, args);
    }
}

fn note(shared: &mut ServerState, keys: &mut Keyspace<'_>, database: u8, command: &Command, args: &Args<'_>) {
    if LOOK_ONLY.contains(&command.name) || command.key_uses.is_empty() {
        return;
    }
    let now = keys.now();
    for KeyPlace { index, .. } in key_places(command, args, 0).unwrap_or_default() {
        shared.data_bound.note_use(database, args.get(index), now, &mut || keys.random());
    }
}
