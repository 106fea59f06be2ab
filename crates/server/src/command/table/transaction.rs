//! Rows of the table: transactions.

use super::*;
use crate::command::transaction;

const ABOUT: Flags = ANYTIME.union(FAST).union(Flags::ALLOW_BUSY).union(Flags::TRANSACTION);

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    plain("multi", 1, ABOUT, "transactions", "1.2.0", "Queues the commands to come, for EXEC", transaction::multi),
    Command { complexity: "That of the queued commands", ..plain("exec", 1, ANYTIME.union(Flags::SKIP_SLOWLOG).union(Flags::TRANSACTION), "transactions", "1.2.0", "Executes all queued commands as one", transaction::exec) },
    plain("discard", 1, ABOUT, "transactions", "2.0.0", "Forgets all queued commands", transaction::discard),
    keyed!("watch", -2, ABOUT, MANY, &[uses(1, -1, 1, RO)], &[], "transactions", "2.2.0", LOG_EACH, "Lets the next EXEC do nothing if one of the keys changes before it", transaction::watch),
    plain("unwatch", 1, ABOUT, "transactions", "2.2.0", "Watches no key any more", transaction::unwatch),
];
