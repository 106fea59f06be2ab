//! Rows of the table: sets.

use super::*;
use crate::command::{set_operations, sets};

const READ: Flags = READONLY.union(FAST).union(Flags::SET);
const READ_ALL: Flags = READONLY.union(Flags::SET);
const CHANGE: Flags = WRITE.union(DENYOOM).union(FAST).union(Flags::SET);
const STORE: Flags = WRITE.union(DENYOOM).union(Flags::SET);
const REMOVE: Flags = WRITE.union(FAST).union(Flags::SET);

const READ_SETS: &[KeyUse] = &[uses(1, -1, 1, RO_ACCESS)];
const TARGET: &[&str] = &["OW", "update"];

const INTERSECT: &str = "O(K M log N) where K is the number of members of the smallest set, M the number of sets and N the number of all keys and members";
const COMBINE: &str = "O(K M log N) where K is the number of members of all sets, M the number of sets and N the number of all keys and members";
const SUBTRACT: &str = "O(K M log N) where K is the number of members of the first set, M the number of sets and N the number of all keys and members";
const LOG_MEMBERS: &str = "O(K log N) where K is the number of members given and N the number of all keys and members";
const RANDOM: &str = "O(K log N) where K is the number of members asked for and N the number of all keys and members; O(N) of the set's when K is above a third of them";

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("sadd", -3, CHANGE, ONE, &[uses(1, 0, 1, &["RW", "insert"])], &[], "set", "1.0.0", LOG_MEMBERS, "Adds members to a set", sets::sadd),
    keyed!("srem", -3, REMOVE, ONE, &[uses(1, 0, 1, &["RW", "delete"])], &[], "set", "1.0.0", LOG_MEMBERS, "Removes members of a set", sets::srem),
    keyed!("sismember", 3, READ, ONE, &[uses(1, 0, 1, RO)], &[], "set", "1.0.0", LOG_MEMBERS, "Whether a set has a member", sets::sismember),
    keyed!("smismember", -3, READ, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "set", "6.2.0", LOG_MEMBERS, "Which of the given members a set has", sets::smismember),
    keyed!("smembers", 2, READ_ALL, ONE, &[uses(1, 0, 1, RO_ACCESS)], ORDER, "set", "1.0.0", "O(log N + M) where N is the number of all keys and members and M the number and size of the set's", "All members", sets::smembers),
    keyed!("scard", 2, READ, ONE, &[uses(1, 0, 1, RO)], &[], "set", "1.0.0", LOG, "The number of members", sets::scard),
    keyed!("spop", -2, REMOVE, ONE, &[uses(1, 0, 1, RW_DELETE)], OUTPUT, "set", "1.0.0", RANDOM, "Removes random members and returns them", sets::spop),
    keyed!("srandmember", -2, READ_ALL, ONE, &[uses(1, 0, 1, RO_ACCESS)], OUTPUT, "set", "1.0.0", RANDOM, "Random members", sets::srandmember),
    keyed!("smove", 4, REMOVE, TWO, &[uses(1, 0, 1, RW_DELETE), uses(2, 0, 1, &["RW", "insert"])], &[], "set", "1.0.0", LOG_MEMBERS, "Moves a member to another set", sets::smove),
    keyed!("sscan", -3, READ_ALL, ONE, &[uses(1, 0, 1, RO_ACCESS)], OUTPUT, "set", "2.8.0", "O(log N + COUNT) a call; a set of up to 128 members is given whole", "Some members and where to go on; options MATCH, COUNT", sets::sscan),
    keyed!("sinter", -2, READ_ALL, MANY, READ_SETS, ORDER, "set", "1.0.0", INTERSECT, "The members that all sets have", set_operations::sinter),
    keyed!("sinterstore", -3, STORE, MANY, &[uses(1, 0, 1, RW_SET), uses(2, -1, 1, RO_ACCESS)], &[], "set", "1.0.0", INTERSECT, "Stores the members that all sets have", set_operations::sinterstore),
    keyed!("sintercard", -3, READ_ALL.union(MOVABLE), (0, 0, 0), &[counted(1, RO_ACCESS)], &[], "set", "7.0.0", INTERSECT, "The number of members that all sets have; option LIMIT", set_operations::sintercard),
    keyed!("sunion", -2, READ_ALL, MANY, READ_SETS, ORDER, "set", "1.0.0", COMBINE, "The members that any set has", set_operations::sunion),
    keyed!("sunionstore", -3, STORE, MANY, &[uses(1, 0, 1, TARGET), uses(2, -1, 1, RO_ACCESS)], &[], "set", "1.0.0", COMBINE, "Stores the members that any set has", set_operations::sunionstore),
    keyed!("sdiff", -2, READ_ALL, MANY, READ_SETS, ORDER, "set", "1.0.0", SUBTRACT, "The members of the first set that no other has", set_operations::sdiff),
    keyed!("sdiffstore", -3, STORE, MANY, &[uses(1, 0, 1, TARGET), uses(2, -1, 1, RO_ACCESS)], &[], "set", "1.0.0", SUBTRACT, "Stores the members of the first set that no other has", set_operations::sdiffstore),
];
