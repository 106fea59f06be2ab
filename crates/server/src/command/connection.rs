//! Commands about the connection itself: PING, HELLO, SELECT, QUIT.

use super::fail::{DATABASE, NO_PASSWORD, NOT_INT, NOT_INTEGER, SYNTAX, WRONG_PASSWORD};
use super::{Call, Fail, Outcome, client, is_word};
use crate::clients::Closing;
use crate::resp::number::parse_integer;
use crate::resp::reply::Protocol;
use crate::server_state::REDIS_VERSION;

/// `PING [text]`
pub(super) fn ping(call: &mut Call<'_, '_>) -> Outcome {
    match call.args.len() {
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

/// There are no users and no passwords. Redis accepts any password of the user `default` then; here
/// it is an error, so that no client takes the server for protected.
fn authenticate(user: &[u8]) -> Fail {
    if user == b"default" { NO_PASSWORD } else { WRONG_PASSWORD }
}

/// `AUTH [user] password`
pub(super) fn auth(call: &mut Call<'_, '_>) -> Outcome {
    match call.args.len() {
        2 => Err(NO_PASSWORD),
        3 => Err(authenticate(call.args.get(1))),
        _ => Err(SYNTAX),
    }
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
    let mut index = 2;
    while index < call.args.len() {
        let (option, left) = (call.args.get(index), call.args.len() - 1 - index);
        if is_word(option, "auth") && left >= 2 {
            return Err(authenticate(call.args.get(index + 1)));
        } else if is_word(option, "setname") && left >= 1 {
            client::rename(call, index + 1)?;
            index += 2;
        } else {
            return Err(Fail::made([b"ERR Syntax error in HELLO option '", option, b"'"].concat()));
        }
    }
    if let Some(protocol) = protocol {
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
    call.out.bulk(b"master");
    call.out.bulk(b"modules");
    call.out.array(0);
    Ok(())
}

/// `SELECT 0`
pub(super) fn select(call: &mut Call<'_, '_>) -> Outcome {
    let index = parse_integer(call.args.get(1)).ok_or(NOT_INTEGER)?;
    match i32::try_from(index).map_err(|_| NOT_INT)? {
        0 => call.out.ok(),
        _ => return Err(DATABASE),
    }
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
    call.client.reset();
    call.out.protocol = Protocol::Resp2;
    call.out.simple("RESET");
    Ok(())
}

/// `POST`, `Host:`: a browser made to send commands by a foreign page. It gets no second line in.
pub(super) fn hang_up(call: &mut Call<'_, '_>) -> Outcome {
    call.client.closing = Closing::Now;
    Ok(())
}
