//! Rows of the table: keys whatever their values.

use super::*;
use crate::command::{dump, expiry, keys, objects, pinned_ranges, range, scan, server, snapshots, sort};

const PAIRS_READ: &str = "O(log N + M) where N is the number of keys and M the number and size of the pairs returned";
const KEYS_BETWEEN: &str = "O(log N + M) where N is the number of keys and M the number of those between start and end, of which deadlines and elements are removed as well";

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("del", -2, WRITE.union(KEYSPACE), MANY, &[uses(1, -1, 1, &["RM", "delete"])], SUM, "generic", "1.0.0", LOG_EACH, "Deletes keys", keys::del),
    keyed!("unlink", -2, WRITE.union(FAST).union(KEYSPACE), MANY, &[uses(1, -1, 1, &["RM", "delete"])], SUM, "generic", "4.0.0", LOG_EACH, "Deletes keys; the same as DEL", keys::del),
    keyed!("exists", -2, READ_KEY, MANY, &[uses(1, -1, 1, RO)], SUM, "generic", "1.0.0", LOG_EACH, "How many of the given keys exist", keys::exists),
    keyed!("touch", -2, READ_KEY, MANY, &[uses(1, -1, 1, RO)], SUM, "generic", "3.2.1", LOG_EACH, "How many of the given keys exist; keeps no access times", keys::exists),
    keyed!("type", 2, READ_KEY, ONE, &[uses(1, 0, 1, RO)], &[], "generic", "1.0.0", LOG, "The type of a key: string, list, set, zset, hash; or none", keys::type_of),
    keyed!("rename", 3, WRITE.union(KEYSPACE), TWO, &[uses(1, 0, 1, RW_DELETE), uses(2, 0, 1, &["OW", "update"])], &[], "generic", "1.0.0", LOG_VALUE, "Moves a value to another key", keys::rename),
    keyed!("renamenx", 3, WRITE.union(FAST).union(KEYSPACE), TWO, &[uses(1, 0, 1, RW_DELETE), uses(2, 0, 1, &["OW", "insert"])], &[], "generic", "1.0.0", LOG_VALUE, "Moves a value to another key unless that has one", keys::renamenx),
    keyed!("expire", -3, WRITE.union(FAST).union(KEYSPACE), ONE, &[uses(1, 0, 1, RW_SET)], &[], "generic", "1.0.0", LOG_VALUE, "Deletes a key after so many seconds; options NX, XX, GT, LT", expiry::expire),
    keyed!("pexpire", -3, WRITE.union(FAST).union(KEYSPACE), ONE, &[uses(1, 0, 1, RW_SET)], &[], "generic", "2.6.0", LOG_VALUE, "Deletes a key after so many milliseconds; options NX, XX, GT, LT", expiry::pexpire),
    keyed!("expireat", -3, WRITE.union(FAST).union(KEYSPACE), ONE, &[uses(1, 0, 1, RW_SET)], &[], "generic", "1.2.0", LOG_VALUE, "Deletes a key at a time in seconds since 1970; options NX, XX, GT, LT", expiry::expireat),
    keyed!("pexpireat", -3, WRITE.union(FAST).union(KEYSPACE), ONE, &[uses(1, 0, 1, RW_SET)], &[], "generic", "2.6.0", LOG_VALUE, "Deletes a key at a time in milliseconds since 1970; options NX, XX, GT, LT", expiry::pexpireat),
    keyed!("ttl", 2, READ_KEY, ONE, &[uses(1, 0, 1, RO_ACCESS)], OUTPUT, "generic", "1.0.0", LOG, "Seconds until a key expires; -1: never; -2: no such key", expiry::ttl),
    keyed!("pttl", 2, READ_KEY, ONE, &[uses(1, 0, 1, RO_ACCESS)], OUTPUT, "generic", "2.6.0", LOG, "Milliseconds until a key expires; -1: never; -2: no such key", expiry::pttl),
    keyed!("expiretime", 2, READ_KEY, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "generic", "7.0.0", LOG, "The second since 1970 at which a key expires; -1: never; -2: no such key", expiry::expiretime),
    keyed!("pexpiretime", 2, READ_KEY, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "generic", "7.0.0", LOG, "The millisecond since 1970 at which a key expires; -1: never; -2: no such key", expiry::pexpiretime),
    keyed!("persist", 2, WRITE.union(FAST).union(KEYSPACE), ONE, &[uses(1, 0, 1, &["RW", "update"])], &[], "generic", "2.2.0", LOG_VALUE, "Takes a key's deadline away", expiry::persist),
    keyed!("copy", -3, WRITE.union(DENYOOM).union(KEYSPACE), TWO, &[uses(1, 0, 1, RO_ACCESS), uses(2, 0, 1, &["OW", "update"])], &[], "generic", "6.2.0", "O(log N + M) where M is the number of elements copied", "Copies a value, with its deadline; options DB, REPLACE", keys::copy),
    keyed!("move", 3, WRITE.union(FAST).union(KEYSPACE), ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "generic", "1.0.0", "O(log N + M) where M is the number of elements moved", "Moves a key to another database", keys::move_to),
    keyed!("keys", 2, READONLY.union(KEYSPACE).union(DANGEROUS), (0, 0, 0), &[], &["request_policy:all_shards", "nondeterministic_output_order"], "generic", "1.0.0", "O(N) where N is the number of keys that share the pattern's literal start", "All keys that match a pattern, in order", scan::keys),
    keyed!("scan", -2, READONLY.union(KEYSPACE), (0, 0, 0), &[], &["nondeterministic_output", "request_policy:special"], "generic", "2.8.0", "O(log N + COUNT) a call", "Some keys and where to go on; options MATCH, COUNT, TYPE", scan::scan),
    keyed!("range", -3, READ_ALL, (0, 0, 0), &[], &["request_policy:all_shards"], "generic", "0.1.0", PAIRS_READ, "RANGE start end [LIMIT n]: keys and values in order, from start (included) to end (excluded); - and + are open ends", range::range),
    keyed!("revrange", -3, READ_ALL, (0, 0, 0), &[], &["request_policy:all_shards"], "generic", "0.1.0", PAIRS_READ, "REVRANGE end start [LIMIT n]: the pairs of RANGE start end, from the last to the first", range::revrange),
    keyed!("prefix", -2, READ_ALL, (0, 0, 0), &[], &["request_policy:all_shards"], "generic", "0.1.0", PAIRS_READ, "PREFIX prefix [LIMIT n]: the keys that begin with a prefix, and their values, in order", range::prefix),
    keyed!("countrange", 3, READ_ALL, (0, 0, 0), &[], SUM, "generic", "0.1.0", KEYS_BETWEEN, "The number of keys from start to end, as RANGE has them", range::countrange),
    keyed!("delrange", -3, WRITE.union(KEYSPACE).union(Flags::SPANS_KEYS), (0, 0, 0), &[], SUM, "generic", "0.1.0", KEYS_BETWEEN, "DELRANGE start end [LIMIT n]: deletes keys as RANGE has them, the first n; replies how many", range::delrange),
    keyed!("dbsize", 1, READ_KEY, (0, 0, 0), &[], &["request_policy:all_shards", "response_policy:agg_sum"], "server", "1.0.0", "O(1)", "The number of keys", keys::dbsize),
    keyed!("flushall", -1, WRITE.union(KEYSPACE).union(DANGEROUS), (0, 0, 0), &[], ALL_SUCCEEDED, "server", "1.0.0", EVERY, "Deletes the keys of all databases", keys::flush_all),
    keyed!("flushdb", -1, WRITE.union(KEYSPACE).union(DANGEROUS), (0, 0, 0), &[], ALL_SUCCEEDED, "server", "1.0.0", EVERY, "Deletes the keys of this database", keys::flush_database),
    keyed!("randomkey", 1, READONLY.union(KEYSPACE), (0, 0, 0), &[], &["request_policy:all_shards", "nondeterministic_output"], "generic", "1.0.0", "O(log N) where N is the number of all keys", "A random key", keys::randomkey),
    keyed!("swapdb", 3, WRITE.union(FAST).union(KEYSPACE).union(DANGEROUS), (0, 0, 0), &[], &[], "server", "4.0.0", "O(M) where M is the number of keys that clients watch or wait for", "Exchanges the contents of two databases; no key is moved", keys::swapdb),
    keyed!("sort", -2, SORTS.union(WRITE).union(DENYOOM), ONE, &[uses(1, 0, 1, RO_ACCESS), BY_PATTERN, BY_STORE], &[], "generic", "1.0.0", SORT_COST, "Elements of a list, set or sorted set in order; options BY, LIMIT, GET, ASC, DESC, ALPHA, STORE", sort::sort_command),
    keyed!("sort_ro", -2, SORTS.union(READONLY), ONE, &[uses(1, 0, 1, RO_ACCESS), BY_PATTERN], &[], "generic", "7.0.0", SORT_COST, "As SORT without STORE", sort::sort_ro),
    keyed!("dump", 2, READONLY.union(KEYSPACE), ONE, &[uses(1, 0, 1, RO_ACCESS)], OUTPUT, "generic", "2.6.0", "O(log N + M) where N is the number of keys and M the number and size of the value's elements", "A value as bytes that RESTORE takes, here and in Redis", dump::dump),
    keyed!("restore", -4, WRITE.union(DENYOOM).union(KEYSPACE).union(DANGEROUS), ONE, &[uses(1, 0, 1, &["OW", "update"])], &[], "generic", "2.6.0", "O(M log N) where N is the number of keys and M the number and size of the value's elements", "Gives a key the value that DUMP has written; options REPLACE, ABSTTL, IDLETIME, FREQ", dump::restore),
    Command { complexity: "Depends on the subcommand", subcommands: CURSOR, ..plain("cursor", -2, NONE, "generic", "0.1.0", "Ranges of keys as of one version, in parts", server::container) },
    Command { complexity: "Depends on the subcommand", subcommands: SNAPSHOT, ..plain("snapshot", -2, NONE, "generic", "0.1.0", "Versions of all keys that have names", server::container) },
    Command { complexity: "Depends on the subcommand", subcommands: OBJECT, ..plain("object", -2, NONE, "generic", "2.2.3", "About values", server::container) },
];

