//! Rows of the table: commands that wait for an element.

use super::*;
use crate::command::blocking;

const WAIT: Flags = Flags::BLOCKING.union(WRITE).union(LIST);
const MOVE: Flags = WAIT.union(DENYOOM).union(Flags::NOSCRIPT);
const TAKE: &[&str] = &["RW", "access", "delete"];
const SCORED: Flags = Flags::BLOCKING.union(WRITE).union(Flags::SORTED_SET);
const AT_ENDS: &str = "O(log N + M) where N is the number of all elements and M the size of the one";

const LOG_MEMBER: &str = "O(log N) where N is the number of all keys and members";

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("blpop", -3, WAIT.union(Flags::NOSCRIPT), (1, -2, 1), &[uses(1, -2, 1, TAKE)], &[], "list", "2.0.0", AT_ENDS, "Removes and returns the first element of the first list that has one, or waits for it", blocking::blpop),
    keyed!("brpop", -3, WAIT.union(Flags::NOSCRIPT), (1, -2, 1), &[uses(1, -2, 1, TAKE)], &[], "list", "2.0.0", AT_ENDS, "Removes and returns the last element of the first list that has one, or waits for it", blocking::brpop),
    keyed!("blmove", 6, MOVE, (1, 2, 1), &[uses(1, 0, 1, TAKE), uses(2, 0, 1, &["RW", "insert"])], &[], "list", "6.2.0", AT_ENDS, "Moves an element from an end of a list to an end of another, or waits for it", blocking::blmove),
    keyed!("brpoplpush", 4, MOVE, (1, 2, 1), &[uses(1, 0, 1, TAKE), uses(2, 0, 1, &["RW", "insert"])], &[], "list", "2.2.0", AT_ENDS, "Moves the last element of a list before the first of another, or waits for it", blocking::brpoplpush),
    keyed!("blmpop", -5, WAIT.union(MOVABLE), (0, 0, 0), &[counted(2, TAKE)], &[], "list", "7.0.0", "O(log N + K) where N is the number of all elements and K the number and size of those removed", "Removes and returns elements of the first list that has some, or waits for them; option COUNT", blocking::blmpop),
    keyed!("bzpopmin", -3, SCORED.union(Flags::NOSCRIPT).union(FAST), (1, -2, 1), &[uses(1, -2, 1, TAKE)], &[], "sorted-set", "5.0.0", LOG_MEMBER, "Removes and returns the member with the lowest score of the first sorted set that is there, or waits for it", blocking::bzpopmin),
    keyed!("bzpopmax", -3, SCORED.union(Flags::NOSCRIPT).union(FAST), (1, -2, 1), &[uses(1, -2, 1, TAKE)], &[], "sorted-set", "5.0.0", LOG_MEMBER, "Removes and returns the member with the highest score of the first sorted set that is there, or waits for it", blocking::bzpopmax),
    keyed!("bzmpop", -5, SCORED.union(MOVABLE), (0, 0, 0), &[counted(2, TAKE)], &[], "sorted-set", "7.0.0", "O(K log N) where K is the number of members removed and N the number of all keys and members", "Removes and returns members of the first sorted set that is there, or waits for them; option COUNT", blocking::bzmpop),
];
