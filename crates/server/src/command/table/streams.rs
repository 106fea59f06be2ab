//! Rows of the table: streams.

use super::*;
use crate::command::{claims, groups, server, stream_info, stream_reads, streams};

const READ: Flags = READONLY.union(Flags::STREAM);
const CHANGE: Flags = WRITE.union(FAST).union(Flags::STREAM);
const KEYS: &[KeyUse] = &[KeyUse { first: 1, find: Find::Behind("STREAMS"), flags: RO_ACCESS, notes: None }];
const GROUP_KEYS: &[KeyUse] = &[KeyUse { first: 4, find: Find::Behind("STREAMS"), flags: RO_ACCESS, notes: None }];
const INSERT: &[&str] = &["RW", "insert"];
const TRIMS: &str = "UPDATE instead of INSERT because of the optional trimming feature";
const REMOVE: &[&str] = &["RW", "delete"];

const LOG_ENTRY: &str =
    "O(log N + M) where N is the number of all keys and entries and M the size of the entry; and as XTRIM if it trims";
const LOG_REMOVED: &str =
    "O(log N + M) where N is the number of all keys and entries and M the number of entries removed";
const LOG_EACH_ID: &str = "O(K log N) where K is the number of ids given and N the number of all keys and entries";
const LOG_READ: &str =
    "O(log N + M) where N is the number of all keys and entries and M the number and size of the entries returned";

const LOG_DELIVERED: &str =
    "O(M log N) where N is the number of all keys, entries and pending entries and M the number of those returned";
const LOG_PENDING: &str = "O(log N + M) where N is the number of all keys and pending entries and M the number of those returned, of consumers without a range, or of those passed over for IDLE";
const LOG_CLAIM: &str = "O(M log N) where N is the number of all keys and pending entries and M is ten times COUNT";
const LOG_GONE: &str =
    "O(log N + M) where N is the number of all keys and entries and M the number of pending entries removed";
const LOG_GROUPS: &str = "O(log N + M) where N is the number of all keys and M the number of those returned";

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("xadd", -5, CHANGE.union(DENYOOM), ONE, &[noted(uses(1, 0, 1, RW_SET), TRIMS)], OUTPUT, "stream", "5.0.0", LOG_ENTRY, "Adds an entry to a stream; options NOMKSTREAM, MAXLEN, MINID, LIMIT", streams::xadd),
    keyed!("xlen", 2, READ.union(FAST), ONE, &[uses(1, 0, 1, RO)], &[], "stream", "5.0.0", LOG, "The number of entries", streams::xlen),
    keyed!("xrange", -4, READ, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "stream", "5.0.0", LOG_READ, "Entries from an id to another; option COUNT", streams::xrange),
    keyed!("xrevrange", -4, READ, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "stream", "5.0.0", LOG_READ, "Entries from an id back to another; option COUNT", streams::xrevrange),
    keyed!("xread", -4, READ.union(Flags::BLOCKING).union(MOVABLE), (0, 0, 0), KEYS, &[], "stream", "5.0.0", LOG_READ, "Entries of several streams behind given ids; options COUNT, BLOCK", stream_reads::xread),
    keyed!("xdel", -3, CHANGE, ONE, &[uses(1, 0, 1, REMOVE)], &[], "stream", "5.0.0", LOG_EACH_ID, "Removes entries by id", streams::xdel),
    keyed!("xtrim", -4, WRITE.union(Flags::STREAM), ONE, &[uses(1, 0, 1, REMOVE)], OUTPUT, "stream", "5.0.0", LOG_REMOVED, "Removes the oldest entries: all but so many (MAXLEN), or those before an id (MINID)", streams::xtrim),
    keyed!("xsetid", -3, CHANGE.union(DENYOOM), ONE, &[uses(1, 0, 1, RW_SET)], &[], "stream", "5.0.0", LOG, "Sets the last id of a stream; options ENTRIESADDED, MAXDELETEDID", streams::xsetid),
    keyed!("xreadgroup", -7, WRITE.union(Flags::STREAM).union(Flags::BLOCKING).union(MOVABLE), (0, 0, 0), GROUP_KEYS, &[], "stream", "5.0.0", LOG_DELIVERED, "Entries of several streams that no consumer of a group was given, or those that are pending at one; options COUNT, BLOCK, NOACK", stream_reads::xread),
    keyed!("xack", -4, CHANGE, ONE, &[uses(1, 0, 1, RW_SET)], &[], "stream", "5.0.0", LOG_EACH_ID, "Acknowledges entries: they are pending no more", groups::xack),
    keyed!("xpending", -3, READ, ONE, &[uses(1, 0, 1, RO_ACCESS)], OUTPUT, "stream", "5.0.0", LOG_PENDING, "The pending entries of a group, as a sum or in a range; option IDLE", groups::xpending),
    keyed!("xclaim", -6, CHANGE, ONE, &[uses(1, 0, 1, RW_SET)], OUTPUT, "stream", "5.0.0", LOG_EACH_ID, "Gives pending entries to a consumer; options IDLE, TIME, RETRYCOUNT, FORCE, JUSTID, LASTID", claims::xclaim),
    keyed!("xautoclaim", -6, CHANGE, ONE, &[uses(1, 0, 1, &["RW", "delete"])], OUTPUT, "stream", "6.2.0", LOG_CLAIM, "Gives pending entries to a consumer, as a scan goes on; options COUNT, JUSTID", claims::xautoclaim),
    Command { complexity: "Depends on the subcommand", subcommands: XGROUP, ..plain("xgroup", -2, NONE, "stream", "5.0.0", "About consumer groups", server::container) },
    Command { complexity: "Depends on the subcommand", subcommands: XINFO, ..plain("xinfo", -2, NONE, "stream", "5.0.0", "Facts about streams", server::container) },
];

