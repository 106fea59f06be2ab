//! Rows of the table: sorted sets.

use super::*;
use crate::command::{sorted_operations, sorted_ranges, sorted_sets};

const READ: Flags = READONLY.union(FAST).union(Flags::SORTED_SET);
const READ_ALL: Flags = READONLY.union(Flags::SORTED_SET);
const CHANGE: Flags = WRITE.union(DENYOOM).union(FAST).union(Flags::SORTED_SET);
const REMOVE: Flags = WRITE.union(FAST).union(Flags::SORTED_SET);
const STORE: Flags = WRITE.union(DENYOOM).union(Flags::SORTED_SET);
const REMOVE_ALL: Flags = WRITE.union(Flags::SORTED_SET);

const READ_ONE: &[KeyUse] = &[uses(1, 0, 1, RO_ACCESS)];
const REMOVE_ONE: &[KeyUse] = &[uses(1, 0, 1, &["RW", "delete"])];
const TARGET: &[&str] = &["OW", "update"];
const STORED: &[KeyUse] = &[uses(1, 0, 1, TARGET), counted(2, RO_ACCESS)];
const POP_ONE: &[KeyUse] = &[uses(1, 0, 1, RW_DELETE)];

const LOG_MEMBERS: &str = "O(K log N) where K is the number of members given and N the number of all keys and members";
const RANK: &str = "O(log N + K) where N is the number of all keys and members and K the distance to the nearer end of the set, which is passed over leaf by leaf";
const COUNT: &str = "O(log N + K) where N is the number of all keys and members and K the members that are counted or the others, whichever are fewer, which are passed over leaf by leaf";
const COUNT_MEMBERS: &str = "O(log N + K) where N is the number of all keys and members and K the members that are counted or the others, whichever are fewer, which are passed over leaf by leaf; O(M) of the set's members if these have several scores";
const RANGE: &str = "O(log N + S + K) where N is the number of all keys and members, K the number and size of those returned, and S those that are passed over: by rank those up to the nearer end, else OFFSET";
const RANGE_SCORES: &str = "O(log N + S + K) where N is the number of all keys and members, K the number and size of those returned, and S the OFFSET";
const RANGE_MEMBERS: &str = "O(log N + S + K) where N is the number of all keys and members, K the number and size of those returned, and S the OFFSET; O(M) of the set's members if these have several scores";
const POP: &str = "O(K log N) where K is the number of members removed and N the number of all keys and members";
const STORE_RANGE: &str = "O(S + K log N) where K is the number of members stored, N the number of all keys and members, and S those that are passed over, as of ZRANGE";
const RANDOM: &str = "O(K log N) where K is the number of members asked for and N the number of all keys and members; O(N) of the set's when K is above a third of them";
const INTERSECT: &str = "O(K M log N) where K is the number of members of the smallest input, M the number of inputs and N the number of all keys and members";
const COMBINE: &str = "O(K M log N) where K is the number of members of all inputs, M the number of inputs and N the number of all keys and members";
const SUBTRACT: &str = "O(K M log N) where K is the number of members of the first input, M the number of inputs and N the number of all keys and members";
const CUT: &str = "O(S + K log N) where K is the number of members removed, N the number of all keys and members, and S those up to the nearer end, which are passed over";

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("zadd", -4, CHANGE, ONE, &[uses(1, 0, 1, RW_SET)], &[], "sorted-set", "1.2.0", LOG_MEMBERS, "Gives members of a sorted set their scores; options NX, XX, GT, LT, CH, INCR", sorted_sets::zadd),
    keyed!("zincrby", 4, CHANGE, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "sorted-set", "1.2.0", LOG_MEMBERS, "Adds to the score of a member", sorted_sets::zincrby),
    keyed!("zrem", -3, REMOVE, ONE, REMOVE_ONE, &[], "sorted-set", "1.2.0", LOG_MEMBERS, "Removes members of a sorted set", sorted_sets::zrem),
    keyed!("zscore", 3, READ, ONE, READ_ONE, &[], "sorted-set", "1.2.0", LOG_MEMBERS, "The score of a member", sorted_sets::zscore),
    keyed!("zmscore", -3, READ, ONE, READ_ONE, &[], "sorted-set", "6.2.0", LOG_MEMBERS, "The scores of several members", sorted_sets::zmscore),
    keyed!("zcard", 2, READ, ONE, &[uses(1, 0, 1, RO)], &[], "sorted-set", "1.2.0", LOG, "The number of members", sorted_sets::zcard),
    keyed!("zcount", 4, READ, ONE, READ_ONE, &[], "sorted-set", "2.0.0", COUNT, "The number of members with scores in a range", sorted_ranges::zcount),
    keyed!("zlexcount", 4, READ, ONE, READ_ONE, &[], "sorted-set", "2.8.9", COUNT_MEMBERS, "The number of members in a range, if all have one score", sorted_ranges::zlexcount),
    keyed!("zrank", 3, READ, ONE, READ_ONE, &[], "sorted-set", "2.0.0", RANK, "The number of members before one, in the order of scores", sorted_sets::zrank),
    keyed!("zrevrank", 3, READ, ONE, READ_ONE, &[], "sorted-set", "2.0.0", RANK, "The number of members behind one, in the order of scores", sorted_sets::zrevrank),
    keyed!("zrange", -4, READ_ALL, ONE, READ_ONE, &[], "sorted-set", "1.2.0", RANGE, "Members in a range; options BYSCORE, BYLEX, REV, LIMIT, WITHSCORES", sorted_ranges::zrange),
    keyed!("zrevrange", -4, READ_ALL, ONE, READ_ONE, &[], "sorted-set", "1.2.0", RANGE, "Members in a range of ranks from the end; option WITHSCORES", sorted_ranges::zrevrange),
    keyed!("zrangebyscore", -4, READ_ALL, ONE, READ_ONE, &[], "sorted-set", "1.0.5", RANGE_SCORES, "Members with scores in a range; options LIMIT, WITHSCORES", sorted_ranges::zrangebyscore),
    keyed!("zrevrangebyscore", -4, READ_ALL, ONE, READ_ONE, &[], "sorted-set", "2.2.0", RANGE_SCORES, "Members with scores in a range, from its end; options LIMIT, WITHSCORES", sorted_ranges::zrevrangebyscore),
    keyed!("zrangebylex", -4, READ_ALL, ONE, READ_ONE, &[], "sorted-set", "2.8.9", RANGE_MEMBERS, "Members in a range, if all have one score; option LIMIT", sorted_ranges::zrangebylex),
    keyed!("zrevrangebylex", -4, READ_ALL, ONE, READ_ONE, &[], "sorted-set", "2.8.9", RANGE_MEMBERS, "Members in a range, from its end, if all have one score; option LIMIT", sorted_ranges::zrevrangebylex),
    keyed!("zremrangebyrank", 4, REMOVE_ALL, ONE, REMOVE_ONE, &[], "sorted-set", "2.0.0", CUT, "Removes the members in a range of ranks", sorted_ranges::zremrangebyrank),
    keyed!("zremrangebyscore", 4, REMOVE_ALL, ONE, REMOVE_ONE, &[], "sorted-set", "1.2.0", POP, "Removes the members with scores in a range", sorted_ranges::zremrangebyscore),
    keyed!("zremrangebylex", 4, REMOVE_ALL, ONE, REMOVE_ONE, &[], "sorted-set", "2.8.9", POP, "Removes the members in a range, if all have one score", sorted_ranges::zremrangebylex),
    keyed!("zrangestore", -5, STORE, TWO, &[uses(1, 0, 1, TARGET), uses(2, 0, 1, RO_ACCESS)], &[], "sorted-set", "6.2.0", STORE_RANGE, "Stores members in a range as a sorted set; options BYSCORE, BYLEX, REV, LIMIT", sorted_ranges::zrangestore),
    keyed!("zmpop", -4, REMOVE_ALL.union(MOVABLE), (0, 0, 0), &[counted(1, RW_DELETE)], &[], "sorted-set", "7.0.0", POP, "Removes and returns members of the first sorted set that is there; option COUNT", sorted_sets::zmpop),
    keyed!("zrandmember", -2, READ_ALL, ONE, READ_ONE, OUTPUT, "sorted-set", "6.2.0", RANDOM, "Random members; option WITHSCORES", sorted_sets::zrandmember),
    keyed!("zscan", -3, READ_ALL, ONE, READ_ONE, OUTPUT, "sorted-set", "2.8.0", "O(log N + COUNT) a call; a sorted set of up to 128 members is given whole", "Some members and scores and where to go on; options MATCH, COUNT", sorted_sets::zscan),
    keyed!("zpopmin", -2, REMOVE, ONE, POP_ONE, &[], "sorted-set", "5.0.0", POP, "Removes and returns the members with the lowest scores", sorted_sets::zpopmin),
    keyed!("zpopmax", -2, REMOVE, ONE, POP_ONE, &[], "sorted-set", "5.0.0", POP, "Removes and returns the members with the highest scores", sorted_sets::zpopmax),
    keyed!("zunion", -3, READ_ALL.union(MOVABLE), (0, 0, 0), &[counted(1, RO_ACCESS)], &[], "sorted-set", "6.2.0", COMBINE, "The members that any input has, by score; options WEIGHTS, AGGREGATE, WITHSCORES", sorted_operations::zunion),
    keyed!("zunionstore", -4, STORE.union(MOVABLE), ONE, STORED, &[], "sorted-set", "2.0.0", COMBINE, "Stores the members that any input has; options WEIGHTS, AGGREGATE", sorted_operations::zunionstore),
    keyed!("zinter", -3, READ_ALL.union(MOVABLE), (0, 0, 0), &[counted(1, RO_ACCESS)], &[], "sorted-set", "6.2.0", INTERSECT, "The members that all inputs have, by score; options WEIGHTS, AGGREGATE, WITHSCORES", sorted_operations::zinter),
    keyed!("zinterstore", -4, STORE.union(MOVABLE), ONE, STORED, &[], "sorted-set", "2.0.0", INTERSECT, "Stores the members that all inputs have; options WEIGHTS, AGGREGATE", sorted_operations::zinterstore),
    keyed!("zdiff", -3, READ_ALL.union(MOVABLE), (0, 0, 0), &[counted(1, RO_ACCESS)], &[], "sorted-set", "6.2.0", SUBTRACT, "The members of the first input that no other has, by score; option WITHSCORES", sorted_operations::zdiff),
    keyed!("zdiffstore", -4, STORE.union(MOVABLE), ONE, STORED, &[], "sorted-set", "6.2.0", SUBTRACT, "Stores the members of the first input that no other has", sorted_operations::zdiffstore),
    keyed!("zintercard", -3, READ_ALL.union(MOVABLE), (0, 0, 0), &[counted(1, RO_ACCESS)], &[], "sorted-set", "7.0.0", INTERSECT, "The number of members that all inputs have; option LIMIT", sorted_operations::zintercard),
];
