//! Rows of the table: the server.

use super::*;
use crate::command::{backup, config, describe, info, server};

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    Command { tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"], ..plain("info", -1, LOADING.union(DANGEROUS), "server", "1.0.0", "Figures about the server, by section", info::info) },
    Command { tips: OUTPUT, ..plain("time", 1, LOADING.union(FAST), "server", "2.6.0", "The time in seconds and microseconds", server::time) },
    plain("shutdown", -1, ADMIN.union(Flags::NO_MULTI).union(Flags::ALLOW_BUSY), "server", "1.0.0", "Closes the store and ends the server", server::shutdown),
    Command { tips: &["request_policy:all_shards", "response_policy:agg_min"], ..plain("wait", 3, Flags::NOSCRIPT.union(CONNECTION), "generic", "3.0.0", "0: there are no replicas, and a reply means settled", server::wait) },
    Command { complexity: "Depends on the subcommand", subcommands: CONFIG, ..plain("config", -2, NONE, "server", "2.0.0", "About configuration", server::container) },
    Command { complexity: "Depends on the subcommand", subcommands: BACKUP, ..plain("backup", -2, NONE, "server", "0.1.0", "About backups", server::container) },
    Command { tips: ORDER, complexity: "O(N) where N is the number of commands", subcommands: COMMAND, ..plain("command", -1, LOADING.union(CONNECTION), "server", "2.8.13", "All commands", describe::all) },
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
