//! Commands about replication: REPLICAOF, ROLE, WAIT, FAILOVER, and our own two by which a replica
//! asks for the stream and acknowledges what it has settled.

use super::blocking::{Wait, wait as wait_for_keys, wait_until};
use super::fail::{NOT_INTEGER, SYNTAX};
use super::{Call, Command, Fail, Flags, Outcome, is_word};
use crate::clients::Client;
use crate::replication::{Failover, PROTOCOL, PrimaryAddress, ReplicaOrigin, Request};
use crate::resp::number::parse_integer;
use crate::server_state::ServerState;
use crate::stream::Address;
use crate::waiting::ReplicaWait;

/// The refusal of a write on a replica.
pub(crate) const READ_ONLY: Fail = Fail::text("READONLY You can't write against a read only replica.");
const MIXED: Fail = Fail::text(
    "LOADING the keys are on the way from one version of the primary to the next; try again, or ask the primary",
);
const FEW_REPLICAS: Fail = Fail::text("NOREPLICAS Not enough good replicas to write.");

/// Refuses writes on a replica, and everything about keys while these are a mixture.
pub(super) fn replica_admits(client: &Client, shared: &ServerState, command: &Command) -> Outcome {
    let queued = client.transaction.as_ref().filter(|_| command.name == "exec");
    let writes = command.flags.contains(Flags::WRITE) || queued.is_some_and(|queued| queued.changes_keys);
    let replication = &shared.replication;
    if replication.is_mixed() && (shows_keys(command) || queued.is_some_and(|queued| queued.shows_keys)) {
        return Err(MIXED);
    }
    if !writes {
        return Ok(());
    }
    if replication.is_replica() {
        return Err(READ_ONLY);
    }
    let (min, lag) = (shared.options.replicas_min, shared.options.replica_lag_max);
    let is_good = |seen_at| shared.now.saturating_duration_since(seen_at) <= lag;
    if min > 0 && replication.replicas.iter().filter(|replica| is_good(replica.seen_at)).count() < min {
        return Err(FEW_REPLICAS);
    }
    Ok(())
}

/// Whether a command may tell of keys, and not only of the server.
pub(super) fn shows_keys(command: &Command) -> bool {
    !command.flags.intersects(Flags::LOADING | Flags::ADMIN) || ["save", "bgsave"].contains(&command.name)
}

/// `REPLICAOF host port`, `REPLICAOF NO ONE`
pub(super) fn replica_of(call: &mut Call<'_, '_>) -> Outcome {
    let (host, port) = (call.args.get(1), call.args.get(2));
    let replication = &mut call.shared.replication;
    if replication.failover.is_some() {
        return Err(Fail::text("ERR REPLICAOF not allowed while failing over."));
    }
    if is_word(host, "no") && is_word(port, "one") {
        if replication.is_mixed() {
            return Err(Fail::text(
                "ERR the keys are a mixture of two versions of the primary, so this server cannot become a primary: let it \
                 catch up, with this primary or another one",
            ));
        }
        replication.ask_to_promote();
        // Its next commands are those of a client of a primary.
        call.client.turn_over = true;
        call.out.ok();
        return Ok(());
    }
    let number = parse_integer(port).and_then(|number| u16::try_from(number).ok());
    let number = number.ok_or(Fail::text("ERR Invalid master port"))?;
    let host = String::from_utf8(host.to_vec()).map_err(|_| Fail::text("ERR Invalid master host"))?;
    let address = PrimaryAddress { host, port: number };
    if replication.follows(&address) {
        call.out.simple("OK Already connected to specified master");
        return Ok(());
    }
    replication.ask_to_follow(address, false);
    call.out.ok();
    Ok(())
}

/// `ROLE`
pub(super) fn role(call: &mut Call<'_, '_>) -> Outcome {
    let version = call.shared.kv.snapshot().version().get() as i64;
    let replication = &call.shared.replication;
    if let Some(primary) = &replication.primary {
        let state = replication.link.as_ref().map_or("connect", |link| link.figures().0.name());
        call.out.array(5);
        call.out.bulk(b"slave");
        call.out.bulk(primary.host.as_bytes());
        call.out.integer(i64::from(primary.port));
        call.out.bulk(state.as_bytes());
        call.out.integer(replication.position().map_or(-1, |position| position.version as i64));
        return Ok(());
    }
    call.out.array(3);
    call.out.bulk(b"master");
    call.out.integer(version);
    call.out.array(replication.replicas.len());
    for replica in &replication.replicas {
        call.out.array(3);
        call.out.bulk(replica.host.as_bytes());
        call.out.bulk(replica.port.to_string().as_bytes());
        call.out.bulk(replica.settled().to_string().as_bytes());
    }
    Ok(())
}

