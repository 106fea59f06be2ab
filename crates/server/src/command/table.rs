//! The table of commands. A new command is a row here and a function.

use super::{
    Command, Flags, KeyUse, backup, client, config, connection, counter, describe, info, keys, range, scan, server,
    strings,
};

const WRITE: Flags = Flags::WRITE;
const READONLY: Flags = Flags::READONLY;
const DENYOOM: Flags = Flags::DENYOOM;
const FAST: Flags = Flags::FAST;
const STRING: Flags = Flags::STRING;
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
const READ_KEY: Flags = READONLY.union(FAST).union(KEYSPACE);

const SUM: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
const ALL_SUCCEEDED: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const ORDER: &[&str] = &["nondeterministic_output_order"];
const OUTPUT: &[&str] = &["nondeterministic_output"];

const RO: &[&str] = &["RO"];
const RO_ACCESS: &[&str] = &["RO", "access"];
const RW_UPDATE: &[&str] = &["RW", "access", "update"];
const RW_DELETE: &[&str] = &["RW", "access", "delete"];

const fn uses(first: i32, last: i32, step: i32, flags: &'static [&'static str]) -> KeyUse {
    KeyUse { first, last, step, flags, notes: None }
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

const ONE: (i32, i32, i32) = (1, 1, 1);
const MANY: (i32, i32, i32) = (1, -1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);
const PAIRS: (i32, i32, i32) = (1, -1, 2);

/// Every command, by group.
#[rustfmt::skip]
pub(super) static COMMANDS: &[Command] = &[
    // Strings.
    keyed!("get", 2, READ_STRING, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "string", "1.0.0", LOG_VALUE, "The value of a key", strings::get),
    keyed!("set", -3, WRITE.union(DENYOOM).union(STRING), ONE, &[KeyUse { first: 1, last: 0, step: 1, flags: &["RW", "access", "update", "variable_flags"], notes: Some("RW and ACCESS due to the optional `GET` argument") }], &[], "string", "1.0.0", LOG_VALUE, "Gives a key a value; options NX, XX, GET, KEEPTTL", strings::set),
    keyed!("setnx", 3, CHANGE_STRING, ONE, &[uses(1, 0, 1, &["OW", "insert"])], &[], "string", "1.0.0", LOG_VALUE, "Gives a key a value unless it has one", strings::setnx),
    keyed!("getset", 3, CHANGE_STRING, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "string", "1.0.0", LOG_VALUE, "Gives a key a value and returns the one before", strings::getset),
    keyed!("getdel", 2, WRITE.union(FAST).union(STRING), ONE, &[uses(1, 0, 1, RW_DELETE)], &[], "string", "6.2.0", LOG_VALUE, "Deletes a key and returns its value", strings::getdel),
    keyed!("getex", -2, WRITE.union(FAST).union(STRING), ONE, &[KeyUse { first: 1, last: 0, step: 1, flags: RW_UPDATE, notes: Some("RW and UPDATE because it changes the TTL") }], &[], "string", "6.2.0", LOG_VALUE, "The value of a key; the only option is PERSIST", strings::getex),
    keyed!("mget", -2, READ_STRING, MANY, &[uses(1, -1, 1, RO_ACCESS)], &["request_policy:multi_shard"], "string", "1.0.0", LOG_EACH_VALUE, "The values of several keys", strings::mget),
    keyed!("mset", -3, WRITE.union(DENYOOM).union(STRING), PAIRS, &[uses(1, -1, 2, &["OW", "update"])], &["request_policy:multi_shard", "response_policy:all_succeeded"], "string", "1.0.1", LOG_EACH_VALUE, "Gives several keys their values, all or none", strings::mset),
    keyed!("msetnx", -3, WRITE.union(DENYOOM).union(STRING), PAIRS, &[uses(1, -1, 2, &["OW", "insert"])], &["request_policy:multi_shard", "response_policy:agg_min"], "string", "1.0.1", LOG_EACH_VALUE, "Gives several keys their values unless one of them has one", strings::msetnx),
    keyed!("append", 3, CHANGE_STRING, ONE, &[uses(1, 0, 1, &["RW", "insert"])], &[], "string", "2.0.0", LOG_VALUE, "Adds bytes to the end of a value", strings::append),
    keyed!("strlen", 2, READ_STRING, ONE, &[uses(1, 0, 1, RO)], &[], "string", "2.2.0", LOG, "The size of a value in bytes", strings::strlen),
    keyed!("getrange", 4, READONLY.union(STRING), ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "string", "2.4.0", LOG_PART, "Part of a value", strings::getrange),
    keyed!("substr", 4, READONLY.union(STRING), ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "string", "1.0.0", LOG_PART, "Part of a value; an older name of GETRANGE", strings::getrange),
    keyed!("setrange", 4, WRITE.union(DENYOOM).union(STRING), ONE, &[uses(1, 0, 1, &["RW", "update"])], &[], "string", "2.2.0", LOG_VALUE, "Overwrites part of a value", strings::setrange),
    keyed!("incr", 2, CHANGE_STRING, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "string", "1.0.0", LOG, "Adds one to a number", counter::incr),
    keyed!("decr", 2, CHANGE_STRING, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "string", "1.0.0", LOG, "Takes one from a number", counter::decr),
    keyed!("incrby", 3, CHANGE_STRING, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "string", "1.0.0", LOG, "Adds to a number", counter::incrby),
    keyed!("decrby", 3, CHANGE_STRING, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "string", "1.0.0", LOG, "Takes from a number", counter::decrby),
    // Keys.
    keyed!("del", -2, WRITE.union(KEYSPACE), MANY, &[uses(1, -1, 1, &["RM", "delete"])], SUM, "generic", "1.0.0", LOG_EACH, "Deletes keys", keys::del),
    keyed!("unlink", -2, WRITE.union(FAST).union(KEYSPACE), MANY, &[uses(1, -1, 1, &["RM", "delete"])], SUM, "generic", "4.0.0", LOG_EACH, "Deletes keys; the same as DEL", keys::del),
    keyed!("exists", -2, READ_KEY, MANY, &[uses(1, -1, 1, RO)], SUM, "generic", "1.0.0", LOG_EACH, "How many of the given keys exist", keys::exists),
    keyed!("touch", -2, READ_KEY, MANY, &[uses(1, -1, 1, RO)], SUM, "generic", "3.2.1", LOG_EACH, "How many of the given keys exist; keeps no access times", keys::exists),
    keyed!("type", 2, READ_KEY, ONE, &[uses(1, 0, 1, RO)], &[], "generic", "1.0.0", LOG, "string, or none", keys::type_of),
    keyed!("rename", 3, WRITE.union(KEYSPACE), TWO, &[uses(1, 0, 1, RW_DELETE), uses(2, 0, 1, &["OW", "update"])], &[], "generic", "1.0.0", LOG_VALUE, "Moves a value to another key", keys::rename),
    keyed!("renamenx", 3, WRITE.union(FAST).union(KEYSPACE), TWO, &[uses(1, 0, 1, RW_DELETE), uses(2, 0, 1, &["OW", "insert"])], &[], "generic", "1.0.0", LOG_VALUE, "Moves a value to another key unless that has one", keys::renamenx),
    keyed!("ttl", 2, READ_KEY, ONE, &[uses(1, 0, 1, RO_ACCESS)], OUTPUT, "generic", "1.0.0", LOG, "-1, or -2 without such a key: keys do not expire", keys::ttl),
    keyed!("pttl", 2, READ_KEY, ONE, &[uses(1, 0, 1, RO_ACCESS)], OUTPUT, "generic", "2.6.0", LOG, "-1, or -2 without such a key: keys do not expire", keys::ttl),
    keyed!("persist", 2, WRITE.union(FAST).union(KEYSPACE), ONE, &[uses(1, 0, 1, &["RW", "update"])], &[], "generic", "2.2.0", "O(1)", "0: keys do not expire", keys::persist),
    keyed!("keys", 2, READONLY.union(KEYSPACE).union(DANGEROUS), (0, 0, 0), &[], &["request_policy:all_shards", "nondeterministic_output_order"], "generic", "1.0.0", "O(N) where N is the number of keys that share the pattern's literal start", "All keys that match a pattern, in order", scan::keys),
    keyed!("scan", -2, READONLY.union(KEYSPACE), (0, 0, 0), &[], &["nondeterministic_output", "request_policy:special"], "generic", "2.8.0", "O(log N + COUNT) a call", "Some keys and where to go on; options MATCH, COUNT, TYPE", scan::scan),
    keyed!("range", -3, READONLY.union(KEYSPACE), (0, 0, 0), &[], &["request_policy:all_shards"], "generic", "0.1.0", "O(log N + M) where M is the number and size of the pairs returned", "RANGE start end [LIMIT n]: keys and values in order, from start (included) to end (excluded); - and + are open ends", range::range),
    keyed!("dbsize", 1, READ_KEY, (0, 0, 0), &[], &["request_policy:all_shards", "response_policy:agg_sum"], "server", "1.0.0", "O(1)", "The number of keys", keys::dbsize),
    keyed!("flushall", -1, WRITE.union(KEYSPACE).union(DANGEROUS), (0, 0, 0), &[], ALL_SUCCEEDED, "server", "1.0.0", EVERY, "Deletes every key", keys::flush),
    keyed!("flushdb", -1, WRITE.union(KEYSPACE).union(DANGEROUS), (0, 0, 0), &[], ALL_SUCCEEDED, "server", "1.0.0", EVERY, "Deletes every key", keys::flush),
    // The connection.
    Command { tips: ALL_SUCCEEDED, ..plain("ping", -1, FAST.union(CONNECTION), "connection", "1.0.0", "PONG, or the given text", connection::ping) },
    plain("echo", 2, LOADING.union(FAST).union(CONNECTION), "connection", "1.0.0", "The given text", connection::echo),
    plain("hello", -1, HANDSHAKE, "connection", "6.0.0", "Chooses the protocol, 2 or 3, and names the server", connection::hello),
    plain("auth", -2, HANDSHAKE, "connection", "1.0.0", "An error: there are no passwords", connection::auth),
    plain("select", 2, LOADING.union(FAST).union(CONNECTION), "connection", "1.0.0", "Chooses database 0, the only one", connection::select),
    plain("quit", -1, HANDSHAKE, "connection", "1.0.0", "Closes the connection", connection::quit),
    plain("reset", 1, HANDSHAKE, "connection", "6.2.0", "Makes the connection as it was when it opened", connection::reset),
    plain("host:", -1, ANYTIME, "connection", "0.1.0", "Closes the connection: HTTP is spoken here by mistake or malice", connection::hang_up),
    plain("post", -1, ANYTIME, "connection", "0.1.0", "Closes the connection: HTTP is spoken here by mistake or malice", connection::hang_up),
    Command { complexity: "Depends on the subcommand", subcommands: CLIENT, ..plain("client", -2, NONE, "connection", "2.4.0", "About client connections", server::container) },
    // The server.
    Command { tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"], ..plain("info", -1, LOADING.union(DANGEROUS), "server", "1.0.0", "Figures about the server, by section", info::info) },
    Command { tips: OUTPUT, ..plain("time", 1, LOADING.union(FAST), "server", "2.6.0", "The time in seconds and microseconds", server::time) },
    plain("shutdown", -1, ADMIN.union(Flags::NO_MULTI).union(Flags::ALLOW_BUSY), "server", "1.0.0", "Closes the store and ends the server", server::shutdown),
    Command { tips: &["request_policy:all_shards", "response_policy:agg_min"], ..plain("wait", 3, Flags::NOSCRIPT.union(CONNECTION), "generic", "3.0.0", "0: there are no replicas, and a reply means settled", server::wait) },
    Command { complexity: "Depends on the subcommand", subcommands: CONFIG, ..plain("config", -2, NONE, "server", "2.0.0", "About configuration", server::container) },
    Command { complexity: "Depends on the subcommand", subcommands: BACKUP, ..plain("backup", -2, NONE, "server", "0.1.0", "About backups", server::container) },
    Command { tips: ORDER, complexity: "O(N) where N is the number of commands", subcommands: COMMAND, ..plain("command", -1, LOADING.union(CONNECTION), "server", "2.8.13", "All commands", describe::all) },
];

const ABOUT_CLIENT: Flags = ANYTIME.union(CONNECTION);

#[rustfmt::skip]
const CLIENT: &[Command] = &[
    plain("client|id", 2, ABOUT_CLIENT, "connection", "5.0.0", "The connection's number", client::id),
    Command { tips: OUTPUT, ..plain("client|info", 2, ABOUT_CLIENT, "connection", "6.2.0", "Facts about the connection", client::info) },
    Command { tips: OUTPUT, complexity: "O(N) where N is the number of connections", ..plain("client|list", -2, ADMIN.union(CONNECTION), "connection", "2.4.0", "Facts about connections", client::list) },
    plain("client|setname", 3, ABOUT_CLIENT, "connection", "2.6.9", "Names the connection", client::set_name),
    plain("client|getname", 2, ABOUT_CLIENT, "connection", "2.6.9", "The connection's name", client::get_name),
    plain("client|setinfo", 4, ABOUT_CLIENT, "connection", "7.2.0", "Names the client library: LIB-NAME, LIB-VER", client::set_info),
    plain("client|no-evict", 3, ADMIN.union(CONNECTION), "connection", "7.0.0", "Accepted: clients are not evicted", client::no_evict),
    plain("client|reply", 3, ABOUT_CLIENT, "connection", "3.2.0", "Replies ON, OFF, or SKIP the next one", client::reply),
    plain("client|help", 2, LOADING.union(CONNECTION), "connection", "5.0.0", "What there is", client::help),
];

#[rustfmt::skip]
const BACKUP: &[Command] = &[
    Command { complexity: "O(1); a thread then copies the store", ..plain("backup|start", -3, ADMIN, "server", "0.1.0", "BACKUP START name [SINCE name]: begins to copy the store, as of one moment, to a file in the directory of backups", backup::start) },
    Command { tips: OUTPUT, ..plain("backup|status", 2, ADMIN, "server", "0.1.0", "The state of the newest backup", backup::status) },
];

#[rustfmt::skip]
const CONFIG: &[Command] = &[
    plain("config|get", -3, ADMIN, "server", "2.0.0", "Options that match a pattern, and their values", config::get),
    Command { tips: &["request_policy:all_nodes", "response_policy:all_succeeded"], ..plain("config|set", -4, ADMIN, "server", "2.0.0", "An error: options are chosen when the server starts", config::set) },
    plain("config|resetstat", 2, ADMIN, "server", "2.0.0", "Sets counters to zero", config::reset_stat),
    plain("config|rewrite", 2, ADMIN, "server", "2.8.0", "An error: there is no configuration file", config::rewrite),
    plain("config|help", 2, LOADING, "server", "5.0.0", "What there is", config::help),
];

const ABOUT_COMMAND: Flags = LOADING.union(CONNECTION);

#[rustfmt::skip]
const COMMAND: &[Command] = &[
    plain("command|count", 2, ABOUT_COMMAND, "server", "2.8.13", "How many commands there are", describe::count),
    Command { tips: ORDER, ..plain("command|info", -2, ABOUT_COMMAND, "server", "2.8.13", "What the table says about commands", describe::info) },
    Command { tips: ORDER, ..plain("command|docs", -2, ABOUT_COMMAND, "server", "7.0.0", "What commands are for", describe::docs) },
    Command { tips: ORDER, ..plain("command|list", -2, ABOUT_COMMAND, "server", "7.0.0", "Names of commands", describe::list) },
    plain("command|getkeys", -4, ABOUT_COMMAND, "server", "2.8.13", "The keys among the arguments of a command", describe::get_keys),
    plain("command|help", 2, ABOUT_COMMAND, "server", "5.0.0", "What there is", describe::help),
];
