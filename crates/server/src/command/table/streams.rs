//! Rows of the table: streams.

use super::*;
use crate::command::streams;

const READ: Flags = READONLY.union(Flags::STREAM);
const CHANGE: Flags = WRITE.union(FAST).union(Flags::STREAM);
const KEYS: &[KeyUse] = &[KeyUse { first: 1, find: Find::Behind("STREAMS"), flags: RO_ACCESS, notes: None }];
const TRIMS: &str = "UPDATE instead of INSERT because of the optional trimming feature";
const REMOVE: &[&str] = &["RW", "delete"];

const LOG_ENTRY: &str =
    "O(log N + M) where N is the number of all keys and entries and M the size of the entry; and as XTRIM if it trims";
const LOG_REMOVED: &str =
    "O(log N + M) where N is the number of all keys and entries and M the number of entries removed";
const LOG_EACH_ID: &str = "O(K log N) where K is the number of ids given and N the number of all keys and entries";
const LOG_READ: &str =
    "O(log N + M) where N is the number of all keys and entries and M the number and size of the entries returned";

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("xadd", -5, CHANGE.union(DENYOOM), ONE, &[noted(uses(1, 0, 1, RW_SET), TRIMS)], OUTPUT, "stream", "5.0.0", LOG_ENTRY, "Adds an entry to a stream; options NOMKSTREAM, MAXLEN, MINID, LIMIT", streams::xadd),
    keyed!("xlen", 2, READ.union(FAST), ONE, &[uses(1, 0, 1, RO)], &[], "stream", "5.0.0", LOG, "The number of entries", streams::xlen),
    keyed!("xrange", -4, READ, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "stream", "5.0.0", LOG_READ, "Entries from an id to another; option COUNT", streams::xrange),
    keyed!("xrevrange", -4, READ, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "stream", "5.0.0", LOG_READ, "Entries from an id back to another; option COUNT", streams::xrevrange),
    keyed!("xread", -4, READ.union(Flags::BLOCKING).union(MOVABLE), (0, 0, 0), KEYS, &[], "stream", "5.0.0", LOG_READ, "Entries of several streams behind given ids; option COUNT", streams::xread),
    keyed!("xdel", -3, CHANGE, ONE, &[uses(1, 0, 1, REMOVE)], &[], "stream", "5.0.0", LOG_EACH_ID, "Removes entries by id", streams::xdel),
    keyed!("xtrim", -4, WRITE.union(Flags::STREAM), ONE, &[uses(1, 0, 1, REMOVE)], OUTPUT, "stream", "5.0.0", LOG_REMOVED, "Removes the oldest entries: all but so many (MAXLEN), or those before an id (MINID)", streams::xtrim),
    keyed!("xsetid", -3, CHANGE.union(DENYOOM), ONE, &[uses(1, 0, 1, RW_SET)], &[], "stream", "5.0.0", LOG, "Sets the last id of a stream; options ENTRIESADDED, MAXDELETEDID", streams::xsetid),
];
