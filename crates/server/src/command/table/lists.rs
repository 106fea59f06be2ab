//! Rows of the table: lists.

use super::*;
use crate::command::lists;

const PUSH: &str = "O(log N + K) where N is the number of all elements and K the number and size of those given";
const POP: &str = "O(log N + K) where N is the number of all elements and K the number and size of those removed";
const AT: &str = "O(log N + M) where N is the number of all elements and M the size of the one";
const WALK: &str = "O(log N + K) where N is the number of all elements and K those looked at";
const MIDDLE: &str = "O(L) where L is the length of the list: elements up to the place are read, and the shorter side of it is written again, in pieces";

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("lpush", -3, WRITE.union(DENYOOM).union(FAST).union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RW", "insert"])], &[], "list", "1.0.0", PUSH, "Adds elements before the first", lists::lpush),
    keyed!("rpush", -3, WRITE.union(DENYOOM).union(FAST).union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RW", "insert"])], &[], "list", "1.0.0", PUSH, "Adds elements behind the last", lists::rpush),
    keyed!("lpushx", -3, WRITE.union(DENYOOM).union(FAST).union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RW", "insert"])], &[], "list", "2.2.0", PUSH, "Adds elements before the first, if there is such a list", lists::lpushx),
    keyed!("rpushx", -3, WRITE.union(DENYOOM).union(FAST).union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RW", "insert"])], &[], "list", "2.2.0", PUSH, "Adds elements behind the last, if there is such a list", lists::rpushx),
    keyed!("lpop", -2, WRITE.union(FAST).union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RW", "access", "delete"])], &[], "list", "1.0.0", POP, "Removes and returns the first elements", lists::lpop),
    keyed!("rpop", -2, WRITE.union(FAST).union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RW", "access", "delete"])], &[], "list", "1.0.0", POP, "Removes and returns the last elements", lists::rpop),
    keyed!("llen", 2, READONLY.union(FAST).union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RO"])], &[], "list", "1.0.0", LOG, "The number of elements", lists::llen),
    keyed!("lindex", 3, READONLY.union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RO", "access"])], &[], "list", "1.0.0", AT, "The element at an index", lists::lindex),
    keyed!("lrange", 4, READONLY.union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RO", "access"])], &[], "list", "1.0.0", WALK, "The elements between two indexes", lists::lrange),
    keyed!("lset", 4, WRITE.union(DENYOOM).union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RW", "update"])], &[], "list", "1.0.0", AT, "Replaces the element at an index", lists::lset),
    keyed!("linsert", 5, WRITE.union(DENYOOM).union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RW", "insert"])], &[], "list", "2.2.0", MIDDLE, "Adds an element before or after another one", lists::linsert),
    keyed!("lrem", 4, WRITE.union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RW", "delete"])], &[], "list", "1.0.0", "O(L) where L is the length of the list: all of it is read, and the shorter side of the elements removed is written again, in pieces", "Removes elements equal to one", lists::lrem),
    keyed!("ltrim", 4, WRITE.union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RW", "delete"])], &[], "list", "1.0.0", POP, "Removes all elements but those between two indexes", lists::ltrim),
    keyed!("lpos", -3, READONLY.union(LIST), (1, 1, 1), &[uses(1, 0, 1, &["RO", "access"])], &[], "list", "6.0.6", WALK, "The indexes of elements equal to one; options RANK, COUNT, MAXLEN", lists::lpos),
    keyed!("lmove", 5, WRITE.union(DENYOOM).union(LIST), (1, 2, 1), &[uses(1, 0, 1, &["RW", "access", "delete"]), uses(2, 0, 1, &["RW", "insert"])], &[], "list", "6.2.0", AT, "Moves an element from an end of a list to an end of another", lists::lmove),
    keyed!("rpoplpush", 3, WRITE.union(DENYOOM).union(LIST), (1, 2, 1), &[uses(1, 0, 1, &["RW", "access", "delete"]), uses(2, 0, 1, &["RW", "insert"])], &[], "list", "1.2.0", AT, "Moves the last element of a list before the first of another", lists::rpoplpush),
    keyed!("lmpop", -4, WRITE.union(MOVABLE).union(LIST), (0, 0, 0), &[counted(1, &["RW", "access", "delete"])], &[], "list", "7.0.0", POP, "Removes and returns elements of the first list that is there; option COUNT", lists::lmpop),
];
