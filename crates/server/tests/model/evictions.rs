//! `maxmemory` under noeviction, and its settings: the same replies as Redis.

use crate::common::{Ours, Redis, Reply, command};
use crate::compare;

/// Every command that may need space is refused, others are not; so it is in transactions, scripts
/// and functions.
#[test]
fn commands_that_need_space_are_refused_as_by_redis() {
    let (us, redis) = (Ours::start(), Redis::start());
    let (mut ours, mut theirs) = (us.client(), redis.client());
    let mut denied = Vec::new();
    for name in ours.call(&["COMMAND", "LIST"]).list().into_iter().map(Reply::bytes) {
        let info = ours.call(&[&b"COMMAND"[..], b"INFO", &name]).list().swap_remove(0).list();
        let [_, Reply::Integer(arity), Reply::List(flags), ..] = &info[..] else { panic!("{info:?}") };
        if flags.contains(&Reply::Simple("denyoom".into())) && !name.contains(&b'|') {
            denied.push((name, arity.unsigned_abs() as usize));
        }
    }
    assert!(denied.len() > 50);
    let script = "return redis.call('SET', KEYS[1], '1')";
    let late = "redis.call('DEL', 'nosuch') return redis.call('SET', KEYS[1], '1')";
    let library = "#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('SET', keys[1], '1') end)\n\
                   redis.register_function{function_name='g', flags={'allow-oom'}, callback=function(keys) return \
                   redis.call('SET', keys[1], '1') end}";
    for client in [&mut ours, &mut theirs] {
        client.call(&["SET", "k", "v"]);
        client.call(&["FUNCTION", "LOAD", library]);
        client.call(&["CONFIG", "SET", "maxmemory", "1"]);
    }
    for (name, count) in denied {
        let words = [&[&name[..]][..], &vec![&b"k"[..]; count - 1]].concat();
        compare(&mut ours, &mut theirs, &command(&words), &String::from_utf8_lossy(&name));
    }
    let requests: &[&[&str]] = &[
        &["GET", "k"],
        &["DEL", "nosuch"],
        &["EXPIRE", "k", "1000"],
        &["EVAL", script, "1", "k"],
        &["EVAL", "return redis.pcall('SET', KEYS[1], '1').err", "1", "k"],
        &["EVAL", "return redis.call('GET', KEYS[1])", "1", "k"],
        &["EVAL", late, "1", "k"],
        &["EVAL", "#!lua\nreturn 1", "0"],
        &["EVAL", "#!lua flags=no-writes\nreturn 1", "0"],
        &["EVAL", "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], '1')", "1", "k"],
        &["FCALL", "f", "1", "k"],
        &["FCALL", "g", "1", "k"],
        &["OBJECT", "FREQ", "k"],
        &["CONFIG", "SET", "maxmemory", "x"],
        &["CONFIG", "SET", "maxmemory", "-1"],
        &["CONFIG", "SET", "maxmemory", "10mb", "maxmemory-policy", "lru"],
        &["CONFIG", "SET", "maxmemory-samples", "0"],
        &["CONFIG", "SET", "maxmemory-samples", "x"],
        &["CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "AllKeys-LFU", "maxmemory-samples", "7"],
        &["CONFIG", "GET", "maxmemory"],
        &["CONFIG", "GET", "maxmemory-policy"],
        &["CONFIG", "GET", "maxmemory-samples"],
        &["SET", "fresh", "v"],
        &["OBJECT", "FREQ", "fresh"],
        &["OBJECT", "FREQ", "nosuch"],
        &["OBJECT", "IDLETIME", "fresh"],
        &["OBJECT", "IDLETIME", "nosuch"],
    ];
    // Whole transactions, as what follows in one is refused, too.
    for words in [&["MULTI", "GET k", "PING", "EXEC"][..], &["MULTI", "DISCARD"], &["MULTI", "EXEC"]] {
        let bytes = words.iter().flat_map(|line| format!("{line}\r\n").into_bytes()).collect::<Vec<_>>();
        compare(&mut ours, &mut theirs, &bytes, &format!("{words:?}"));
    }
    for request in requests {
        compare(&mut ours, &mut theirs, &command(request), &format!("{request:?}"));
    }
}
