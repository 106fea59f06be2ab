//! Rows of the table: hashes.

use super::*;
use crate::command::hashes;

const READ: Flags = READONLY.union(FAST).union(Flags::HASH);
const READ_ALL: Flags = READONLY.union(Flags::HASH);
const CHANGE: Flags = WRITE.union(DENYOOM).union(FAST).union(Flags::HASH);

const LOG_FIELD: &str =
    "O(log N + M) where N is the number of all keys and fields and M the size of the value read or written";
const LOG_FIELDS: &str = "O(K log N + M) where K is the number of fields given, N the number of all keys and fields, and M the size of the values read or written";
const LOG_BOTH: &str = "O(log N) where N is the number of all keys and fields; the value is not read";
const ALL_FIELDS: &str =
    "O(log N + M) where N is the number of all keys and fields and M the number and size of the hash's";
const RANDOM: &str = "O(K log N) where K is the number of fields asked for and N the number of all keys and fields; O(N) of the hash's when K is above a third of them";

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    keyed!("hset", -4, CHANGE, ONE, &[uses(1, 0, 1, RW_SET)], &[], "hash", "2.0.0", LOG_FIELDS, "Gives fields of a hash their values", hashes::hset),
    keyed!("hsetnx", 4, CHANGE, ONE, &[uses(1, 0, 1, &["RW", "insert"])], &[], "hash", "2.0.0", LOG_FIELD, "Gives a field a value unless it has one", hashes::hsetnx),
    keyed!("hmset", -4, CHANGE, ONE, &[uses(1, 0, 1, RW_SET)], &[], "hash", "2.0.0", LOG_FIELDS, "Gives fields of a hash their values; replies OK", hashes::hmset),
    keyed!("hget", 3, READ, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "hash", "2.0.0", LOG_FIELD, "The value of a field", hashes::hget),
    keyed!("hmget", -3, READ, ONE, &[uses(1, 0, 1, RO_ACCESS)], &[], "hash", "2.0.0", LOG_FIELDS, "The values of several fields", hashes::hmget),
    keyed!("hgetall", 2, READ_ALL, ONE, &[uses(1, 0, 1, RO_ACCESS)], ORDER, "hash", "2.0.0", ALL_FIELDS, "All fields and values", hashes::hgetall),
    keyed!("hdel", -3, WRITE.union(FAST).union(Flags::HASH), ONE, &[uses(1, 0, 1, &["RW", "delete"])], &[], "hash", "2.0.0", LOG_FIELDS, "Deletes fields", hashes::hdel),
    keyed!("hlen", 2, READ, ONE, &[uses(1, 0, 1, RO)], &[], "hash", "2.0.0", LOG, "The number of fields", hashes::hlen),
    keyed!("hexists", 3, READ, ONE, &[uses(1, 0, 1, RO)], &[], "hash", "2.0.0", LOG_BOTH, "Whether a field exists", hashes::hexists),
    keyed!("hkeys", 2, READ_ALL, ONE, &[uses(1, 0, 1, RO_ACCESS)], ORDER, "hash", "2.0.0", ALL_FIELDS, "All fields", hashes::hkeys),
    keyed!("hvals", 2, READ_ALL, ONE, &[uses(1, 0, 1, RO_ACCESS)], ORDER, "hash", "2.0.0", ALL_FIELDS, "All values", hashes::hvals),
    keyed!("hstrlen", 3, READ, ONE, &[uses(1, 0, 1, RO)], &[], "hash", "3.2.0", LOG_BOTH, "The size of a field's value in bytes", hashes::hstrlen),
    keyed!("hincrby", 4, CHANGE, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "hash", "2.0.0", LOG_FIELD, "Adds to the number of a field", hashes::hincrby),
    keyed!("hincrbyfloat", 4, CHANGE, ONE, &[uses(1, 0, 1, RW_UPDATE)], &[], "hash", "2.6.0", LOG_FIELD, "Adds to the number of a field, which need not be whole", hashes::hincrbyfloat),
    keyed!("hrandfield", -2, READ_ALL, ONE, &[uses(1, 0, 1, RO_ACCESS)], OUTPUT, "hash", "6.2.0", RANDOM, "Random fields; option WITHVALUES", hashes::hrandfield),
    keyed!("hscan", -3, READ_ALL, ONE, &[uses(1, 0, 1, RO_ACCESS)], OUTPUT, "hash", "2.8.0", "O(log N + COUNT) a call; a hash of up to 128 fields is given whole", "Some fields and values and where to go on; options MATCH, COUNT", hashes::hscan),
];
