//! Rows of the table: replication.

use super::*;
use crate::command::replication;

const ABOUT: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE);

/// See the head of this file.
#[rustfmt::skip]
pub(super) static ROWS: &[Command] = &[
    plain("replicaof", 3, ABOUT.union(Flags::NO_ASYNC_LOADING), "server", "5.0.0", "Makes this server a replica of another one, or a primary (NO ONE)", replication::replica_of),
    plain("slaveof", 3, ABOUT.union(Flags::NO_ASYNC_LOADING), "server", "1.0.0", "Makes this server a replica of another one, or a primary (NO ONE)", replication::replica_of),
    plain("role", 1, Flags::NOSCRIPT.union(LOADING).union(FAST).union(DANGEROUS).union(Flags::ADMIN_KIND), "server", "2.8.12", "Whether this is a primary or a replica, and its state", replication::role),
    plain("failover", -1, ABOUT, "server", "6.2.0", "Makes a replica the primary once it has everything, and this server its replica", replication::failover),
    Command { tips: &["request_policy:all_shards", "response_policy:agg_min"], ..plain("wait", 3, Flags::NOSCRIPT.union(CONNECTION), "generic", "3.0.0", "The replicas that have settled what this client has written", replication::wait) },
    Command { tips: &["request_policy:all_shards", "response_policy:agg_min"], ..plain("waitaof", 4, Flags::NOSCRIPT.union(CONNECTION), "generic", "7.2.0", "Waits until a power cut leaves what this client has written here, and until replicas have settled it", replication::wait_aof) },
    plain("everbyte.replicate", 5, ADMIN.union(Flags::NO_MULTI), "server", "0.1.0", "For replicas: the stream of changes", replication::replicate),
    plain("everbyte.ack", 2, ADMIN.union(Flags::OWN_STATE), "server", "0.1.0", "For replicas: what is settled there", replication::acknowledge),
];