/// `WAIT replicas timeout`: the replicas that have settled what this client has written. A reply to
/// a write means that it is settled here.
pub(super) fn wait(call: &mut Call<'_, '_>) -> Outcome {
    if call.shared.replication.is_replica() {
        return Err(Fail::text(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is \
             configured to be writable (which is not the default) writes to replicas are just local and are not propagated.",
        ));
    }
    let count = parse_integer(call.args.get(1)).ok_or(NOT_INTEGER)?;
    wait_for(call, count, None, 2)
}

/// `WAITAOF local replicas timeout`: whether a power cut leaves what this client has written, and
/// the replicas that have settled it.
pub(super) fn wait_aof(call: &mut Call<'_, '_>) -> Outcome {
    if call.shared.replication.is_replica() {
        return Err(Fail::text(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local \
             and are not propagated.",
        ));
    }
    let [local, count] = [1, 2].map(|index| parse_integer(call.args.get(index)).ok_or(NOT_INTEGER));
    let (local, count) = (local?, count?);
    if !(0..=1).contains(&local) {
        return Err(Fail::text("ERR value is out of range, value must between 0 and 1"));
    }
    if count < 0 {
        return Err(Fail::text("ERR value is out of range, must be positive"));
    }
    wait_for(call, count, Some(local == 1), 3)
}

