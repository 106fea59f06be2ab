//! Rows of the table: scripts and functions.

use super::*;
use crate::command::{functions, scripts, server};

const KIND: Flags = Flags::SCRIPTING;
const HIDDEN: Flags = Flags::NOSCRIPT.union(KIND);
const RUN: Flags = HIDDEN.union(Flags::STALE).union(Flags::SKIP_MONITOR).union(Flags::NO_MANDATORY_KEYS).union(MOVABLE);
const RUN_RO: Flags = RUN.union(READONLY);
const CHANGE: Flags = WRITE.union(HIDDEN);
const GROW: Flags = CHANGE.union(DENYOOM);
const RW: &[&str] = &["RW", "access", "update"];
const NO_KEYS: (i32, i32, i32) = (0, 0, 0);
const COST: &str = "Depends on the script";

const WORST_RW: KeyUse =
    noted(counted(2, RW), "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE");
const WORST_RO: KeyUse =
    noted(counted(2, RO_ACCESS), "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS");

const EVERY_NODE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const ALL_HAVE: &[&str] = &["request_policy:all_shards", "response_policy:agg_logical_and"];
const ONE_DID: &[&str] = &["request_policy:all_shards", "response_policy:one_succeeded"];
const EVERY_SHARD: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const SPECIAL: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("eval", -3, RUN, NO_KEYS, &[WORST_RW], &[], "scripting", "2.6.0", COST, "Runs a script in Lua", scripts::eval),
    keyed!("evalsha", -3, RUN, NO_KEYS, &[counted(2, RW)], &[], "scripting", "2.6.0", COST, "Runs a script that is known, by its SHA-1", scripts::evalsha),
    keyed!("eval_ro", -3, RUN_RO, NO_KEYS, &[WORST_RO], &[], "scripting", "7.0.0", COST, "Runs a script in Lua that only reads", scripts::eval_ro),
    keyed!("evalsha_ro", -3, RUN_RO, NO_KEYS, &[counted(2, RO_ACCESS)], &[], "scripting", "7.0.0", COST, "Runs a script that is known and only reads, by its SHA-1", scripts::evalsha_ro),
    keyed!("fcall", -3, RUN, NO_KEYS, &[WORST_RW], &[], "scripting", "7.0.0", COST, "Runs a function", functions::fcall),
    keyed!("fcall_ro", -3, RUN_RO, NO_KEYS, &[WORST_RO], &[], "scripting", "7.0.0", COST, "Runs a function that only reads", functions::fcall_ro),
    Command { complexity: "Depends on the subcommand", subcommands: SCRIPT, ..plain("script", -2, NONE, "scripting", "2.6.0", "About scripts", server::container) },
    Command { complexity: "Depends on the subcommand", subcommands: FUNCTION, ..plain("function", -2, NONE, "scripting", "7.0.0", "About libraries of functions", server::container) },
];

#[rustfmt::skip]
const SCRIPT: &[Command] = &[
    Command { tips: EVERY_NODE, complexity: "O(N) where N is the size of the script", ..plain("script|load", 3, HIDDEN.union(Flags::STALE), "scripting", "2.6.0", "Makes a script known", scripts::load) },
    Command { tips: ALL_HAVE, complexity: "O(N) where N is the number of names", ..plain("script|exists", -3, HIDDEN, "scripting", "2.6.0", "Whether scripts are known", scripts::exists) },
    Command { tips: EVERY_NODE, complexity: "O(N) where N is the number of scripts", ..plain("script|flush", -2, HIDDEN, "scripting", "2.6.0", "Forgets all scripts", scripts::flush) },
    Command { tips: ONE_DID, ..plain("script|kill", 2, HIDDEN.union(Flags::ALLOW_BUSY), "scripting", "2.6.0", "An error: no command comes while a script runs", scripts::kill) },
    plain("script|debug", 3, HIDDEN, "scripting", "3.2.0", "NO alone: there is no debugger", scripts::debug),
    plain("script|help", 2, LOADING.union(KIND), "scripting", "5.0.0", "The subcommands", scripts::help),
];

#[rustfmt::skip]
const FUNCTION: &[Command] = &[
    Command { tips: EVERY_SHARD, complexity: "O(N) where N is the size of the library", ..plain("function|load", -3, GROW, "scripting", "7.0.0", "Keeps a library of functions in the store", functions::load) },
    Command { tips: EVERY_SHARD, complexity: "O(N) where N is the number of functions", ..plain("function|delete", 3, CHANGE, "scripting", "7.0.0", "Removes a library", functions::delete) },
    Command { tips: EVERY_SHARD, complexity: "O(N) where N is the number of libraries", ..plain("function|flush", -2, CHANGE, "scripting", "7.0.0", "Removes all libraries", functions::flush) },
    Command { complexity: "O(N) where N is the size of the libraries", ..plain("function|dump", 2, HIDDEN, "scripting", "7.0.0", "All libraries as bytes", functions::dump) },
    Command { tips: EVERY_SHARD, complexity: "O(N) where N is the size of the libraries", ..plain("function|restore", -3, GROW, "scripting", "7.0.0", "Keeps libraries that DUMP has made", functions::restore) },
    Command { tips: ORDER, complexity: "O(N) where N is the number of functions", ..plain("function|list", -2, HIDDEN, "scripting", "7.0.0", "Libraries and their functions", functions::list) },
    Command { tips: SPECIAL, ..plain("function|stats", 2, HIDDEN.union(Flags::ALLOW_BUSY), "scripting", "7.0.0", "Numbers of libraries and functions", functions::stats) },
    Command { tips: ONE_DID, ..plain("function|kill", 2, HIDDEN.union(Flags::ALLOW_BUSY), "scripting", "7.0.0", "An error: no command comes while a function runs", scripts::kill) },
    plain("function|help", 2, LOADING.union(KIND), "scripting", "7.0.0", "The subcommands", functions::help),
];