const SORTS: Flags = Flags::SET.union(Flags::SORTED_SET).union(LIST).union(DANGEROUS).union(MOVABLE);
const SORT_COST: &str = "O(N log N + M) where N is the number of elements and M the number and size of the values returned; with BY and GET a look-up for each element";
const BY_PATTERN: KeyUse = KeyUse {
    first: 2,
    find: Find::Unknown(None),
    flags: RO_ACCESS,
    notes: Some(
        "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort",
    ),
};
const BY_STORE: KeyUse = KeyUse {
    first: 2,
    find: Find::Unknown(Some("store")),
    flags: &["OW", "update"],
    notes: Some(
        "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array",
    ),
};

const OBJECT_KEY: &[KeyUse] = &[uses(2, 0, 1, RO)];
const OF_KEY: (i32, i32, i32) = (2, 2, 1);

#[rustfmt::skip]
const OBJECT: &[Command] = &[
    keyed!("object|encoding", 3, READONLY.union(KEYSPACE), OF_KEY, OBJECT_KEY, OUTPUT, "generic", "2.2.3", "O(log N); of a small collection as well its elements, 512 at most", "How Redis would keep the value", objects::encoding),
    keyed!("object|refcount", 3, READONLY.union(KEYSPACE), OF_KEY, OBJECT_KEY, OUTPUT, "generic", "2.2.3", LOG, "1: a value belongs to its key alone", objects::refcount),
    keyed!("object|idletime", 3, READONLY.union(KEYSPACE), OF_KEY, OBJECT_KEY, OUTPUT, "generic", "2.2.3", LOG, "0: access times are not kept", objects::idletime),
    keyed!("object|freq", 3, READONLY.union(KEYSPACE), OF_KEY, OBJECT_KEY, OUTPUT, "generic", "4.0.0", LOG, "An error: frequencies of access are not kept", objects::freq),
    plain("object|help", 2, LOADING.union(KEYSPACE), "generic", "6.2.0", "The subcommands", objects::object_help),
];

