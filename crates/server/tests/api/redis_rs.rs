//! The Rust client that users have: the crate `redis`, unmodified.

use crate::common::{Ours, PATIENCE};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, Client, Commands, Connection, ErrorKind, RedisResult, Script, ServerErrorKind};
use std::collections::HashMap;
use std::time::Duration;

fn client(us: &Ours, query: &str) -> Client {
    Client::open(format!("redis://{}/{query}", us.address)).unwrap()
}

/// A connection in either protocol.
fn connections(us: &Ours) -> [Connection; 2] {
    ["", "?protocol=resp3"].map(|query| client(us, query).get_connection().unwrap())
}

#[test]
fn redis_rs_pipelines_and_transactions() {
    let us = Ours::start();
    for mut connection in connections(&us) {
        let () = redis::cmd("FLUSHALL").query(&mut connection).unwrap();
        let (set, added, number): (String, u32, i64) = redis::pipe()
            .set("k", "v")
            .hset_multiple("h", &[("a", 1), ("b", 2)])
            .ignore()
            .zadd_multiple("z", &[(1, "one"), (2, "two")])
            .incr("n", 5)
            .query(&mut connection)
            .unwrap();
        assert_eq!((set.as_str(), added, number), ("OK", 2, 5));
        let fields: HashMap<String, i64> = connection.hgetall("h").unwrap();
        assert_eq!(fields, HashMap::from([("a".into(), 1), ("b".into(), 2)]));
        let scores: Vec<(String, f64)> = connection.zrange_withscores("z", 0, -1).unwrap();
        assert_eq!(scores, [("one".into(), 1.0), ("two".into(), 2.0)]);
        let (old, new): (i64, i64) = redis::pipe().atomic().get("n").incr("n", 1).query(&mut connection).unwrap();
        assert_eq!((old, new), (5, 6));
        // Another client's write makes the first attempt one in vain.
        let (mut other, mut attempts) = (client(&us, "").get_connection().unwrap(), 0);
        let done: (i64,) = redis::transaction(&mut connection, &["n"], |connection, pipe| {
            let number: i64 = connection.get("n")?;
            attempts += 1;
            if attempts == 1 {
                let () = other.set("n", 10)?;
            }
            pipe.set("n", number + 1).ignore().get("n").query(connection)
        })
        .unwrap();
        assert_eq!((done.0, attempts), (11, 2));
        let failed: RedisResult<i64> = connection.incr("k", 1);
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Server(ServerErrorKind::ResponseError));
        let scanned: Vec<String> = connection.scan_match("*").unwrap().collect::<RedisResult<_>>().unwrap();
        assert_eq!(scanned.len(), 4);
    }
}

#[test]
fn redis_rs_subscribes() {
    let us = Ours::start();
    let mut publisher = client(&us, "").get_connection().unwrap();
    for mut connection in connections(&us) {
        let mut listener = connection.as_pubsub();
        listener.set_read_timeout(Some(PATIENCE)).unwrap();
        listener.subscribe("news").unwrap();
        listener.psubscribe("w*").unwrap();
        assert_eq!(publisher.publish::<_, _, u32>("news", "one").unwrap(), 1);
        assert_eq!(publisher.publish::<_, _, u32>("weather", "two").unwrap(), 1);
        for expected in [("news", "one"), ("weather", "two")] {
            let message = listener.get_message().unwrap();
            assert_eq!((message.get_channel_name(), message.get_payload::<String>().unwrap().as_str()), expected);
        }
        drop(listener);
        assert_eq!(connection.set::<_, _, String>("k", "v").unwrap(), "OK", "a plain connection again");
    }
}

#[test]
fn redis_rs_reads_streams_and_runs_scripts() {
    let us = Ours::start();
    for mut connection in connections(&us) {
        let () = redis::cmd("FLUSHALL").query(&mut connection).unwrap();
        let () = connection.xgroup_create_mkstream("s", "g", "$").unwrap();
        for (id, value) in [("1-1", "a"), ("1-2", "b")] {
            assert_eq!(connection.xadd::<_, _, _, _, String>("s", id, &[("field", value)]).unwrap(), id);
        }
        let options = StreamReadOptions::default().group("g", "c").count(10);
        let read: StreamReadReply = connection.xread_options(&["s"], &[">"], &options).unwrap();
        let entries = &read.keys[0].ids;
        assert_eq!(entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["1-1", "1-2"]);
        assert_eq!(entries[1].get::<String>("field").unwrap(), "b");
        assert_eq!(connection.xack::<_, _, _, u32>("s", "g", &["1-1"]).unwrap(), 1);
        // The server lacks the script at first: the client loads it, and asks again.
        let script = Script::new("return {redis.call('INCRBY', KEYS[1], ARGV[1]), ARGV[1]}");
        let reply: (i64, String) = script.key("n").arg(7).invoke(&mut connection).unwrap();
        assert_eq!(reply, (7, "7".into()));
        let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut connection).unwrap();
    }
}

/// The asynchronous client, which connects again when its connection is lost.
#[test]
fn redis_rs_manages_a_connection() {
    let us = Ours::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ConnectionManagerConfig::new()
        .set_min_delay(Duration::from_millis(1))
        .set_response_timeout(Some(PATIENCE))
        .set_connection_timeout(Some(PATIENCE));
    runtime.block_on(async {
        let mut manager = ConnectionManager::new_with_config(client(&us, ""), config).await.unwrap();
        let () = manager.set("k", "v").await.unwrap();
        let id: u64 = redis::cmd("CLIENT").arg("ID").query_async(&mut manager).await.unwrap();
        let killed: u32 = {
            let mut other = client(&us, "").get_connection().unwrap();
            redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(&mut other).unwrap()
        };
        assert_eq!(killed, 1);
        let mut value: RedisResult<String> = manager.get("k").await;
        for _ in 0..100 {
            if value.is_err() {
                value = manager.get("k").await; // the first one may meet the lost connection
            }
        }
        assert_eq!(value.unwrap(), "v");
        let again: u64 = redis::cmd("CLIENT").arg("ID").query_async(&mut manager).await.unwrap();
        assert_ne!(again, id);
    });
}
