//! Rows of the table: channels.

use super::*;
use crate::command::{pubsub, server};

const ABOUT: Flags = Flags::PUBSUB_KIND.union(Flags::PUBSUB).union(LOADING);
const LISTEN: Flags = ABOUT.union(Flags::NOSCRIPT);
const SEND: &str = "O(N + P) where N is the number of subscribers and P that of patterns";
const EACH_NAME: &str = "O(N) where N is the number of names given";

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    Command { complexity: EACH_NAME, ..plain("subscribe", -2, LISTEN, "pubsub", "2.0.0", "Listens to channels", pubsub::subscribe) },
    Command { complexity: EACH_NAME, ..plain("unsubscribe", -1, LISTEN, "pubsub", "2.0.0", "Listens to channels no more: those given, or all", pubsub::unsubscribe) },
    Command { complexity: EACH_NAME, ..plain("psubscribe", -2, LISTEN, "pubsub", "2.0.0", "Listens to all channels whose names match patterns", pubsub::psubscribe) },
    Command { complexity: EACH_NAME, ..plain("punsubscribe", -1, LISTEN, "pubsub", "2.0.0", "Listens to patterns no more: those given, or all", pubsub::punsubscribe) },
    keyed!("ssubscribe", -2, LISTEN, MANY, &[uses(1, -1, 1, &["not_key"])], &[], "pubsub", "7.0.0", EACH_NAME, "Listens to channels of a shard", pubsub::ssubscribe),
    keyed!("sunsubscribe", -1, LISTEN, MANY, &[uses(1, -1, 1, &["not_key"])], &[], "pubsub", "7.0.0", EACH_NAME, "Listens to channels of a shard no more: those given, or all", pubsub::sunsubscribe),
    Command { complexity: SEND, ..plain("publish", 3, ABOUT.union(FAST).union(Flags::SPREADS), "pubsub", "2.0.0", "Sends a message to the subscribers of a channel", pubsub::publish) },
    keyed!("spublish", 3, ABOUT.union(FAST).union(Flags::SPREADS), ONE, &[uses(1, 0, 1, &["not_key"])], &[], "pubsub", "7.0.0", SEND, "Sends a message to the subscribers of a channel of a shard", pubsub::spublish),
    Command { complexity: "Depends on the subcommand", subcommands: PUBSUB, ..plain("pubsub", -2, NONE, "pubsub", "2.8.0", "About channels", server::container) },
];

#[rustfmt::skip]
const PUBSUB: &[Command] = &[
    Command { complexity: EACH_NAME, ..plain("pubsub|numsub", -2, ABOUT, "pubsub", "2.8.0", "Channels, each with the number of its subscribers", pubsub::numsub) },
    plain("pubsub|numpat", 2, ABOUT, "pubsub", "2.8.0", "How many patterns have subscribers", pubsub::numpat),
    Command { complexity: EACH_NAME, ..plain("pubsub|shardnumsub", -2, ABOUT, "pubsub", "7.0.0", "Channels of a shard, each with the number of its subscribers", pubsub::shard_numsub) },
    Command { complexity: "O(N) where N is the number of channels", ..plain("pubsub|channels", -2, ABOUT, "pubsub", "2.8.0", "Channels with subscribers, all or those that match a pattern", pubsub::channels) },
    plain("pubsub|help", 2, LOADING, "pubsub", "6.2.0", "The subcommands", pubsub::help),
    Command { complexity: "O(N) where N is the number of channels", ..plain("pubsub|shardchannels", -2, ABOUT, "pubsub", "7.0.0", "Channels of a shard with subscribers, all or those that match a pattern", pubsub::shard_channels) },
];