const ABOUT: Flags = LOADING.union(Flags::STREAM);
const SECOND: (i32, i32, i32) = (2, 2, 1);
const CHANGE_GROUP: Flags = WRITE.union(Flags::STREAM);

#[rustfmt::skip]
const XGROUP: &[Command] = &[
    keyed!("xgroup|create", -5, CHANGE_GROUP.union(DENYOOM), SECOND, &[uses(2, 0, 1, INSERT)], &[], "stream", "5.0.0", LOG, "Makes a group; options MKSTREAM, ENTRIESREAD", groups::create),
    keyed!("xgroup|setid", -5, CHANGE_GROUP, SECOND, &[uses(2, 0, 1, RW_SET)], &[], "stream", "5.0.0", LOG, "Sets the last delivered id of a group; option ENTRIESREAD", groups::set_id),
    keyed!("xgroup|destroy", 4, CHANGE_GROUP, SECOND, &[uses(2, 0, 1, REMOVE)], &[], "stream", "5.0.0", LOG_GONE, "Removes a group", groups::destroy),
    keyed!("xgroup|createconsumer", 5, CHANGE_GROUP.union(DENYOOM), SECOND, &[uses(2, 0, 1, INSERT)], &[], "stream", "6.2.0", LOG, "Makes a consumer of a group", groups::create_consumer),
    keyed!("xgroup|delconsumer", 5, CHANGE_GROUP, SECOND, &[uses(2, 0, 1, REMOVE)], &[], "stream", "5.0.0", LOG_GONE, "Removes a consumer of a group, and its pending entries", groups::delete_consumer),
    plain("xgroup|help", 2, ABOUT, "stream", "5.0.0", "The subcommands", groups::help),
];

#[rustfmt::skip]
const XINFO: &[Command] = &[
    keyed!("xinfo|stream", -3, READ, SECOND, &[uses(2, 0, 1, RO_ACCESS)], &[], "stream", "5.0.0", LOG_READ, "Facts about a stream; options FULL, COUNT", stream_info::stream),
    keyed!("xinfo|groups", 3, READ, SECOND, &[uses(2, 0, 1, RO_ACCESS)], &[], "stream", "5.0.0", LOG_GROUPS, "The groups of a stream", stream_info::groups),
    keyed!("xinfo|consumers", 4, READ, SECOND, &[uses(2, 0, 1, RO_ACCESS)], OUTPUT, "stream", "5.0.0", LOG_GROUPS, "The consumers of a group", stream_info::consumers),
    plain("xinfo|help", 2, ABOUT, "stream", "5.0.0", "The subcommands", stream_info::help),
];