const PINNED: Flags = READ_ALL.union(Flags::NOSCRIPT).union(Flags::NO_MULTI);
const PART: &str = "O(log N + M) where N is the number of keys and M the number and size of the pairs of the part";

#[rustfmt::skip]
const CURSOR: &[Command] = &[
    Command { complexity: PART, ..plain("cursor|range", -4, PINNED, "generic", "0.1.0", "CURSOR RANGE start end [LIMIT n] [AT snapshot]: the first pairs of a range, and a cursor to the others, all of one version", pinned_ranges::range) },
    Command { complexity: PART, ..plain("cursor|revrange", -4, PINNED, "generic", "0.1.0", "CURSOR REVRANGE end start [LIMIT n] [AT snapshot]: the same from the last pair to the first", pinned_ranges::revrange) },
    Command { complexity: PART, ..plain("cursor|prefix", -3, PINNED, "generic", "0.1.0", "CURSOR PREFIX prefix [LIMIT n] [AT snapshot]: the same for keys that begin with a prefix", pinned_ranges::prefix) },
    Command { complexity: PART, ..plain("cursor|next", -3, PINNED, "generic", "0.1.0", "CURSOR NEXT cursor [LIMIT n]: the next pairs, and the cursor, 0 if nothing is left", pinned_ranges::next) },
    plain("cursor|close", 3, LOADING, "generic", "0.1.0", "Closes a cursor", pinned_ranges::close),
    plain("cursor|help", 2, LOADING, "generic", "0.1.0", "The subcommands", pinned_ranges::help),
];

const NAMES_VERSIONS: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::NO_MULTI);

#[rustfmt::skip]
const SNAPSHOT: &[Command] = &[
    Command { complexity: LOG, ..plain("snapshot|create", 3, NAMES_VERSIONS, "generic", "0.1.0", "Gives the newest version of all keys a name; what is replaced later keeps its space until the name is removed", snapshots::create) },
    Command { complexity: "O(log N + M) where N is the number of keys and M what was kept for this name", ..plain("snapshot|drop", 3, NAMES_VERSIONS, "generic", "0.1.0", "Removes the name of a version", snapshots::drop_snapshot) },
    Command { complexity: "O(N) where N is the number of snapshots", ..plain("snapshot|list", 2, Flags::ADMIN.union(Flags::NOSCRIPT), "generic", "0.1.0", "Names, versions and times", snapshots::list) },
    plain("snapshot|help", 2, LOADING, "generic", "0.1.0", "The subcommands", snapshots::help),
];
