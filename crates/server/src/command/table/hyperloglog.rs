//! Rows of the table: estimated counts.

use super::*;
use crate::command::hyperloglog;

const KIND: Flags = Flags::HYPERLOGLOG;
const COUNTED: KeyUse = noted(
    uses(1, -1, 1, &["RW", "access"]),
    "RW because it may change the internal representation of the key, and propagate to replicas",
);

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("pfadd", -2, WRITE.union(DENYOOM).union(FAST).union(KIND), ONE, &[uses(1, 0, 1, &["RW", "insert"])], &[], "hyperloglog", "2.8.9", "O(log N + M) where N is the number of keys and M the number of elements; the value, of 12 KiB at most, is written anew", "Adds elements to an estimated count", hyperloglog::pfadd),
    keyed!("pfcount", -2, READONLY.union(KIND), MANY, &[COUNTED], &[], "hyperloglog", "2.8.9", "O(M log N) where M is the number of keys given and N the number of keys; of one key, the count is kept in its value", "How many different elements were added, about, to any of the keys", hyperloglog::pfcount),
    keyed!("pfmerge", -2, WRITE.union(DENYOOM).union(KIND), MANY, &[uses(1, 0, 1, &["RW", "access", "insert"]), uses(2, -1, 1, RO_ACCESS)], &[], "hyperloglog", "2.8.9", "O(M log N) where M is the number of keys given and N the number of keys", "Adds the elements of several estimated counts to the first", hyperloglog::pfmerge),
];
