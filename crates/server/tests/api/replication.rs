//! Primaries, replicas, and replicas of replicas, each a server on a store of its own.

use crate::common::{Client, Reply, figure, table};
use everbyte_kv::Kv;
use everbyte_server::{EvictionPolicy, Handle, Options, Server};
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server that can be stopped and started again on its store.
struct Node {
    kv: Kv,
    address: SocketAddr,
    running: Option<(Handle, JoinHandle<everbyte_server::Result<()>>)>,
    options: Options,
    _dir: tempfile::TempDir,
}

impl Node {
    fn start() -> Node {
        Node::with(Options::default())
    }

    fn with(options: Options) -> Node {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let options = Options { address: "127.0.0.1:0".into(), ..options };
        let mut node = Node { kv: table(dir.path()), address: ([0; 4], 0).into(), running: None, options, _dir: dir };
        node.run();
        node
    }

    fn run(&mut self) {
        let server = Server::bind(self.kv.clone(), self.options.clone()).unwrap();
        self.address = server.address();
        // A server that comes back has its port again.
        self.options.address = self.address.to_string();
        self.running = Some((server.handle(), std::thread::spawn(move || server.run())));
    }

    fn stop(&mut self) {
        if let Some((handle, thread)) = self.running.take() {
            handle.stop();
            thread.join().expect("the server does not panic").expect("it ends well");
        }
    }

    fn client(&self) -> Client {
        Client::connect(self.address)
    }

    fn port(&self) -> String {
        self.address.port().to_string()
    }

    fn follow(&self, primary: &Node) {
        assert_eq!(self.client().call(&["REPLICAOF", "127.0.0.1", &primary.port()]), Reply::Simple("OK".into()));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
            let mut findings = Vec::new();
            everbyte_server::check(&self.kv, &mut |finding| findings.push(finding));
            // A replica that was stopped within a transfer says so.
            findings.retain(|finding| finding.kind != everbyte_store::FindingKind::Note);
            assert!(findings.is_empty(), "{findings:?}");
        }
    }
}

fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a node gives this reply.
fn await_reply(node: &Node, command: &[&str], reply: Reply) {
    let mut client = node.client();
    let mut last = Reply::Null;
    await_that(&format!("{command:?} {reply:?}"), || {
        last = client.call(command);
        last == reply
    });
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

/// The line of INFO that begins with a name.
fn info(node: &Node, name: &str) -> String {
    let text = String::from_utf8(node.client().call(&["INFO", "replication"]).bytes()).unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_string));
    found.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Everything that the tables which are sent hold.
fn contents(kv: &Kv) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let snapshot = kv.snapshot();
    let mut all: Vec<_> = Vec::new();
    for pair in snapshot.range::<[u8]>(..) {
        let (key, value) = pair.unwrap();
        all.push((String::new(), key, value));
    }
    for name in ["server/keys", "server/elements", "server/deadlines", "server/state"] {
        let open = kv.open_table(name).unwrap();
        for pair in snapshot.table(&open).unwrap().range::<[u8]>(..) {
            let (key, value) = pair.unwrap();
            all.push((name.into(), key, value));
        }
    }
    all
}

/// Values of every type, in several databases.
fn fill(client: &mut Client, round: usize) {
    for line in [
        format!("SET plain {round}"),
        format!("SET plain:{round} {round}"),
        format!("SET kept {round} EX 100000"),
        format!("HSET hash field:{round} {round} same {round}"),
        format!("RPUSH list {round} a b"),
        format!("SADD set {round} b"),
        format!("ZADD sorted {round} member {round} other:{round}"),
        format!("XADD stream {}-1 f {round}", round + 1),
        "XGROUP CREATE stream group 0".to_string(),
        "XREADGROUP GROUP group me COUNT 1 STREAMS stream >".to_string(),
        format!("PFADD estimate {round}"),
        format!("GEOADD places 13.3 38.1 place:{round}"),
        "SELECT 3".to_string(),
        format!("SET other {round}"),
        format!("RPUSH list {round}"),
        "SELECT 0".to_string(),
        format!("DEL plain:{}", round.wrapping_sub(2)),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        client.call(&words);
    }
}

/// Writes, and waits until so many replicas have it.
fn settle_on(node: &Node, replicas: &str) {
    let mut client = node.client();
    assert!(matches!(client.call(&["INCR", "mark"]), Reply::Integer(_)));
    let reply = client.call(&["WAIT", replicas, "120000"]);
    assert_eq!(reply, Reply::Integer(replicas.parse().unwrap()));
}