/// The client waits for so many replicas, and `local` for the disk; the timeout is at `place`.
fn wait_for(call: &mut Call<'_, '_>, count: i64, local: Option<bool>, place: usize) -> Outcome {
    let timeout = parse_integer(call.args.get(place));
    let timeout = timeout.ok_or(Fail::text("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Fail::text("ERR timeout is negative"));
    }
    if call.client.executing {
        // An EXEC waits for nothing; what it has written itself is on no disk yet.
        let replication = &call.shared.replication;
        if local.is_some() {
            call.out.array(2);
            call.out.integer(0);
        }
        call.out.integer(replication.settled_count(replication.committed) as i64);
        return Ok(());
    }
    let deadline = wait_until(call, timeout.unsigned_abs());
    let replicas = Some(ReplicaWait::new(usize::try_from(count).unwrap_or(0), local));
    wait_for_keys(call, std::iter::empty(), Wait { replicas, ..Wait::for_no_key(deadline) });
    Ok(())
}

/// `FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]`: clients that write wait until
/// a replica has everything; then it becomes the primary, and this server its replica.
pub(super) fn failover(call: &mut Call<'_, '_>) -> Outcome {
    let (mut to, mut force, mut abort, mut timeout) = (None, false, false, None);
    let mut index = 1;
    while index < call.args.len() {
        let (word, left) = (call.args.get(index), call.args.len() - 1 - index);
        match word {
            _ if is_word(word, "timeout") && timeout.is_none() && left >= 1 => {
                let number = parse_integer(call.args.get(index + 1)).ok_or(NOT_INTEGER)?;
                if number <= 0 {
                    return Err(Fail::text("ERR FAILOVER timeout must be greater than 0"));
                }
                (timeout, index) = (Some(number.unsigned_abs()), index + 2);
            }
            _ if is_word(word, "abort") && !abort => (abort, index) = (true, index + 1),
            _ if is_word(word, "force") && !force => (force, index) = (true, index + 1),
            _ if is_word(word, "to") && to.is_none() && left >= 2 => {
                let host = String::from_utf8_lossy(call.args.get(index + 1)).into_owned();
                let port = parse_integer(call.args.get(index + 2)).ok_or(NOT_INTEGER)?;
                let port = u16::try_from(port).map_err(|_| NOT_INTEGER)?;
                (to, index) = (Some(PrimaryAddress { host, port }), index + 3);
            }
            _ => return Err(SYNTAX),
        }
    }
    let now = call.keys.now();
    let replication = &mut call.shared.replication;
    if abort {
        if call.args.len() > 2 {
            return Err(SYNTAX);
        }
        if replication.failover.take().is_none() {
            return Err(Fail::text("ERR No failover in progress."));
        }
        call.shared.pause_ended = true;
        call.out.ok();
        return Ok(());
    }
    if replication.failover.is_some() {
        return Err(Fail::text("ERR FAILOVER already in progress."));
    }
    if replication.is_replica() {
        return Err(Fail::text("ERR FAILOVER is not valid when server is a replica."));
    }
    if replication.replicas.is_empty() {
        return Err(Fail::text("ERR FAILOVER requires connected replicas."));
    }
    if force && (timeout.is_none() || to.is_none()) {
        return Err(Fail::text("ERR FAILOVER with force option requires both a timeout and target HOST and IP."));
    }
    if let Some(to) = &to
        && !replication.replicas.iter().any(|replica| replica.is_at(to))
    {
        return Err(Fail::text("ERR FAILOVER target HOST and PORT is not a replica."));
    }
    let deadline = timeout.map(|timeout| now.saturating_add(timeout));
    replication.failover = Some(Failover { to, force, deadline });
    call.out.ok();
    Ok(())
}

/// `EVERBYTE.REPLICATE protocol port REPLICA|FAILOVER origin`: the stream, from where the replica's
/// keys come. There is no reply but the frames (docs/formats/replication.md).
pub(super) fn replicate(call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let (protocol, port) = (parse_integer(args.get(1)), parse_integer(args.get(2)));
    if protocol != Some(i64::from(PROTOCOL)) {
        return Err(Fail::made(format!("ERR this server speaks version {PROTOCOL} of the stream")));
    }
    let port = port.and_then(|port| u16::try_from(port).ok()).ok_or(NOT_INTEGER)?;
    let Some(origin) = ReplicaOrigin::parse(args.get(4)) else {
        return Err(Fail::text("ERR the origin of the keys is malformed"));
    };
    let replication = &mut call.shared.replication;
    let hands_over = is_word(args.get(3), "failover");
    match args.get(3) {
        word if is_word(word, "replica") => {}
        _ if hands_over => {
            if replication.is_mixed() {
                return Err(Fail::text("ERR this replica is on the way between two versions"));
            }
            replication.ask_to_promote();
        }
        _ => return Err(SYNTAX),
    }
    if replication.replicas.iter().any(|replica| replica.client == call.client.id) || call.client.executing {
        return Err(Fail::text("ERR this connection has a stream already"));
    }
    let host = match &call.client.peer {
        Address::Tcp(address) => address.ip().to_canonical().to_string(),
        Address::Unix(path) => path.to_string(),
    };
    let client = (call.client.id, call.client.slot);
    call.client.replica = true;
    replication.requests.push(Request::Attach { client, host, port, origin, hands_over });
    Ok(())
}

/// `EVERBYTE.ACK origin`: a replica has settled a position. There is no reply.
pub(super) fn acknowledge(call: &mut Call<'_, '_>) -> Outcome {
    let Some(ReplicaOrigin::At(position)) = ReplicaOrigin::parse(call.args.get(1)) else {
        return Err(Fail::text("ERR the position is malformed"));
    };
    let now = call.shared.now;
    if !call.shared.replication.acknowledge(call.client.id, position, now) {
        return Err(Fail::text("ERR this connection has no stream"));
    }
    Ok(())
}

/// Lines of INFO.
pub(super) fn info(line: &mut dyn FnMut(&str, &dyn std::fmt::Display), shared: &ServerState) {
    let replication = &shared.replication;
    line("role", &if replication.is_replica() { "slave" } else { "master" });
    let seconds = |time: Option<std::time::Instant>| {
        time.map_or(-1, |time| shared.now.saturating_duration_since(time).as_secs() as i64)
    };
    if let Some(primary) = &replication.primary {
        let (state, figures) = replication.link.as_ref().map(|link| link.figures()).unwrap_or_default();
        let is_up = state == crate::replication::LinkState::Connected;
        line("master_host", &primary.host);
        line("master_port", &primary.port);
        line("master_link_status", &if is_up { "up" } else { "down" });
        line("master_last_io_seconds_ago", &seconds(figures.received_at));
        line("master_sync_in_progress", &u8::from(state == crate::replication::LinkState::Sync));
        line("slave_read_repl_offset", &replication.position().map_or(0, |position| position.version));
        line("slave_repl_offset", &replication.position().map_or(0, |position| position.version));
        line("slave_priority", &100);
        line("slave_read_only", &1);
        line("replica_announced", &1);
        line(
            "replica_origin",
            &replication.position().map_or_else(String::new, |it| format!("{}:{}", it.run, it.version)),
        );
        line("replica_mixed", &u8::from(replication.is_mixed()));
        line("replica_plan", &figures.plan.map_or("", crate::replication::Plan::name));
        line("replica_syncs_whole", &figures.whole);
        line("replica_syncs_diverged", &figures.diverged);
        line("replica_syncs_partial", &figures.partial);
        line("replica_stream_bytes", &figures.bytes);
        line("replica_error", &figures.error.replace(['\r', '\n'], " "));
    }
    line("connected_slaves", &replication.replicas.len());
    for (index, replica) in replication.replicas.iter().enumerate() {
        let lag = shared.now.saturating_duration_since(replica.seen_at).as_secs();
        let (host, port, settled) = (&replica.host, replica.port, replica.settled());
        let state = if settled > 0 { "online" } else { "wait_bgsave" };
        line(&format!("slave{index}"), &format_args!("ip={host},port={port},state={state},offset={settled},lag={lag}"));
    }
    line("master_failover_state", &if replication.failover.is_some() { "waiting-for-sync" } else { "no-failover" });
    line("master_replid", &replication.run);
    line("master_replid2", &"0".repeat(40));
    line("master_repl_offset", &shared.kv.snapshot().version());
    line("second_repl_offset", &-1);
    line("replica_versions_kept", &replication.away_count());
}
