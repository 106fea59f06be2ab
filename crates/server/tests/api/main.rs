//! The server as its clients see it.

#[path = "../common/mod.rs"]
mod common;

mod acl;
mod backups;
mod blocking;
mod clients;
mod durability;
mod expiry;
mod long_lists;
mod loops;
mod metrics;
mod password;
mod pending;
mod pubsub;
mod redis_rs;
mod replication;
mod sockets;
mod tls;
mod tools;
mod tracking;
mod waitaof;
