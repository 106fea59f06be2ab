//! The reads that another loop than the first may answer (`loops`): commands that read keys which
//! they name, and touch nothing else of the server than its options and the counts of look-ups.

use super::CommandTable;
use std::sync::OnceLock;

const NAMES: [&str; 45] = [
    "bitcount",
    "bitpos",
    "exists",
    "expiretime",
    "get",
    "getbit",
    "getrange",
    "hexists",
    "hget",
    "hgetall",
    "hkeys",
    "hlen",
    "hmget",
    "hstrlen",
    "hvals",
    "lindex",
    "llen",
    "lrange",
    "mget",
    "pexpiretime",
    "pttl",
    "scard",
    "sismember",
    "smembers",
    "smismember",
    "strlen",
    "substr",
    "ttl",
    "type",
    "xlen",
    "xrange",
    "xrevrange",
    "zcard",
    "zcount",
    "zlexcount",
    "zmscore",
    "zrange",
    "zrangebylex",
    "zrangebyscore",
    "zrank",
    "zrevrange",
    "zrevrangebylex",
    "zrevrangebyscore",
    "zrevrank",
    "zscore",
];

/// Whether the command of a row is such a read.
#[inline]
pub(crate) fn answers_plainly(row: usize) -> bool {
    static ROWS: OnceLock<Vec<bool>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| {
        CommandTable::get().rows.iter().map(|command| NAMES.binary_search(&command.name).is_ok()).collect()
    });
    rows[row]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Find, Flags};

    /// They write nothing, wait for nothing, and their keys follow from their words.
    #[test]
    fn plain_reads_are_commands_that_read_the_keys_they_name() {
        assert!(NAMES.is_sorted());
        let apart =
            Flags::WRITE | Flags::BLOCKING | Flags::ADMIN | Flags::NOSCRIPT | Flags::SPANS_KEYS | Flags::SPREADS;
        let table = CommandTable::get();
        for name in NAMES {
            let row = table.find(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
            let command = table.rows[row];
            assert!(answers_plainly(row) && command.flags.contains(Flags::READONLY), "{name}");
            assert!(!command.flags.intersects(apart) && !command.key_uses.is_empty(), "{name}");
            assert!(command.key_uses.iter().all(|key| matches!(key.find, Find::Range(..))), "{name}");
        }
    }
}