/// TB08: a whole copy first, then what changes, of every type; and the replica takes no writes.
#[test]
fn a_replica_has_what_its_primary_has() {
    let (primary, replica) = (Node::start(), Node::start());
    let mut client = primary.client();
    (0..4).for_each(|round| fill(&mut client, round));
    replica.client().call(&["SET", "before", "gone"]);
    replica.follow(&primary);
    settle_on(&primary, "1");
    assert_eq!(contents(&replica.kv), contents(&primary.kv));
    assert_eq!(replica.client().call(&["GET", "before"]), Reply::Null);
    (4..8).for_each(|round| fill(&mut client, round));
    client.call(&["SWAPDB", "0", "3"]);
    settle_on(&primary, "1");
    assert_eq!(contents(&replica.kv), contents(&primary.kv));
    let mut reader = replica.client();
    assert_eq!(reader.call(&["GET", "other"]), bulk("7"));
    let dbsize = |client: &mut Client| client.call(&["DBSIZE"]);
    assert_eq!(dbsize(&mut reader), dbsize(&mut client));
    for command in [&["SET", "a", "b"][..], &["DEL", "plain"], &["FLUSHALL"], &["BLPOP", "q", "0"]] {
        let read_only = "READONLY You can't write against a read only replica.";
        assert_eq!(reader.call(command), Reply::Error(read_only.into()));
    }
    let role = reader.call(&["ROLE"]).list();
    assert_eq!(role[..2], [bulk("slave"), bulk("127.0.0.1")]);
    assert_eq!(role[3], bulk("connected"));
    assert_eq!(client.call(&["ROLE"]).list()[0], bulk("master"));
    assert_eq!(figure(&mut client, "connected_slaves"), 1);
    assert!(info(&primary, "slave0").contains("state=online"));
    assert_eq!(info(&replica, "master_link_status"), "up");
    // FLUSHALL is a change as any other.
    client.call(&["FLUSHALL"]);
    settle_on(&primary, "1");
    assert_eq!(contents(&replica.kv), contents(&primary.kv));
}

/// A replica that comes back, and one whose primary comes back, are sent what has changed alone.
#[test]
fn a_replica_goes_on_by_the_difference() {
    let (mut primary, mut replica) = (Node::start(), Node::start());
    let mut client = primary.client();
    for block in 0..20 {
        let words: Vec<String> = (0..1000).flat_map(|key| [format!("k{block}:{key}"), "v".repeat(100)]).collect();
        client.call(&[vec!["MSET".to_string()], words].concat());
    }
    replica.follow(&primary);
    settle_on(&primary, "1");
    replica.stop();
    client.call(&["SET", "while", "away"]);
    client.call(&["DEL", "k3:7"]);
    replica.run(); // it knows its primary
    settle_on(&primary, "1");
    assert_eq!(contents(&replica.kv), contents(&primary.kv));
    assert_eq!(info(&replica, "replica_plan"), "difference");
    let bytes: u64 = info(&replica, "replica_stream_bytes").parse().unwrap();
    assert!(bytes < 100_000, "{bytes} bytes for three keys");
    drop(client);
    primary.stop();
    await_that("the link is down", || info(&replica, "master_link_status") == "down");
    primary.run();
    primary.client().call(&["SET", "since", "restart"]);
    settle_on(&primary, "1");
    assert_eq!(contents(&replica.kv), contents(&primary.kv));
    assert_eq!(info(&replica, "replica_syncs_whole"), "0");
}

/// TB09: a chain; and a circle is refused.
#[test]
fn a_replica_has_replicas_and_no_circle_closes() {
    let nodes = [Node::start(), Node::start(), Node::start()];
    let mut client = nodes[0].client();
    fill(&mut client, 1);
    nodes[1].follow(&nodes[0]);
    nodes[2].follow(&nodes[1]);
    for round in 2..5 {
        fill(&mut client, round);
        client.call(&["SET", "round", &round.to_string()]);
        await_reply(&nodes[2], &["GET", "round"], bulk(&round.to_string()));
    }
    await_that("the same at the end of the chain", || contents(&nodes[2].kv) == contents(&nodes[0].kv));
    // The first one would be its own replica's replica.
    nodes[0].follow(&nodes[2]);
    await_that("a circle is seen", || info(&nodes[0], "replica_error").contains("replica of this server"));
    assert_eq!(nodes[0].client().call(&["REPLICAOF", "NO", "ONE"]), Reply::Simple("OK".into()));
    await_that("writes again", || matches!(nodes[0].client().call(&["SET", "round", "9"]), Reply::Simple(_)));
    await_reply(&nodes[2], &["GET", "round"], bulk("9"));
    nodes[0].follow(&nodes[0]);
    await_that("a server follows itself", || info(&nodes[0], "replica_error").contains("this server itself"));
}

