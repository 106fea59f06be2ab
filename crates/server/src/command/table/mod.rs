//! The table of commands. A new command is a row in the file of its group and a function.

use super::{Command, Find, Flags, KeyUse};

mod acl;
mod bitmaps;
mod blocking;
mod connection;
mod geo;
mod hashes;
mod hyperloglog;
mod keys;
mod lists;
mod pubsub;
mod replication;
mod scripting;
mod server;
mod sets;
mod sorted_sets;
mod streams;
mod strings;
mod transaction;

const WRITE: Flags = Flags::WRITE;
const READONLY: Flags = Flags::READONLY;
const DENYOOM: Flags = Flags::DENYOOM;
const FAST: Flags = Flags::FAST;
const STRING: Flags = Flags::STRING;
const LIST: Flags = Flags::LIST;
const MOVABLE: Flags = Flags::MOVABLE_KEYS;
const KEYSPACE: Flags = Flags::KEYSPACE;
const CONNECTION: Flags = Flags::CONNECTION;
const DANGEROUS: Flags = Flags::DANGEROUS;
const LOADING: Flags = Flags::LOADING.union(Flags::STALE);
const ANYTIME: Flags = Flags::NOSCRIPT.union(LOADING);
const HANDSHAKE: Flags = ANYTIME.union(FAST).union(Flags::NO_AUTH).union(Flags::ALLOW_BUSY).union(CONNECTION);
const ADMIN: Flags = Flags::ADMIN.union(ANYTIME);
const NONE: Flags = Flags::empty();

const READ_STRING: Flags = READONLY.union(FAST).union(STRING);
const CHANGE_STRING: Flags = WRITE.union(DENYOOM).union(FAST).union(STRING);
const READ_ALL: Flags = READONLY.union(KEYSPACE).union(Flags::SPANS_KEYS);
const READ_KEY: Flags = READONLY.union(FAST).union(KEYSPACE);

const SUM: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
const ALL_SUCCEEDED: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const ORDER: &[&str] = &["nondeterministic_output_order"];
const OUTPUT: &[&str] = &["nondeterministic_output"];

const RO: &[&str] = &["RO"];
const RO_ACCESS: &[&str] = &["RO", "access"];
const RW_UPDATE: &[&str] = &["RW", "access", "update"];
const RW_SET: &[&str] = &["RW", "update"];
const RW_DELETE: &[&str] = &["RW", "access", "delete"];

const fn uses(first: i32, last: i32, step: i32, flags: &'static [&'static str]) -> KeyUse {
    KeyUse { first, find: Find::Range(last, step, 0), flags, notes: None }
}

/// A number of keys at the argument `first`, then the keys.
const fn counted(first: i32, flags: &'static [&'static str]) -> KeyUse {
    KeyUse { first, find: Find::Counted, flags, notes: None }
}

const fn noted(use_: KeyUse, notes: &'static str) -> KeyUse {
    KeyUse { notes: Some(notes), ..use_ }
}

/// A row without keys.
const fn plain(
    name: &'static str,
    arity: i32,
    flags: Flags,
    group: &'static str,
    since: &'static str,
    summary: &'static str,
    handler: fn(&mut super::Call<'_, '_>) -> super::Outcome,
) -> Command {
    Command {
        name,
        arity,
        flags,
        keys: (0, 0, 0),
        key_uses: &[],
        tips: &[],
        group,
        since,
        complexity: "O(1)",
        summary,
        subcommands: &[],
        handler,
    }
}

const LOG: &str = "O(log N) where N is the number of keys";
const LOG_VALUE: &str = "O(log N + M) where N is the number of keys and M the size of the values read or written";
const LOG_EACH_VALUE: &str = "O(K log N + M) where K is the number of keys given, N the number of keys, and M the size of the values read or written";
const LOG_PART: &str =
    "O(log N + M) where N is the number of keys and M the size of the part; and 4 bytes for each 64 KiB of the value";
const LOG_EACH: &str = "O(M log N) where M is the number of keys given and N the number of keys";
const EVERY: &str = "O(N) where N is the number of keys";

/// A row about keys.
macro_rules! keyed {
    ($name:literal, $arity:literal, $flags:expr, $keys:expr, $uses:expr, $tips:expr, $group:literal, $since:literal,
     $cost:expr, $summary:literal, $handler:expr) => {
        Command {
            keys: $keys,
            key_uses: const { $uses },
            tips: $tips,
            complexity: $cost,
            ..plain($name, $arity, $flags, $group, $since, $summary, $handler)
        }
    };
}

use keyed;

const ONE: (i32, i32, i32) = (1, 1, 1);
const MANY: (i32, i32, i32) = (1, -1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);
const PAIRS: (i32, i32, i32) = (1, -1, 2);

/// Every command, by group.
pub(super) static GROUPS: &[&[Command]] = &[
    strings::ROWS,
    bitmaps::ROWS,
    hashes::ROWS,
    lists::ROWS,
    blocking::ROWS,
    sets::ROWS,
    sorted_sets::ROWS,
    streams::ROWS,
    hyperloglog::ROWS,
    geo::ROWS,
    keys::ROWS,
    transaction::ROWS,
    pubsub::ROWS,
    connection::ROWS,
    server::ROWS,
    replication::ROWS,
    acl::ROWS,
    scripting::ROWS,
];
