//! Rows of the table: the server.

use super::*;
use crate::command::{backup, config, describe, info, monitor, objects, save, server, slowlog};

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    Command { tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"], ..plain("info", -1, LOADING.union(DANGEROUS), "server", "1.0.0", "Figures about the server, by section", info::info) },
    Command { tips: OUTPUT, ..plain("time", 1, LOADING.union(FAST), "server", "2.6.0", "The time in seconds and microseconds", server::time) },
    plain("shutdown", -1, ADMIN.union(Flags::NO_MULTI).union(Flags::ALLOW_BUSY), "server", "1.0.0", "Closes the store and ends the server", server::shutdown),
    Command { complexity: "Depends on the subcommand", subcommands: CONFIG, ..plain("config", -2, NONE, "server", "2.0.0", "About configuration", server::container) },
    Command { complexity: "Depends on the subcommand", subcommands: BACKUP, ..plain("backup", -2, NONE, "server", "0.1.0", "About backups", server::container) },
    Command { tips: ORDER, complexity: "O(N) where N is the number of commands", subcommands: COMMAND, ..plain("command", -1, LOADING.union(CONNECTION), "server", "2.8.13", "All commands", describe::all) },
    Command { complexity: "Depends on the subcommand", subcommands: SLOWLOG, ..plain("slowlog", -2, NONE, "server", "2.2.12", "About slow commands", server::container) },
    Command { complexity: "Depends on the subcommand", subcommands: LATENCY, ..plain("latency", -2, NONE, "server", "2.8.13", "About the time that commands take", server::container) },
    Command { complexity: EVERY, ..plain("save", 1, SAVES.union(Flags::NO_MULTI), "server", "1.0.0", "Writes all keys to an RDB file, as of one moment; no client is served meanwhile", save::save) },
    Command { complexity: "O(1); a thread then writes the keys", ..plain("bgsave", -1, SAVES, "server", "1.0.0", "Begins to write all keys to an RDB file, as of one moment", save::bgsave) },
    Command { tips: OUTPUT, ..plain("lastsave", 1, LOADING.union(FAST).union(DANGEROUS), "server", "1.0.0", "The time of the last RDB file", save::lastsave) },
    plain("monitor", 1, ADMIN, "server", "1.0.0", "Every command of every client from now on", monitor::monitor),
    Command { complexity: "Depends on the subcommand", subcommands: MEMORY, ..plain("memory", -2, NONE, "server", "4.0.0", "About memory", server::container) },
];

const SAVES: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::NO_ASYNC_LOADING);

#[rustfmt::skip]
const BACKUP: &[Command] = &[
    Command { complexity: "O(1); a thread then copies the store", ..plain("backup|start", -3, ADMIN, "server", "0.1.0", "BACKUP START name [SINCE name]: begins to copy the store, as of one moment, to a file in the directory of backups", backup::start) },
    Command { tips: OUTPUT, ..plain("backup|status", 2, ADMIN, "server", "0.1.0", "The state of the newest backup", backup::status) },
];

#[rustfmt::skip]
const CONFIG: &[Command] = &[
    plain("config|get", -3, ADMIN, "server", "2.0.0", "Options that match a pattern, and their values", config::get),
    Command { tips: &["request_policy:all_nodes", "response_policy:all_succeeded"], ..plain("config|set", -4, ADMIN, "server", "2.0.0", "Changes options; some are chosen when the server starts", config::set) },
    plain("config|resetstat", 2, ADMIN, "server", "2.0.0", "Sets counters to zero", config::reset_stat),
    plain("config|rewrite", 2, ADMIN, "server", "2.8.0", "Writes changed options to the file of settings", config::rewrite),
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
    plain("command|getkeysandflags", -4, ABOUT_COMMAND, "server", "7.0.0", "The keys among the arguments of a command, and its access to them", describe::get_keys_and_flags),
    plain("command|help", 2, ABOUT_COMMAND, "server", "5.0.0", "What there is", describe::help),
];

const EVERY_SHARD: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

#[rustfmt::skip]
const MEMORY: &[Command] = &[
    keyed!("memory|usage", -3, READONLY, (2, 2, 1), &[uses(2, 0, 1, RO)], &[], "server", "4.0.0", "O(log N + M) where N is the number of keys and M the number of SAMPLES, 5 if none is given", "The bytes of a key and its value in the store, about; option SAMPLES", objects::usage),
    Command { tips: EVERY_SHARD, ..plain("memory|stats", 2, NONE, "server", "4.0.0", "Figures about memory", objects::stats) },
    Command { tips: EVERY_SHARD, ..plain("memory|doctor", 2, NONE, "server", "4.0.0", "The place of keys and values", objects::doctor) },
    Command { tips: EVERY_SHARD, ..plain("memory|malloc-stats", 2, NONE, "server", "4.0.0", "Nothing: the allocator keeps no figures", objects::malloc_stats) },
    Command { tips: ALL_SUCCEEDED, ..plain("memory|purge", 2, NONE, "server", "4.0.0", "Does nothing: freed memory is returned without being asked", objects::purge) },
    plain("memory|help", 2, LOADING, "server", "4.0.0", "The subcommands", objects::memory_help),
];

const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const FIGURES: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];
const ABOUT_LOG: Flags = Flags::ADMIN.union(LOADING);

#[rustfmt::skip]
const SLOWLOG: &[Command] = &[
    Command { tips: &["request_policy:all_nodes", "nondeterministic_output"], ..plain("slowlog|get", -2, ABOUT_LOG, "server", "2.2.12", "The newest slow commands, 10 if no count is given", slowlog::get) },
    Command { tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"], ..plain("slowlog|len", 2, ABOUT_LOG, "server", "2.2.12", "The number of slow commands that are kept", slowlog::len) },
    Command { tips: ALL_NODES, ..plain("slowlog|reset", 2, ABOUT_LOG, "server", "2.2.12", "Forgets slow commands", slowlog::reset) },
    plain("slowlog|help", 2, LOADING, "server", "6.2.0", "The subcommands", slowlog::slowlog_help),
];

#[rustfmt::skip]
const LATENCY: &[Command] = &[
    Command { tips: FIGURES, ..plain("latency|latest", 2, ADMIN, "server", "2.8.13", "The newest sample of each event", slowlog::latest) },
    Command { tips: FIGURES, ..plain("latency|history", 3, ADMIN, "server", "2.8.13", "The samples of an event", slowlog::history) },
    Command { tips: FIGURES, ..plain("latency|graph", 3, ADMIN, "server", "2.8.13", "The samples of an event as text", slowlog::graph) },
    Command { tips: ALL_NODES, ..plain("latency|reset", -2, ADMIN, "server", "2.8.13", "Forgets samples", slowlog::latency_reset) },
    Command { tips: FIGURES, ..plain("latency|histogram", -2, ADMIN, "server", "7.0.0", "How many calls of a command took how long", slowlog::histogram) },
    Command { tips: FIGURES, ..plain("latency|doctor", 2, ADMIN, "server", "2.8.13", "The meaning of the samples", slowlog::latency_doctor) },
    plain("latency|help", 2, LOADING, "server", "2.8.13", "The subcommands", slowlog::latency_help),
];