/// TB09: the middle of a chain goes away. The end of it serves its keys until the middle is back,
/// which sends the difference, or until it has another primary, and then has all that was
/// acknowledged.
#[test]
fn the_end_of_a_chain_serves_while_its_middle_is_away() {
    let (top, mut middle, end) = (Node::start(), Node::start(), Node::start());
    let mut client = top.client();
    (0..2).for_each(|round| fill(&mut client, round));
    middle.follow(&top);
    settle_on(&top, "1");
    end.follow(&middle);
    await_that("the end has it", || contents(&end.kv) == contents(&top.kv));
    let (mut reader, mut acknowledged) = (end.client(), contents(&top.kv));
    for round in 2..4 {
        middle.stop();
        await_that("the link is down", || info(&end, "master_link_status") == "down");
        fill(&mut client, round);
        assert_eq!(client.call(&["SET", "round", &round.to_string()]), Reply::Simple("OK".into()));
        let old = if round == 2 { Reply::Null } else { bulk("2") };
        assert_eq!(reader.call(&["GET", "round"]), old);
        assert_eq!(reader.call(&["LRANGE", "list", "0", "0"]).list(), [bulk("0")]);
        assert!(matches!(reader.call(&["SET", "round", "x"]), Reply::Error(_)));
        assert_eq!(contents(&end.kv), acknowledged);
        if round == 2 {
            middle.run();
        } else {
            end.follow(&top);
        }
        await_reply(&end, &["GET", "round"], bulk(&round.to_string()));
        await_that("the end catches up", || contents(&end.kv) == contents(&top.kv));
        acknowledged = contents(&top.kv);
        assert!(round == 3 || info(&end, "replica_plan") == "difference");
    }
    // The middle is back, and has what it missed.
    middle.run();
    settle_on(&top, "2");
    assert_eq!(contents(&middle.kv), contents(&top.kv));
}

/// TB10: FAILOVER hands over without a whole copy, and a primary that comes back with writes that
/// its replica never had is copied whole.
#[test]
fn a_failover_goes_on_and_a_divergence_is_copied_whole() {
    let (mut one, mut other, third) = (Node::start(), Node::start(), Node::start());
    let mut client = one.client();
    (0..4).for_each(|round| fill(&mut client, round));
    other.follow(&one);
    third.follow(&one);
    settle_on(&one, "2");
    let reply = client.call(&["FAILOVER", "TO", "127.0.0.1", &other.port(), "TIMEOUT", "60000"]);
    assert_eq!(reply, Reply::Simple("OK".into()));
    await_that("the replica takes over", || info(&other, "role") == "master");
    await_that("the primary follows", || info(&one, "role") == "slave" && info(&one, "master_link_status") == "up");
    assert_eq!((info(&one, "replica_plan"), info(&one, "replica_syncs_whole")), ("difference".into(), "0".into()));
    // And back, before anything was written: the first one has everything.
    let back = other.client().call(&["FAILOVER", "TO", "127.0.0.1", &one.port(), "TIMEOUT", "60000"]);
    assert_eq!(back, Reply::Simple("OK".into()));
    await_that("the first one is the primary again", || info(&one, "role") == "master");
    await_that("the other one follows", || info(&other, "master_link_status") == "up");
    let again = one.client().call(&["FAILOVER", "TO", "127.0.0.1", &other.port(), "TIMEOUT", "60000"]);
    assert_eq!(again, Reply::Simple("OK".into()));
    await_that("the replica takes over again", || info(&other, "role") == "master");
    await_that("the primary follows again", || info(&one, "master_link_status") == "up");
    other.client().call(&["SET", "after", "failover"]);
    await_reply(&one, &["GET", "after"], bulk("failover"));
    // The third one is a replica of a replica now. It goes to the new primary without a copy only
    // if it is where that one was promoted; else it is copied whole: it is the same at the end.
    third.follow(&other);
    settle_on(&other, "2");
    assert_eq!(contents(&one.kv), contents(&other.kv));
    assert_eq!(contents(&third.kv), contents(&other.kv));
    // Now the primary dies with a write that no replica has, and another one takes over.
    one.stop();
    third.client().call(&["REPLICAOF", "NO", "ONE"]);
    other.client().call(&["SET", "lost", "alone"]);
    third.client().call(&["SET", "won", "alone"]);
    other.stop();
    other.run();
    other.follow(&third);
    await_reply(&other, &["GET", "won"], bulk("alone"));
    settle_on(&third, "1");
    assert_eq!(other.client().call(&["GET", "lost"]), Reply::Null);
    assert_eq!(contents(&third.kv), contents(&other.kv));
    assert_eq!(info(&other, "replica_syncs_whole"), "1");
}

