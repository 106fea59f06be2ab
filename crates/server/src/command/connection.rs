//! Commands about the connection itself: PING, HELLO, SELECT, QUIT.

use super::fail::{NO_AUTH_HELLO, NO_MULTI, SYNTAX};
use super::{
    Call, CommandTable, Fail, Flags, Outcome, acl, client, is_word, keys, listens, monitor, pubsub, replication,
    tracking, transaction,
};
use crate::access::DEFAULT;
use crate::clients::{Client, Closing};
use crate::resp::number::parse_integer;
use crate::resp::parse::Args;
use crate::resp::reply::Protocol;
use crate::server_state::ServerState;
use crate::version::REDIS_VERSION;

/// `PING [text]`
pub(super) fn ping(call: &mut Call<'_, '_>) -> Outcome {
    match call.args.len() {
        count @ 1..=2 if hears_only(call.client) => {
            call.out.array(2);
            call.out.bulk(b"pong");
            call.out.bulk(if count == 2 { call.args.get(1) } else { b"" });
        }
        1 => call.out.simple("PONG"),
        2 => call.out.bulk(call.args.get(1)),
        _ => return Err(Fail::arity("ping")),
    }
    Ok(())
}

/// `ECHO text`
pub(super) fn echo(call: &mut Call<'_, '_>) -> Outcome {
    call.out.bulk(call.args.get(1));
    call.room()
}

/// Whether a client may give a command: before the password only those that need none, then those
/// that its user permits, and as a subscriber in RESP2 those about its subscriptions.
pub(crate) fn admitted(client: &Client, shared: &mut ServerState, row: usize, args: &Args<'_>) -> Outcome {
    let command = CommandTable::get().rows[row];
    acl::known(client, shared, command.flags)?;
    if client.transaction.is_some() && command.flags.contains(Flags::NO_MULTI) {
        return Err(NO_MULTI);
    }
    acl::permitted(client, shared, row, args)?;
    replication::replica_admits(client, shared, command)?;
    let allowed = || listens(command) || ["ping", "quit", "reset", "host:", "post"].contains(&command.name);
    if hears_only(client) && !allowed() {
        return Err(Fail::made(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
             context",
            command.name
        )));
    }
    Ok(())
}

/// Whether a client subscribes and speaks RESP2, which cannot tell pushes from replies.
fn hears_only(client: &Client) -> bool {
    client.subscribes() && client.resp == 2
}

/// `AUTH [user] password`
pub(super) fn auth(call: &mut Call<'_, '_>) -> Outcome {
    match call.args.len() {
        2 => acl::authenticate(call, DEFAULT, call.args.get(1))?,
        3 => acl::authenticate(call, call.args.get(1), call.args.get(2))?,
        _ => return Err(SYNTAX),
    }
    call.client.switching = true;
    call.out.ok();
    Ok(())
}

/// `HELLO [protocol [AUTH user password] [SETNAME name]]`
pub(super) fn hello(call: &mut Call<'_, '_>) -> Outcome {
    let mut protocol = None;
    if call.args.len() > 1 {
        protocol = match parse_integer(call.args.get(1)) {
            Some(2) => Some(Protocol::Resp2),
            Some(3) => Some(Protocol::Resp3),
            Some(_) => return Err(Fail::text("NOPROTO unsupported protocol version")),
            None => return Err(Fail::text("ERR Protocol version is not an integer or out of range")),
        };
    }
    let (mut index, mut logs_in) = (2, false);
    while index < call.args.len() {
        let (option, left) = (call.args.get(index), call.args.len() - 1 - index);
        if is_word(option, "auth") && left >= 2 {
            acl::authenticate(call, call.args.get(index + 1), call.args.get(index + 2))?;
            (index, logs_in) = (index + 3, true);
        } else if is_word(option, "setname") && left >= 1 {
            client::rename(call, index + 1)?;
            index += 2;
        } else {
            return Err(Fail::made([b"ERR Syntax error in HELLO option '", option, b"'"].concat()));
        }
    }
    if call.shared.lacks_password(call.client) {
        return Err(NO_AUTH_HELLO);
    }
    call.client.switching |= logs_in;
    if let Some(protocol) = protocol {
        call.client.switching |= protocol != call.out.protocol;
        call.out.protocol = protocol;
    }
    call.out.map(7);
    call.out.bulk(b"server");
    call.out.bulk(b"redis");
    call.out.bulk(b"version");
    call.out.bulk(REDIS_VERSION.as_bytes());
    call.out.bulk(b"proto");
    call.out.integer(if call.out.protocol == Protocol::Resp3 { 3 } else { 2 });
    call.out.bulk(b"id");
    call.out.integer(call.client.id as i64);
    call.out.bulk(b"mode");
    call.out.bulk(b"standalone");
    call.out.bulk(b"role");
    call.out.bulk(if call.shared.replication.is_replica() { b"replica" } else { b"master" });
    call.out.bulk(b"modules");
    call.out.array(0);
    Ok(())
}

/// `SELECT database`
pub(super) fn select(call: &mut Call<'_, '_>) -> Outcome {
    let database = keys::database(call.args.get(1))?;
    // EXEC and scripts take it back themselves if they fail.
    call.client.switching |= database != call.client.database && !call.client.executing && !call.client.scripting;
    call.client.database = database;
    call.out.ok();
    Ok(())
}

/// `QUIT`
pub(super) fn quit(call: &mut Call<'_, '_>) -> Outcome {
    call.out.ok();
    call.client.closing = Closing::AfterReplies;
    Ok(())
}

/// `RESET`
pub(super) fn reset(call: &mut Call<'_, '_>) -> Outcome {
    transaction::end(call.client, call.shared);
    pubsub::end(call.client, call.shared);
    tracking::end(call.client, call.shared);
    monitor::end(call.client, call.shared);
    call.client.reset();
    acl::log_out(call.client, call.shared);
    call.out.protocol = Protocol::Resp2;
    call.client.switching = true;
    call.out.simple("RESET");
    Ok(())
}

/// `POST`, `Host:`: a browser made to send commands by a foreign page. It gets no second line in.
pub(super) fn hang_up(call: &mut Call<'_, '_>) -> Outcome {
    call.client.closing = Closing::Now;
    Ok(())
}
