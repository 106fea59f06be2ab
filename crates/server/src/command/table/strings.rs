//! Rows of the table: byte strings.

use super::*;
use crate::command::{counter, strings, subsequence};

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("get", 2, READ_STRING, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "string", "1.0.0", LOG_VALUE, "The value of a key", strings::get),
    keyed!("set", -3, WRITE.union(DENYOOM).union(STRING), ONE, &[noted(uses(1, 0, 1, &["RW", "access", "update", "variable_flags"]), "RW and ACCESS due to the optional `GET` argument")], &[], "string", "1.0.0", LOG_VALUE, "Gives a key a value; options NX, XX, GET, EX, PX, EXAT, PXAT, KEEPTTL", strings::set),
    keyed!("setnx", 3, CHANGE_STRING, ONE, &[uses(1, 0, 1, &["OW", "insert"])], &[], "string", "1.0.0", LOG_VALUE, "Gives a key a value unless it has one", strings::setnx),
    keyed!("getset", 3, CHANGE_STRING, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "string", "1.0.0", LOG_VALUE, "Gives a key a value and returns the one before", strings::getset),
    keyed!("getdel", 2, WRITE.union(FAST).union(STRING), ONE, &[uses(1, 0, 1, RW_DELETE)], &[], "string", "6.2.0", LOG_VALUE, "Deletes a key and returns its value", strings::getdel),
    keyed!("getex", -2, WRITE.union(FAST).union(STRING), ONE, &[noted(uses(1, 0, 1, RW_UPDATE), "RW and UPDATE because it changes the TTL")], &[], "string", "6.2.0", LOG_VALUE, "The value of a key, which gets a deadline: EX, PX, EXAT, PXAT, PERSIST", strings::getex),
    keyed!("setex", 4, WRITE.union(DENYOOM).union(STRING), ONE, &[uses(1, 0, 1, &["OW", "update"])], &[], "string", "2.0.0", LOG_VALUE, "Gives a key a value for so many seconds", strings::setex),
    keyed!("psetex", 4, WRITE.union(DENYOOM).union(STRING), ONE, &[uses(1, 0, 1, &["OW", "update"])], &[], "string", "2.6.0", LOG_VALUE, "Gives a key a value for so many milliseconds", strings::psetex),
    keyed!("mget", -2, READ_STRING, MANY, &[uses(1, -1, 1, RO_ACCESS)], &["request_policy:multi_shard"], "string", "1.0.0", LOG_EACH_VALUE, "The values of several keys", strings::mget),
    keyed!("mset", -3, WRITE.union(DENYOOM).union(STRING), PAIRS, &[uses(1, -1, 2, &["OW", "update"])], &["request_policy:multi_shard", "response_policy:all_succeeded"], "string", "1.0.1", LOG_EACH_VALUE, "Gives several keys their values, all or none", strings::mset),
    keyed!("msetnx", -3, WRITE.union(DENYOOM).union(STRING), PAIRS, &[uses(1, -1, 2, &["OW", "insert"])], &["request_policy:multi_shard", "response_policy:agg_min"], "string", "1.0.1", LOG_EACH_VALUE, "Gives several keys their values unless one of them has one", strings::msetnx),
    keyed!("append", 3, CHANGE_STRING, ONE, &[uses(1, 0, 1, &["RW", "insert"])], &[], "string", "2.0.0", LOG_VALUE, "Adds bytes to the end of a value", strings::append),
    keyed!("strlen", 2, READ_STRING, ONE, &[uses(1, 0, 1, RO)], &[], "string", "2.2.0", LOG, "The size of a value in bytes", strings::strlen),
    keyed!("getrange", 4, READONLY.union(STRING), ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "string", "2.4.0", LOG_PART, "Part of a value", strings::getrange),
    keyed!("substr", 4, READONLY.union(STRING), ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "string", "1.0.0", LOG_PART, "Part of a value; an older name of GETRANGE", strings::getrange),
    keyed!("setrange", 4, WRITE.union(DENYOOM).union(STRING), ONE, &[uses(1, 0, 1, &["RW", "update"])], &[], "string", "2.2.0", LOG_VALUE, "Overwrites part of a value", strings::setrange),
    keyed!("incr", 2, CHANGE_STRING, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "string", "1.0.0", LOG, "Adds one to a number", counter::incr),
    keyed!("decr", 2, CHANGE_STRING, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "string", "1.0.0", LOG, "Takes one from a number", counter::decr),
    keyed!("incrby", 3, CHANGE_STRING, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "string", "1.0.0", LOG, "Adds to a number", counter::incrby),
    keyed!("decrby", 3, CHANGE_STRING, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "string", "1.0.0", LOG, "Takes from a number", counter::decrby),
    keyed!("incrbyfloat", 3, CHANGE_STRING, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "string", "2.6.0", LOG, "Adds to a number that need not be whole", counter::incrbyfloat),
    keyed!("lcs", -3, READONLY.union(STRING), TWO, &[uses(1, 1, 1, RO_ACCESS)], &[], "string", "7.0.0", "O(N M) where N and M are the sizes of the values", "The longest common subsequence of two strings; options LEN, IDX, MINMATCHLEN, WITHMATCHLEN", subsequence::lcs),
];