/// REPL-6: an old primary that restarts before its replica has heard of the FAILOVER asks it again,
/// and asks no more once it has answered. `plays` gets the nodes when the old primary is back.
fn restarted_within_a_failover(plays: impl FnOnce(&mut Node, &Node)) {
    let password = everbyte_server::Password::new("secret");
    let (mut one, other) = (Node::start(), Node::with(Options { password: password.clone(), ..Options::default() }));
    let ask = |words: &[&str]| {
        let mut client = other.client();
        client.call(&["AUTH", "secret"]);
        client.call(words)
    };
    one.client().call(&["SET", "before", "failover"]);
    ask(&["REPLICAOF", "127.0.0.1", &one.port()]);
    settle_on(&one, "1");
    // It does not know the password of the new primary, so that its request is refused.
    let reply = one.client().call(&["FAILOVER", "TO", "127.0.0.1", &other.port(), "TIMEOUT", "60000"]);
    assert_eq!(reply, Reply::Simple("OK".into()));
    await_that("the request is refused", || {
        info(&one, "role") == "slave" && info(&one, "replica_error").contains("NOAUTH")
    });
    one.stop();
    one.options.primary_password = password;
    one.run();
    plays(&mut one, &other);
}

/// The line of ROLE that says which one a node with a password is.
fn role_of(node: &Node) -> Reply {
    let mut client = node.client();
    client.call(&["AUTH", "secret"]);
    match client.call(&["ROLE"]) {
        Reply::List(mut items) => items.swap_remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failover_survives_a_restart_of_the_old_primary() {
    restarted_within_a_failover(|one, other| {
        await_that("the replica takes over", || role_of(other) == bulk("master"));
        await_that("the old primary follows", || info(one, "master_link_status") == "up");
        let handover = |node: &Node| node.kv.open_table("server/replication").unwrap().get(b"handover").unwrap();
        await_that("the handover is over", || handover(one).is_none());
        // The other one becomes a replica by command, and remains one when the old primary is back.
        one.stop();
        let third = Node::start();
        let mut client = other.client();
        client.call(&["AUTH", "secret"]);
        client.call(&["REPLICAOF", "127.0.0.1", &third.port()]);
        one.run();
        await_that("the old primary follows again", || info(one, "master_link_status") == "up");
        assert_eq!(role_of(other), bulk("slave"));
        assert_eq!(info(one, "role"), "slave");
    });
}

#[test]
fn a_handover_that_is_forgotten_leaves_two_replicas() {
    everbyte_media::museum::with("server-handover-forgotten", || {
        restarted_within_a_failover(|one, other| {
            await_that("the old primary tries", || info(one, "role") == "slave");
            std::thread::sleep(Duration::from_millis(1500));
            assert_eq!((role_of(other), info(one, "role")), (bulk("slave"), "slave".into()));
        });
    });
}

/// Expired keys are absent on a replica, and only the primary removes them.
#[test]
fn a_replica_hides_expired_keys_and_leaves_them() {
    let (primary, replica) = (Node::start(), Node::start());
    replica.follow(&primary);
    primary.client().call(&["SET", "short", "lived", "PX", "60"]);
    settle_on(&primary, "1");
    await_reply(&replica, &["GET", "short"], Reply::Null);
    await_that("the removal comes from the primary", || {
        settle_on(&primary, "1");
        contents(&replica.kv) == contents(&primary.kv) && replica.client().call(&["DBSIZE"]) == Reply::Integer(1)
    });
}

/// WAIT counts replicas that have settled, and gives up in time; writes may need replicas.
#[test]
fn wait_counts_and_writes_may_need_replicas() {
    let primary = Node::start();
    let mut client = primary.client();
    client.call(&["SET", "a", "1"]);
    assert_eq!(client.call(&["WAIT", "0", "0"]), Reply::Integer(0));
    assert_eq!(client.call(&["WAIT", "1", "50"]), Reply::Integer(0));
    client.call(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let few = Reply::Error("NOREPLICAS Not enough good replicas to write.".into());
    assert_eq!(client.call(&["SET", "a", "2"]), few);
    let replica = Node::start();
    replica.follow(&primary);
    await_that("writes are taken again", || client.call(&["SET", "a", "3"]) == Reply::Simple("OK".into()));
    settle_on(&primary, "1");
    assert!(matches!(replica.client().call(&["WAIT", "0", "0"]), Reply::Error(_)));
}

/// Clients of a replica that keep copies hear of changes, also of elements alone; and those that
/// wait for an entry of a stream get it.
#[test]
fn clients_of_a_replica_hear_of_changes() {
    let (primary, replica) = (Node::start(), Node::start());
    let mut client = primary.client();
    client.call(&["HSET", "hash", "field", "1"]);
    replica.follow(&primary);
    settle_on(&primary, "1");
    let mut reader = replica.client();
    reader.call(&["HELLO", "3"]);
    reader.call(&["CLIENT", "TRACKING", "ON"]);
    assert_eq!(reader.call(&["HGET", "hash", "field"]), bulk("1"));
    client.call(&["HSET", "hash", "field", "2"]);
    assert_eq!(reader.reply().list()[0], bulk("invalidate"));
    let mut waiter = replica.client();
    waiter.send(&crate::common::command(&["XREAD", "BLOCK", "0", "STREAMS", "stream", "$"]));
    let mut watcher = replica.client();
    await_that("it waits", || figure(&mut watcher, "blocked_clients") == 1);
    client.call(&["XADD", "stream", "1-1", "f", "v"]);
    assert_eq!(waiter.reply().list().len(), 1);
}

/// The limits of what may wait for a client to be read are none of a replica: a frame is as large
/// as a value.
#[test]
fn a_replica_gets_values_above_the_limits_of_clients() {
    let primary = Node::with(Options { reply_size_max: 64 << 10, ..Options::default() });
    let replica = Node::start();
    replica.follow(&primary);
    settle_on(&primary, "1");
    const SIZE: usize = 16 << 20;
    assert_eq!(primary.client().call(&["SET", "large", &"v".repeat(SIZE)]), Reply::Simple("OK".into()));
    await_reply(&replica, &["STRLEN", "large"], Reply::Integer(SIZE as i64));
    assert_eq!(figure(&mut primary.client(), "over_limit_connections"), 0);
}

/// CLIENT KILL by type finds the links of replicas under their own type alone.
#[test]
fn links_of_replicas_are_ended_by_their_type_alone() {
    let (primary, replica) = (Node::start(), Node::start());
    replica.follow(&primary);
    settle_on(&primary, "1");
    let mut client = primary.client();
    let link = |client: &mut Client| {
        let line = String::from_utf8(client.call(&["CLIENT", "LIST", "TYPE", "replica"]).bytes()).unwrap();
        line.split(' ').next().unwrap_or_default().to_string()
    };
    let mut id = link(&mut client);
    assert!(id.starts_with("id="), "{id}");
    client.call(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert_eq!(client.call(&["CLIENT", "KILL", "TYPE", "master"]), Reply::Integer(0));
    assert_eq!(client.call(&["CLIENT", "KILL", "TYPE", "pubsub"]), Reply::Integer(0));
    assert_eq!(link(&mut client), id);
    for kind in ["replica", "slave"] {
        assert_eq!(client.call(&["CLIENT", "KILL", "TYPE", kind]), Reply::Integer(1), "{kind}");
        await_that("it comes back", || link(&mut client).starts_with("id=") && link(&mut client) != id);
        id = link(&mut client);
    }
    settle_on(&primary, "1");
    assert_eq!(contents(&replica.kv), contents(&primary.kv));
}

/// Evictions reach a replica with the commands that needed the room; it makes none of its own, even
/// under a smaller bound.
#[test]
fn a_replica_follows_evictions_and_makes_none() {
    let bounded = |data_max| Options { data_max, eviction_policy: EvictionPolicy::VolatileTtl, ..Options::default() };
    let (primary, replica) = (Node::with(bounded(3000)), Node::with(bounded(500)));
    replica.follow(&primary);
    let (mut writes, mut reads) = (primary.client(), replica.client());
    for number in 0..200 {
        let (key, seconds) = (format!("k{number}"), (10_000 + number).to_string());
        assert_eq!(writes.call(&["SET", &key, "0123456789", "EX", &seconds]), Reply::Simple("OK".into()));
    }
    let left = writes.call(&["KEYS", "*"]);
    await_that("the replica has the keys of the primary", || reads.call(&["KEYS", "*"]) == left);
    assert!((1..199).contains(&left.list().len()));
    assert!(figure(&mut writes, "evicted_keys") > 0);
    assert_eq!(figure(&mut reads, "evicted_keys"), 0);
}
